"""Traffic that was recorded is replayed without any model, key or network: the same trajectories, scores and usage."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.agents.jobs import EACH, KEYS, Job
from tests.support import results, run

pytestmark = [pytest.mark.docker, pytest.mark.slow]

_VOLATILE = ("timestamp", "session_id", "trajectory_id", "duration", "seconds", "duration_ms")


def _steps(job: Job, result: dict[str, Any]) -> list[Any]:
    path = job.path / "reports/jobs" / result["job"] / result["path"] / "trajectory.jsonl"
    return [_timeless(json.loads(line)) for line in path.read_text().splitlines()]


def _timeless(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _timeless(item) for key, item in value.items() if key not in _VOLATILE}
    return [_timeless(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize("agent", [*EACH, "model"])
def test_a_replayed_job_is_the_same(job: Job, agent: str) -> None:
    job.scenarios({"make": "<<<RUN: echo hi > made.txt>>> <<<RUN: cat made.txt>>> <<<SAY: all done>>>"})
    spec = job.spec(agent)
    (recorded,) = job.run("--bench-agent", spec, "--bench-record", "traffic")
    assert recorded["outcome"] == "passed", job.output
    written = b"".join(path.read_bytes() for path in (job.path / "traffic").rglob("*") if path.is_file())
    assert b"made.txt" in written
    assert not any(key.encode() in written for key in KEYS.values())
    job.server.close()
    done = run(job.path, "made.bench.yaml", "--bench-agent", spec, "--bench-replay", "traffic")
    assert done.returncode == 0, done.stdout
    (replayed,) = (result for result in results(job.path) if result["job"] != recorded["job"])
    assert replayed["usage"] == recorded["usage"]
    assert replayed["score"] == recorded["score"]
    assert _steps(job, replayed) == _steps(job, recorded)


def test_what_was_not_recorded_is_an_error_that_says_so(job: Job, tmp_path: Path) -> None:
    job.scenarios({"make": "<<<RUN: echo hi > made.txt>>>"})
    spec = job.spec("model")
    job.run("--bench-agent", spec, "--bench-record", "traffic")
    job.scenarios({"other": "<<<RUN: echo hi > made.txt>>>"})
    (result,) = job.run("--bench-agent", spec, "--bench-replay", "traffic")
    assert (result["outcome"], result["failure"]["class"]) == ("error", "endpoint_down")
    assert "record" in result["failure"]["message"]
