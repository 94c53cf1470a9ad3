"""Trials as rows, for spreadsheets, data frames and training. Rows are streamed: memory does not grow with them."""

from __future__ import annotations

import contextlib
import csv
import datetime
import functools
import io
import itertools
import json
import os
import re
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from pydantic import Field

from ..model.errors import InputError
from ..model.job import JobRecord
from ..model.node_ids import group_id
from ..store.bundle import JobBundle
from ..store.copying import inside
from ..store.layout import AGENT_FILES
from ..store.reader import HistoryReader
from ..store.results import origins
from ..store.rows import TrialRow, metrics_of
from ..store.trials import read_result
from ..system.paths import is_file
from .documents import Document


class ExportRow(Document):
    """A trial: a line of JSON, or a row of CSV. There tables are JSON in a cell, and null is an empty cell."""

    job: str
    job_name: str | None
    run: str
    benchmark: str
    benchmark_version: str | None
    scenario: str
    attempt: int
    tries: int
    agent: str
    model: str | None
    provider: str | None
    node_id: str
    group: str
    """Id shared by all attempts of a scenario by an agent in a job, and by no other trial."""
    outcome: str
    class_: str | None = Field(serialization_alias="class")
    message: str | None
    score: float | None
    threshold: float
    scores: dict[str, float | None]
    """Scorer -> score; null for a scorer that broke. A second scorer with the same name is `name#2`."""
    metrics: dict[str, float]
    """Metric -> value, of what scorers measured beside the score."""
    started_at: datetime.datetime
    finished_at: datetime.datetime
    seconds: float
    input_tokens: int | None
    output_tokens: int | None
    cached_tokens: int | None
    reasoning_tokens: int | None
    cost_usd: float | None
    signature: str | None
    reused: str | None
    """The job that ran the trial, if the result is reused: no new sample, and time and cost were spent there."""
    rescored: str | None
    log: str | None
    """Path of agent.log relative to the job's directory, if there is one."""
    trajectory: str | None
    """Path of trajectory.jsonl relative to the job's directory, if there is one."""


COLUMNS = tuple(field.serialization_alias or name for name, field in ExportRow.model_fields.items())
"""Names of the columns, in order."""
_ROWS_AT_ONCE = 1000
_FORMULA = re.compile(r"[=+\-@\t\r]")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


def rows(directory: Path, history: HistoryReader, job_id: str) -> Iterator[dict[str, Any]]:
    """Yield the trials of a job, by run. Raises InputError: there is no such job, or its files cannot be read."""
    record = history.record(job_id)
    root = JobBundle(directory, job_id).root
    resolved = os.path.realpath(root)
    for row in history.each_trial(job_id):
        yield _row(row, record, _scores(history, row), _files(row, root, resolved))


def json_lines(exported: Iterable[dict[str, Any]]) -> Iterator[str]:
    """Yield a line of JSON for each row."""
    for row in exported:
        yield json.dumps(row, ensure_ascii=False) + "\n"


def csv_lines(exported: Iterable[dict[str, Any]]) -> Iterator[str]:
    """Yield CSV lines (RFC 4180), the column names first. Cells that look like formulas get a `'`."""
    buffer = io.StringIO()
    writer = csv.writer(buffer)
    writer.writerow(COLUMNS)
    for row in exported:
        yield buffer.getvalue()
        buffer.seek(0)
        buffer.truncate()
        writer.writerow([_cell(value) for value in row.values()])
    yield buffer.getvalue()


def parquet_parts(exported: Iterable[dict[str, Any]]) -> Iterator[bytes]:
    """Yield a Parquet file. Times are timestamps, and tables are JSON in a text, as in CSV."""
    import pyarrow
    from pyarrow import parquet

    numbers = {
        int: pyarrow.int64(),
        float: pyarrow.float64(),
        datetime.datetime: pyarrow.timestamp("us", "UTC"),
    }
    types = {
        name: next(
            (type_ for kind, type_ in numbers.items() if field.annotation in (kind, kind | None)), None
        )
        for name, field in zip(COLUMNS, ExportRow.model_fields.values(), strict=True)
    }
    schema = pyarrow.schema([(name, type_ or pyarrow.string()) for name, type_ in types.items()])
    times = {name for name, type_ in types.items() if type_ == numbers[datetime.datetime]}

    def value(name: str, given: Any) -> Any:
        if name in times:
            return datetime.datetime.fromisoformat(given)
        text = json.dumps(given, ensure_ascii=False) if isinstance(given, dict) else given
        return text.encode("utf-8", "replace").decode() if isinstance(text, str) else text

    left = iter(exported)
    with tempfile.TemporaryFile() as file:
        with parquet.ParquetWriter(file, schema) as writer:
            while some := [*itertools.islice(left, _ROWS_AT_ONCE)]:
                rows_of = [{name: value(name, given) for name, given in row.items()} for row in some]
                writer.write_table(pyarrow.Table.from_pylist(rows_of, schema=schema))
        file.seek(0)
        yield from iter(functools.partial(file.read, 1 << 20), b"")


def _row(
    row: TrialRow,
    record: JobRecord,
    scores: dict[str, float | None],
    files: tuple[str | None, str | None],
) -> dict[str, Any]:
    values = row._asdict() | {
        "schema_version": 1,
        "job_name": record.name,
        "group": group_of(row, record),
        "class": row.class_,
        "scores": scores,
        "metrics": {one.name: one.value for one in metrics_of(row.metrics)},
    }
    values["log"], values["trajectory"] = files
    return {name: values[name] for name in COLUMNS}


def group_of(row: TrialRow, record: JobRecord) -> str:
    """Return what all attempts of a scenario by an agent in a job have in common, and no other trial."""
    repeated = record.config.of(row.benchmark).attempts > 1
    return f"{row.job}/{group_id(row.node_id, row.attempt) if repeated else row.node_id}"


def _scores(history: HistoryReader, row: TrialRow) -> dict[str, float | None]:
    scores: dict[str, float | None] = {}
    for score in history.scores(row.job, row.node_id):
        name, number = score.scorer, 1
        while name in scores:
            number += 1
            name = f"{score.scorer}#{number}"
        scores[name] = score.score
    return scores


def _files(row: TrialRow, root: Path, resolved: str) -> tuple[str | None, str | None]:
    """Return the paths of log and trajectory, if they exist. The agent's files may be in an earlier job.

    The row is untrusted: no link is followed, and no path leads out of the results.
    """
    if not row.path:
        return None, None
    log, trajectory = (_file(resolved, f"{row.path}/{name}") for name in AGENT_FILES)
    if log is None and (row.reused is not None or row.rescored is not None):
        jobs = os.path.realpath(root.parent)
        with contextlib.suppress(InputError):
            for place, _ in origins(root.parents[1], read_result(inside(root, row.path))):
                there = place.relative_to(root.parent).as_posix()
                log, earlier = (_file(jobs, f"{there}/{name}", "../") for name in AGENT_FILES)
                trajectory = trajectory or earlier
                if log is not None:
                    break
    return log, trajectory


def _file(root: str, path: str, prefix: str = "") -> str | None:
    """Return the path of a regular file below `root` that is reached without links. Cheap, as there are many rows."""
    whole = f"{root}/{path}"
    return f"{prefix}{path}" if is_file(whole) and os.path.realpath(whole) == whole else None


def _cell(value: Any) -> Any:
    if isinstance(value, dict):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, str) and _FORMULA.match(value) and not _NUMBER.fullmatch(value):
        return f"'{value}"
    return value
