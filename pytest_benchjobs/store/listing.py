"""Pages of jobs and runs: filtered, searched, and sorted by any column, in a history of any size.

Pages are found by the sort key of the row before them, so a late one costs no more than the first one.
"""

from __future__ import annotations

import dataclasses
import datetime
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from ..model.errors import InputError
from ..model.job import JobStatus
from .reader import Condition, HistoryReader, one_of, where_all
from .rows import JobRow, RunRow, ScenarioRow, as_text, column_of
from .searching import OFTEN, Found, in_jobs, in_runs, look_up

_CHOICES = 500
_PAGE = 500
"""Rows read at a time by `each`. Nothing is locked between two pages, however slow the caller is."""
_BATCH = 5000
"""Rows that are looked up at once: a query of SQLite has at most 32,766 values."""
_IS_WHOLE = "NOT EXISTS (SELECT 1 FROM jobs WHERE id = job AND selection)"
_EARLIER_SELECTION = """
    selection AND finished_at IS NOT NULL
    AND id <> (SELECT id FROM jobs WHERE selection ORDER BY created_at DESC, id DESC LIMIT 1)
"""
Place = Sequence[object]
"""The sort key of a row: its value in the sorted column, unless that is its id, and its id."""
Row = TypeVar("Row", bound=JobRow | RunRow)


@dataclasses.dataclass(frozen=True, slots=True)
class Wanted:
    """Filter of jobs and runs: one of each that is given. A job fits if one of its runs does."""

    words: tuple[str, ...] = ()
    """Each is somewhere in the row's names, whatever its case."""
    benchmarks: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    statuses: tuple[str, ...] = ()
    branches: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    limits: tuple[tuple[str, str, float], ...] = ()
    """Of runs: one of `NUMBERS`, one of `SIGNS`, and what it is compared with; what is unknown fits none."""
    jobs: tuple[str, ...] = ()
    """Ids."""
    since: datetime.datetime | None = None
    """Of jobs: they began then, or later."""
    selections: bool = True
    """Of jobs: False leaves out those that ran a selection of scenarios, except running ones and the newest."""
    found: tuple[Found, ...] | None = dataclasses.field(default=None, compare=False)
    """Places of the words, if they were looked up already."""


NUMBERS: Mapping[str, str] = {
    "score": "mean_score",
    "cost": "cost_usd",
    "time": "seconds",
    "tokens": "input_tokens + output_tokens",
    "calls": "calls",
    "trials": "trials",
    "passed": "passed",
    "failed": "failed",
    "errors": "error",
}
"""Names by which runs are compared with a number -> SQL."""
SIGNS = ("<=", ">=", "<", ">", "=")
EVERYTHING = Wanted()


@dataclasses.dataclass(frozen=True, slots=True)
class Kind(Generic[Row]):
    """Kind of rows that are listed."""

    table: str
    keys: tuple[str, ...]
    """Columns that make the id of a row, joined by dots."""
    usual: str
    """Column that rows are sorted by, unless another is given."""
    sorts: tuple[str, ...]
    """Columns that they can be sorted by."""
    terms: Mapping[str, str | None]
    """SQL of those that are no columns of the table; None: the id."""
    read: Callable[[HistoryReader, str, Sequence[object]], list[Row]]
    conditions: Callable[[HistoryReader, Wanted], list[Condition]]


class NoPlace(InputError):
    """A page was asked for that begins nowhere in its order."""


class Page(NamedTuple, Generic[Row]):
    """Rows of a page, and the sort key of the last one if there are more."""

    rows: list[Row]
    next: Place | None


def page(
    history: HistoryReader,
    kind: Kind[Row],
    wanted: Wanted = EVERYTHING,
    *,
    sort: str | None = None,
    descending: bool = True,
    limit: int | None = None,
    after: Place | None = None,
    high_scores: Mapping[str, float] | None = None,
) -> Page[Row]:
    """Return a page of rows, unknown values last, then sorted by id. Runs also sort by `high_scores`, by benchmark.

    Raises InputError: there is no such column, or `after` is no sort key of it.
    """
    sort = sort or kind.usual
    if sort not in kind.sorts:
        raise InputError(f"{kind.table} cannot be sorted by {sort!r}; choose one of {', '.join(kind.sorts)}")
    sql, values = _term(kind, sort, high_scores or {})
    after = _checked(after, sql is not None, len(kind.keys))
    conditions = kind.conditions(history, wanted)
    table = _indexed(kind, wanted, sort)
    way, beyond = ("DESC", "<") if descending else ("ASC", ">")
    marks = ", ".join("?" * len(kind.keys))
    keys = ", ".join(kind.keys)
    order = ", ".join(f"{key} {way}" for key in kind.keys)
    found: list[Any] = []

    def read(first: str, extra: Sequence[Condition], order: str) -> None:
        where, wanted = where_all(*conditions, *extra)
        query = f"SELECT {first}, {keys} FROM {table} {where} ORDER BY {order} LIMIT ?"  # noqa: S608
        given = values if first == sql else ()
        again = values if order.startswith(f"{sql} ") else ()
        most = -1 if limit is None else limit + 1 - len(found)
        found.extend(history.select(query, *given, *wanted, *again, most))

    if sql is not None and (after is None or after[0] is not None):
        behind = None if after is None else [*values, *after]
        known = [(f"{sql} IS NOT NULL", values), (f"({sql}, {keys}) {beyond} (?, {marks})", behind)]
        read(sql, known, f"{sql} {way}, {order}")
    if limit is None or len(found) <= limit:
        # Two queries: each finds its beginning in the index, which one with OR does not.
        rest = None if after is None or (sql is not None and after[0] is not None) else after[1:]
        unknown = (f"{sql} IS NULL", None if sql is None else values)
        read("NULL", [unknown, (f"({keys}) {beyond} ({marks})", rest)], order)
    following = found[limit - 1] if limit is not None and len(found) > limit else None
    return Page(_rows(history, kind, [row[1:] for row in found[:limit]]), following)


def each(
    history: HistoryReader,
    kind: Kind[Row],
    wanted: Wanted = EVERYTHING,
    *,
    sort: str | None = None,
    descending: bool = True,
) -> Iterator[Row]:
    """Yield all rows, read page by page."""
    after = None
    while True:
        rows, after = page(history, kind, wanted, sort=sort, descending=descending, limit=_PAGE, after=after)
        yield from rows
        if after is None:
            return


def newest_run(history: HistoryReader, wanted: Wanted) -> list[RunRow]:
    """Return the run that began last, of those that fit; none if none does."""
    return page(history, RUNS, wanted, limit=1).rows


def count_runs(history: HistoryReader, wanted: Wanted) -> tuple[int, int, int]:
    """Count the runs that fit: all, those of completed jobs, and those of jobs that ended otherwise."""
    if (wanted.benchmarks or wanted.agents) and not wanted.statuses:
        # With all statuses named, an index that begins with the status has all that is asked for.
        wanted = dataclasses.replace(wanted, statuses=tuple(JobStatus))
    where, values = where_all(*_of_runs(history, wanted, counted=True))
    query = f"SELECT status, count(*) FROM runs {where} GROUP BY status"  # noqa: S608
    counts = {JobStatus(status): int(count) for status, count in history.select(query, *values)}
    ended = sum(count for status, count in counts.items() if status.ended)
    completed = counts.get(JobStatus.COMPLETED, 0)
    return sum(counts.values()), completed, ended - completed


def count_jobs(history: HistoryReader, wanted: Wanted) -> int:
    """Count the jobs that fit."""
    where, values = where_all(*_of_jobs(history, wanted))
    ((count,),) = history.select(
        f"SELECT count(*) FROM jobs INDEXED BY jobs_listed {where}",  # noqa: S608
        *values,
    )
    return int(count)


def sum_up(history: HistoryReader, jobs: Collection[str] = ()) -> tuple[int, int, int, int]:
    """Count all jobs, runs, trials and benchmarks, or those of some jobs."""
    where, values = where_all(one_of("job", jobs))
    ((runs, trials),) = history.select(f"SELECT count(*), total(trials) FROM runs {where}", *values)  # noqa: S608
    return (
        count_jobs(history, Wanted(jobs=tuple(jobs))),
        int(runs),
        int(trials),
        len(_values(history, "benchmark", jobs, _BATCH)),
    )


def latest_runs(history: HistoryReader, jobs: Collection[str] = ()) -> list[RunRow]:
    """Return the newest run with a score of each benchmark and agent, of all jobs or some.

    One of a selection of scenarios only where there is no other.
    """
    if jobs:
        where, values = where_all(("mean_score IS NOT NULL", ()), one_of("job", jobs))
        query = (
            f"SELECT job, position, max(({_IS_WHOLE}) || started_at) FROM runs {where} "  # noqa: S608
            f"GROUP BY benchmark, agent ORDER BY benchmark, agent LIMIT {_CHOICES}"
        )
        return _rows(history, RUNS, [row[:2] for row in history.select(query, *values)])
    newest = (
        "SELECT job, position FROM runs WHERE benchmark = ? AND agent = ? AND mean_score IS NOT NULL {} "
        "ORDER BY started_at DESC, job DESC, position DESC LIMIT 1"
    )
    whole, any_run = newest.format(f"AND {_IS_WHOLE}"), newest.format("")
    found: list[Any] = []
    for benchmark in history.distinct("benchmark", _CHOICES):
        for agent in history.distinct("agent", _CHOICES - len(found), [("benchmark", benchmark)]):
            found += history.select(whole, benchmark, agent) or history.select(any_run, benchmark, agent)
    return _rows(history, RUNS, found)


def choices(history: HistoryReader, jobs: Collection[str] = ()) -> dict[str, list[str]]:
    """Return the values that runs can be filtered by, the first of many; of all jobs or some."""
    found = {
        name: _values(history, column, jobs, _CHOICES)
        for name, column in (
            ("benchmarks", "benchmark"),
            ("agents", "agent"),
            ("models", "model"),
            ("statuses", "status"),
            ("branches", "branch"),
        )
    }
    tags = {tag for text in _values(history, "tags", jobs, _BATCH) for tag in _tags(text)}
    return {**found, "tags": sorted(tags)[:_CHOICES]}


def _values(history: HistoryReader, column: str, jobs: Collection[str], limit: int) -> list[str]:
    """Return the first values of a column, of all jobs or some."""
    if not jobs:
        return history.distinct(column, limit)
    where, values = where_all((f"{column} IS NOT NULL", ()), one_of("job", jobs))
    query = f"SELECT DISTINCT {column} FROM runs {where} ORDER BY {column} LIMIT ?"  # noqa: S608
    return [value for (value,) in history.select(query, *values, limit)]


class Marks(NamedTuple):
    """Filters of runs, besides the fields of a row."""

    model: str | None
    tags: tuple[str, ...]
    """Of its scenarios."""


def marks(history: HistoryReader, jobs: Collection[str]) -> dict[str, dict[str, Marks]]:
    """Return job -> id of a run -> its marks, of all runs of these jobs, in their order."""
    found: dict[str, dict[str, Marks]] = {}
    ids = list(dict.fromkeys(jobs))
    for first in range(0, len(ids), _BATCH):
        where, values = where_all(one_of("job", ids[first : first + _BATCH]))
        query = f"SELECT job, position, model, tags FROM runs {where} ORDER BY job, position"  # noqa: S608
        for job, position, model, tags in history.select(query, *values):
            found.setdefault(job, {})[f"{job}.{position}"] = Marks(model, _tags(tags))
    return found


def verdicts(history: HistoryReader, jobs: Collection[str]) -> dict[str, str]:
    """Return job -> latest verdict, of the jobs that a gate has judged."""
    if not jobs:
        return {}
    where, values = where_all(one_of("job", jobs), ("expression = ''", ()))
    rows = history.select(f"SELECT job, verdict FROM gates {where} ORDER BY at, id", *values)  # noqa: S608
    return dict(rows)


def selections(history: HistoryReader, jobs: Collection[str]) -> set[str]:
    """Return those of these jobs that ran a selection of scenarios."""
    where, values = where_all(("selection", ()), one_of("id", jobs))
    return {job for (job,) in history.select(f"SELECT id FROM jobs {where}", *values)}  # noqa: S608


def scenario_seen(
    history: HistoryReader, benchmark: str, scenario: str, jobs: Collection[str] = ()
) -> tuple[str, str] | None:
    """Return the times at which a scenario was first and last run, in all jobs or some; None if it never was."""
    if jobs:
        where, values = where_all(
            ("benchmark = ?", [benchmark]), ("scenario = ?", [scenario]), one_of("job", jobs)
        )
        query = f"SELECT min(finished_at), max(finished_at) FROM trials {where}"  # noqa: S608
        ((first, last),) = history.select(query, *values)
        return None if first is None else (first, last)
    query = "SELECT first_seen, last_seen FROM scenarios WHERE benchmark = ? AND scenario = ?"
    return next(iter(history.select(query, benchmark, scenario)), None)


def scenario_results(
    history: HistoryReader,
    benchmark: str,
    scenario: str,
    agent: str | None,
    limit: int,
    jobs: Collection[str] = (),
) -> list[ScenarioRow]:
    """Return the results of a scenario that was actually run, the newest first, in all jobs or some."""
    where, values = where_all(
        ("benchmark = ?", [benchmark]),
        ("scenario = ?", [scenario]),
        one_of("job", jobs),
        ("agent = ?", None if agent is None else [agent]),
        ("trials.reused IS NULL", ()),
    )
    query = (
        "SELECT trials.id, job, jobs.name, node_id, agent, attempt, outcome, score, seconds, trials.cost_usd, "  # noqa: S608
        f'comparable, trials.finished_at, branch, "commit" FROM trials JOIN jobs ON jobs.id = job {where} '
        "ORDER BY trials.finished_at DESC, trials.id DESC LIMIT ?"
    )
    return [ScenarioRow._make(row) for row in history.select(query, *values, limit)]


def _term(
    kind: Kind[Any], sort: str, high_scores: Mapping[str, float]
) -> tuple[str | None, Sequence[object]]:
    """Return the SQL that rows are sorted by, None: by their id, and its values."""
    if sort not in ("high_score", "delta"):
        return kind.terms.get(sort, column_of(sort)), ()
    if not high_scores:
        return "NULL", ()
    cases = " ".join("WHEN ? THEN ?" for _ in high_scores)
    values = [value for pair in high_scores.items() for value in pair]
    high = f"CASE benchmark {cases} END"
    return (high if sort == "high_score" else f"mean_score - {high}"), values


def _indexed(kind: Kind[Any], wanted: Wanted, sort: str) -> str:
    """Return the table to read. One index of jobs has what any order and filter needs, but for times and statuses."""
    plain = Wanted(since=wanted.since, statuses=wanted.statuses, selections=wanted.selections)
    if kind.table != "jobs" or (sort == kind.usual and wanted == plain):
        return kind.table
    return "jobs INDEXED BY jobs_listed"


def _checked(after: Place | None, sorted_: bool, keys: int) -> Place | None:
    """Check the shape of a sort key, which comes from outside. Raises InputError: it is none."""
    if after is None:
        return None
    sound = len(after) == keys + 1 and all(
        value is None or isinstance(value, str | int | float) for value in after
    )
    if not sound or None in after[1:] or not (sorted_ or after[0] is None):
        raise NoPlace("`after` is not the place of a row in this order; begin at the first page")
    return after


def _of_runs(history: HistoryReader, wanted: Wanted, *, counted: bool = False) -> list[Condition]:
    """Return the filters of runs, to be counted all, or read in an order up to a limit."""
    return [
        one_of("job", wanted.jobs),
        *_filters(history, wanted, counted=counted),
        one_of("status", wanted.statuses),
        one_of("branch", wanted.branches),
        *map(in_runs, _words(history, wanted)),
    ]


def _of_jobs(history: HistoryReader, wanted: Wanted) -> list[Condition]:
    conditions = [
        ("created_at >= ?", None if wanted.since is None else [as_text(wanted.since)]),
        (f"NOT ({_EARLIER_SELECTION})", None if wanted.selections else []),
        one_of("id", wanted.jobs),
        one_of("status", wanted.statuses),
        one_of("branch", wanted.branches),
    ]
    filters = _filters(history, wanted, counted=True)
    if any(values for _, values in filters):
        where, values = where_all(*filters)
        conditions.append((f"id IN (SELECT job FROM runs {where})", values))  # noqa: S608
    return [*conditions, *map(in_jobs, _words(history, wanted))]


def _words(history: HistoryReader, wanted: Wanted) -> Iterable[Found]:
    if wanted.found is not None:
        return wanted.found
    return [look_up(history, word) for word in wanted.words]


def _filters(history: HistoryReader, wanted: Wanted, *, counted: bool) -> list[Condition]:
    """Return the filters of what only runs have."""
    return [
        one_of("benchmark", wanted.benchmarks),
        one_of("agent", wanted.agents),
        one_of("model", wanted.models),
        _tagged(history, wanted.tags, counted=counted),
        *((f"{NUMBERS[name]} {sign} ?", [limit]) for name, sign, limit in wanted.limits),
    ]


def _tagged(history: HistoryReader, tags: Sequence[str], *, counted: bool) -> Condition:
    """Return the condition that a run has one of these tags; none without tags. Lists of tags are few."""
    if not tags:
        return "", None
    lists = history.distinct("tags", _BATCH)
    if len(lists) < _BATCH:
        having = [text for text in lists if not set(tags).isdisjoint(_tags(text))]
        # Of many runs, those of a page are found sooner in its order than by the index of tags.
        sign = "" if counted or len(having) * OFTEN <= len(lists) else "+"
        return f"{sign}tags IN (SELECT value FROM json_each(?))", [json.dumps(having)]  # noqa: S608
    # A quoted tag, as JSON has it, is no part of another one.
    quoted = [json.dumps(tag, ensure_ascii=False) for tag in tags]
    return f"({' OR '.join('instr(tags, ?)' for _ in quoted)})", quoted


def _tags(text: str) -> tuple[str, ...]:
    return tuple(sorted(tag for tag in json.loads(text) if isinstance(tag, str)))


def _rows(history: HistoryReader, kind: Kind[Row], keys: Sequence[Sequence[Any]]) -> list[Row]:
    """Return the rows with these keys, in their order, without those that were removed meanwhile."""
    rows: dict[str, Any] = {}
    wanted = ", ".join(f"wanted.column{number}" for number in range(1, len(kind.keys) + 1))
    for first in range(0, len(keys), _BATCH):
        batch = keys[first : first + _BATCH]
        marks = ", ".join([f"({', '.join('?' * len(kind.keys))})"] * len(batch))
        # Each row is looked up; `IN (VALUES ...)` would read all of them.
        source = (
            f"(VALUES {marks}) AS wanted CROSS JOIN {kind.table} ON ({', '.join(kind.keys)}) = ({wanted})"
        )
        values = [value for key in batch for value in key]
        rows |= {row.id: row for row in kind.read(history, source, values)}
    ids = (".".join(map(str, key)) for key in keys)
    return [rows[row_id] for row_id in ids if row_id in rows]


JOBS: Kind[JobRow] = Kind(
    "jobs",
    ("id",),
    "created_at",
    (
        "id", "name", "status", "created_at", "finished_at", "planned", "trials", "passed", "failed", "error",
        "cancelled", "skipped", "reused", "mean_score", "cost_usd", "branch", "commit", "verdict", "benchmarks",
    ),
    {
        "id": None,
        "verdict": "(SELECT verdict FROM gates WHERE gates.job = jobs.id AND expression = '' "
        "ORDER BY at DESC, gates.id DESC LIMIT 1)",
        "benchmarks": "(SELECT benchmark FROM runs WHERE runs.job = jobs.id ORDER BY position LIMIT 1)",
    },
    HistoryReader.job_rows,
    _of_jobs,
)  # fmt: skip
RUNS: Kind[RunRow] = Kind(
    "runs",
    ("job", "position"),
    "started_at",
    (
        *(field.serialization_alias or name for name, field in RunRow.model_fields.items()),
        "total_tokens",
        "high_score",
        "delta",
    ),
    {"id": None, "job": None, "total_tokens": "input_tokens + output_tokens"},
    HistoryReader.run_rows,
    _of_runs,
)
