"""Made-up jobs and results for tests."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

from pytest_benchjobs.model.agent import AgentSpec
from pytest_benchjobs.model.job import JobConfig, JobRecord, JobStatus, Owner
from pytest_benchjobs.model.result import Outcome, Trial, TrialResult
from pytest_benchjobs.model.scenario import Environment, Scenario, ScorerSpec

NOW = datetime.datetime(2026, 11, 21, 5, 47, 12, tzinfo=datetime.UTC)
JOB = "20261121-054712-4f9a2c"
OWNER = Owner(host="here", boot="boot", pid=1, started="1")


def record(directory: Path, **changes: Any) -> JobRecord:
    values: dict[str, Any] = {
        "id": JOB,
        "status": JobStatus.RUNNING,
        "created_at": NOW,
        "owner": OWNER,
        "config": JobConfig(directory=directory),
    }
    return JobRecord(**{**values, **changes})


def scenario_of(name: str = "count", **changes: Any) -> Scenario:
    values: dict[str, Any] = {
        "benchmark": "texts",
        "problem_statement": "Count.",
        "environment": Environment(image="debian"),
        "scorers": (ScorerSpec(name="right", type="bash", script="echo 1"),),
        "source": Path("a.bench.yaml"),
    }
    return Scenario(id=name, **{**values, **changes})


def trial(
    scenario: str = "count", agent: str = "oracle", attempt: int = 1, file: str = "a.bench.yaml"
) -> Trial:
    spec = AgentSpec.parse(agent)
    return Trial(
        node_id=f"{file}::{scenario}[{spec.label}-{attempt}]",
        scenario=scenario_of(scenario, source=Path(file)),
        agent=spec,
        attempt=attempt,
    )


def result(of: Trial | None = None, job: str = JOB, **changes: Any) -> TrialResult:
    of = of or trial()
    values: dict[str, Any] = {
        "job": job, "node_id": of.node_id, "benchmark": of.scenario.benchmark, "scenario": of.scenario.id,
        "agent": of.agent, "attempt": of.attempt, "outcome": Outcome.PASSED, "threshold": 1.0,
        "started_at": NOW, "finished_at": NOW + datetime.timedelta(seconds=2), "seconds": 2.0,
    }  # fmt: skip
    values.update(changes)
    scored = values["outcome"] in (Outcome.PASSED, Outcome.FAILED)
    values.setdefault("score", 1.0 if scored else None)
    if values["outcome"] is Outcome.PASSED and "threshold" not in changes:
        values["threshold"] = min(1.0, values["score"])
    return TrialResult(**values)
