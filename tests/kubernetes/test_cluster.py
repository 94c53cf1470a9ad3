"""Our use of a cluster's API, on the fake one, and on a real one.

`BENCHJOBS_KUBECONFIG` names that, with the right to make a namespace.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from pytest_benchjobs.model.errors import ContainerLost, EngineRefused
from pytest_benchjobs.sandbox.kubernetes.api import NONCE, Cluster
from pytest_benchjobs.sandbox.kubernetes.stream import STDERR, STDOUT, Stream, StreamEnded
from tests.support import IMAGE

from .fake_cluster import FakeCluster

REAL = os.environ.get("BENCHJOBS_KUBECONFIG")


@pytest.fixture(scope="module", params=[pytest.param("fake", marks=pytest.mark.docker), "real"])
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """One whose Pods are watched; a real one, in a namespace of its own."""
    with contextlib.ExitStack() as stack:
        if request.param == "fake":
            fake = stack.enter_context(FakeCluster())
            cluster = stack.enter_context(contextlib.closing(Cluster(str(fake.kubeconfig))))
        elif REAL:
            name = f"benchjobs-{secrets.token_hex(4)}"
            cluster = stack.enter_context(contextlib.closing(Cluster(REAL, namespace=name)))
            cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
            stack.callback(cluster.delete, "Namespace", name)
        else:
            pytest.skip("BENCHJOBS_KUBECONFIG names no cluster")
        cluster.watch_pods("test=yes")
        yield cluster


def manifest(name: str, *command: str, **spec: Any) -> dict[str, Any]:
    container = {
        "name": "main",
        "image": IMAGE,
        "command": list(command),
        "resources": {"requests": {"cpu": "50m"}},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"test": "yes", NONCE: name}},
        "spec": {
            "restartPolicy": "Never",
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": 1,
            "containers": [container],
            **spec,
        },
    }


def make(cluster: Cluster, *args: str, **spec: Any) -> dict[str, Any]:
    """Make a Pod; a namespace that was just made has no service account yet."""
    deadline = time.monotonic() + 15
    while True:
        try:
            return cluster.create(manifest(*args, **spec))
        except EngineRefused as refused:
            if "serviceaccount" not in refused.words or time.monotonic() > deadline:
                raise
            time.sleep(0.2)


def uid(pod: dict[str, Any]) -> str:
    return str(pod["metadata"]["uid"])


def phase(state: dict[str, Any] | None) -> str:
    return "gone" if state is None else str(state["status"].get("phase"))


@pytest.fixture(scope="module")
def running(cluster: Cluster) -> dict[str, Any]:
    """A Pod that sleeps."""
    pod = make(cluster, "running", "sleep", "600")
    assert phase(cluster.wait(uid(pod), lambda state: phase(state) != "Pending", 60)) == "Running"
    return pod


def drained(stream: Stream) -> tuple[dict[int, bytes], dict[str, Any] | None]:
    found: dict[int, bytes] = {}
    with contextlib.closing(stream):
        for _ in range(60):
            try:
                piece = stream.receive(1)
            except StreamEnded as ended:
                return found, ended.status
            if piece is not None:
                found[piece[0]] = found.get(piece[0], b"") + piece[1]
    raise AssertionError("it does not end")


def test_output_and_status_of_a_command(cluster: Cluster, running: dict[str, Any]) -> None:
    found, status = drained(cluster.exec("running", "main", ["sh", "-c", "echo out; echo err >&2; exit 3"]))
    assert found == {STDOUT: b"out\n", STDERR: b"err\n"}
    assert status is not None
    assert status["reason"] == "NonZeroExitCode"
    assert status["details"]["causes"][0]["message"] == "3"
    assert drained(cluster.exec("running", "main", ["true"]))[1] == {"metadata": {}, "status": "Success"}


def test_a_command_that_was_killed_in_its_pod_is_told_from_one_that_ended(
    cluster: Cluster, running: dict[str, Any]
) -> None:
    for command, killed in (("kill -9 $$", True), ("exit 3", False)):
        with contextlib.closing(cluster.exec("running", "main", ["sh", "-c", command])) as stream:
            with pytest.raises(StreamEnded) as ended:
                stream.receive(60)
            assert ended.value.killed is killed


def test_any_bytes_go_through_a_command_while_they_come_back(
    cluster: Cluster, running: dict[str, Any]
) -> None:
    sent, came = bytes(range(256)) * 8000, bytearray()
    with contextlib.closing(cluster.exec("running", "main", ["cat"])) as stream:
        sender = threading.Thread(target=stream.send, args=(sent,))
        sender.start()
        while len(came) < len(sent):
            piece = stream.receive(20)
            assert piece is not None
            came += piece[1]
        sender.join()
    assert came == sent


def test_commands_of_many_threads(cluster: Cluster, running: dict[str, Any]) -> None:
    statuses: list[str] = []

    def run(number: int) -> None:
        _, status = drained(cluster.exec("running", "main", ["sh", "-c", f"sleep 1; exit {number}"]))
        assert status is not None
        statuses.append(status["details"]["causes"][0]["message"])

    threads = [threading.Thread(target=run, args=(number,)) for number in range(1, 13)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(map(int, statuses)) == list(range(1, 13))


def test_an_object_is_made_once_and_another_of_its_name_is_refused(
    cluster: Cluster, running: dict[str, Any]
) -> None:
    again = manifest("running", "sleep", "600")
    assert uid(cluster.create(again)) == uid(running)
    again["metadata"]["labels"][NONCE] = "another"
    with pytest.raises(EngineRefused, match="already exists"):
        cluster.create(again)


def test_a_deletion_by_another_uid_deletes_nothing(cluster: Cluster, running: dict[str, Any]) -> None:
    cluster.delete("Pod", "running", uid="another")
    changed = cluster.patch("Pod", "running", {"metadata": {"annotations": {"still": "there"}}})
    assert changed is not None
    assert changed["metadata"].get("deletionTimestamp") is None
    assert cluster.patch("Pod", "nobody", {}) is None


def test_a_pod_that_ends_is_seen_to_end_and_then_to_be_gone(cluster: Cluster) -> None:
    pod = make(cluster, "ending", "sh", "-c", "exit 3")
    state = cluster.wait(uid(pod), lambda state: phase(state) == "Failed", 60)
    assert state is not None
    assert state["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 3
    assert cluster.node_ready(state["spec"]["nodeName"])
    began = time.monotonic()
    with pytest.raises(ContainerLost, match="container not found"):
        cluster.exec("ending", "main", ["true"])
    assert time.monotonic() - began < 5
    reasons = [event["reason"] for event in cluster.events(pod)]
    assert "Started" in reasons
    cluster.delete("Pod", "ending", uid=uid(pod))
    assert cluster.wait(uid(pod), lambda state: state is None, 30) is None
    assert cluster.get("Pod", "ending") is None


def test_what_is_owned_goes_with_its_owner(cluster: Cluster) -> None:
    owner = cluster.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "owner"}})
    owned = manifest("owned", "sleep", "600")
    owned["metadata"]["ownerReferences"] = [
        {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid(owner)}
    ]
    pod = cluster.create(owned)
    cluster.delete("ConfigMap", "owner")
    assert cluster.wait(uid(pod), lambda state: state is None, 60) is None


def test_a_pod_that_fits_nowhere_says_why(cluster: Cluster) -> None:
    pod = make(cluster, "nowhere", "true", nodeSelector={"no": "such"})
    deadline = time.monotonic() + 30
    while not (events := cluster.events(pod)) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert events[0]["reason"] == "FailedScheduling"
    with pytest.raises(EngineRefused, match="does not have a host assigned"):
        cluster.exec("nowhere", "main", ["true"])


def test_a_command_whose_stream_is_closed_here_ends_there(cluster: Cluster, running: dict[str, Any]) -> None:
    """As its standard input does; what reads none goes on."""
    with contextlib.closing(cluster.exec("running", "main", ["sh", "-c", "cat; touch /tmp/ended"])) as stream:
        stream.send(b"x")
        assert stream.receive(20) == (STDOUT, b"x")
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        _, status = drained(cluster.exec("running", "main", ["test", "-e", "/tmp/ended"]))
        if status is not None and status["status"] == "Success":
            return
        time.sleep(0.2)
    raise AssertionError("it goes on")
