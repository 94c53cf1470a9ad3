"""The history: an index over job bundles in SQLite. It can be rebuilt from them at any time."""

from __future__ import annotations

import contextlib
import dataclasses
import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

from ..model.errors import InputError
from ..model.job import JobRecord, JobStatus
from ..model.result import ScorerResult, TrialResult
from .bundle import stored
from .database import BUSY_SECONDS, NewerHistory, explained, migrations, pragma, statements, wal_works
from .files import writing
from .text import clean

FILE = "history.sqlite"
_MESSAGE_LIMIT = 2000
_ENDED = tuple(status.value for status in JobStatus if status.ended)


@dataclasses.dataclass(frozen=True, slots=True)
class TrialRow:
    """What the history knows of a trial; the whole result is in the bundle, at `path` of its job."""

    job: str
    node_id: str
    benchmark: str
    benchmark_version: str | None
    scenario: str
    agent: str
    model: str | None
    attempt: int
    tries: int
    outcome: str
    class_: str | None
    message: str | None
    score: float | None
    threshold: float
    started_at: str
    finished_at: str
    seconds: float
    input_tokens: int | None
    output_tokens: int | None
    cost_usd: float | None
    path: str


@dataclasses.dataclass(frozen=True, slots=True)
class ScoreRow:
    """What one scorer said of a trial."""

    scorer: str
    type: str
    weight: float
    score: float | None
    class_: str | None
    seconds: float


_TRIAL_COLUMNS = tuple(field.name.rstrip("_") for field in dataclasses.fields(TrialRow))
_SCORE_COLUMNS = tuple(field.name.rstrip("_") for field in dataclasses.fields(ScoreRow))
_KEY = ("job", "node_id")


def _upsert(table: str, columns: tuple[str, ...], key: tuple[str, ...]) -> str:
    changes = ", ".join(f"{column} = excluded.{column}" for column in columns if column not in key)
    return (
        f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))}) "  # noqa: S608
        f"ON CONFLICT ({', '.join(key)}) DO UPDATE SET {changes}"
    )


_JOB_COLUMNS = (
    "id", "name", "status", "created_at", "finished_at", "planned",
    "trials", "passed", "failed", "error", "cancelled", "skipped", "mean_score", "record",
)  # fmt: skip
_SAVE_JOB = _upsert("jobs", _JOB_COLUMNS, ("id",))
_SAVE_TRIAL = _upsert("trials", _TRIAL_COLUMNS, _KEY)
_SAVE_SCORE = (
    f"INSERT INTO scores (trial, position, {', '.join(_SCORE_COLUMNS)}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"  # noqa: S608
)


class History:
    """One connection. Several processes may write at once; each waits up to 30 s for its turn.

    Raises:
        InputError: the file is no history, or a newer version of this package wrote it; it stays as it is.
        DiskFull, ResultsUnwritable: the directory refuses writes.

    """

    def __init__(self, path: Path, *, readonly: bool = False) -> None:
        self.path = path
        if readonly:
            if not path.is_file():
                raise InputError("there is no history yet; run a benchmark first", path=path)
            uri = f"{path.absolute().as_uri()}?mode=ro"
        else:
            with writing(path):
                path.parent.mkdir(parents=True, exist_ok=True)
            uri = f"{path.absolute().as_uri()}?mode=rwc"
        with explained(path):
            self._connection = sqlite3.connect(uri, uri=True, timeout=BUSY_SECONDS, isolation_level=None)
        try:
            with explained(path):
                self._prepare(readonly)
        except BaseException:
            self._connection.close()
            raise

    @classmethod
    def open_readonly(cls, path: Path) -> History:
        """Open a connection that cannot change anything, and needs no write permission for the file.

        Raises:
            InputError: there is no history, or another version wrote it.

        """
        return cls(path, readonly=True)

    def save_job(self, record: JobRecord) -> None:
        """Insert or update a job."""
        with self._transaction():
            self._connection.execute(_SAVE_JOB, _job_row(record))

    def save_trial(self, result: TrialResult) -> None:
        """Insert or update a trial of a job that was saved before, by job and node id. One commit."""
        self.save_trials((result,))

    def save_trials(self, results: Iterable[TrialResult]) -> None:
        """Insert or update many in one commit."""
        with self._transaction():
            for result in results:
                self._save(result)

    def replace_job(self, record: JobRecord, results: Iterable[TrialResult]) -> int:
        """Save a job with exactly these trials, in one commit; returns how many. `results` is read inside it."""
        with self._transaction():
            self._connection.execute(_SAVE_JOB, _job_row(record))
            self._connection.execute("DELETE FROM trials WHERE job = ?", (record.id,))
            count = 0
            for result in results:
                self._save(result)
                count += 1
        return count

    def forget(self, job_id: str) -> None:
        """Remove a job and its trials."""
        with self._transaction():
            self._connection.execute("DELETE FROM jobs WHERE id = ?", (job_id,))

    def job(self, job_id: str) -> JobRecord | None:
        """Look a job up by its id."""
        with explained(self.path):
            row = self._connection.execute("SELECT record FROM jobs WHERE id = ?", (job_id,)).fetchone()
        return None if row is None else JobRecord.model_validate_json(row[0])

    def jobs(self, limit: int = -1) -> list[JobRecord]:
        """Jobs, the newest first; at most `limit`."""
        query = "SELECT record FROM jobs ORDER BY created_at DESC, id DESC LIMIT ?"
        with explained(self.path):
            rows = self._connection.execute(query, (limit,)).fetchall()
        return [JobRecord.model_validate_json(record) for (record,) in rows]

    def job_ids(self) -> set[str]:
        """Ids of all jobs."""
        with explained(self.path):
            return {job_id for (job_id,) in self._connection.execute("SELECT id FROM jobs")}

    def ended_jobs(self) -> set[str]:
        """Ids of the jobs that will never change again."""
        query = f"SELECT id FROM jobs WHERE status IN ({', '.join('?' * len(_ENDED))})"  # noqa: S608
        with explained(self.path):
            return {job_id for (job_id,) in self._connection.execute(query, _ENDED)}

    def trials(self, job_id: str) -> list[TrialRow]:
        """Trials of a job, in the order they were first saved."""
        query = f"SELECT {', '.join(_TRIAL_COLUMNS)} FROM trials WHERE job = ? ORDER BY id"  # noqa: S608
        with explained(self.path):
            return [TrialRow(*row) for row in self._connection.execute(query, (job_id,))]

    def scores(self, job_id: str, node_id: str) -> list[ScoreRow]:
        """Scores of a trial, in the order of its scorers."""
        query = (
            f"SELECT {', '.join(f'scores.{column}' for column in _SCORE_COLUMNS)} FROM scores "  # noqa: S608
            "JOIN trials ON trials.id = scores.trial WHERE trials.job = ? AND trials.node_id = ? "
            "ORDER BY position"
        )
        with explained(self.path):
            return [ScoreRow(*row) for row in self._connection.execute(query, (job_id, node_id))]

    def close(self) -> None:
        """Let go of the file."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _save(self, result: TrialResult) -> None:
        row = _trial_row(result)
        self._connection.execute(_SAVE_TRIAL, _values(row))
        query = "SELECT id FROM trials WHERE job = ? AND node_id = ?"
        (trial,) = self._connection.execute(query, (row.job, row.node_id)).fetchone()
        self._connection.execute("DELETE FROM scores WHERE trial = ?", (trial,))
        self._connection.executemany(
            _SAVE_SCORE,
            (
                (trial, position, *_values(_score_row(scorer)))
                for position, scorer in enumerate(result.scorers)
            ),
        )

    def _prepare(self, readonly: bool) -> None:
        version = self._version()
        newest = len(migrations())
        if version > newest:
            raise NewerHistory(
                f"written by a newer version of pytest-benchjobs (schema {version}, not {newest}). "
                "Upgrade pytest-benchjobs, or choose another --bench-dir",
                path=self.path,
            )
        if readonly:
            if version < newest:
                raise InputError(
                    "written by an older version of pytest-benchjobs. `benchjobs db rebuild` updates it",
                    path=self.path,
                )
            return
        if pragma(self._connection, "journal_mode") != "wal" and wal_works(self.path.parent):
            pragma(self._connection, "journal_mode = WAL")
        pragma(self._connection, "synchronous = NORMAL")
        pragma(self._connection, "foreign_keys = ON")
        if version < newest:
            self._migrate()

    def _migrate(self) -> None:
        with self._transaction():
            # Read again: another process may have been faster.
            for number, script in enumerate(migrations()[self._version() :], self._version() + 1):
                for statement in statements(script):
                    self._connection.execute(statement)
                self._connection.execute(f"PRAGMA user_version = {number}")

    def _version(self) -> int:
        return int(pragma(self._connection, "user_version"))

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        with explained(self.path):
            # IMMEDIATE: one that reads first and writes later fails at once when another one writes.
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise


def _job_row(record: JobRecord) -> tuple[object, ...]:
    record = stored(record)
    totals = record.totals
    return (
        record.id,
        _text(record.name),
        record.status.value,
        record.created_at.isoformat(),
        record.finished_at and record.finished_at.isoformat(),
        record.planned,
        totals.trials,
        totals.passed,
        totals.failed,
        totals.error,
        totals.cancelled,
        totals.skipped,
        totals.mean_score,
        record.model_dump_json(),
    )


def _trial_row(result: TrialResult) -> TrialRow:
    failure = result.failure
    return TrialRow(
        job=result.job,
        node_id=clean(result.node_id),
        benchmark=clean(result.benchmark),
        benchmark_version=_text(result.benchmark_version),
        scenario=clean(result.scenario),
        agent=result.agent.label,
        model=_text(result.agent.model),
        attempt=result.attempt,
        tries=result.tries,
        outcome=result.outcome.value,
        class_=_text(failure.class_) if failure else None,
        message=_text(failure.message) if failure else None,
        score=result.score,
        threshold=result.threshold,
        started_at=result.started_at.isoformat(),
        finished_at=result.finished_at.isoformat(),
        seconds=result.seconds,
        input_tokens=result.usage.input_tokens,
        output_tokens=result.usage.output_tokens,
        cost_usd=result.usage.cost_usd,
        path=clean(result.path),
    )


def _score_row(scorer: ScorerResult) -> ScoreRow:
    return ScoreRow(
        scorer=clean(scorer.name),
        type=clean(scorer.type),
        weight=scorer.weight,
        score=scorer.score,
        class_=_text(scorer.error.class_) if scorer.error else None,
        seconds=scorer.seconds,
    )


def _text(value: str | None) -> str | None:
    return None if value is None else clean(value, _MESSAGE_LIMIT)


def _values(row: TrialRow | ScoreRow) -> tuple[object, ...]:
    """The fields in order. `dataclasses.astuple` copies each of them, which takes longer than the insert."""
    return tuple(getattr(row, field.name) for field in dataclasses.fields(row))
