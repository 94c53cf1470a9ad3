"""What became of a Pod, by states and events that a cluster of 1.20 was seen to have (`pod_states.json`)."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_benchjobs.model.errors import (
    ContainerEnded,
    ContainerLost,
    ContainerStartFailed,
    ImageMissing,
    InfrastructureError,
)
from pytest_benchjobs.sandbox.kubernetes import fate
from pytest_benchjobs.sandbox.kubernetes.pod import CONTAINER, FILLER

SEEN: dict[str, dict[str, Any]] = json.loads(Path(__file__).with_name("pod_states.json").read_text("utf-8"))
_STARTING = {
    "bad name", "filled", "no node fits", "no room", "no such image", "no such image, waiting", "registry away",
    "registry away, waiting",
}  # fmt: skip


def _seen(name: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    found = copy.deepcopy(SEEN[name])
    return found["state"], found["events"]


def _evicted(message: str) -> dict[str, Any]:
    state, _ = _seen("storage full")
    state["status"]["message"] = message
    return state


@pytest.mark.parametrize("name", sorted(SEEN))
def test_every_state_is_one_of_three(name: str) -> None:
    state, _ = _seen(name)
    over, runs = fate.has_ended(state), fate.is_running(state, CONTAINER)
    assert (over, runs) == (name not in {"running", *_STARTING}, name == "running")


def test_the_container_that_runs_first_is_told_apart() -> None:
    state, _ = _seen("filled")
    assert fate.is_running(state, FILLER)
    assert not fate.is_running(state, CONTAINER)
    assert fate.why_not_started(state, []) is None


@pytest.mark.parametrize(
    ("name", "limit"),
    [
        ("storage full", "storage"), ("volume full", "storage"), ("out of memory", "memory"), ("deadline", None),
        ("ended by itself", None), ("deleted", None), ("running", None), ("no program", None),
    ],
)  # fmt: skip
def test_only_its_own_limits_are_its_own_doing(name: str, limit: str | None) -> None:
    assert fate.limit_of(_seen(name)[0]) == limit


@pytest.mark.parametrize(
    ("message", "limit"),
    [
        ("The node was low on resource: memory. ", None),
        (
            "The node was low on resource: ephemeral-storage. Container bench was using 9Mi, which exceeds its request of 0. ",
            None,
        ),
        ("Preempted in order to admit critical pod", None),
        ('Container bench exceeded its local ephemeral storage limit "30Mi". ', "storage"),
        ('Usage of EmptyDir volume "cache" exceeds the limit "1Gi". ', "storage"),
    ],
)
def test_an_eviction_has_two_owners(message: str, limit: str | None) -> None:
    state = _evicted(message)
    assert fate.limit_of(state) == limit
    assert " ".join(message.split()) in str(fate.why_ended(state))


@pytest.mark.parametrize(
    ("name", "kind", "words"),
    [
        ("deadline", ContainerEnded, "the Pod has reached its deadline"),
        ("deleted", ContainerLost, "the cluster deletes the Pod on node node2 (Killing: Stopping container bench)"),
        ("ended by itself", ContainerEnded, "the Pod on node node1 has ended (Error, status 7)"),
        ("out of memory", ContainerEnded, "the Pod on node node3 has ended (OOMKilled, status 137)"),
        ("storage full", ContainerLost, "Evicted: Pod ephemeral local storage usage exceeds the total limit"),
        ("no program", ContainerStartFailed, 'exec: "/nothing": stat /nothing: no such file or directory'),
    ],
)  # fmt: skip
def test_why_it_ended_is_said_in_the_words_of_the_cluster(
    name: str, kind: type[InfrastructureError], words: str
) -> None:
    why = fate.why_ended(*_seen(name))
    assert type(why) is kind
    assert words in str(why)


def test_a_pod_that_is_gone_with_its_node_says_so() -> None:
    state, _ = _seen("running")
    state["metadata"]["deletionTimestamp"] = "2026-11-29T19:22:01Z"
    noted = [
        {"type": "Warning", "reason": "NodeNotReady", "message": "Node is not ready"},
        {"type": "Normal", "reason": "TaintManagerEviction", "message": "Marking for deletion Pod trials/a"},
    ]
    for of, where in ((state, "deletes the Pod on node node2"), (None, "was removed from the cluster")):
        why = fate.why_ended(of, noted)
        assert type(why) is ContainerLost
        assert f"{where} (NodeNotReady: Node is not ready; TaintManagerEviction: Marking" in str(why)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("bad name", ContainerStartFailed),
        ("no such image", ImageMissing),
        ("no such image, waiting", ImageMissing),
        ("registry away", None),
        ("registry away, waiting", None),
        ("no node fits", None),
        ("no room", None),
    ],
)
def test_what_will_never_start_is_given_up_at_once(name: str, kind: type[Exception] | None) -> None:
    state, events = _seen(name)
    why = fate.why_not_started(state, events)
    assert (None if why is None else type(why)) == kind


@pytest.mark.parametrize(
    ("name", "waits"),
    [
        ("no node fits", (False, True, False)),
        ("no room", (True, False, False)),
        ("registry away, waiting", (False, False, True)),
        ("running", (False, False, False)),
    ],
)
def test_what_it_waits_for(name: str, waits: tuple[bool, bool, bool]) -> None:
    state, _ = _seen(name)
    assert (fate.is_queued(state), fate.is_unplaced(state), fate.is_pulling(state)) == waits


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("no node fits", "no node takes the Pod: 0/3 nodes are available: 3 node(s) didn't match"),
        ("no room", "no node takes the Pod: 0/3 nodes are available: 3 Insufficient cpu."),
        ("registry away, waiting", "the image is not pulled: Failed to pull image .*no route to host"),
        ("filled", "the Pod does not start (Pending)"),
    ],
)
def test_what_it_waits_for_is_said(name: str, words: str) -> None:
    said = fate.why_waiting(*_seen(name))
    assert all(part in said for part in words.split(".*"))


def test_without_the_right_to_events_a_pull_that_failed_is_said_as_its_state_has_it() -> None:
    state, _ = _seen("registry away, waiting")
    assert "Back-off pulling image" in fate.why_waiting(state, [])


@given(phase=st.sampled_from(["Pending", "Running", "Failed", ""]), reason=st.text(), message=st.text())
def test_any_words_of_a_cluster_are_an_error_of_ours(phase: str, reason: str, message: str) -> None:
    state = {"metadata": {}, "status": {"phase": phase, "reason": reason, "message": message}}
    assert isinstance(fate.why_ended(state), InfrastructureError)
    assert len(str(fate.why_ended(state))) < 2000 + len(reason)
