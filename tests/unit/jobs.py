"""Made-up jobs on disk and in the history, for the commands that read them."""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from pytest_benchjobs.cli import main
from pytest_benchjobs.model.job import JobConfig, JobRecord, JobStatus
from pytest_benchjobs.model.policy import parse_policy
from pytest_benchjobs.model.result import Failure, Outcome, ScorerResult, TrialResult
from pytest_benchjobs.store.bundle import JobBundle
from pytest_benchjobs.store.checksum import checksum_of
from pytest_benchjobs.store.history import History
from pytest_benchjobs.store.rows import pair_row
from pytest_benchjobs.store.totals import totals
from tests.schemas import obeys

from .records import NOW, record, result, trial

ENDS = {
    "P": (Outcome.PASSED, 1.0, None),
    "H": (Outcome.FAILED, 0.25, "below_threshold"),
    "F": (Outcome.FAILED, 0.0, "below_threshold"),
    "T": (Outcome.FAILED, 0.0, "agent_timeout"),
    "E": (Outcome.ERROR, None, "engine_lost"),
    "C": (Outcome.CANCELLED, None, None),
    "S": (Outcome.SKIPPED, None, None),
}


def ended(
    letter: str, scenario: str = "count", agent: str = "oracle", attempt: int = 1, **changes: Any
) -> TrialResult:
    """A trial that ended as the letter says."""
    outcome, score, class_ = ENDS[letter]
    of = trial(scenario, agent, attempt, changes.pop("file", "a.bench.yaml"))
    return result(
        of,
        **{
            "outcome": outcome,
            "score": score,
            "failure": Failure(class_=class_, message=f"{class_} of {scenario}") if class_ else None,
            "scorers": (ScorerResult(name="right", type="bash", weight=1, score=score, output="said so\n"),),
            **changes,
        },
    )


def make_job(
    directory: Path,
    job_id: str,
    trials: Mapping[str, Mapping[str, str]] | list[TrialResult],
    *,
    hours_ago: float = 2,
    policy: str = "each",
    config: Mapping[str, Any] | None = None,
    status: JobStatus = JobStatus.COMPLETED,
    **changes: Any,
) -> JobRecord:
    """A job with a bundle and in the history. `trials` is agent -> scenario -> a letter for each attempt, or results."""
    attempts = 1
    if not isinstance(trials, list):
        attempts = max(len(letters) for scenarios in trials.values() for letters in scenarios.values())
        # Agents begin one after the other, as they do in a job: runs are numbered by that.
        trials = [
            ended(letter, scenario, agent, number, started_at=NOW + datetime.timedelta(microseconds=place))
            for place, (agent, scenarios) in enumerate(trials.items())
            for scenario, letters in scenarios.items()
            for number, letter in enumerate(letters, 1)
            if letter != "."
        ]
    began = datetime.datetime.now(datetime.UTC) - datetime.timedelta(hours=hours_ago)
    values: dict[str, Any] = {
        "id": job_id,
        "status": status,
        "created_at": began,
        "finished_at": began + datetime.timedelta(seconds=90) if status.ended else None,
        "planned": len(trials),
        "config": JobConfig(
            directory=directory,
            **{"attempts": attempts, "attempt_policy": parse_policy(policy), **(config or {})},
        ),
        **changes,
    }
    job = record(directory, **values)
    bundle = JobBundle.create(directory, job)
    results = []
    for one in trials:
        of = trial(one.scenario, one.agent.label, one.attempt, one.node_id.rpartition("::")[0])
        files = bundle.begin(of)
        if one.reused is None:
            files.layout.agent_log.write_text(f"log of {one.node_id} in {job_id}\n")
            (files.layout.artifacts / "out.txt").write_text("42\n")
        results.append(files.commit(one.model_copy(update={"job": job_id})))
    checksum = checksum_of(map(pair_row, results)) if status.ended else None
    job = job.model_copy(update={"totals": totals(results), "checksum": checksum})
    bundle.write(job)
    with History.of(directory) as history:
        history.replace_job(job, results)
    return job


def run(*arguments: object) -> int:
    """Call `benchjobs`; returns its exit status."""
    with pytest.raises(SystemExit) as end:
        main([str(argument) for argument in arguments])
    assert isinstance(end.value.code, int)
    return end.value.code


def documents(
    capsys: pytest.CaptureFixture[str], name: str, *arguments: object, option: str = "-o"
) -> dict[str, Any]:
    """What a command prints as JSON, after checking that YAML says the same and both obey the published schema."""
    found = []
    for kind, load in (("json", json.loads), ("yaml", yaml.safe_load)):
        main_status = run(*arguments, option, kind)
        assert main_status in (0, 1)
        document = load(capsys.readouterr().out)
        obeys(document, name)
        document.pop("silent_seconds", None)  # time goes by between two calls
        found.append(document)
    assert found[0] == found[1]
    document = found[0]
    assert isinstance(document, dict)
    assert document["schema_version"] == 1
    return document
