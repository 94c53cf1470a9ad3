"""Results over time: of one scenario, and mean scores of benchmarks by commit or day."""

from __future__ import annotations

import dataclasses
import datetime
import itertools
from collections.abc import Collection, Sequence
from typing import Literal

from ..analysis.sides import Cell, side
from ..analysis.statistics.intervals import Interval, clopper_pearson
from ..analysis.statistics.inversion import mean_interval
from ..analysis.trials import grouped
from ..model.numbers import mean
from ..model.result import Outcome
from ..report.documents import mirror
from ..report.documents.viewer import (
    AgentHistory,
    RecentScore,
    ScenarioResult,
    TrendPoint,
    ViewerScenario,
    ViewerTrend,
)
from ..store.listing import RUNS, Wanted, latest_runs, page, scenario_results, scenario_seen, selections
from ..store.reader import ENDED, HistoryReader
from ..store.rows import RunRow, ScenarioRow
from .query import Query, Refused, as_cursor
from .results import Results

SCENARIO = ("benchmark", "scenario", "agent", "after", "limit")
TREND = ("benchmark", "agent", "by", "branch", "limit")
_PAGE, _MOST = 200, 1000
_LOOKED_AT = 20_000
"""Newest results of a scenario that its figures are made of."""
_RUNS = 2000
"""Newest runs that a trend is made of."""
_LINES, _RECENT = 60, 10
"""Latest scores with a chart, and runs in it."""
_TRIALS = 5000
"""Trials that are looked at for the intervals of all charts."""


def scenario(results: Results, history: HistoryReader, query: Query) -> ViewerScenario:  # noqa: ARG001  no files
    """Return the results of a scenario, the newest first, and figures of each agent over all of them."""
    benchmark, name = query.needed("benchmark"), query.needed("scenario")
    limit = query.number("limit", _PAGE, 1, _MOST)
    return scenario_document(history, benchmark, name, query.text("agent"), query.place(), limit)


def scenario_document(
    history: HistoryReader,
    benchmark: str,
    name: str,
    agent: str | None = None,
    after: Sequence[object] | None = None,
    limit: int = _PAGE,
    jobs: Collection[str] = (),
) -> ViewerScenario:
    """Return the same for an open history, and all jobs or some. `after` is the place of the last result before."""
    seen = scenario_seen(history, benchmark, name, jobs)
    every = scenario_results(history, benchmark, name, None, _LOOKED_AT, jobs)
    rows = every
    if agent is not None:
        rows = scenario_results(history, benchmark, name, agent, _LOOKED_AT, jobs)
    if seen is None and not every:
        raise Refused(404, "there is no result of such a scenario")
    changed = _changes(rows)
    place = _place(after)
    beyond = [row for row in rows if place is None or (row.finished_at, row.number) < place]
    page = beyond[:limit]
    last = page[-1] if len(beyond) > limit else None
    return ViewerScenario(
        benchmark=benchmark,
        scenario=name,
        first_seen=None if seen is None else datetime.datetime.fromisoformat(seen[0]),
        last_seen=None if seen is None else datetime.datetime.fromisoformat(seen[1]),
        agents=tuple(
            _agent(label, own) for label, own in sorted(grouped(every, lambda row: row.agent).items())
        ),
        next=None if last is None else as_cursor((last.finished_at, last.number)),
        results=tuple(mirror(ScenarioResult, row, changed=row.number in changed) for row in page),
    )


def trend(results: Results, history: HistoryReader, query: Query) -> ViewerTrend:  # noqa: ARG001  no files
    """Return mean scores over time, by commit or day."""
    by: Literal["commit", "day"] = (
        "day" if query.choice("by", "commit", ("commit", "day")) == "day" else "commit"
    )
    branch = query.text("branch")
    wanted = Wanted(
        benchmarks=query.texts("benchmark"),
        agents=query.texts("agent"),
        branches=() if branch is None else (branch,),
    )
    return trend_document(history, wanted, by, query.number("limit", _PAGE, 1, _MOST))


def trend_document(
    history: HistoryReader, wanted: Wanted, by: Literal["commit", "day"], limit: int = _PAGE
) -> ViewerTrend:
    """Return the same for an open history; `limit` counts points."""
    groups: dict[tuple[str, str, str], list[RunRow]] = {}
    found = page(history, RUNS, dataclasses.replace(wanted, statuses=ENDED), limit=_RUNS).rows
    selected = selections(history, [run.job for run in found])
    for run in found:
        key = run.commit if by == "commit" else f"{run.started_at:%Y-%m-%d}" if run.started_at else None
        if key is not None:
            of = (key, run.benchmark, run.agent)
            if of in groups or len(groups) < limit:
                groups.setdefault(of, []).append(run)
    points = []
    for (key, _, _), runs in groups.items():
        whole = [run for run in runs if run.job not in selected]
        points.append(_point(history, key, whole or runs, selection=not whole))
    return ViewerTrend(by=by, points=tuple(sorted(points, key=lambda point: (point.at, point.key))))


def recent(history: HistoryReader, jobs: Collection[str] = ()) -> dict[str, tuple[RecentScore, ...]]:
    """Return newest run of a benchmark and agent -> their last runs, the oldest first; of all jobs or some."""
    found: dict[str, tuple[RecentScore, ...]] = {}
    trials = 0
    for latest in latest_runs(history, jobs)[:_LINES]:
        wanted = Wanted(benchmarks=(latest.benchmark,), agents=(latest.agent,), jobs=tuple(jobs))
        runs = [run for run in page(history, RUNS, wanted, limit=_RECENT).rows if run.mean_score is not None]
        selected = selections(history, [run.job for run in runs])
        points = []
        for run in runs:
            trials += run.ended
            interval = _pooled(history, run.id, [run])[1] if trials <= _TRIALS else None
            low, high = (None, None) if interval is None else (interval.low, interval.high)
            points.append(mirror(RecentScore, run, low=low, high=high, selection=run.job in selected))
        found[latest.id] = tuple(reversed(points))
    return found


def _pooled(history: HistoryReader, key: str, runs: Sequence[RunRow]) -> tuple[list[Cell], Interval | None]:
    """Return the scenarios of runs of one benchmark and agent, and the interval of their mean score."""
    pooled = side(key, [(run.job, history.paired_rows(run.job, run=run.id)) for run in runs])
    cells = list(pooled.cells.values())
    scored = [cell for cell in cells if cell.scores]
    clusters = [cell.cluster or cell.scenario for cell in scored]
    return cells, mean_interval([cell.mean or 0.0 for cell in scored], clusters=clusters)


def _point(history: HistoryReader, key: str, runs: Sequence[RunRow], *, selection: bool) -> TrendPoint:
    """Pool runs of one benchmark and agent, the newest first."""
    cells, interval = _pooled(history, key, runs)
    scored = [cell for cell in cells if cell.scores]
    means = [cell.mean or 0.0 for cell in scored]
    passed = sum(cell.passed for cell in scored)
    attempts = sum(len(cell.scores) for cell in scored)
    newest = runs[0]
    return TrendPoint(
        key=key,
        at=newest.started_at or datetime.datetime.fromtimestamp(0, datetime.UTC),
        benchmark=newest.benchmark,
        agent=newest.agent,
        jobs=tuple(dict.fromkeys(run.job for run in runs)),
        scenarios=len(scored),
        attempts=attempts,
        mean=mean(means) if means else None,
        low=None if interval is None else interval.low,
        high=None if interval is None else interval.high,
        passed=passed,
        failed=attempts - passed,
        errors=sum(cell.errors for cell in cells),
        known=sum(cell.known is not None for cell in cells),
        selection=selection,
    )


def _agent(label: str, rows: Sequence[ScenarioRow]) -> AgentHistory:
    """Return the figures of an agent; `rows` are its results, the newest first."""
    outcomes = [row.outcome for row in rows]
    passed, failed = outcomes.count(Outcome.PASSED), outcomes.count(Outcome.FAILED)
    scores = [row.score for row in rows if row.score is not None]
    graded = [row for row in reversed(rows) if row.outcome in (Outcome.PASSED, Outcome.FAILED)]
    by_content = grouped(graded, lambda row: row.comparable)
    flips = sum(
        one.outcome != other.outcome
        for same in by_content.values()
        for one, other in itertools.pairwise(same)
    )
    low, high = clopper_pearson(passed, passed + failed)
    return AgentHistory(
        agent=label,
        attempts=len(rows),
        passed=passed,
        failed=failed,
        errors=outcomes.count(Outcome.ERROR),
        pass_rate=passed / (passed + failed) if graded else None,
        low=low if graded else None,
        high=high if graded else None,
        mean_score=mean(scores) if scores else None,
        flips=flips,
        flaky=flips > 0,
        contents=len({row.comparable for row in rows if row.comparable is not None}),
    )


def _changes(rows: Sequence[ScenarioRow]) -> set[int]:
    """Return the numbers of results whose content is not that of the result of the agent before."""
    changed = set()
    content: dict[str, str] = {}
    for row in reversed(rows):
        if row.comparable is not None:
            if content.get(row.agent, row.comparable) != row.comparable:
                changed.add(row.number)
            content[row.agent] = row.comparable
    return changed


def _place(after: Sequence[object] | None) -> tuple[str, int] | None:
    """Return the place of a result."""
    if after is None:
        return None
    match list(after):
        case [str(at), int(number)]:
            return at, number
    raise Refused(400, "after is not what `next` of a page was")
