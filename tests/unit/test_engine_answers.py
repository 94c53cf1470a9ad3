"""What an answer of the engine means: every call, every kind of answer, every state of what the call is about."""

from __future__ import annotations

import itertools

import pytest

from pytest_benchjobs.sandbox.docker.answers import (
    CALLS,
    QUESTION,
    SIGNAL,
    TRIES,
    Call,
    Kind,
    Meaning,
    State,
    call_of,
    kind_of,
    meaning,
)

EVERY = (*CALLS, SIGNAL, QUESTION)


@pytest.mark.parametrize("call", EVERY, ids=lambda call: call.does)
def test_the_state_decides_first_and_then_how_often_nothing_changed(call: Call) -> None:
    assert not set(call.done) & set(call.gone)
    for kind, state, before in itertools.product(Kind, State, range(1, 7)):
        if state in (*call.done, *call.gone):
            wanted = Meaning.DONE if state in call.done else Meaning.GONE
        elif state in (State.AWAY, State.REMOVING):
            wanted = Meaning.NOT_YET
        elif before < {Kind.REFUSED: 3, Kind.FAILED: 5, Kind.CUT: 5, Kind.SILENT: 2}[kind]:
            wanted = Meaning.AGAIN
        else:
            wanted = Meaning.OURS if kind is Kind.REFUSED else Meaning.BROKEN
        assert meaning(call, kind, state, before) is wanted, (kind, state, before)


def test_an_engine_that_is_away_is_waited_for_and_no_call_ends_in_one_try() -> None:
    assert not any(State.AWAY in (*call.done, *call.gone) for call in EVERY)
    assert min(TRIES.values()) > 1


@pytest.mark.parametrize(
    ("method", "target", "does", "state", "wanted"),
    [
        # "removal of container ... is already in progress"
        ("DELETE", "/v1.47/containers/c?v=True&force=True", "remove a container", "REMOVING", "NOT_YET"),
        ("DELETE", "/containers/c", "remove a container", "ABSENT", "DONE"),
        # "No such exec instance", "cannot exec in a stopped state"
        ("GET", "/v1.41/exec/e/json", "describe a command", "ABSENT", "GONE"),
        ("POST", "/v1.41/containers/c/exec", "prepare a command", "ENDED", "GONE"),
        # A command runs once: whose start may have worked is not started again.
        ("POST", "/exec/e/start", "start a command", "RUNNING", "GONE"),
        ("POST", "/exec/e/start", "start a command", "CREATED", "AGAIN"),
        # "Conflict. The container name ... is already in use", after a lost answer
        ("POST", "/v1.47/containers/create?name=n", "create a container", "CREATED", "DONE"),
        ("POST", "/containers/c/start", "start a container", "RUNNING", "DONE"),
        ("POST", "/containers/c/start", "start a container", "NO_NETWORK", "GONE"),
        ("POST", "/containers/c/kill", "end a container", "ENDED", "DONE"),
        ("POST", "/containers/c/kill?signal=KILL", "end a container", "ENDED", "DONE"),
        ("POST", "/containers/c/kill?signal=USR1", "signal a container", "ENDED", "GONE"),
        # "unable to get all container pids"
        ("GET", "/containers/c/top?ps_args=x", "list the processes of a container", "RUNNING", "AGAIN"),
        ("GET", "/containers/c/top?ps_args=x", "list the processes of a container", "ENDED", "GONE"),
        # An ended container has files all the same.
        ("GET", "/containers/c/archive?path=%2Fx", "get files out of a container", "ENDED", "AGAIN"),
        ("PUT", "/containers/c/archive?path=%2F", "put files into a container", "ABSENT", "GONE"),
        ("GET", "/containers/c/changes", "list the changes of a container", "ENDED", "AGAIN"),
        ("GET", "/containers/c/stats", "measure a container", "ENDED", "GONE"),
        ("GET", "/containers/c/json", "describe a container", "ABSENT", "GONE"),
        ("POST", "/commit?container=c", "keep a container", "UNKNOWN", "AGAIN"),
        ("POST", "/containers/c/attach?stream=1", "hear a container", "ENDED", "GONE"),
        # "network with name ... already exists", "Pool overlaps with other one on this address space"
        ("POST", "/networks/create", "make a network", "THERE", "DONE"),
        ("POST", "/networks/create", "make a network", "TAKEN", "GONE"),
        ("DELETE", "/networks/n", "remove a network", "ABSENT", "DONE"),
        # "endpoint with name ... already exists", "is not connected to the network"
        ("POST", "/networks/n/connect", "join a network", "JOINED", "DONE"),
        ("POST", "/networks/n/connect", "join a network", "ABSENT", "GONE"),
        ("POST", "/networks/n/disconnect", "leave a network", "APART", "DONE"),
        ("POST", "/volumes/create", "make a volume", "UNKNOWN", "AGAIN"),
        ("DELETE", "/volumes/v", "remove a volume", "ABSENT", "DONE"),
        ("GET", "/v1.47/images/x/json", "answer", "UNKNOWN", "AGAIN"),
        ("GET", "/containers/json?all=1", "answer", "UNKNOWN", "AGAIN"),
    ],
)
def test_each_call_is_known_by_its_path_and_means_its_state(
    method: str, target: str, does: str, state: str, wanted: str
) -> None:
    known = call_of(method, target)
    assert known is not None
    assert known[0].does == does
    # The id stands where the path has its variable part.
    assert f"/{known[1]}" in target
    assert meaning(known[0], Kind.FAILED, State[state], 1) is Meaning[wanted]


@pytest.mark.parametrize("target", ["/build?t=x", "/images/create?fromImage=x", "/containers/c/wait"])
def test_what_takes_long_or_is_about_no_one_thing_is_none_of_them(target: str) -> None:
    assert call_of("POST", target) is None
    assert call_of("HEAD", "/containers/c/archive?path=x") is None


@pytest.mark.parametrize(
    ("status", "kind"),
    [(None, "CUT"), (302, "FAILED"), (400, "REFUSED"), (404, "REFUSED"), (499, "REFUSED"), (500, "FAILED")],
)
def test_the_kind_of_an_answer_is_its_status(status: int | None, kind: str) -> None:
    assert kind_of(status) is Kind[kind]
