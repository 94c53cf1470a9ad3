"""One side of a comparison: the known results of each scenario, from one or several jobs, or a file."""

from __future__ import annotations

import collections
import dataclasses
import functools
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from ..model.job import JobRecord, JobStatus
from ..model.known_failure import KnownMode
from ..model.metric import Metric
from ..model.numbers import mean
from ..model.result import Outcome
from ..model.scenario import GradeIn
from ..store.rows import NOT_NEEDED, PairRow, metrics_of, tags_of
from ..store.text import one_line
from ..system.garbage import gc_paused

Key = tuple[str, str, str]
"""Benchmark, scenario, label of the agent."""
QUARANTINE = KnownMode.QUARANTINE.value
_GRADED = frozenset((Outcome.PASSED.value, Outcome.FAILED.value))
_PASSED = Outcome.PASSED.value
_NO_ATTEMPT = frozenset((Outcome.SKIPPED.value, Outcome.CANCELLED.value))
UNKNOWN = "unknown"
PLACES = {
    GradeIn.FRESH.value: "in a fresh container",
    GradeIn.AGENT_CONTAINER.value: "in the agent's container",
    UNKNOWN: "in an unknown place, by an earlier version",
}
"""Places of grading, in words."""
_PLACE_OF = {place: (place,) for place in PLACES} | {NOT_NEEDED: ()}


class Series(NamedTuple):
    """Values of a metric at a scenario."""

    name: str
    unit: str | None
    direction: str
    """Direction of better values: `higher` or `lower`."""
    values: tuple[float, ...]


class Cell(NamedTuple):
    """All attempts of an agent at a scenario. A tuple, as there may be thousands of cells."""

    benchmark: str
    scenario: str
    agent: str
    scores: tuple[float, ...] = ()
    """Scores of the attempts that passed or failed."""
    passed: int = 0
    """Number of attempts in `scores` that passed."""
    errors: int = 0
    """Number of attempts that ended in an error. They have no score."""
    seconds: tuple[float, ...] = ()
    """Times of the attempts in `scores`; costs and tokens likewise, as far as known."""
    costs: tuple[float, ...] = ()
    """USD."""
    tokens: tuple[int, ...] = ()
    """Input and output."""
    comparable: str | None = None
    """Digest of everything that makes the task, which must be the same on both sides; None: unknown."""
    mixed: bool = False
    """True if attempts were of different tasks; only those of the latest are kept."""
    tags: tuple[str, ...] = ()
    cluster: str | None = None
    known: str | None = None
    """Mode of the known failure, from the latest attempt."""
    threshold: float = 1.0
    """Score from which an attempt passes, unless its agent crashed or ran into a limit."""
    metrics: tuple[Series, ...] = ()
    """Metrics of scorers in the attempts in `scores`, as far as known."""
    graded_in: tuple[str, ...] = (UNKNOWN,)
    """Keys of `PLACES`, sorted: where the attempts in `scores` were graded, as far as programs of scorers ran."""
    reused: tuple[str, ...] = ()
    """Jobs that attempts were reused from, sorted."""
    file: str | None = None
    """Manifest, or task directory, of the latest attempt's node id; None: unknown."""

    def metric(self, name: str) -> Series | None:
        """Return the values of a metric; None without any."""
        return next((one for one in self.metrics if one.name == name), None)

    @property
    def key(self) -> Key:
        """Benchmark, scenario and agent."""
        return self.benchmark, self.scenario, self.agent

    @property
    def pass_rate(self) -> float:
        """Share of the scores that passed. Needs at least one score."""
        return self.passed / len(self.scores)

    @property
    def mean(self) -> float | None:
        """Mean of the scores; None without any."""
        return mean(self.scores) if self.scores else None


_CELL: Callable[[Iterable[object]], Cell] = functools.partial(tuple.__new__, Cell)
"""`Cell._make` without its length check."""


@dataclasses.dataclass(frozen=True, slots=True)
class Side:
    """One side of a comparison."""

    name: str
    """The spec as given."""
    jobs: tuple[str, ...]
    """Ids of the jobs, the newest first; empty for a file."""
    cells: Mapping[Key, Cell]
    ran_on: frozenset[str] = frozenset()
    """`JobConfig.ran_on` of the jobs; empty: unknown."""

    @property
    def agents(self) -> tuple[str, ...]:
        """Labels of agents, in the order they first appear."""
        return tuple(dict.fromkeys(map(operator.itemgetter(2), self.cells)))


def doubled(rows: Iterable[PairRow]) -> list[str]:
    """Return names shared by two different tasks of a job, as `benchmark/scenario`."""
    met: dict[tuple[str, str, str, int], str | None] = {}
    twice: dict[str, None] = {}
    for row in rows:
        if (key := row[:4]) not in met:
            met[key] = row.comparable
        elif None not in (row.comparable, met[key]) and row.comparable != met[key]:
            twice[f"{row.benchmark}/{row.scenario}"] = None
    return list(twice)


def gone_of(record: JobRecord, results: int) -> str | None:
    """Return a phrase for how many of a job's results are gone, given how many are left; None if none is gone."""
    # A rebuilt history counts only what is left; a completed job had all planned trials.
    planned = record.planned if record.status is JobStatus.COMPLETED else None
    had = max(record.totals.trials, planned or 0)
    return f"{had - results} of its {had} results are gone" if results < had else None


def cut_short(record: JobRecord, results: int) -> str | None:
    """Return a phrase for a job that ended early or still runs; None if all planned trials have a result."""
    if record.status is JobStatus.COMPLETED or record.planned is None or results >= record.planned:
        return None
    what = "did not complete" if record.status.ended else "has not ended"
    return f"it {what}: {record.status.value}, with {results} of {record.planned} results"


def two_tasks(names: Sequence[str]) -> str:
    """Return a phrase for a job in which two different tasks share a name."""
    more = f", as {len(names) - 1} more" if len(names) > 1 else ""
    return f"two different tasks in it are called {one_line(names[0], 200)}{more}"


def side(
    name: str, jobs: Iterable[tuple[str, Iterable[PairRow]]], records: Iterable[JobRecord | None] = ()
) -> Side:
    """Pool the trials of jobs, the newest first.

    A reused result is left out where the job it came from is pooled as well: it is not a new sample. Attempts at a
    scenario whose content differs from the newest one's are left out too. `records` are those of the jobs.
    """
    with gc_paused():
        found = _side(name, jobs)
    return dataclasses.replace(
        found, ran_on=frozenset(one.config.ran_on for one in records if one is not None)
    )


def _side(name: str, jobs: Iterable[tuple[str, Iterable[PairRow]]]) -> Side:
    listed = [(job, list(rows)) for job, rows in jobs]
    pooled = {job for job, _ in listed}
    found: dict[Key, list[PairRow]] = collections.defaultdict(list)
    not_run: dict[Key, str | None] = {}
    for _, rows in listed:
        for row in rows:
            if row.reused is not None and row.reused in pooled:
                continue
            attempts = found[key := row[:3]]
            if row.outcome not in _NO_ATTEMPT:
                attempts.append(row)
            else:
                not_run.setdefault(key, row.known)
    cells = {
        key: _only(rows[0])
        if len(rows) == 1
        else _cell(key, rows)
        if rows
        else Cell(*key, known=not_run.get(key))
        for key, rows in found.items()
    }
    return Side(name, tuple(job for job, _ in listed), cells)


def _cell(key: Key, rows: Sequence[PairRow]) -> Cell:
    """Make the cell of one scenario from all its attempts, the newest first."""
    comparable = next((row.comparable for row in rows if row.comparable is not None), None)
    kept = [row for row in rows if row.comparable is None or row.comparable == comparable]
    scores: list[float] = []
    seconds: list[float] = []
    costs: list[float] = []
    tokens: list[int] = []
    metrics: list[str | None] = []
    places: set[str] = set()
    passed = 0
    for row in kept:
        if row.outcome not in _GRADED:
            continue
        # An agent that failed before grading gets a score of 0.
        scores.append(row.score or 0.0)
        passed += row.outcome == _PASSED
        metrics.append(row.metrics)
        places.update(_place(row.graded_in))
        if row.reused is not None:
            continue
        seconds.append(row.seconds)
        if row.rescored is not None:
            continue
        if row.cost_usd is not None:
            costs.append(row.cost_usd)
        if row.input_tokens is not None and row.output_tokens is not None:
            tokens.append(row.input_tokens + row.output_tokens)
    first = kept[0] if kept else None
    return Cell(
        *key,
        scores=tuple(scores),
        passed=passed,
        errors=len(kept) - len(scores),
        seconds=tuple(seconds),
        costs=tuple(costs),
        tokens=tuple(tokens),
        comparable=comparable,
        mixed=len(kept) < len(rows),
        tags=() if first is None else tags_of(first.tags),
        cluster=first.cluster if first is not None else None,
        known=first.known if first is not None else None,
        threshold=first.threshold if first is not None else 1.0,
        metrics=_series(metrics),
        graded_in=tuple(sorted(places)),
        reused=tuple(sorted({row.reused for row in kept if row.reused is not None})),
        file=_file(first.node_id) if first is not None else None,
    )


def _only(row: PairRow) -> Cell:
    """Make the cell of a single attempt, the usual case."""
    (
        benchmark, scenario, agent, _, outcome, score, _, seconds, cost, into, out, comparable, reused, rescored,
        known, tags, cluster, threshold, metrics, graded_in, node_id,
    ) = row  # fmt: skip
    graded = outcome in _GRADED
    ran = graded and reused is None
    worked = ran and rescored is None
    return _CELL(
        (
            benchmark,
            scenario,
            agent,
            (score or 0.0,) if graded else (),
            1 if outcome == _PASSED else 0,
            0 if graded else 1,
            (seconds,) if ran else (),
            (cost,) if worked and cost is not None else (),
            (into + out,) if worked and into is not None and out is not None else (),
            comparable,
            False,
            tags_of(tags) if tags else (),
            cluster,
            known,
            threshold,
            _series((metrics,)) if graded and metrics is not None else (),
            _place(graded_in) if graded else (),
            () if reused is None else (reused,),
            _file(node_id),
        )
    )


def _file(node_id: str | None) -> str | None:
    return node_id and node_id.partition("::")[0]


def _place(graded_in: str | None) -> tuple[str, ...]:
    return _PLACE_OF.get(graded_in or UNKNOWN, (UNKNOWN,))


def _series(texts: Iterable[str | None]) -> tuple[Series, ...]:
    """Return the values of each metric, with the unit and direction of the newest."""
    found: dict[str, tuple[Metric, list[float]]] = {}
    for text in texts:
        for metric in metrics_of(text):
            found.setdefault(metric.name, (metric, []))[1].append(metric.value)
    return tuple(
        Series(name, newest.unit, newest.direction, tuple(values)) for name, (newest, values) in found.items()
    )
