"""Whole jobs in Pods come to what they come to in containers: of a fake cluster, and of one of BENCHJOBS_KUBECONFIG."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_benchjobs.model.errors import EngineUnavailable
from pytest_benchjobs.model.owner import current_owner
from pytest_benchjobs.sandbox.kubernetes.api import Cluster
from pytest_benchjobs.sandbox.kubernetes.pod import OWNER
from pytest_benchjobs.sandbox.kubernetes.provider import KubernetesProvider
from tests import forking
from tests.agents.conftest import bare, fetched, job  # noqa: F401  fixtures
from tests.agents.jobs import KEYS, Job
from tests.docker import test_several_steps
from tests.docker.registry import StoringRegistry
from tests.support import IMAGE, results, run, start, until

from .fake_cluster import FakeCluster
from .test_conformance import REAL, namespace  # noqa: F401  a fixture

pytestmark = [pytest.mark.docker, pytest.mark.slow]

EXAMPLES = Path(__file__).parents[2] / "conftest_examples"
ENTRY = '#!/bin/sh\necho given > /ready\nsetsid sleep 77 >/dev/null 2>&1 &\nexec "$@"\n'
SERVES = "cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -q 'sleep 77'"
MANIFEST = {
    "benchmark": "made",
    "defaults": {
        "workdir": "/app",
        "network": "none",
        "cpus": 0.1,
        "memory": "64M",
        "problem_statement": "x",
    },
    "scenarios": [
        {
            "id": "half",
            "image": IMAGE,
            "agent_user": "visitor",
            "setup": "useradd --create-home visitor && chown visitor /app",
            "reference": 'test "$(id -un) $HOME" = "visitor /home/visitor" && echo 0.5 > out',
            "threshold": 0.5,
            "scorers": [{"name": "s", "type": "bash", "script": "echo score=$(cat out || echo 0)"}],
        },
        {
            "id": "entrypoint",
            "dockerfile": "image/Dockerfile",
            "context": "image",
            "keep_entrypoint": True,
            "healthcheck": {"command": "test -e /ready"},
            "reference": "cp /ready out",
            "scorers": [
                {"name": "out", "type": "command", "command": 'test "$(cat out)" = given'},
                {"name": "serves", "type": "command", "command": SERVES},
            ],
        },
    ],
}
TASK = {
    "task.toml": f'artifacts = ["/app/out.txt"]\n[environment]\ndocker_image = "{IMAGE}"\nworkdir = "/app"\ncpus = 0.1\n'
    "memory_mb = 64\n[verifier.environment]\n",
    "instruction.md": "Write right to /app/out.txt.\n",
    "environment/.keep": "",
    "solution/solve.sh": "#!/bin/bash\necho right > /app/out.txt\n",
    "tests/Dockerfile": f"FROM {IMAGE}\nCOPY test.sh /tests/test.sh\nRUN touch /judge\n",
    "tests/test.sh": "#!/bin/bash\ntest -e /judge && grep -qx right /app/out.txt && reward=1 || reward=0\n"
    "echo $reward > /logs/verifier/reward.txt\n",
}
SLOW = {
    "benchmark": "slow",
    "defaults": MANIFEST["defaults"],
    "scenarios": [
        {
            "id": name,
            "image": IMAGE,
            "reference": f"{wait}echo 1 > out",
            "scorers": [{"name": "s", "type": "bash", "script": "echo score=$(cat out)"}],
        }
        for name, wait in (("quick", ""), ("slow", "test -e /tmp/again || sleep 8; "))
    ],
}


def _written(directory: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text(text)


class Place:
    """Where jobs run: options and variables that lead there, and a look at it."""

    def __init__(self, kubeconfig: Path, registry: str, *options: str) -> None:
        self.options = ("--bench-sandbox=kubernetes", f"--bench-registry={registry}", *options)
        self.env = {"KUBECONFIG": str(kubeconfig)}
        self._kubeconfig = str(kubeconfig)

    def objects(self, kind: str) -> list[dict[str, Any]]:
        """Those of ours of a kind."""
        with contextlib.closing(Cluster(self._kubeconfig)) as cluster:
            return list(cluster.list(kind, OWNER))

    def left(self) -> list[str]:
        """Names of all that is ours there."""
        kinds = ("Pod", "ConfigMap", "NetworkPolicy")
        return [one["metadata"]["name"] for kind in kinds for one in self.objects(kind)]

    def run(self, directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
        return run(directory, *arguments, *self.options, **self.env)


def test_gc_has_nothing_to_do_where_nothing_leads_to_a_cluster(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    provider = KubernetesProvider(current_owner())
    assert provider.sweep(shared=True) == 0
    with pytest.raises(EngineUnavailable, match="no cluster is known"):
        provider.check()


@pytest.fixture(scope="module", autouse=True)
def _forking() -> Iterator[None]:
    with forking.served():
        yield


@pytest.fixture(scope="module")
def registry() -> Iterator[StoringRegistry]:
    registry = StoringRegistry()
    registry.start()
    yield registry
    registry.stop()


@pytest.fixture(
    scope="module",
    params=[
        "fake",
        pytest.param(
            "real", marks=pytest.mark.skipif(REAL is None, reason="BENCHJOBS_KUBECONFIG names no cluster")
        ),
    ],
)
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    if request.param == "real":
        shared = os.environ.get("BENCHJOBS_REGISTRY", "127.0.0.1:5000/benchjobs-tests")
        yield Place(
            request.getfixturevalue("namespace"), shared, "--bench-sandbox-option=unenforced_network=true"
        )
        return
    with FakeCluster(enforce_network=True) as cluster:
        yield Place(cluster.kubeconfig, request.getfixturevalue("registry").path)


def _outcomes(directory: Path) -> dict[tuple[str, str], tuple[str, float | None]]:
    return {
        (one["scenario"], one["agent"]["name"]): (one["outcome"], one["score"]) for one in results(directory)
    }


def test_scores_are_those_of_docker_and_nothing_is_left(place: Place, tmp_path: Path) -> None:
    found = []
    for name in ("docker", "pods"):
        directory = tmp_path / name
        _written(directory, {"made.bench.yaml": json.dumps(MANIFEST), "image/entry": ENTRY})
        _written(directory, {"image/Dockerfile": f'FROM {IMAGE}\nCOPY entry /entry\nENTRYPOINT ["/entry"]\n'})
        (directory / "image/entry").chmod(0o755)
        _written(directory / "tasks" / "apart", TASK)
        shutil.copytree(EXAMPLES / "harbor-task", directory / "tasks" / "example")
        test_several_steps.write(directory / "tasks" / "steps", "mean")
        arguments = ("made.bench.yaml", "tasks", "--bench-agent=oracle", "--bench-agent=nop")
        done = run(directory, *arguments) if name == "docker" else place.run(directory, *arguments)
        found.append(_outcomes(directory))
    docker, pods = found
    assert pods == docker, done.stdout
    assert {key[0]: value for key, value in pods.items() if key[1] == "oracle"} == {
        "half": ("passed", 0.5),
        "entrypoint": ("passed", 1.0),
        "apart": ("passed", 1.0),
        "example": ("passed", 1.0),
        "steps": ("failed", pytest.approx(2.75 / 3)),
    }
    cpus = {one["scenario"]: one["resources"]["cpus"] for one in results(directory)}
    assert cpus["half"] == pytest.approx({"request": 0.1, "limit": 0.3})
    assert cpus["apart"] == {"request": 0.1, "limit": 0.1}  # a task of Harbor
    until(lambda: not place.left(), what=lambda: f"left: {place.left()}")


@pytest.mark.extended
def test_the_quickstart_has_the_scores_of_docker(place: Place, tmp_path: Path) -> None:
    path = EXAMPLES / "quickstart" / "quickstart.bench.yaml"
    agents = ("--bench-agent=oracle", "--bench-agent=nop", f"--bench-dir={tmp_path}/reports")
    done = place.run(tmp_path, str(path), *agents, "-n", "2")
    found = _outcomes(tmp_path)
    if not place.options[-1].startswith("--bench-sandbox-option"):
        assert {key[0] for key, value in found.items() if value == ("passed", 1.0)} == {
            key[0] for key in found
        }, done.stdout
    else:
        # Its set-up makes sure that nothing outside answers.
        found = {key: value for key, value in found.items() if key[0] != "crash-recovery"}
    assert {score for (_, agent), (_, score) in found.items() if agent == "oracle"} == {1.0}, done.stdout
    nothing = sorted(score or 0 for (_, agent), (_, score) in found.items() if agent == "nop")
    assert nothing == pytest.approx([0] * (len(nothing) - 2) + [0.25, 12 / 19]), done.stdout


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_a_job_that_was_ended_leaves_nothing_and_is_resumed(
    place: Place, tmp_path: Path, how: signal.Signals
) -> None:
    (tmp_path / "slow.bench.yaml").write_text(json.dumps(SLOW))
    process = start(tmp_path, "slow.bench.yaml", *place.options, **place.env)
    try:
        until(lambda: [one["scenario"] for one in results(tmp_path)] == ["quick"])
        assert place.left()
    finally:
        process.send_signal(how)
        process.communicate(timeout=120)
    until(lambda: not place.left(), what=lambda: f"left: {place.left()}")
    (paid,) = results(tmp_path)
    done = place.run(tmp_path, "slow.bench.yaml", "--bench-resume=last")
    assert _outcomes(tmp_path) == dict.fromkeys([("quick", "oracle"), ("slow", "oracle")], ("passed", 1.0)), (
        done.stdout
    )
    assert paid in results(tmp_path)
    assert place.left() == []


def test_an_agent_reaches_its_model_by_the_gateway_and_no_key_is_in_a_pod(
    place: Place,
    job: Job,  # noqa: F811  the fixture
) -> None:
    look = "cat /proc/[0-9]*/environ > /tmp/all; test -s /tmp/all && ! grep -aq 'canar[y]-' /tmp/all"
    job.scenarios({"make": f"<<<RUN: {look} && echo hi > made.txt; sleep 2>>> <<<SAY: done>>>"})
    seen: list[str] = []
    over = threading.Event()

    def watch() -> None:
        while not over.wait(0.5):
            seen.extend(json.dumps(place.objects(kind)) for kind in ("Pod", "ConfigMap"))

    watching = threading.Thread(target=watch)
    watching.start()
    try:
        (found,) = job.run(f"--bench-agent={job.spec('codex')}", *place.options, **place.env)
    finally:
        over.set()
        watching.join()
    assert (found["outcome"], found["usage"]["calls"] > 0) == ("passed", True), job.output
    assert job.server.keys == {KEYS["OPENAI_API_KEY"]}
    assert any("bench" in one for one in seen)
    assert not any(key in one for key in KEYS.values() for one in seen)
