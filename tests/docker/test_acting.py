"""Acting on jobs of real containers: kept trials are graded anew without an agent, and a cancelled job leaves nothing."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_benchjobs.sandbox.docker.provider import DockerProvider
from tests.console import benchjobs
from tests.support import IMAGE, PATIENCE, containers, containers_left, jobs, results, run, start, until

pytestmark = pytest.mark.docker


def write(
    directory: Path, scorer: str, reference: str = "echo 3 > out.txt; mkdir -p /srv/data; id > /srv/data/who"
) -> None:
    manifest = {
        "benchmark": "kept",
        "defaults": {"image": IMAGE, "workdir": "/app", "carry": ["/srv/data"], "network": "none"},
        "scenarios": [
            {
                "id": name,
                "problem_statement": "Write a number.",
                "reference": reference,
                "scorers": [{"name": "right", "type": "command", "command": command}],
            }
            for name, command in (("graded", scorer), ("right", "grep -q 3 out.txt"))
        ],
    }
    (directory / "kept.bench.yaml").write_text(json.dumps(manifest))
    (directory / "pytest.ini").write_text("[pytest]\n")


@pytest.fixture
def project(tmp_path: Path, provider: DockerProvider) -> Iterator[Path]:
    yield tmp_path
    for one in provider.kept():
        if one.bundle.startswith(f"{tmp_path}/"):
            provider.forget_kept(one.reference)


def job_of(directory: Path) -> dict[str, Any]:
    records = [json.loads(path.read_text()) for path in directory.glob("reports/jobs/*/job.json")]
    return max(records, key=lambda record: record["created_at"])  # type: ignore[no-any-return]


def of_newest(directory: Path) -> dict[str, dict[str, Any]]:
    newest = job_of(directory)["id"]
    return {result["scenario"]: result for result in results(directory) if result["job"] == newest}


def test_what_failed_is_kept_opened_graded_anew_and_removed(project: Path, provider: DockerProvider) -> None:
    write(project, "grep -q 2 out.txt")
    assert run(project, "--bench-keep", "failed").returncode == 1
    first = of_newest(project)
    assert first["right"]["kept"] is None
    reference = first["graded"]["kept"]
    assert [phase["name"] for phase in first["graded"]["phases"]].count("keep") == 1
    assert {one.reference for one in provider.kept() if one.bundle.startswith(str(project))} == {reference}

    opened = benchjobs(project, "shell", "last", "--", "cat", "out.txt", "/srv/data/who")
    assert (opened.returncode, opened.stdout.splitlines()[0]) == (0, "3")

    # Neither the agent nor what it would do now has a part in it: only the scorer.
    write(project, "grep -q 3 out.txt && test -f /srv/data/who", reference="exit 1")
    graded = benchjobs(project, "rescore", "last")
    assert graded.returncode == 0, graded.stdout + graded.stderr
    again = of_newest(project)
    assert again["right"]["outcome"] == "skipped"
    assert (again["graded"]["outcome"], again["graded"]["rescored"]["job"]) == (
        "passed",
        first["graded"]["job"],
    )
    assert "agent" not in [phase["name"] for phase in again["graded"]["phases"]]
    assert again["graded"]["image"] == first["graded"]["image"]

    assert benchjobs(project, "gc", "--kept").returncode == 0
    gone = benchjobs(project, "shell", "last", "--", "true")
    assert gone.returncode == 2
    assert "is no longer on this machine" in gone.stderr
    for job in {first["graded"]["job"], again["graded"]["job"]}:
        assert containers_left(job) == []


def test_a_cancelled_job_leaves_no_container_and_is_finished_later(project: Path) -> None:
    write(project, "grep -q 3 out.txt", reference="echo 3 > out.txt; test -f /app/never || sleep 86400")
    process = start(project, "-q")
    try:
        until(lambda: process.poll() is not None or containers(*jobs(project)), what="no trial begins")
        assert process.poll() is None
        cancelled = benchjobs(project, "cancel", "last")
        assert cancelled.returncode == 0, cancelled.stderr
        assert process.wait(PATIENCE) == 2
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    job = job_of(project)
    assert job["status"] == "cancelled"
    assert containers_left(job["id"]) == []
    assert of_newest(project) == {}

    write(project, "grep -q 3 out.txt", reference="echo 3 > out.txt")
    resumed = benchjobs(project, "resume", "last")
    assert resumed.returncode == 0, resumed.stdout + resumed.stderr
    assert job_of(project)["id"] == job["id"]
    assert {name: result["outcome"] for name, result in of_newest(project).items()} == {
        "graded": "passed",
        "right": "passed",
    }
