"""The fake cluster is what `kubectl` takes for a cluster, and does the harm that it is told to."""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import docker
import pytest
import yaml

from ..support import IMAGE, PATIENCE, until
from .fake_cluster import NODE_PRESSURE, OVER_STORAGE, FakeCluster
from .fake_node import LABEL, PODS
from .fake_store import KINDS, Object, Refused, field

REFUSALS = Path(__file__).with_name("refusals.yaml")
OWNER = {"apiVersion": "v1", "kind": "ConfigMap", "name": "program"}
PROGRAM = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "program"},
    "data": {"run": "#!/bin/sh\necho ran\n"},
}
DENY = {
    "metadata": {"name": "closed"},
    "spec": {"podSelector": {"matchLabels": {"network": "none"}}, "policyTypes": ["Egress"]},
}


def pod(
    name: str = "p",
    *,
    limits: Object | None = None,
    meta: Object | None = None,
    own: Object | None = None,
    **spec: Any,
) -> Object:
    resources = {"limits": {"cpu": "100m", "memory": "64Mi", **(limits or {})}}
    container = {
        "name": "main",
        "image": IMAGE,
        "command": ["sleep", "1000"],
        "resources": resources,
        **(own or {}),
    }
    spec = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 0, "containers": [container], **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **(meta or {})}, "spec": spec}


def command(cluster: FakeCluster, *arguments: str) -> list[str]:
    if (program := shutil.which("kubectl")) is None:
        pytest.skip("kubectl is not on PATH")
    return [program, "--kubeconfig", str(cluster.kubeconfig), *arguments]


def kubectl(cluster: FakeCluster, *arguments: str, given: object = None) -> subprocess.CompletedProcess[str]:
    text = given if isinstance(given, str) else json.dumps(given) if given else None
    return subprocess.run(
        command(cluster, *arguments),
        input=text,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


@contextlib.contextmanager
def following(cluster: FakeCluster, script: str) -> Iterator[tuple[subprocess.Popen[bytes], IO[bytes]]]:
    """A script that runs in the Pod `p`, and what it prints."""
    words = command(cluster, "exec", "p", "--", "sh", "-c", script)
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0) as running:
        assert running.stdout is not None
        try:
            yield running, running.stdout
        finally:
            running.kill()


def called(cluster: FakeCluster, method: str, path: str, body: object = None) -> tuple[int, Any]:
    """The code and the answer of a call of the API."""
    server = json.loads(cluster.kubeconfig.read_text())["clusters"][0]["cluster"]["server"]
    kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(server + path, data, {"Content-Type": kind}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            said = error.read().decode()
        return error.code, json.loads(said)["message"] if said.startswith("{") else said


def started(cluster: FakeCluster, manifest: Object) -> Object:
    cluster.create(PODS, "default", manifest)
    return seen(cluster, manifest["metadata"]["name"], lambda pod: pod["status"]["phase"] == "Running")


def seen(cluster: FakeCluster, name: str, is_so: Callable[[Object], object]) -> Object:
    """A Pod, once it is as wanted."""
    deadline = time.monotonic() + PATIENCE
    while not is_so(found := cluster.store.get(PODS, "default", name)):
        assert time.monotonic() < deadline, found["status"]
        time.sleep(0.05)
    return found


def is_gone(cluster: FakeCluster, name: str) -> bool:
    return not cluster.store.list(PODS, fields=f"metadata.name={name}")


def state_of(pod: Object) -> Object:
    state: Object = pod["status"]["containerStatuses"][0]["state"]
    return state


def test_kubectl_takes_it_for_a_cluster(fake: FakeCluster) -> None:
    mounts = [
        {"name": "program", "mountPath": "/opt/run", "subPath": "run"},
        {"name": "room", "mountPath": "/room"},
    ]
    volumes = [
        {"name": "program", "configMap": {"name": "program", "defaultMode": 0o555}},
        {"name": "room", "emptyDir": {}},
    ]
    manifest = pod(own={"volumeMounts": mounts, "securityContext": {"runAsUser": 1000}}, volumes=volumes)
    given = {"apiVersion": "v1", "kind": "List", "items": [PROGRAM, manifest]}
    applied = kubectl(fake, "apply", "--validate=false", "-f", "-", given=given)
    assert applied.stdout == "configmap/program created\npod/p created\n", applied.stderr
    assert (
        kubectl(fake, "wait", "--for=condition=Ready", "pod/p", "--timeout=20s").stdout
        == "pod/p condition met\n"
    )
    script = "cat; /opt/run; id -u; touch /room/file; grep -o ' /opt/run [a-z0-9]* ro' /proc/mounts; echo no >&2; exit 3"
    ended = kubectl(fake, "exec", "-i", "p", "--", "sh", "-c", script, given="input\n")
    said = re.fullmatch(r"input\nran\n1000\n /opt/run \w+ ro\n", ended.stdout)
    assert (ended.returncode, bool(said)) == (3, True), ended.stdout
    assert ended.stderr.startswith("no\n")
    assert "NotFound" in kubectl(fake, "get", "pod", "other").stderr
    assert kubectl(fake, "delete", "pod", "p").returncode == 0
    assert is_gone(fake, "p")


def test_nothing_is_left_of_it() -> None:
    with FakeCluster() as fake:
        started(fake, pod())
        engine, label, directory = fake.engine, f"{LABEL}={fake.id}", fake.directory
        assert len(engine.containers(filters={"label": label})) == 1
    engine = docker.APIClient(**docker.utils.kwargs_from_env())
    assert engine.containers(all=True, filters={"label": label}) == []
    assert not directory.exists()
    engine.close()


def test_containers_of_one_that_was_killed_are_removed_by_the_next(tmp_path: Path) -> None:
    script = (
        "import os, signal; from tests.kubernetes.fake_cluster import FakeCluster; "
        "from tests.kubernetes.test_fake_cluster import pod, started; "
        "fake = FakeCluster(); started(fake, pod()); print(fake.id, flush=True); os.kill(os.getpid(), signal.SIGKILL)"
    )
    with FakeCluster() as alive:
        started(alive, pod())
        env = {**os.environ, "TMPDIR": str(tmp_path)}
        killed = subprocess.run(
            [sys.executable, "-c", script], env=env, capture_output=True, text=True, check=False
        )
        assert killed.returncode == -signal.SIGKILL, killed.stderr

        def left(cluster: str) -> int:
            return len(alive.engine.containers(all=True, filters={"label": f"{LABEL}={cluster}"}))

        with FakeCluster():
            assert left(killed.stdout.strip()) == 0
            assert left(alive.id) == 1


def test_it_refuses_in_the_words_of_a_real_one(fake: FakeCluster) -> None:
    fake.forbidden = {("list", "events")}
    fake.create(KINDS["configmaps"], "default", PROGRAM)
    for name, refusal in yaml.safe_load(REFUSALS.read_text()).items():
        method, path = refusal["call"].split()
        code, words = called(fake, method, f"/api/v1/namespaces/default/{path}", refusal.get("body"))
        assert (code, words[: len(refusal["says"])]) == (refusal["code"], refusal["says"]), name


def test_how_pods_end(fake: FakeCluster) -> None:
    """As a real one was seen to tell it."""
    commands = {"good": "exit 0", "bad": "exit 4", "oom": "exec tail /dev/zero", "late": "sleep 1000"}
    for name, command in commands.items():
        deadline = {"activeDeadlineSeconds": 3} if name == "late" else {}
        fake.create(PODS, "default", pod(name, own={"command": ["sh", "-c", command]}, **deadline))
    fake.create(PODS, "default", pod("none", own={"command": ["/no/such"]}))
    ended = {
        name: seen(fake, name, lambda pod: pod["status"]["phase"] not in ("Pending", "Running"))
        for name in (*commands, "none")
    }
    told = {name: state_of(pod).get("terminated") for name, pod in ended.items()}
    assert {name: pod["status"]["phase"] for name, pod in ended.items()} == dict.fromkeys(ended, "Failed") | {
        "good": "Succeeded"
    }
    assert {name: (one["exitCode"], one["reason"]) for name, one in told.items() if one} == {
        "good": (0, "Completed"),
        "bad": (4, "Error"),
        "oom": (137, "OOMKilled"),
        "none": (127, "ContainerCannotRun"),
    }
    assert ended["late"]["status"]["reason"] == "DeadlineExceeded"
    until(lambda: not fake.engine.containers(filters={"label": f"{LABEL}={fake.id}"}))


def test_containers_start_one_after_the_other(fake: FakeCluster) -> None:
    room = {"volumeMounts": [{"name": "room", "mountPath": "/room"}]}
    wait = {
        "name": "first",
        "image": IMAGE,
        "command": ["sh", "-c", "while ! rm /room/go; do sleep 0.1; done"],
        **room,
    }
    fake.create(
        PODS,
        "default",
        pod(own=room, initContainers=[wait], volumes=[{"name": "room", "emptyDir": {}}]),
    )
    first = seen(
        fake,
        "p",
        lambda pod: any(
            "running" in one["state"] for one in field(pod, "status.initContainerStatuses") or ()
        ),
    )
    assert state_of(first) == {"waiting": {"reason": "PodInitializing"}}
    kubectl(fake, "exec", "p", "-c", "first", "--", "touch", "/room/go")
    then = seen(fake, "p", lambda pod: pod["status"]["phase"] == "Running")
    assert [one["state"].keys() for one in then["status"]["initContainerStatuses"]] == [{"terminated"}]
    fake.create(
        PODS, "default", pod("bad", initContainers=[{**wait, "command": ["false"], "volumeMounts": []}])
    )
    assert state_of(seen(fake, "bad", lambda pod: pod["status"]["phase"] == "Failed")) == state_of(first)


def test_watches_hear_of_changes_until_they_are_too_late(fake: FakeCluster) -> None:
    version = called(fake, "GET", "/api/v1/namespaces/default/pods")[1]["metadata"]["resourceVersion"]
    fake.create(PODS, "default", pod("a", meta={"labels": {"a": "b"}}))
    fake.create(PODS, "default", pod("other"))
    started(fake, pod("c", meta={"labels": {"a": "b"}}))
    path = f"/api/v1/pods?watch=1&labelSelector=a%3Db&timeoutSeconds=1&resourceVersion={version}"
    server = json.loads(fake.kubeconfig.read_text())["clusters"][0]["cluster"]["server"]
    with urllib.request.urlopen(server + path) as answer:
        changes = [json.loads(line) for line in answer]
    assert {change["object"]["metadata"]["name"] for change in changes} == {"a", "c"}
    assert [change["type"] for change in changes].count("ADDED") == 2
    fake.store.forget()
    with urllib.request.urlopen(server + path) as answer:
        (late,) = [json.loads(line) for line in answer]
    assert (late["type"], late["object"]["code"], late["object"]["reason"]) == ("ERROR", 410, "Expired")


def test_what_is_owned_goes_with_its_owner(fake: FakeCluster) -> None:
    owner = fake.create(KINDS["configmaps"], "default", PROGRAM)
    reference = [OWNER | {"uid": owner["metadata"]["uid"]}]
    started(fake, pod(meta={"ownerReferences": reference}))
    started(fake, pod("free"))
    fake.delete(KINDS["configmaps"], owner, {})
    until(lambda: is_gone(fake, "p"))
    fake.create(PODS, "default", pod("late", meta={"ownerReferences": reference}))
    until(lambda: is_gone(fake, "late"))
    assert not is_gone(fake, "free")


def test_pulls_fail_as_told(fake: FakeCluster) -> None:
    fake.backoff = 0.2
    fake.fail_pulls(IMAGE, 1, "toomanyrequests: slow down")
    started(fake, pod())
    told = [event["message"] for event in fake.store.list(KINDS["events"]) if event["type"] == "Warning"]
    assert (
        f'Failed to pull image "{IMAGE}": rpc error: code = Unknown desc = toomanyrequests: slow down' in told
    )
    assert len(fake.pulls) == 1
    fake.create(PODS, "default", pod("absent", own={"image": "no/such:1"}))
    waiting = seen(fake, "absent", lambda pod: "containerStatuses" in pod["status"])
    assert state_of(waiting)["waiting"]["reason"] in ("ErrImagePull", "ImagePullBackOff")


def test_pods_that_do_not_fit_wait(fake: FakeCluster) -> None:
    fake.create(PODS, "default", pod("large", limits={"cpu": "64"}))
    condition = seen(fake, "large", lambda pod: "conditions" in pod["status"])["status"]["conditions"][0]
    assert condition["message"] == "0/3 nodes are available: 3 Insufficient cpu."
    halves = [pod(name, limits={"cpu": "16"}) for name in "abcd"]
    nodes = {started(fake, half)["spec"]["nodeName"] for half in halves[:3]}
    assert len(nodes) == 3
    fake.create(PODS, "default", halves[3])
    seen(fake, "d", lambda pod: "conditions" in pod["status"])
    fake.delete(PODS, fake.store.get(PODS, "default", "a"), {})
    seen(fake, "d", lambda pod: pod["status"]["phase"] == "Running")


def test_evictions_have_two_owners(fake: FakeCluster) -> None:
    write = {"command": ["sh", "-c", "head -c 20M /dev/zero >/file; sleep 1000"]}
    fake.create(PODS, "default", pod("writer", limits={"ephemeral-storage": "10Mi"}, own=write))
    started(fake, pod("bystander"))
    fake.evict("bystander", NODE_PRESSURE.format(resource="memory"))
    for name, words in (
        ("writer", OVER_STORAGE.format(limit="10Mi")),
        ("bystander", "The node was low on resource: memory. "),
    ):
        status = seen(fake, name, lambda pod: pod["status"]["phase"] == "Failed")["status"]
        assert status == {
            "phase": "Failed",
            "reason": "Evicted",
            "message": words,
            "startTime": status["startTime"],
        }


@pytest.mark.parametrize(
    "harm", [FakeCluster.cut_streams, lambda fake: fake.restart(0.5)], ids=["cut", "restart"]
)
def test_streams_are_cut_and_commands_run_on(
    fake: FakeCluster, harm: Callable[[FakeCluster], object]
) -> None:
    started(fake, pod())
    with following(fake, "echo a; sleep 2; touch /done") as (running, output):
        assert output.readline() == b"a\n"
        harm(fake)
        assert running.wait(PATIENCE) != 0
    until(lambda: kubectl(fake, "exec", "p", "--", "ls", "/done").returncode == 0)


def test_a_lost_node_hangs_and_loses_its_pods(fake: FakeCluster) -> None:
    tolerant = {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "tolerationSeconds": 1}
    node = started(fake, pod(tolerations=[tolerant]))["spec"]["nodeName"]
    with following(fake, "echo a; sleep 1; echo b; touch /said; sleep 1000") as (running, output):
        assert output.readline() == b"a\n"
        fake.lose_node(node, notice=0.2)
        until(lambda: is_gone(fake, "p"))
        there = {"label": f"{LABEL}={fake.id}"}
        (made,) = fake.engine.containers(filters=there)
        until(lambda: "/said" in str(fake.engine.diff(made["Id"])))
        assert select.select([output], [], [], 0.5)[0] == []
        assert started(fake, pod("next"))["spec"]["nodeName"] != node
        fake.mend_node(node)
        assert output.readline() == b"b\n"
        # Just as a command that was killed for memory.
        assert running.wait(PATIENCE) == 137
    until(lambda: len(fake.engine.containers(all=True, filters=there)) == 1)


def test_requests_are_throttled_and_answers_lost(fake: FakeCluster) -> None:
    fake.throttle(1)
    assert called(fake, "GET", "/version") == (429, "Too many requests, please try again later.")
    fake.fail(1, 503, "no")
    assert called(fake, "GET", "/version") == (503, "no")
    fake.lose_answers(1)
    with pytest.raises(OSError):
        called(fake, "POST", "/api/v1/namespaces/default/configmaps", PROGRAM)
    assert called(fake, "GET", "/api/v1/namespaces/default/configmaps/program")[0] == 200


def test_policies_close_the_network_where_they_are_enforced(fake: FakeCluster) -> None:
    fake.enforce_network = True
    fake.create(KINDS["networkpolicies"], "default", DENY)
    started(fake, pod(meta={"labels": {"network": "none"}}))
    interfaces = ("exec", "p", "--", "ls", "/sys/class/net")
    assert kubectl(fake, *interfaces).stdout == "lo\n"
    called(
        fake, "PATCH", "/api/v1/namespaces/default/pods/p", {"metadata": {"labels": {"network": "public"}}}
    )
    until(lambda: "eth0" in kubectl(fake, *interfaces).stdout)
    called(fake, "PATCH", "/api/v1/namespaces/default/pods/p", {"metadata": {"labels": {"network": "none"}}})
    until(lambda: kubectl(fake, *interfaces).stdout == "lo\n")


def test_a_pod_that_is_replaced_is_another_one(fake: FakeCluster) -> None:
    first = started(fake, pod())
    fake.delete(PODS, first, {"gracePeriodSeconds": 0})
    second = started(fake, pod())
    with pytest.raises(Refused, match="does not match the UID in record"):
        fake.delete(PODS, second, {"preconditions": {"uid": first["metadata"]["uid"]}})
