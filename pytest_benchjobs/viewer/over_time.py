"""Results over time: of one scenario, and mean scores of benchmarks by commit or day."""

from __future__ import annotations

import dataclasses
import datetime
import itertools
from collections.abc import Collection, Iterable, Sequence
from typing import Literal

from ..analysis.sides import Cell, side
from ..analysis.statistics import clopper_pearson, mean_interval
from ..analysis.trials import grouped
from ..model.result import Outcome
from ..report.documents import mirror
from ..report.documents.viewer import AgentHistory, ScenarioResult, TrendPoint, ViewerScenario, ViewerTrend
from ..store.listing import RUNS, Wanted, page, scenario_results, scenario_seen
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


def scenario(results: Results, query: Query) -> ViewerScenario:
    """Return the results of a scenario, the newest first, and figures of each agent over all of them."""
    benchmark, name = query.needed("benchmark"), query.needed("scenario")
    after = query.place()
    limit = query.number("limit", _PAGE, 1, _MOST)
    with results.open() as history:
        return scenario_document(history, benchmark, name, query.text("agent"), after, limit)


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


def trend(results: Results, query: Query) -> ViewerTrend:
    """Return mean scores over time, by commit or day."""
    by: Literal["commit", "day"] = (
        "day" if query.choice("by", "commit", ("commit", "day")) == "day" else "commit"
    )
    branch = query.text("branch")
    with results.open() as history:
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
    for run in page(history, RUNS, dataclasses.replace(wanted, statuses=ENDED), limit=_RUNS).rows:
        key = run.commit if by == "commit" else f"{run.started_at:%Y-%m-%d}" if run.started_at else None
        if key is not None:
            of = (key, run.benchmark, run.agent)
            if of in groups or len(groups) < limit:
                groups.setdefault(of, []).append(run)
    points = [_point(history, key, runs) for (key, _, _), runs in groups.items()]
    return ViewerTrend(by=by, points=tuple(sorted(points, key=lambda point: (point.at, point.key))))


def _point(history: HistoryReader, key: str, runs: Sequence[RunRow]) -> TrendPoint:
    """Pool runs of one benchmark and agent, the newest first."""
    pooled = side(key, [(run.job, history.paired_rows(run.job, run=run.id)) for run in runs])
    cells: Iterable[Cell] = pooled.cells.values()
    scored = [cell for cell in cells if cell.scores]
    means = [cell.mean or 0.0 for cell in scored]
    clusters = [cell.cluster or cell.scenario for cell in scored]
    interval = mean_interval(means, clusters=clusters)
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
        mean=sum(means) / len(means) if means else None,
        low=None if interval is None else interval.low,
        high=None if interval is None else interval.high,
        passed=passed,
        failed=attempts - passed,
        errors=sum(cell.errors for cell in pooled.cells.values()),
        known=sum(cell.known is not None for cell in pooled.cells.values()),
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
        mean_score=sum(scores) / len(scores) if scores else None,
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
