"""Trials as rows, for spreadsheets, data frames and training. Rows stream: memory does not grow with their number."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from ..analysis.verdict import group_id
from ..model.errors import InputError
from ..model.job import JobRecord
from ..store.bundle import JobBundle, read_result
from ..store.copying import inside
from ..store.files import is_file
from ..store.history import History
from ..store.rows import TrialRow
from .documents.export import ExportRow

COLUMNS = tuple(field.serialization_alias or name for name, field in ExportRow.model_fields.items())
"""Names of the columns, in order."""
_FORMULA = re.compile(r"[=+\-@\t\r]")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


def rows(directory: Path, history: History, job_id: str) -> Iterator[dict[str, Any]]:
    """Trials of a job by run, as `ExportRow` describes them.

    Raises:
        InputError: there is no such job, or its files cannot be read.

    """
    record = history.job(job_id)
    if record is None:
        raise InputError(f"there is no job {job_id} in {directory}")
    root = JobBundle(directory, job_id).root
    for row in history.each_trial(job_id):
        yield _row(row, record, _scores(history, row), root)


def json_lines(exported: Iterable[dict[str, Any]]) -> Iterator[str]:
    """A line for each row."""
    for row in exported:
        yield json.dumps(row, ensure_ascii=False) + "\n"


def csv_lines(exported: Iterable[dict[str, Any]]) -> Iterator[str]:
    """Lines of RFC 4180, the names of the columns first. No cell is taken for a formula by a spreadsheet."""
    buffer = io.StringIO()
    writer = csv.writer(buffer)
    writer.writerow(COLUMNS)
    for row in exported:
        yield buffer.getvalue()
        buffer.seek(0)
        buffer.truncate()
        writer.writerow([_cell(value) for value in row.values()])
    yield buffer.getvalue()


def _row(row: TrialRow, record: JobRecord, scores: dict[str, float | None], root: Path) -> dict[str, Any]:
    log, trajectory = _files(row, root)
    repeated = record.config.of(row.benchmark).attempts > 1
    scenario = group_id(row.node_id, row.attempt) if repeated else row.node_id
    return {
        "schema_version": 1,
        "job": row.job,
        "job_name": record.name,
        "run": row.run,
        "benchmark": row.benchmark,
        "benchmark_version": row.benchmark_version,
        "scenario": row.scenario,
        "attempt": row.attempt,
        "tries": row.tries,
        "agent": row.agent,
        "model": row.model,
        "provider": row.provider,
        "node_id": row.node_id,
        "group": f"{row.job}/{scenario}",
        "outcome": row.outcome,
        "class": row.class_,
        "message": row.message,
        "score": row.score,
        "threshold": row.threshold,
        "scores": scores,
        "started_at": row.started_at,
        "finished_at": row.finished_at,
        "seconds": row.seconds,
        "input_tokens": row.input_tokens,
        "output_tokens": row.output_tokens,
        "cached_tokens": row.cached_tokens,
        "reasoning_tokens": row.reasoning_tokens,
        "cost_usd": row.cost_usd,
        "signature": row.signature,
        "reused": row.reused,
        "rescored": row.rescored,
        "log": log,
        "trajectory": trajectory,
    }


def _scores(history: History, row: TrialRow) -> dict[str, float | None]:
    scores: dict[str, float | None] = {}
    for score in history.scores(row.job, row.node_id):
        name, number = score.scorer, 1
        while name in scores:
            number += 1
            name = f"{score.scorer}#{number}"
        scores[name] = score.score
    return scores


def _files(row: TrialRow, root: Path) -> tuple[str | None, str | None]:
    """Paths of log and trajectory, where there are such files. What was taken over is in the job that ran it."""
    path = row.path
    if path and row.reused is not None:
        with contextlib.suppress(InputError):
            origin = read_result(inside(root, path)).reused
            path = f"../{origin.job}/{origin.path}" if origin is not None else path
    paths = (f"{path}/agent.log", f"{path}/trajectory.jsonl")
    log, trajectory = (one if path and is_file(root / one) else None for one in paths)
    return log, trajectory


def _cell(value: Any) -> Any:
    if isinstance(value, dict):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, str) and _FORMULA.match(value) and not _NUMBER.fullmatch(value):
        return f"'{value}"
    return value
