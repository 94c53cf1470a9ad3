"""Results in the form of the earlier runner's viewer, for tools that read it: `viewer_data.json`, and trajectories."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ..analysis.summary import is_synthetic
from ..analysis.trials import grouped
from ..model.numbers import mean
from ..report.documents import mirror
from ..report.documents.viewer_data import (
    AgentSummary,
    BenchmarkSummary,
    CalibrationSummary,
    DataRun,
    ModelSummary,
    RunGroup,
    TrajectoriesData,
    ViewerData,
)
from ..store.listing import JOBS, RUNS, Wanted, latest_runs, page
from ..store.reader import HistoryReader
from ..store.rows import RunRow
from .lookup import find_trial
from .query import Refused
from .results import Results
from .trajectory import all_steps

MOST_RUNS, MOST_GROUPS = 10_000, 3_000
"""The newest are listed."""
_COUNTED = {"ended", "passed", "failed", "error", "cancelled", "skipped", "reused"}
_BYTES = 32 << 20


def viewer_document(results: Results, history: HistoryReader, jobs: Sequence[str] = ()) -> ViewerData:
    """Return the newest runs and jobs, and summaries of these runs; of all jobs or some, given by their ids."""
    wanted = Wanted(jobs=tuple(jobs))
    rows = page(history, RUNS, wanted, limit=MOST_RUNS).rows
    groups = page(history, JOBS, wanted, limit=MOST_GROUPS).rows
    runs = [_run(results, row) for row in rows]
    real = [run for run in runs if not is_synthetic(run.agent)]
    synthetic = [run for run in runs if is_synthetic(run.agent)]
    latest = results.known(history, latest_runs, wanted.jobs)
    return ViewerData(
        generated_at=datetime.datetime.now(datetime.UTC),
        runs=tuple(runs),
        run_groups=tuple(
            mirror(RunGroup, row, repo_meta={"branch": row.branch, "commit": row.commit}) for row in groups
        ),
        latest_scores=tuple(_run(results, row) for row in latest if not is_synthetic(row.agent)),
        benchmark_summary=tuple(
            BenchmarkSummary(benchmark_id=key, **_summary(own), **_latest(own))
            for key, own in _by(runs, lambda run: run.benchmark_id)
        ),
        model_summary=tuple(
            ModelSummary(model_key=key, **_summary(own), average_score=_average(own))
            for key, own in _by(real, lambda run: f"{run.provider or '-'}:{run.model or '-'}")
        ),
        agent_summary=tuple(
            AgentSummary(agent=key, **_summary(own), average_score=_average(own))
            for key, own in _by(real, lambda run: run.agent)
        ),
        calibration_summary=tuple(
            CalibrationSummary(benchmark_id=key[0], agent=key[1], **_summary(own), **_latest(own))
            for key, own in _by(synthetic, lambda run: (run.benchmark_id, run.agent))
        ),
    )


def trajectories(
    results: Results, history: HistoryReader, job: str, benchmark: str, scenario: str
) -> TrajectoriesData:
    """Return the trajectories of a scenario in a job, by agent; of several attempts the first one with steps."""
    rows = [row for row in history.trials(job, scenario=scenario) if row.benchmark == benchmark]
    if not rows:
        raise Refused(404, f"job {job} has no trial of that benchmark and scenario")
    harnesses: dict[str, list[dict[str, Any]]] = {}
    paths: dict[str, str | None] = {}
    size = 0
    for row in sorted(rows, key=lambda row: row.attempt):
        if harnesses.get(row.agent):
            continue
        found = find_trial(results, history, job, row.node_id)
        steps = [] if found.withheld or size > _BYTES else all_steps(found.agent_places)
        size += sum(len(str(step)) for step in steps)
        harnesses[row.agent] = steps
        paths[row.agent] = f"jobs/{job}/{row.path}/trajectory.jsonl" if steps else None
    query_tasks = "SELECT DISTINCT scenario FROM trials WHERE job = ? AND benchmark = ? ORDER BY scenario"
    tasks = [task for (task,) in history.select(query_tasks, job, benchmark)]
    return TrajectoriesData(
        harnesses={name: tuple(steps) for name, steps in harnesses.items()}, paths=paths, task_ids=tasks
    )


def _run(results: Results, row: RunRow) -> DataRun:
    high, delta = results.to_high(row.benchmark, row.mean_score)
    return mirror(
        DataRun,
        row,
        high_score_label=None if high is None else high.source,
        high_score_value=None if high is None else high.score,
        delta_to_high_score=delta,
        metrics=row.model_dump(include=_COUNTED, by_alias=True),
    )


_Runs = Sequence[DataRun]


def _by(runs: _Runs, key: Callable[[DataRun], Any]) -> Iterable[tuple[Any, _Runs]]:
    return sorted(grouped(runs, key).items())


def _summary(runs: _Runs) -> dict[str, Any]:
    return {
        "runs": len(runs),
        "succeeded_runs": sum(run.status == "succeeded" for run in runs),
        "best_score": max(_scores(runs), default=None),
    }


def _latest(runs: _Runs) -> dict[str, Any]:
    """Return the newest of these runs; they are sorted by time, the newest first."""
    return {
        f"latest_{name}": getattr(runs[0], name)
        for name in ("run_id", "status", "score", "agent", "started_at")
    }


def _average(runs: _Runs) -> float | None:
    scores = _scores(runs)
    return mean(scores) if scores else None


def _scores(runs: _Runs) -> list[float]:
    return [run.score for run in runs if run.score is not None]
