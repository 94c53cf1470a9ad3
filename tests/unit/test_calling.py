"""Calling an engine until the state of things tells what came of it: one that is made up, and a clock of its own."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_benchjobs.model.errors import (
    ContainerEnded,
    ContainerLost,
    DiskFull,
    EngineLost,
    EngineRefused,
    EngineUnavailable,
    FilesRefused,
    InfrastructureError,
    OutputLost,
)
from pytest_benchjobs.sandbox.docker import calling as module
from pytest_benchjobs.sandbox.docker.answers import QUESTION, Kind, State, call_of, kind_of
from pytest_benchjobs.sandbox.docker.calling import (
    Caller,
    Found,
    NetworkGone,
    Refusal,
    SubnetTaken,
    caller,
    on_behalf_of,
    persist,
)

from ..support import set_clock, until

Answer = tuple[int, str] | BaseException | str
"""Status and words of a refusal; what a call raises; or what it answers."""


class Turns(list[Any]):
    """What is said one after the other, the last for ever."""

    def next(self) -> Any:
        return self.pop(0) if len(self) > 1 else self[0]


class Engine:
    """Answers calls in turn, the last answer for ever; `things` is what it says of each path."""

    host = "unix:///x"

    def __init__(
        self, *answers: Answer, things: Mapping[str, Any] | None = None, answered: bool = True
    ) -> None:
        self.answers = Turns(answers)
        self.answered = answered
        self.things: dict[str, Any] = {"/_ping": (200, "OK"), **(things or {})}
        self.calls = 0
        self.peeked: list[str] = []

    def perform(self) -> Answer:
        self.calls += 1
        answer: Answer = self.answers.next()
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def peek(self, path: str) -> tuple[int, bytes] | None:
        self.peeked.append(path)
        thing = self.things.get(path.partition("?")[0], (404, "{}"))
        if isinstance(thing, Turns):
            thing = thing.next()
        if thing is None:
            return None
        status, body = thing if isinstance(thing, tuple) else (200, thing)
        return status, (body if isinstance(body, str) else json.dumps(body)).encode()

    def unavailable(self) -> InfrastructureError:
        return EngineUnavailable("start it")


class Patient(Caller):
    """Waits by the clock of the test alone."""

    def __init__(self, clock: SimpleNamespace, **more: Any) -> None:
        super().__init__(**more)
        self.clock = clock
        self.pauses: list[float] = []

    def rest(self, seconds: float) -> None:
        self.check()
        self.pauses.append(seconds)
        self.clock.now += seconds


@pytest.fixture
def who(monkeypatch: pytest.MonkeyPatch) -> Patient:
    clock = SimpleNamespace(now=1000.0)
    set_clock(monkeypatch, module, lambda: clock.now)
    return Patient(clock)


def _made(who: Caller, engine: Engine, method: str, target: str, **body: Any) -> Any:
    known = call_of(method, target)
    assert known is not None

    def refusal_of(answer: Answer) -> Refusal | None:
        return Refusal(kind_of(answer[0]), *answer) if isinstance(answer, tuple) else None

    with on_behalf_of(who):
        return persist(engine, *known, engine.perform, refusal_of, body)


def _container(status: str, **more: Any) -> dict[str, Any]:
    return {"Id": "long", "State": {"Status": status, "ExitCode": 137}, **more}


C, LIST = "/containers/c/json", "/containers/json"
START = ("POST", "/containers/c/start")
FAULTS: tuple[Answer, ...] = (
    (500, "unexpected EOF"),
    (503, "context deadline exceeded"),
    (409, "device or resource busy"),
    (404, "page not found"),
    ConnectionResetError("reset"),
    TimeoutError("slow"),
)


def test_a_way_to_an_engine_elsewhere_may_break_more_often(who: Patient) -> None:
    broken, put = [ConnectionResetError("reset")] * 12, ("PUT", "/containers/c/archive")
    things = {C: (200, _container("running"))}
    far = Engine(*broken, "done", things=things)
    far.host = "tcp://there:2376"
    assert _made(who, far, *put) == "done"
    with pytest.raises(FilesRefused, match="5 times in a row"):
        _made(who, Engine(*broken, things=things), *put)


# What came of it


@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_one_fault_of_any_kind_is_healed_and_counted(who: Patient, fault: Answer) -> None:
    engine = Engine(fault, "done", things={C: _container("created")})
    assert _made(who, engine, *START) == "done"
    words = f"{fault[0]}: {fault[1]}" if isinstance(fault, tuple) else fault
    assert who.again == [f"start a container: {words}"]
    assert who.pauses == [0.1]


@pytest.mark.parametrize("fault", FAULTS, ids=str)
@pytest.mark.parametrize(
    ("method", "target", "things", "state"),
    [
        (*START, {C: _container("running")}, State.RUNNING),
        ("POST", "/containers/c/kill", {C: _container("exited")}, State.ENDED),
        ("POST", "/containers/c/kill", {LIST: []}, State.ABSENT),
        ("DELETE", "/containers/c", {LIST: []}, State.ABSENT),
        ("POST", "/containers/create", {"/containers/n/json": _container("created")}, State.CREATED),
        ("DELETE", "/networks/n", {}, State.ABSENT),
        ("DELETE", "/volumes/v", {}, State.ABSENT),
        ("POST", "/networks/n/disconnect", {C: _container("running"), "/networks/n": {}}, State.APART),
        (
            "POST",
            "/networks/n/connect",
            {C: _container("running", NetworkSettings={"Networks": {"x": {"NetworkID": "n"}}})},
            State.JOINED,
        ),
        ("POST", "/networks/create", {"/networks": [{"Name": "n", "Labels": None, "Id": "i"}]}, State.THERE),
    ],
)
def test_what_was_done_already_is_not_done_again(
    who: Patient, fault: Answer, method: str, target: str, things: dict[str, Any], state: State
) -> None:
    engine = Engine(fault, things=things)
    made = {"name": "n"} if target.startswith("/containers") else {"Name": "n", "Container": "c"}
    found = _made(who, engine, method, target, **made)
    assert isinstance(found, Found)
    assert found.state is state
    assert (engine.calls, who.again) == (1, [])


@pytest.mark.parametrize("fault", FAULTS, ids=str)
@pytest.mark.parametrize(
    ("method", "target", "things", "error", "words"),
    [
        (*START, {LIST: []}, ContainerLost, "killed or removed by something else"),
        ("GET", "/containers/c/top", {C: _container("exited")}, ContainerEnded, "has ended, with status 137"),
        ("POST", "/containers/c/exec", {C: _container("stopped")}, ContainerEnded, "status 137"),
        ("GET", "/containers/c/archive", {LIST: []}, ContainerLost, "by something else"),
        ("POST", "/exec/c/start", {"/exec/c/json": {"Running": True, "ExitCode": None}}, OutputLost, "connection with a command in the container broke"),
        ("GET", "/exec/c/json", {}, OutputLost, "connection with a command"),
        ("POST", "/networks/n/connect", {C: _container("running")}, NetworkGone, "network of the container is gone"),
        (*START, {C: _container("created", NetworkSettings={"Networks": {"none": {}, "x": {"NetworkID": "i"}}})}, NetworkGone, "network of the container is gone"),
        ("POST", "/networks/create", {"/networks": [{"Name": "o", "IPAM": {"Config": [{"Subnet": "10.0.0.0/8"}, {"Subnet": "fd00::/8"}]}}]}, SubnetTaken, "another network has the subnet"),
    ],
)  # fmt: skip
def test_what_can_never_succeed_is_not_tried_again(
    who: Patient,
    fault: Answer,
    method: str,
    target: str,
    things: dict[str, Any],
    error: type[Exception],
    words: str,
) -> None:
    engine = Engine(fault, things=things)
    body = {"Name": "n", "Container": "c", "IPAM": {"Config": [{"Subnet": "10.1.0.0/16"}]}}
    with pytest.raises(error, match=words) as caught:
        _made(who, engine, method, target, **body)
    assert type(caught.value) is error
    assert (engine.calls, who.again) == (1, [])


@pytest.mark.parametrize(
    ("fault", "calls"), [(FAULTS[0], 5), (FAULTS[2], 3), (FAULTS[4], 5), (FAULTS[5], 2)], ids=str
)
@pytest.mark.parametrize(
    ("method", "target", "error", "does"),
    [
        (*START, FilesRefused, "start a container"),
        ("PUT", "/containers/c/archive", FilesRefused, "put files into a container"),
        ("GET", "/containers/c/changes", FilesRefused, "list the changes of a container"),
        ("GET", "/containers/c/top", EngineRefused, "list the processes of a container"),
        ("GET", "/version", EngineRefused, "answer"),
    ],
)
def test_a_call_that_is_refused_again_and_again_in_the_same_state_is_broken(
    who: Patient, fault: Answer, calls: int, method: str, target: str, error: type[Exception], does: str
) -> None:
    engine = Engine(fault, things={C: _container("created")})
    with pytest.raises(EngineRefused, match=rf"refused to {does}, {calls} times in a row \(.*\)$") as caught:
        _made(who, engine, method, target)
    assert type(caught.value) is error
    status, said = fault if isinstance(fault, tuple) else (None, str(fault))
    assert (caught.value.status, caught.value.words) == (status, said)
    assert engine.calls == calls
    assert who.pauses == [0.1, 0.3, 0.8, 2.0][: calls - 1]
    assert len(who.again) == calls - 1


def test_long_words_are_shown_in_one_line_and_kept_whole(who: Patient) -> None:
    text = "no\n" + "x" * 600
    with pytest.raises(EngineRefused) as caught:
        _made(who, Engine((400, text), things={C: _container("created")}), *START)
    assert caught.value.words == text
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 600
    assert str(Refusal(Kind.FAILED, 500, " ")) == "500: no reason given"


# That something is not there


def test_that_something_is_not_there_is_believed_the_second_time(who: Patient) -> None:
    gone = (404, "no such image")
    engine = Engine(gone)
    assert _made(who, engine, "GET", "/images/x/json") == gone
    assert engine.calls == 2
    assert _made(who, Engine(gone, "there"), "GET", "/images/x/json") == "there"
    # Of files too, whatever the words are, as long as the container is there.
    assert _made(who, Engine(gone, things={C: _container("exited")}), "GET", "/containers/c/archive") == gone
    # Those who do not ask are refused.
    with pytest.raises(EngineRefused):
        _made(who, Engine(gone), "POST", "/commit")


# Not yet


def test_the_end_of_a_removal_is_waited_for_and_not_for_ever(who: Patient) -> None:
    removing = _container("removing")
    busy = (409, "removal of container c is already in progress")
    engine = Engine(busy, things={C: Turns([removing, removing, (404, "{}")]), LIST: []})
    assert isinstance(_made(who, engine, "DELETE", "/containers/c"), Found)
    assert (engine.calls, who.again) == (3, [])
    began = who.clock.now
    with pytest.raises(ContainerLost, match="is being removed by something else"):
        _made(who, Engine(busy, things={C: _container("dead")}), "GET", "/containers/c/top")
    assert 30 <= who.clock.now - began < 31


def _away(who: Patient, seconds: float) -> tuple[Callable[[], str], Engine]:
    """An engine that nobody reaches for a while, and a call of it."""
    engine, end = Engine("x"), who.clock.now + seconds

    def perform() -> str:
        engine.calls += 1
        engine.things["/_ping"] = None if who.clock.now < end else (200, "OK")
        if who.clock.now < end:
            raise ConnectionRefusedError("refused")
        return "there"

    return perform, engine


def test_an_outage_is_waited_for_and_costs_no_tries(who: Patient) -> None:
    perform, engine = _away(who, 60)
    with on_behalf_of(who):
        assert persist(engine, QUESTION, "", perform, lambda _: None) == "there"
    assert engine.calls > 100
    # A second one has its own time.
    perform, engine = _away(who, 60)
    with on_behalf_of(who):
        assert persist(engine, QUESTION, "", perform, lambda _: None) == "there"


def test_an_outage_that_does_not_end_is_the_end(who: Patient) -> None:
    perform, engine = _away(who, 1e6)
    began = who.clock.now
    with (
        on_behalf_of(who),
        pytest.raises(EngineLost, match=r"unix:///x does not answer any more \(answer: ref"),
    ):
        persist(engine, QUESTION, "", perform, lambda _: None)
    assert module.OUTAGE <= who.clock.now - began < module.OUTAGE + 1
    assert not engine.answered, "nobody waits as long again"
    impatient = Patient(who.clock, patience=5)
    perform, engine = _away(who, 1e6)
    began = who.clock.now
    with on_behalf_of(impatient), pytest.raises(EngineLost):
        persist(engine, QUESTION, "", perform, lambda _: None)
    assert 5 <= who.clock.now - began < 6
    assert engine.answered


def test_something_that_answers_a_ping_with_a_fault_is_no_engine(who: Patient) -> None:
    began = who.clock.now
    engine = Engine((502, "bad gateway"), things={"/_ping": Turns([*[(502, "")] * 100, (200, "OK")])})
    engine.answers[:] = [*engine.answers * 101, "done"]
    assert _made(who, engine, *START) == "done"
    assert 19 < who.clock.now - began < 21


def test_an_engine_that_has_never_answered_is_not_waited_for(who: Patient) -> None:
    engine = Engine(FileNotFoundError("docker.sock"), answered=False, things={"/_ping": None})
    with pytest.raises(EngineUnavailable, match="start it"):
        _made(who, engine, "GET", "/version")
    assert (engine.calls, who.pauses) == (1, [])
    engine = Engine("x", answered=False)
    _made(who, engine, "GET", "/version")
    assert engine.answered


@pytest.mark.parametrize("target", ["/containers/c/start", "/containers/create"])
@pytest.mark.parametrize("end", ["", ": unknown\n"])
def test_a_disk_that_is_full_is_that_at_once(who: Patient, target: str, end: str) -> None:
    engine = Engine((500, f"write /x: No space left on device{end}"))
    with pytest.raises(DiskFull, match="disk is full: write /x"):
        _made(who, engine, "POST", target)
    assert engine.calls == 1


@pytest.mark.parametrize(
    "said",
    ["lstat /app/no space left on device/x: file name too long", "no file /x: no space left on device in c"],
)
def test_no_name_of_a_file_makes_a_disk_full(who: Patient, said: str) -> None:
    with pytest.raises(FilesRefused):
        _made(who, Engine((500, said), things={C: _container("exited")}), "GET", "/containers/c/changes")


# What is looked at


@pytest.mark.parametrize(
    ("things", "states"),
    [
        ({C: _container("paused")}, "running"),
        ({C: _container("configured")}, "created"),
        ({C: _container("something new")}, "unknown"),
        # Not there is what two questions say, and half an answer says nothing.
        ({C: (404, "{}"), LIST: []}, "absent"),
        ({C: (404, "{}"), LIST: [{"Id": "c"}]}, "unknown"),
        ({C: (500, "{}")}, "unknown"),
        ({C: (200, '{"Sta')}, "unknown"),
        ({C: None}, "unknown"),
        ({C: None, "/_ping": None}, "away"),
    ],
)
def test_the_state_of_a_container(things: dict[str, Any], states: str) -> None:
    assert _state("/containers/c/json", things) == states


@pytest.mark.parametrize(
    ("command", "state"),
    [
        ({"Running": False, "ExitCode": None}, "created"),
        ({"Running": True, "ExitCode": None}, "running"),
        ({"Running": False, "ExitCode": 0}, "created"),  # as Podman says before it starts one
        ({"Running": False, "ExitCode": 0, "Pid": 7}, "ended"),
        ((404, "{}"), "absent"),
        (Turns([(404, "{}"), {"Running": False, "ExitCode": 3}]), "ended"),
        ((500, "{}"), "unknown"),
    ],
)
def test_the_state_of_a_command(command: Any, state: str) -> None:
    assert _state("/exec/e/json", {"/exec/e/json": command}) == state


def _state(path: str, things: dict[str, Any]) -> str:
    known = call_of("GET", path)
    assert known is not None
    return module.look(Engine("x", things=things), *known, {}).state.value


def test_a_container_without_a_name_cannot_be_looked_for(who: Patient) -> None:
    engine = Engine(ConnectionResetError("x"), "done")
    assert _made(who, engine, "POST", "/containers/create") == "done"
    assert engine.peeked == ["/_ping"]


def test_a_name_is_asked_for_with_its_own_filter(who: Patient) -> None:
    engine = Engine(ConnectionResetError("x"), "done", things={LIST: []})
    _made(who, engine, "POST", "/containers/create", name="n")
    assert "%5E/n%24" in engine.peeked[1]


# Whom it is called for


def test_a_thread_calls_for_whom_it_says_and_afterwards_as_before() -> None:
    nobody, one, other = caller(), Caller(), Caller()
    with on_behalf_of(one):
        with on_behalf_of(other):
            assert caller() is other
        with on_behalf_of(None):
            assert caller() is one
        seen: list[Caller] = []
        thread = threading.Thread(target=lambda: seen.append(caller()))
        thread.start()
        thread.join()
        assert seen == [nobody]
    assert caller() is nobody


def test_what_is_waited_for_ends_when_it_is_stopped_from_another_thread() -> None:
    engine, stopped = Engine(ConnectionRefusedError("refused"), things={"/_ping": None}), Caller()
    ended: list[Exception] = []

    def call() -> None:
        try:
            _made(stopped, engine, "GET", "/version")
        except Exception as error:
            ended.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    until(lambda: engine.calls > 1, what="it was not called again")
    stopped.stop()
    thread.join(60)
    (error,) = ended
    assert isinstance(error, ContainerLost)
    assert "was killed to stop the trial" in str(error)


def test_whoever_wants_no_more_of_it_ends_a_rest_and_until_it_is_settled_every_call() -> None:
    looks: list[int] = []

    def check() -> None:
        looks.append(1)
        if len(looks) > 2:
            raise KeyError

    who = Caller(check)
    with pytest.raises(KeyError):
        who.rest(60)
    engine = Engine("x")
    with pytest.raises(KeyError):
        _made(who, engine, *START)
    assert engine.calls == 0
    who.settle()
    assert _made(who, engine, *START) == "x"


def test_connections_are_broken_off_unless_somebody_else_has_them_by_now() -> None:
    class Connection:
        ended = False

        def shutdown(self, _: int) -> None:
            self.ended = True
            raise OSError("not connected")

    own, other, who = Connection(), Connection(), Caller()
    who.hold(own)  # type: ignore[arg-type]
    who.hold(other)  # type: ignore[arg-type]
    who.let_go(other)  # type: ignore[arg-type]
    who.stop()
    assert (own.ended, other.ended) == (True, False)
