"""Reader of the history. Each query of a page uses an index, however many trials there are."""

from __future__ import annotations

import contextlib
import datetime
import functools
import json
from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

from pydantic import ValidationError

from ..model.agent import AgentSpec
from ..model.errors import InputError
from ..model.job import JobRecord, JobStatus
from ..model.metric import Metric
from ..system.garbage import gc_paused
from .database import connect, explained
from .layout import Layout
from .rows import (
    SCORE_COLUMNS,
    TRIAL_COLUMNS,
    EventRow,
    FigureRow,
    JobRow,
    PairRow,
    RunRow,
    ScoreRow,
    TrialRow,
    column_of,
    metrics_of,
)
from .text import one_line
from .trials import what_is_wrong

if TYPE_CHECKING:
    from ..model.baseline import BaselineEntry

_PAGE = 500
"""Rows read at a time. Nothing is locked between two pages, however slow the caller is."""
ENDED = tuple(status.value for status in JobStatus if status.ended)
_RECORDS = 50
"""Whole records of jobs read at a time."""
BASELINE_COLUMNS = 'name, jobs, branch, "commit", set_at, set_by, reason'
_BASELINES = f"""
    SELECT {BASELINE_COLUMNS} FROM (
        SELECT *, row_number() OVER (PARTITION BY name ORDER BY set_at DESC, id DESC) AS back FROM baselines
    ) WHERE back = 1 AND jobs <> '[]' ORDER BY name
"""  # noqa: S608
_JOB_FIELDS = tuple(name for name in JobRow.model_fields if name not in ("agents", "benchmarks", "scores"))
_JOB = ", ".join(map(column_of, _JOB_FIELDS))
_RUN = ", ".join(
    "job || '.' || position" if name == "id" else column_of(name) for name in RunRow.model_fields
)
_TRIAL = ", ".join((*(f"trials.{name}" for name in TRIAL_COLUMNS), "trials.job || '.' || trials.run"))

_PAIR_ROW: Callable[[Iterable[Any]], PairRow] = functools.partial(tuple.__new__, PairRow)
"""`PairRow._make` without its length check, which a query for these columns does not need."""


class HistoryReader:
    """A read-only connection, which needs no write permission for the file. For one thread at a time.

    A history of an older version is upgraded first. Raises InputError: there is no history, a newer version wrote it,
    or an older one did and it cannot be written.
    """

    _readonly = True
    mends = True
    """False where rows that differ from the files of their job are to stay as they are."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.directory = path.parent
        self.connection = connect(path, readonly=self._readonly)

    @classmethod
    def of(cls, directory: Path) -> Self:
        """Open the history of a results directory."""
        return cls(Layout(directory).history)

    def close(self) -> None:
        """Close the file."""
        self.connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def state(self) -> tuple[object, ...]:
        """Return something that is another after each change of the history."""
        found: list[object] = []
        for path in (self.path, self.path.with_name(f"{self.path.name}-wal")):
            with contextlib.suppress(OSError):
                status = path.stat()
                if (
                    status.st_size
                ):  # the first reader of a history makes an empty journal, and the last removes it
                    found.append((status.st_ino, status.st_size, status.st_mtime_ns))
        return tuple(found)

    def select(self, query: str, *values: object) -> list[Any]:
        """Return all rows of a query."""
        with explained(self.path):
            return self.connection.execute(query, values).fetchall()

    def job(self, job_id: str) -> JobRecord | None:
        """Look a job up by its id. Raises InputError: its record is of another version, or damaged."""
        record = self._value("SELECT record FROM jobs WHERE id = ?", job_id)
        return None if record is None else self._record(job_id, record)

    def record(self, job_id: str) -> JobRecord:
        """Return the record of a job. Raises InputError: there is no such job, or as `job` does."""
        record = self.job(job_id)
        if record is None:
            raise InputError(f"there is no job {job_id} in {self.directory}")
        return record

    def job_row(self, job_id: str) -> JobRow | None:
        """Look a job up by its id."""
        return next(iter(self.job_rows("jobs WHERE id = ?", [job_id])), None)

    def job_ids(self) -> set[str]:
        """Return the ids of all jobs that have a bundle."""
        return {job_id for (job_id,) in self.select("SELECT id FROM jobs WHERE bundled")}

    def ended_jobs(self) -> set[str]:
        """Return the ids of ended jobs."""
        query = f"SELECT id FROM jobs WHERE status IN ({_marks(ENDED)})"  # noqa: S608
        return {job_id for (job_id,) in self.select(query, *ENDED)}

    def runs(self, job_id: str) -> list[RunRow]:
        """Return the runs of a job, in the order they first appeared."""
        return self.run_rows("runs WHERE job = ? ORDER BY position", [job_id])

    def trials(self, job_id: str, *, scenario: str | None = None) -> list[TrialRow]:
        """Return the trials of a job by run, in the order they were first saved. `scenario` may also be a node id."""
        where, values = where_all(("job = ?", [job_id]), _of_scenario(scenario))
        return self._trial_rows(f"{where} ORDER BY run, id", *values)

    def each_trial(
        self,
        job_id: str,
        *,
        run: str | None = None,
        agent: str | None = None,
        scenario: str | None = None,
        outcomes: Collection[str] = (),
    ) -> Iterator[TrialRow]:
        """Yield trials like `trials`, also by run, agent or outcomes, read page by page."""
        number = _number_of(job_id, run)

        def page(after: _Place | None) -> list[Any]:
            where, values = where_all(
                ("job = ?", [job_id]),
                ("run = ?", number),
                _equal("agent", agent),
                _of_scenario(scenario),
                one_of("outcome", outcomes),
                ("(run, id) > (?, ?)", after),
            )
            return self.select(
                f"SELECT trials.run, trials.id, {_TRIAL} FROM trials {where} ORDER BY run, id LIMIT {_PAGE}",  # noqa: S608
                *values,
            )

        return (TrialRow._make(row[2:]) for row in _paged(page, lambda row: row[:2], _PAGE))

    def grouped_trials(self, job_id: str) -> Iterator[TrialRow]:
        """Yield the trials of a job by run and scenario, so that attempts of one scenario come together, in order.

        Their ids are sorted at once, 8 bytes each, and rows are read page by page.
        """
        query = "SELECT id FROM trials WHERE job = ? ORDER BY run, scenario, attempt, id"
        with explained(self.path):
            ids = array("q", (number for (number,) in self.connection.execute(query, (job_id,))))
        for first in range(0, len(ids), _PAGE):
            page = ids[first : first + _PAGE]
            rows = self.select(
                f"SELECT trials.id, {_TRIAL} FROM trials WHERE id IN ({_marks(page)})",  # noqa: S608
                *page,
            )
            found = {number: TrialRow._make(row) for number, *row in rows}
            # What was removed meanwhile is not there.
            yield from (found[number] for number in page if number in found)

    def trial(self, job_id: str, node_id: str) -> TrialRow | None:
        """Look a trial of a job up by its node id."""
        return next(iter(self._trial_rows("WHERE job = ? AND node_id = ?", job_id, node_id)), None)

    def knows_scenario(self, scenario: str) -> bool:
        """Return whether any benchmark has had a scenario with this id."""
        query = (
            "SELECT EXISTS (SELECT 1 FROM scenarios WHERE benchmark IN (SELECT benchmark FROM runs) "
            "AND scenario = ?)"
        )
        return bool(self._value(query, scenario))

    def was_kept(self, trial: str) -> bool:
        """Return whether any job kept a file system of a scenario, or of the trials with a node id."""
        # A reused trial refers to the kept file system of the trial that ran, which an index finds. CROSS JOIN makes
        # SQLite look up the trial of each job, instead of the job of each trial.
        query = (
            "SELECT EXISTS (SELECT 1 FROM trials WHERE benchmark IN (SELECT benchmark FROM runs) AND scenario = ?1 "
            "AND reused IS NULL AND kept IS NOT NULL) OR EXISTS (SELECT 1 FROM jobs CROSS JOIN trials "
            "ON trials.job = jobs.id AND trials.node_id = ?1 WHERE kept IS NOT NULL)"
        )
        return bool(self._value(query, trial))

    def scores(self, job_id: str, node_id: str) -> list[ScoreRow]:
        """Return the scores of a trial, in the order of its scorers."""
        query = (
            f"SELECT {', '.join(f'scores.{column}' for column in SCORE_COLUMNS)} FROM scores "  # noqa: S608
            "JOIN trials ON trials.id = scores.trial WHERE trials.job = ? AND trials.node_id = ? "
            "ORDER BY position"
        )
        return [ScoreRow(*row) for row in self.select(query, job_id, node_id)]

    def samples(self, signature: str, attempt: int) -> list[TrialRow]:
        """Return trials with a signature that actually ran, with any outcome, the newest first. Rescored ones count."""
        return self._trial_rows(
            "WHERE signature = ? AND attempt = ? AND reused IS NULL ORDER BY finished_at DESC, id DESC",
            signature,
            attempt,
        )

    def latest(self, benchmark: str, scenario: str, agent: str, attempt: int) -> TrialRow | None:
        """Return the newest trial that actually ran, whatever its signature."""
        tail = (
            "WHERE benchmark = ? AND scenario = ? AND agent = ? AND attempt = ? AND reused IS NULL "
            "ORDER BY finished_at DESC, id DESC LIMIT 1"
        )
        return next(iter(self._trial_rows(tail, benchmark, scenario, agent, attempt)), None)

    def paired_rows(self, job_id: str, *, run: str | None = None) -> list[PairRow]:
        """Return all trials of a job, or of one of its runs, with only the columns that comparisons need."""
        columns = ", ".join(name.rstrip("_") for name in PairRow._fields)
        where, values = where_all(("job = ?", [job_id]), ("run = ?", _number_of(job_id, run)))
        query = f"SELECT {columns} FROM trials {where} ORDER BY run, id"  # noqa: S608
        with gc_paused():
            return list(map(_PAIR_ROW, self.select(query, *values)))

    def figures(self, job_id: str) -> list[FigureRow]:
        """Return sums over the trials of a job: one row for all trials of a run that ended alike."""
        query = (
            "SELECT job || '.' || run, benchmark, agent, outcome, class, reused IS NULL AS here, "
            "reused IS NULL AND rescored IS NULL AS worked, count(*), count(score), total(score), "
            "total(score > 0), total(seconds), count(cost_usd), sum(cost_usd), sum(input_tokens), "
            "sum(output_tokens), sum(cached_tokens) "
            "FROM trials WHERE job = ? GROUP BY run, outcome, class, here, worked"
        )
        return [FigureRow._make(row) for row in self.select(query, job_id)]

    def metrics(self, job_id: str) -> dict[str, list[tuple[Metric, ...]]]:
        """Return run -> metrics of each of its trials that has a score and metrics."""
        query = (
            "SELECT job || '.' || run, metrics FROM trials WHERE job = ? AND metrics IS NOT NULL "
            "AND score IS NOT NULL ORDER BY scenario, node_id"
        )
        found: dict[str, list[tuple[Metric, ...]]] = {}
        for run, text in self.select(query, job_id):
            found.setdefault(run, []).append(metrics_of(text))
        return found

    def durations(self, job_id: str) -> dict[str, list[float]]:
        """Return id of a run -> seconds of its trials that ran in this job and passed or failed, unordered."""
        query = (
            "SELECT run, seconds FROM trials WHERE job = ? AND reused IS NULL "
            "AND outcome IN ('passed', 'failed')"
        )
        found: dict[str, list[float]] = {}
        for run, seconds in self.select(query, job_id):
            found.setdefault(f"{job_id}.{run}", []).append(seconds)
        return found

    def events(self, job_id: str) -> list[EventRow]:
        """List the events of a job, the oldest first."""
        rows = self.select("SELECT at, kind, message FROM events WHERE job = ? ORDER BY id", job_id)
        return [EventRow(datetime.datetime.fromisoformat(at), kind, message) for at, kind, message in rows]

    def comparison_ids(self, prefix: str, limit: int) -> list[str]:
        """Return ids of comparisons with a prefix, the newest first."""
        query = "SELECT id FROM comparisons WHERE id >= ? AND id < ? ORDER BY at DESC, id DESC LIMIT ?"
        return [found for (found,) in self.select(query, prefix, prefix + "\U0010ffff", limit)]

    def comparison(self, comparison_id: str) -> str:
        """Return the report of an existing comparison, as JSON."""
        ((report,),) = self.select("SELECT report FROM comparisons WHERE id = ?", comparison_id)
        return str(report)

    def baselines(self) -> list[BaselineEntry]:
        """List the existing baselines, by name."""
        return [baseline_entry(row) for row in self.select(_BASELINES)]

    def baseline(self, name: str) -> BaselineEntry | None:
        """Look a baseline up; None if there is none of that name, or it was deleted."""
        past = self.baseline_past(name)
        return past[0] if past and past[0].jobs else None

    def baseline_past(self, name: str) -> list[BaselineEntry]:
        """List all entries of a baseline, the latest first; an entry without jobs is a deletion."""
        query = f"SELECT {BASELINE_COLUMNS} FROM baselines WHERE name = ? ORDER BY set_at DESC, id DESC"  # noqa: S608
        return [baseline_entry(row) for row in self.select(query, name)]

    def users_of(self, job_id: str) -> list[str]:
        """Return ids of other jobs that reused results of a job, or graded its trials again."""
        query = "SELECT DISTINCT job FROM trials WHERE ? IN (reused, rescored) AND job <> ? ORDER BY job"
        return [user for (user,) in self.select(query, job_id, job_id)]

    def completed(self, branch: str | None = None) -> Iterator[JobRecord]:
        """Yield completed jobs, the newest first, read page by page; only those of a git branch if given.

        Jobs whose record is of another version, or damaged, are skipped.
        """

        def page(after: _Place | None) -> list[Any]:
            where, values = where_all(
                ("status = 'completed'", ()),
                _equal("json_extract(record, '$.reproducibility.git.branch')", branch),
                ("(created_at, id) < (?, ?)", after),
            )
            query = f"SELECT created_at, id, record FROM jobs {where}"  # noqa: S608
            return self.select(f"{query} ORDER BY created_at DESC, id DESC LIMIT {_RECORDS}", *values)

        for _, job_id, record in _paged(page, lambda row: row[:2], _RECORDS):
            try:
                job = self._record(job_id, record)
            except InputError:
                continue
            yield job

    def gate_verdict(self, job_id: str) -> str | None:
        """Return the latest verdict on a job as a whole; None if no gate has judged it."""
        query = (
            "SELECT verdict FROM gates WHERE job = ? AND expression = '' ORDER BY at DESC, id DESC LIMIT 1"
        )
        verdict: str | None = self._value(query, job_id)
        return verdict

    def newest(self, back: int = 0) -> str | None:
        """Return the id of the newest job, or of the one `back` jobs before it."""
        query = "SELECT id FROM jobs ORDER BY created_at DESC, id DESC LIMIT 1 OFFSET ?"
        newest: str | None = self._value(query, back)
        return newest

    def named(self, name: str) -> str | None:
        """Return the id of the newest job with a name."""
        query = "SELECT id FROM jobs WHERE name = ? ORDER BY created_at DESC, id DESC LIMIT 1"
        named: str | None = self._value(query, name)
        return named

    def beginning_with(self, prefix: str, limit: int) -> list[str]:
        """Return ids of jobs with a prefix, the newest first."""
        # Not LIKE: its wildcards may occur in ids, and it would not use the index.
        query = "SELECT id FROM jobs WHERE id >= ? AND id < ? ORDER BY id DESC LIMIT ?"
        return [job_id for (job_id,) in self.select(query, prefix, prefix + "\U0010ffff", limit)]

    def names(self) -> list[str]:
        """All names of jobs."""
        return [name for (name,) in self.select("SELECT DISTINCT name FROM jobs WHERE name IS NOT NULL")]

    def _value(self, query: str, *values: object) -> Any:
        """Return the only value of the first row; None without a row."""
        rows = self.select(query, *values)
        return rows[0][0] if rows else None

    def _record(self, job_id: str, record: str) -> JobRecord:
        """Parse the record of a job, which a newer version with the same tables may have written."""
        try:
            return JobRecord.model_validate_json(record)
        except ValidationError as error:
            raise InputError(
                f"the record of job {job_id} is of another version or damaged: {what_is_wrong(error)}. Upgrade "
                "pytest-benchjobs, or rebuild the history with `benchjobs db rebuild`",
                path=self.path,
            ) from error

    def job_rows(self, source: str, values: Sequence[object]) -> list[JobRow]:
        """Return jobs, by what follows FROM in a query."""
        rows = self.select(f"SELECT {_JOB} FROM {source}", *values)  # noqa: S608
        return [self._job_row(dict(zip(_JOB_FIELDS, row, strict=True))) for row in rows]

    def _job_row(self, values: dict[str, Any]) -> JobRow:
        query = "SELECT agent, benchmark, scored, mean_score FROM runs WHERE job = ? ORDER BY position"
        runs = self.select(query, values["id"])
        agents, benchmarks = self._sides(values["id"], values["status"], runs)
        scored: dict[str, list[float]] = {}
        for agent, _, count, mean in runs:
            if mean is not None and count:
                sums = scored.setdefault(agent, [0.0, 0.0])
                sums[0] += mean * count
                sums[1] += count
        scores = {agent: total / count for agent, (total, count) in scored.items()}
        with explained(self.path):
            return JobRow(**values, agents=agents, benchmarks=benchmarks, scores=scores)

    def _sides(
        self, job_id: str, status: str, runs: Sequence[Sequence[Any]]
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the agents and the benchmarks of a job. In a running job, not all of them have a trial yet."""
        agents, benchmarks = [str(agent) for agent, *_ in runs], [str(benchmark) for _, benchmark, *_ in runs]
        if status not in ENDED or not runs:
            ((record,),) = self.select("SELECT record FROM jobs WHERE id = ?", job_id)
            # An unreadable record names nothing, and the job can still be listed.
            with contextlib.suppress(ValueError, LookupError, TypeError):
                found = json.loads(record)
                labels = [AgentSpec.model_validate(agent).label for agent in found["config"]["agents"]]
                agents = [*labels, *agents]
                benchmarks = [*map(str, found.get("benchmarks", ())), *benchmarks]
        return tuple(dict.fromkeys(agents)), tuple(dict.fromkeys(benchmarks))

    def run_rows(self, source: str, values: Sequence[object]) -> list[RunRow]:
        """Return runs, by what follows FROM in a query."""
        rows = self.select(f"SELECT {_RUN} FROM {source}", *values)  # noqa: S608
        with explained(self.path):
            return [RunRow(**dict(zip(RunRow.model_fields, row, strict=True))) for row in rows]

    def distinct(self, column: str, limit: int, within: Sequence[tuple[str, object]] = ()) -> list[str]:
        """Return the first values of a column of runs, in order, that an index begins with after those of `within`.

        They are found by steps from each value to the next: few, however many runs there are.
        """
        same = " AND ".join(f"{name} = ?" for name, _ in within) or "true"
        first = f"SELECT min({column}) FROM runs WHERE {same}"  # noqa: S608
        query = (
            f"WITH RECURSIVE found (value) AS ({first} UNION ALL "  # noqa: S608
            f"SELECT ({first} AND {column} > value) FROM found WHERE value IS NOT NULL LIMIT ?) "
            "SELECT value FROM found WHERE value IS NOT NULL"
        )
        given = [value for _, value in within]
        return [value for (value,) in self.select(query, *given, *given, limit)]

    def _trial_rows(self, tail: str, *values: object) -> list[TrialRow]:
        query = f"SELECT {_TRIAL} FROM trials {tail}"  # noqa: S608
        return [TrialRow._make(row) for row in self.select(query, *values)]


def baseline_entry(row: Sequence[Any]) -> BaselineEntry:
    """Make an entry of a row of `BASELINE_COLUMNS`, which are its fields. Raises InputError: it is damaged."""
    from ..model.baseline import BaselineEntry

    name, jobs, *rest = row
    try:
        values = (name, json.loads(jobs), *rest)
        return BaselineEntry.model_validate(dict(zip(BaselineEntry.model_fields, values, strict=True)))
    except (ValueError, TypeError):
        shown = one_line(str(name), 100)
        raise InputError(f"baseline {shown!r} is damaged; `benchjobs db rebuild` restores it") from None


_Row = TypeVar("_Row")
_Place = Sequence[object]
"""Function: the sort key of a row."""


def _paged(
    page: Callable[[_Place | None], list[_Row]], place: Callable[[_Row], _Place], size: int
) -> Iterator[_Row]:
    """Yield the rows of all pages. `page` reads the rows behind a sort key, or the first ones."""
    after = None
    while True:
        rows = page(after)
        yield from rows
        if len(rows) < size:
            return
        after = place(rows[-1])


Condition = tuple[str, Sequence[object] | None]
"""SQL and its values. None leaves the condition out."""


def where_all(*conditions: Condition) -> tuple[str, list[object]]:
    """Return a WHERE clause of all conditions, and its values."""
    texts = [text for text, values in conditions if values is not None]
    values = [value for _, values in conditions if values is not None for value in values]
    return (f"WHERE {' AND '.join(texts)}" if texts else ""), values


def _number_of(job_id: str, run: str | None) -> list[object] | None:
    """Return the number of a run in its job, as the value of a condition; one that no run has if it is of another."""
    if run is None:
        return None
    prefix, _, position = run.rpartition(".")
    numbered = prefix == job_id and position.isdecimal() and len(position) < 10
    return [int(position) if numbered else -1]


def _equal(column: str, value: str | None) -> Condition:
    return f"{column} = ?", None if value is None else [value]


def _of_scenario(scenario: str | None) -> Condition:
    return "? IN (scenario, node_id)", None if scenario is None else [scenario]


def one_of(column: str, values: Collection[str]) -> Condition:
    """Return the condition that a column has one of these values; none without values."""
    return f"{column} IN ({_marks(values)})", list(values) or None


def _marks(values: Collection[str]) -> str:
    return ", ".join("?" * len(values))
