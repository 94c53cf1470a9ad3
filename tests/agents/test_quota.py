"""A quota that is used up, with agents in real containers: a job that pauses, and one that waits."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.agents.jobs import KEYS, NAMED, Job
from tests.support import containers_left, paths, results, run

pytestmark = [pytest.mark.docker, pytest.mark.slow]

TRIALS = 4
SOLVE = "<<<RUN: echo hi > made.txt>>>"
SPECS = ["model", "claude-code"]


def arguments(job: Job, agent: str) -> list[str]:
    named = [f"--bench-param={name}_key_variable={variable}" for name, variable in NAMED.items()]
    return ["made.bench.yaml", "--bench-agent", job.spec(agent), "--bench-concurrency", "2", *named]


def found(job: Job) -> dict[str, tuple[Any, ...]]:
    return {
        result["scenario"]: (result["outcome"], result["score"], result["usage"]["calls"])
        for result in results(job.path)
    }


def record(job: Job) -> dict[str, Any]:
    (path,) = paths(job.path, "reports/jobs/*/job.json")
    return json.loads(path.read_text("utf-8"))  # type: ignore[no-any-return]


@pytest.mark.parametrize("agent", SPECS)
def test_a_paused_job_is_finished_in_new_containers(job: Job, agent: str) -> None:
    prompts = {f"t{number}": f"{SOLVE} <<<ID: {number}>>>" for number in range(TRIALS)}
    job.scenarios({**prompts, "t1": f"<<<ERR: quota times=1>>> {SOLVE} <<<ID: one>>>"})
    done = run(job.path, *arguments(job, agent), "--bench-on-quota", "pause", **KEYS)
    assert done.returncode == 75, done.stdout
    first, paused = record(job), found(job)
    assert first["status"] == "paused"
    assert "t1" not in paused
    assert {outcome for outcome, _, _ in paused.values()} <= {"passed"}
    assert containers_left(first["id"]) == []
    again = run(job.path, "--bench-resume", "last", *arguments(job, agent), **KEYS)
    assert again.returncode == 0, again.stdout
    assert record(job)["status"] == "completed"
    assert {name: one[:2] for name, one in found(job).items()} == dict.fromkeys(
        [f"t{number}" for number in range(TRIALS)], ("passed", 1.0)
    )
    assert {name: one for name, one in found(job).items() if name in paused} == paused
    # As if it had never been paused: each trial has the calls of one that ran alone.
    assert len({calls for _, _, calls in found(job).values()}) == 1
    assert containers_left(first["id"]) == []


@pytest.mark.parametrize("agent", SPECS)
def test_a_trial_that_was_cut_short_begins_anew_when_the_quota_is_back(job: Job, agent: str) -> None:
    job.scenarios(
        {"cut": f"<<<RUN: touch trace>>> <<<ERRAFTER: quota times=1 retry-after=3>>> {SOLVE}", "well": SOLVE}
    )
    done = run(job.path, *arguments(job, agent), "--bench-on-quota", "wait", **KEYS)
    assert done.returncode == 0, done.stdout
    assert {name: one[:2] for name, one in found(job).items()} == dict.fromkeys(
        ["cut", "well"], ("passed", 1.0)
    )
    cut = next(result for result in results(job.path) if result["scenario"] == "cut")
    assert any("began anew" in note for note in cut["notes"])
    assert cut["tries"] == 1
    assert cut["usage"]["calls"] > 2
    assert containers_left(cut["job"]) == []
