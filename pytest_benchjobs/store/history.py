"""The history: an index of job bundles in SQLite, which can be rebuilt from them at any time."""

from __future__ import annotations

import contextlib
import datetime
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ..model.errors import ResultsUnwritable
from ..model.gate import GateReport
from ..model.job import JobRecord, JobStatus
from ..model.result import TrialResult
from .database import explained, transaction
from .gates import gate_values
from .reader import HistoryReader
from .rows import (
    JOB_COLUMNS,
    SCORE_COLUMNS,
    TRIAL_COLUMNS,
    as_text,
    job_values,
    score_values,
    trial_values,
)
from .text import clean

if TYPE_CHECKING:
    from ..model.comparison import Comparison

_GOING_ON = tuple(status.value for status in JobStatus if not status.ended)
_SPACING = 20
"""Totals of runs are updated so rarely that it takes at most 1/N of the time between two saves."""


def _upsert(table: str, columns: tuple[str, ...], key: tuple[str, ...]) -> str:
    changes = ", ".join(f"{column} = excluded.{column}" for column in columns if column not in key)
    return (
        f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))}) "  # noqa: S608
        f"ON CONFLICT ({', '.join(key)}) DO UPDATE SET {changes}"
    )


_SAVE_JOB = _upsert("jobs", JOB_COLUMNS, ("id",))
_SAVE_TRIAL = _upsert("trials", (*TRIAL_COLUMNS, "run"), ("job", "node_id"))
_SAVE_SCORE = (
    f"INSERT INTO scores (trial, position, {', '.join(SCORE_COLUMNS)}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"  # noqa: S608
)
_SAVE_GATE = """
    INSERT INTO gates (job, at, expression, scope, baseline, policy, verdict, change, p_value, detectable, report)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_SAVE_SCENARIO = """
    INSERT INTO scenarios (benchmark, scenario, first_seen, last_seen, content) VALUES (?1, ?2, ?3, ?4, ?5)
    ON CONFLICT (benchmark, scenario) DO UPDATE SET
        content = CASE WHEN excluded.last_seen >= last_seen THEN ifnull(excluded.content, content) ELSE content END,
        first_seen = min(first_seen, excluded.first_seen), last_seen = max(last_seen, excluded.last_seen)
"""
_NEW_RUN = """
    INSERT INTO runs (job, position, benchmark, agent, status, job_name)
    SELECT ?1, 1 + (SELECT count(*) FROM runs WHERE job = ?1), ?2, ?3, status, name FROM jobs WHERE id = ?1
"""
# A reused trial took no time and no money here; a rescored one took time.
_SUM_UP_RUNS = """
    UPDATE runs SET (benchmark_version, provider, model, trials, passed, failed, error, cancelled, skipped, reused,
        scored, mean_score, cost_usd, input_tokens, output_tokens, cached_tokens, calls, seconds, started_at,
        finished_at) = (
        SELECT max(trials.benchmark_version), max(trials.provider), max(trials.model), count(*),
            total(outcome = 'passed'), total(outcome = 'failed'), total(outcome = 'error'),
            total(outcome = 'cancelled'), total(outcome = 'skipped'), count(trials.reused),
            count(score), avg(score),
            sum(CASE WHEN trials.reused IS NULL AND rescored IS NULL THEN trials.cost_usd END),
            sum(CASE WHEN trials.reused IS NULL AND rescored IS NULL THEN trials.input_tokens END),
            sum(CASE WHEN trials.reused IS NULL AND rescored IS NULL THEN trials.output_tokens END),
            sum(CASE WHEN trials.reused IS NULL AND rescored IS NULL THEN trials.cached_tokens END),
            sum(CASE WHEN trials.reused IS NULL AND rescored IS NULL THEN trials.calls END),
            total(CASE WHEN trials.reused IS NULL THEN trials.seconds END),
            ifnull(min(CASE WHEN trials.reused IS NULL THEN trials.started_at END), jobs.created_at),
            CASE WHEN jobs.finished_at IS NOT NULL
                THEN ifnull(max(CASE WHEN trials.reused IS NULL THEN trials.finished_at END), jobs.finished_at) END
        FROM trials, jobs WHERE trials.job = runs.job AND trials.run = runs.position AND jobs.id = runs.job
    ), tags = (
        SELECT json_group_array(DISTINCT each.value)
        FROM trials, json_each(CASE WHEN json_valid(trials.tags) THEN trials.tags END) AS each
        WHERE trials.job = runs.job AND trials.run = runs.position
    ), median_seconds = (
        SELECT avg(seconds) FROM (
            SELECT seconds, row_number() OVER (ORDER BY seconds) AS place, count(*) OVER () AS many
            FROM trials
            WHERE job = runs.job AND run = runs.position AND reused IS NULL AND outcome IN ('passed', 'failed')
        ) WHERE place IN ((many + 1) / 2, many / 2 + 1)
    ), (status, job_name, branch, "commit") = (SELECT status, name, branch, "commit" FROM jobs WHERE id = runs.job)
    WHERE job = ?1
"""
_SUM_UP_JOB = """
    UPDATE jobs SET (trials, passed, failed, error, cancelled, skipped, reused, mean_score, cost_usd) = (
        SELECT total(trials), total(passed), total(failed), total(error), total(cancelled), total(skipped),
            total(reused), sum(mean_score * scored) / nullif(total(scored), 0), sum(cost_usd)
        FROM runs WHERE runs.job = jobs.id
    ) WHERE id = ?1
"""


class History(HistoryReader):
    """A connection that writes. Several processes may write at once; each waits up to 30 s for its turn.

    Totals of a running job may lag behind, and its runs are numbered as their first results come in. Once it has ended,
    totals are exact and runs are in the order they began.

    Raises InputError: the file is not a history, or a newer version of this package wrote it; it stays as it is;
    DiskFull, ResultsUnwritable: the directory cannot be written.
    """

    _readonly = False

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.behind: set[str] = set()
        """Jobs with outdated totals of runs: `save_trials` updates them after a pause, also without results."""
        self._rest_until = 0.0

    def save_job(self, record: JobRecord) -> None:
        """Insert or update a job."""
        with self.transaction():
            self.write_job(record)

    def save_trials(self, results: Iterable[TrialResult]) -> None:
        """Insert or update trials of saved jobs, by job and node id, in one commit."""
        with self.transaction():
            self.behind.update(self._save(results))
            if time.monotonic() >= self._rest_until:
                self._catch_up()

    def replace_job(self, record: JobRecord | Callable[[], JobRecord], results: Iterable[TrialResult]) -> int:
        """Replace a job and all its trials in one commit; return their number.

        If `record` is a function, record and trials are read inside the transaction, so that they are the newest.
        """
        with self.transaction():
            record = record() if callable(record) else record
            self.write_job(record)
            self.connection.execute("UPDATE jobs SET bundled = 1 WHERE id = ?", (record.id,))
            self.connection.execute("DELETE FROM trials WHERE job = ?", (record.id,))
            self.connection.execute("DELETE FROM runs WHERE job = ?", (record.id,))
            self._save(results)
            self._number_runs(record.id)
            self._sum_up(record.id)
            # Also for an ended job, whose record may count results that are damaged now.
            self.connection.execute(_SUM_UP_JOB, (record.id,))
            count = self.connection.execute("SELECT count(*) FROM trials WHERE job = ?", (record.id,))
            return int(count.fetchone()[0])

    def forget(self, job_id: str) -> None:
        """Remove a job and its trials."""
        with self.transaction():
            self.connection.execute("DELETE FROM jobs WHERE id = ?", (job_id,))

    def add_event(self, job_id: str, kind: str, message: str, at: datetime.datetime | None = None) -> None:
        """Store an event about a job as a whole, now or at another time."""
        values = (job_id, as_text(at or datetime.datetime.now(datetime.UTC)), kind, clean(message, 2000))
        with self.transaction():
            self.connection.execute("INSERT INTO events (job, at, kind, message) VALUES (?, ?, ?, ?)", values)

    def save_comparison(self, comparison: Comparison) -> None:
        """Store a comparison."""
        at = as_text(comparison.at)
        sides = clean(comparison.a.spec, 500), clean(comparison.b.spec, 500)
        with self.transaction():
            self.connection.execute(
                "INSERT INTO comparisons (id, at, a, b, report) VALUES (?, ?, ?, ?, ?)",
                (comparison.id, at, *sides, comparison.model_dump_json()),
            )

    def save_gate(self, report: GateReport) -> None:
        """Save a gate report of a saved job."""
        with self.transaction():
            self._save_gate(report.job, report)

    def replace_gates(self, job_id: str, reports: Iterable[GateReport]) -> None:
        """Replace the gate reports of a saved job."""
        with self.transaction():
            self.connection.execute("DELETE FROM gates WHERE job = ?", (job_id,))
            for report in reports:
                self._save_gate(job_id, report)

    def close(self) -> None:
        """Close the file, with all totals up to date."""
        try:
            if self.behind:
                with self.transaction():
                    self._catch_up()
        finally:
            super().close()

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """Write everything inside the context in one commit."""
        with explained(self.path), transaction(self.connection):
            yield

    def write_job(self, record: JobRecord) -> None:
        """Insert or update a job, inside of a transaction."""
        self.connection.execute(_SAVE_JOB, job_values(record))
        if record.status.ended:
            self._number_runs(record.id)
        # The record of an ended job has its totals; those of a running one are computed from its rows.
        self._sum_up(record.id)

    def run_number(self, job: str, benchmark: str, agent: str) -> int:
        """Return the number of a run; insert a run without trials. Inside of a transaction."""
        query = "SELECT position FROM runs WHERE job = ? AND benchmark = ? AND agent = ?"
        for _ in range(2):
            row = self.connection.execute(query, (job, benchmark, agent)).fetchone()
            if row is not None:
                return int(row[0])
            self.connection.execute(_NEW_RUN, (job, benchmark, agent))
        raise ResultsUnwritable(f"{self.path}: it has no job {job}, whose files were removed")

    def _save_gate(self, job_id: str, report: GateReport) -> None:
        self.connection.executemany(_SAVE_GATE, ((job_id, *row) for row in gate_values(report)))

    def _save(self, results: Iterable[TrialResult]) -> set[str]:
        """Save trials; return the ids of their jobs."""
        jobs: set[str] = set()
        runs: dict[tuple[str, str, str], int] = {}
        for result in results:
            values = trial_values(result)
            benchmark = str(values[2])
            run = (result.job, benchmark, result.agent.label)
            if run not in runs:
                runs[run] = self.run_number(*run)
            self.connection.execute(_SAVE_TRIAL, (*values, runs[run]))
            query = "SELECT id FROM trials WHERE job = ? AND node_id = ?"
            (trial,) = self.connection.execute(query, values[:2]).fetchone()
            self.connection.execute("DELETE FROM scores WHERE trial = ?", (trial,))
            scores = ((trial, *score) for score in score_values(result.scorers))
            self.connection.executemany(_SAVE_SCORE, scores)
            if result.reused is None:
                content = result.signature.parts.get("scenario") if result.signature else None
                times = (as_text(result.started_at), as_text(result.finished_at))
                self.connection.execute(_SAVE_SCENARIO, (benchmark, values[4], *times, content))
            jobs.add(result.job)
        return jobs

    def _number_runs(self, job: str) -> None:
        """Number the runs of a job by their start, so that numbers do not depend on the source of the trials."""
        query = (
            "SELECT run FROM trials WHERE job = ? GROUP BY run, benchmark, agent "
            "ORDER BY min(started_at), benchmark, agent"
        )
        order = [run for (run,) in self.connection.execute(query, (job,))]
        if order == list(range(1, len(order) + 1)):
            return
        # By negative numbers first, as the others may be taken.
        for move, turn in (
            (
                "UPDATE runs SET position = ? WHERE job = ? AND position = ?",
                "UPDATE runs SET position = -position WHERE job = ?",
            ),
            (
                "UPDATE trials SET run = ? WHERE job = ? AND run = ?",
                "UPDATE trials SET run = -run WHERE job = ?",
            ),
        ):
            self.connection.executemany(
                move, [(-position, job, run) for position, run in enumerate(order, 1)]
            )
            self.connection.execute(turn, (job,))

    def _catch_up(self) -> None:
        began = time.monotonic()
        for job in self.behind:
            self._sum_up(job)
        self.behind.clear()
        now = time.monotonic()
        self._rest_until = now + _SPACING * (now - began)

    def _sum_up(self, job: str) -> None:
        self.connection.execute(_SUM_UP_RUNS, (job,))
        going_on = f"SELECT 1 FROM jobs WHERE id = ? AND status IN ({', '.join('?' * len(_GOING_ON))})"  # noqa: S608
        if self.connection.execute(going_on, (job, *_GOING_ON)).fetchone() is not None:
            self.connection.execute(_SUM_UP_JOB, (job,))
