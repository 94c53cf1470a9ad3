"""Documents in the form of the earlier runner's viewer, for tools that read it: `viewer_data.json`, and trajectories.

A run is one of ours, a run group a job, a harness an agent, and a task a scenario.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ..analysis.trials import grouped
from ..model.job import JobStatus
from ..store.listing import Wanted, job_page, latest_runs, run_page
from ..store.reader import HistoryReader
from ..store.rows import JobRow, RunRow
from .lists import is_synthetic
from .lookup import find_trial
from .query import Query, Refused
from .results import Results, job_of
from .trajectory import all_steps

MOST_RUNS, MOST_GROUPS = 10_000, 3_000
"""The newest are listed."""
_STATUSES = {
    JobStatus.COMPLETED.value: "succeeded",
    JobStatus.INITIALIZING.value: "queued",
    JobStatus.QUEUED.value: "queued",
    JobStatus.RUNNING.value: "running",
}
"""Status of a job -> status there; any other is `failed`."""
_SUCCEEDED = "succeeded"
_BYTES = 32 << 20


def viewer_data(results: Results, query: Query) -> Mapping[str, Any]:  # noqa: ARG001  it has no parameters
    """Return the newest runs and jobs, and summaries of these runs."""
    with results.open() as history:
        return viewer_document(results, history)


def viewer_document(results: Results, history: HistoryReader, jobs: Sequence[str] = ()) -> dict[str, Any]:
    """Return the same for an open history, and all jobs or some, given by their ids."""
    wanted = Wanted(jobs=tuple(jobs))
    rows: list[RunRow] = run_page(history, wanted, limit=MOST_RUNS).rows
    groups: list[JobRow] = job_page(history, wanted, limit=MOST_GROUPS).rows
    runs = [_run(results, row) for row in rows]
    real = [run for run in runs if not is_synthetic(run["agent"])]
    synthetic = [run for run in runs if is_synthetic(run["agent"])]
    return {
        "generated_at": _time(datetime.datetime.now(datetime.UTC)),
        "runs": runs,
        "run_groups": [_group(row) for row in groups],
        "latest_scores": [
            _run(results, row)
            for row in results.known(history, latest_runs, wanted.jobs)
            if not is_synthetic(row.agent)
        ],
        "benchmark_summary": [
            {"benchmark_id": key, **_summary(own), **_latest(own)} for key, own in _by(runs, _benchmark)
        ],
        "model_summary": [
            {"model_key": key, **_summary(own), "average_score": _average(own)}
            for key, own in _by(real, _model)
        ],
        "agent_summary": [
            {"agent": key, **_summary(own), "average_score": _average(own)} for key, own in _by(real, _agent)
        ],
        "calibration_summary": [
            {"benchmark_id": key[0], "agent": key[1], **_summary(own), **_latest(own)}
            for key, own in _by(synthetic, lambda run: (run["benchmark_id"], run["agent"]))
        ],
    }


def trajectories(results: Results, query: Query, job: str, benchmark: str, scenario: str) -> dict[str, Any]:  # noqa: ARG001
    """Return the trajectories of a scenario in a job, by agent; of several attempts the first one with steps."""
    with results.open() as history:
        job_id = job_of(history, job)
        rows = [row for row in history.trials(job_id, scenario=scenario) if row.benchmark == benchmark]
        if not rows:
            raise Refused(404, f"job {job_id} has no trial of that benchmark and scenario")
        harnesses: dict[str, list[dict[str, Any]]] = {}
        paths: dict[str, str | None] = {}
        size = 0
        for row in sorted(rows, key=lambda row: row.attempt):
            if harnesses.get(row.agent):
                continue
            found = find_trial(results, history, job_id, row.node_id)
            steps = [] if found.withheld or size > _BYTES else all_steps(found.agent_places)
            size += sum(len(str(step)) for step in steps)
            harnesses[row.agent] = steps
            paths[row.agent] = f"jobs/{job_id}/{row.path}/trajectory.jsonl" if steps else None
        query_tasks = "SELECT DISTINCT scenario FROM trials WHERE job = ? AND benchmark = ? ORDER BY scenario"
        tasks = [task for (task,) in history.select(query_tasks, job_id, benchmark)]
    return {"harnesses": harnesses, "paths": paths, "task_ids": tasks}


def _run(results: Results, row: RunRow) -> dict[str, Any]:
    high = results.high_scores.get(row.benchmark)
    known = row.input_tokens is not None and row.output_tokens is not None
    return {
        "run_id": row.id,
        "run_group_id": row.job,
        "benchmark_id": row.benchmark,
        "benchmark_version": row.benchmark_version,
        "benchmarks_commit": row.commit,
        "status": _STATUSES.get(row.status, "failed"),
        "agent": row.agent,
        "provider": row.provider,
        "model": row.model,
        "score": row.mean_score,
        "unit": "ratio",
        "higher_is_better": True,
        "high_score_label": None if high is None else high.source,
        "high_score_value": None if high is None else high.score,
        "delta_to_high_score": None
        if high is None or row.mean_score is None
        else row.mean_score - high.score,
        "started_at": _time(row.started_at),
        "ended_at": _time(row.finished_at),
        "duration_seconds": row.seconds,
        "llm_call_count": row.calls,
        "total_prompt_tokens": row.input_tokens,
        "total_completion_tokens": row.output_tokens,
        "total_tokens": (row.input_tokens or 0) + (row.output_tokens or 0) if known else None,
        "total_cache_read_input_tokens": row.cached_tokens,
        "cost_usd": row.cost_usd,
        "metrics": {
            name: getattr(row, name)
            for name in ("trials", "passed", "failed", "error", "cancelled", "skipped", "reused")
        },
    }


def _group(row: JobRow) -> dict[str, Any]:
    return {
        "run_group_id": row.id,
        "name": row.name,
        "created_at": _time(row.created_at),
        "finished_at": _time(row.finished_at),
        "status": _STATUSES.get(row.status, "failed"),
        "benchmarks": list(row.benchmarks),
        "agents": list(row.agents),
        "repo_meta": {"branch": row.branch, "commit": row.commit},
    }


_Runs = Sequence[dict[str, Any]]


def _by(runs: _Runs, key: Callable[[dict[str, Any]], Any]) -> Iterable[tuple[Any, _Runs]]:
    return sorted(grouped(runs, key).items())


def _summary(runs: _Runs) -> dict[str, Any]:
    scores = _scores(runs)
    return {
        "runs": len(runs),
        "succeeded_runs": sum(run["status"] == _SUCCEEDED for run in runs),
        "best_score": max(scores, default=None),
    }


def _latest(runs: _Runs) -> dict[str, Any]:
    """Return the newest of these runs; they are sorted by time, the newest first."""
    newest = runs[0]
    return {
        f"latest_{name}": newest[key]
        for name, key in (
            ("run_id", "run_id"), ("status", "status"), ("score", "score"), ("agent", "agent"),
            ("started_at", "started_at"),
        )
    }  # fmt: skip


def _average(runs: _Runs) -> float | None:
    scores = _scores(runs)
    return sum(scores) / len(scores) if scores else None


def _scores(runs: _Runs) -> list[float]:
    return [run["score"] for run in runs if run["score"] is not None]


def _benchmark(run: dict[str, Any]) -> str:
    return str(run["benchmark_id"])


def _agent(run: dict[str, Any]) -> str:
    return str(run["agent"])


def _model(run: dict[str, Any]) -> str:
    return f"{run['provider'] or '-'}:{run['model'] or '-'}"


def _time(at: datetime.datetime | None) -> str | None:
    return None if at is None else at.isoformat()
