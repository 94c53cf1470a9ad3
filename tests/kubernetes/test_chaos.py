"""Jobs in a cluster that is harmed come to what they come to on Docker: nothing is lost, doubled or left.

`make k8s-chaos` does so on the real cluster of `scripts/k8s.sh`. `CHAOS_SEED` draws the faults, `CHAOS_TRIALS` says how
many trials there are, `CHAOS_REPORT` is a file that a table is written to.
"""

from __future__ import annotations

import contextlib
import os
import random
import secrets
import subprocess
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from tests.agents.server import ModelServer
from tests.support import IMAGE, PATIENCE, engine_client, results, until

from .chaos import SHAPES, ChaosJob, ends, told, troubles, write
from .fake_cluster import NODE_PRESSURE, FakeCluster
from .fake_store import KINDS as OBJECTS
from .lab import KINDS, LabFaults
from .test_conformance import REAL, namespace  # noqa: F401  a fixture

SEED = int(os.environ.get("CHAOS_SEED") or random.SystemRandom().randrange(10**6))
TRIALS = int(os.environ.get("CHAOS_TRIALS") or 0)
REGISTRY = os.environ.get("BENCHJOBS_KUBE_REGISTRY", "127.0.0.1:5000")


@pytest.fixture
def images() -> Iterator[dict[int, str]]:
    """Every eighth scenario has an image of its own, which each node has to pull: number -> its name."""
    name = f"{REGISTRY}/chaos-{secrets.token_hex(4)}"
    made = {number: f"{name}:{number}" for number in range(0, TRIALS, 8)}
    client = engine_client()
    try:
        for number, reference in made.items():
            content = f"FROM {IMAGE}\nLABEL chaos={name}-{number}\n"
            subprocess.run(["docker", "build", "-qt", reference, "-"], input=content, text=True, check=True, capture_output=True)  # fmt: skip
            for _ in client.push(reference, stream=True, decode=True):
                pass
        yield made
    finally:
        for reference in made.values():
            with contextlib.suppress(Exception):
                client.remove_image(reference)
        client.close()


def _report(directory: Path, faults: LabFaults, seconds: float, wrong: Sequence[str]) -> str:
    found = ends(directory / "harmed")
    lines = [
        f"seed {SEED}, {len(found)} trials, {seconds:.0f} s, {sum(faults.done.values())} faults", "",
        "| fault | times |", "|---|---|", *(f"| {kind} | {faults.done[kind]} |" for kind in KINDS), "",
        "| outcome | trials |", "|---|---|",
        *(f"| {what} | {count} |" for what, count in Counter(map(str, found.values())).items()),
        "", *faults.log, "", *told(directory / "harmed"), "", *wrong,
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


def _harm_once(fake: FakeCluster, job: ChaosJob) -> None:
    """Do each kind of harm once, while Pods run."""
    killed: set[str] = set()

    def running(scenario: str = "", node: str = "") -> str:
        """Name of a Pod that runs, of a scenario, on a node."""

        def found() -> str | None:
            assert job.goes_on(), job.output
            for pod in fake.store.list(OBJECTS["pods"], "default"):
                of = "".join(pod["metadata"].get("annotations", {}).values())
                if (
                    pod["metadata"]["name"] not in killed
                    and pod["status"].get("phase") == "Running"
                    and scenario in of
                    and node in pod["spec"]["nodeName"]
                ):
                    return str(pod["metadata"]["name"])
            return None

        name = until(found, what=f"nothing runs: {job.output}")
        assert name is not None
        return name

    running()
    assert until(fake.cut_streams)
    fake.throttle(4)
    fake.lose_answers(2)
    until(lambda: results(job.directory))
    killed.update(pod["metadata"]["name"] for pod in fake.store.list(OBJECTS["pods"], "default"))
    job.kill()
    fake.evict(running("sleeps"), NODE_PRESSURE.format(resource="memory"))
    running(node="node2")
    fake.lose_node("node2")
    time.sleep(2)  # it is found not ready meanwhile
    fake.mend_node("node2")
    running()
    fake.restart(2)


@pytest.mark.docker
def test_a_job_on_a_fake_cluster_that_is_harmed(tmp_path: Path, fake: FakeCluster) -> None:
    fake.fail_pulls(IMAGE, 1, "toomanyrequests: come again")
    directory = tmp_path / "job"
    expected = write(directory, [name for name in SHAPES if name != "sleeps long"])
    with ModelServer() as server:
        way = {"OPENAI_BASE_URL": f"{server.url}/v1", "KUBECONFIG": str(fake.kubeconfig)}
        job = ChaosJob(
            directory,
            "--bench-sandbox=kubernetes",
            "--bench-sandbox-option=unenforced_network=true",
            "--bench-concurrency=8",
            **way,
        )
        _harm_once(fake, job)
        job.finish(PATIENCE)
    assert not troubles(job, expected, fake.kubeconfig), job.output
    lines = "\n".join(told(directory))
    assert all(words in lines for words in ("low on resource", "called again")), lines


@pytest.mark.skipif(REAL is None or not TRIALS, reason="make k8s-chaos: the real cluster, and CHAOS_TRIALS")
@pytest.mark.docker
@pytest.mark.extended
def test_a_job_on_a_cluster_that_is_harmed(
    tmp_path: Path,
    namespace: Path,  # noqa: F811  the fixture
    images: Mapping[int, str],
) -> None:
    shapes = [list(SHAPES)[number % len(SHAPES)] for number in range(TRIALS)]
    began = time.monotonic()
    with ModelServer() as server:
        way = {"OPENAI_BASE_URL": f"{server.url}/v1"}
        for name in ("docker", "harmed"):
            expected = write(tmp_path / name, shapes, images)
        calm = ChaosJob(tmp_path / "docker", "--bench-concurrency=10", **way)
        job = ChaosJob(
            tmp_path / "harmed",
            "--bench-sandbox=kubernetes",
            f"--bench-sandbox-option=kubeconfig={namespace}",
            "--bench-sandbox-option=unenforced_network=true",
            f"--bench-concurrency={min(24, max(8, TRIALS // 10))}",
            **way,
        )
        faults = LabFaults(job, SEED)
        faults.start()
        job.finish(60 * 60)
        faults.join()
        calm.finish(60 * 60)
    wrong = troubles(job, expected, namespace)
    report = _report(tmp_path, faults, time.monotonic() - began, wrong)
    print(report)
    if path := os.environ.get("CHAOS_REPORT"):
        with Path(path).open("a") as file:
            file.write(report)
    assert not wrong, report + job.output[-3000:]
    assert ends(tmp_path / "harmed") == ends(tmp_path / "docker"), calm.output[-3000:]
