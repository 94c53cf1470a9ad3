"""Lists of jobs and runs, with what is shown above them."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Iterable
from importlib import metadata
from typing import Any

from ..analysis.summary import is_synthetic
from ..report.documents import mirror
from ..report.documents.viewer import (
    LatestScore,
    ViewerBaseline,
    ViewerChoices,
    ViewerColumns,
    ViewerJobItem,
    ViewerJobs,
    ViewerMeta,
    ViewerOverview,
    ViewerRun,
    ViewerRuns,
)
from ..report.overview import died
from ..store import listing
from ..store.listing import Kind, Page, Row, Wanted
from ..store.reader import ENDED, HistoryReader
from ..store.rows import JobRow, RunRow
from ..store.searching import look_up
from ..store.text import clean
from . import over_time
from .query import FILTERS, PAGING, Query, as_cursor
from .results import Results, job_of

RUNS = (*FILTERS, *PAGING, "job")
JOBS = (*FILTERS, *PAGING)
OVERVIEW = (*FILTERS, "job")
LIMIT = 500
_PAGE = 50


def runs(results: Results, history: HistoryReader, query: Query) -> ViewerRuns:
    """Return a page of runs."""
    wanted = _wanted(results, history, query)
    page = _page(results, history, query, listing.RUNS, wanted)
    return ViewerRuns(
        total=len(page.rows)
        if _alone(page, query)
        else results.known(history, listing.count_runs, wanted)[0],
        next=as_cursor(page.next),
        runs=tuple(run_items(results, history, page.rows)),
    )


def jobs(results: Results, history: HistoryReader, query: Query) -> ViewerJobs:
    """Return a page of jobs."""
    wanted = _wanted(results, history, query)
    page = _page(results, history, query, listing.JOBS, wanted)
    return ViewerJobs(
        total=len(page.rows) if _alone(page, query) else results.known(history, listing.count_jobs, wanted),
        next=as_cursor(page.next),
        jobs=tuple(job_items(results, history, page.rows)),
    )


def _page(
    results: Results, history: HistoryReader, query: Query, kind: Kind[Row], wanted: Wanted
) -> Page[Row]:
    return listing.page(
        history,
        kind,
        wanted,
        sort=query.choice("sort", kind.usual, kind.sorts),
        descending=query.descending("desc"),
        limit=query.number("limit", _PAGE, 1, LIMIT),
        after=query.place(),
        high_scores=results.shares,
    )


def _alone(page: Page[Any], query: Query) -> bool:
    """Return True if this is the only page. A search that finds few, or nothing, need not look at all again."""
    return query.place() is None and page.next is None


def overview(results: Results, history: HistoryReader, query: Query) -> ViewerOverview:
    """Return totals over all runs, and the latest scores."""
    return overview_document(results, history, _wanted(results, history, query))


def _wanted(results: Results, history: HistoryReader, query: Query) -> Wanted:
    """Return the filter of a request, with its words looked up: several documents ask for the same ones."""
    job = query.text("job")
    wanted = query.wanted(None if job is None else job_of(history, job))
    found = tuple(results.known(history, look_up, word) for word in wanted.words)
    return dataclasses.replace(wanted, found=found)


def overview_document(
    results: Results, history: HistoryReader, wanted: Wanted, jobs: tuple[str, ...] = ()
) -> ViewerOverview:
    """Return the same for a filter; with `jobs`, over these alone, as if there were no others."""
    total, runs, trials, benchmarks = results.known(history, listing.sum_up, jobs)
    filtered, succeeded, failed = results.known(history, listing.count_runs, wanted)
    newest = results.known(history, listing.newest_run, wanted)
    latest = list(_latest_scores(results, history, jobs))
    return ViewerOverview(
        jobs=total,
        runs=runs,
        trials=trials,
        benchmarks=benchmarks,
        filtered=filtered,
        succeeded=succeeded,
        failed=failed,
        latest=next(iter(run_items(results, history, newest)), None),
        latest_scores=tuple(one for one in latest if not is_synthetic(one.agent)),
        synthetic=tuple(one for one in latest if is_synthetic(one.agent)),
        baselines=() if jobs else tuple(mirror(ViewerBaseline, entry) for entry in history.baselines()),
    )


def meta(
    results: Results,
    history: HistoryReader,
    *,
    jobs: tuple[str, ...] = (),
    generated_at: datetime.datetime | None = None,
    cut: Iterable[str] = (),
) -> ViewerMeta:
    """Return what these results are, and what lists can be filtered and sorted by.

    An export is of some jobs, and has the time it was made.
    """
    return ViewerMeta(
        version=metadata.version("pytest-benchjobs"),
        directory=clean(results.directory.name or str(results.directory), 300),
        live=generated_at is None,
        generated_at=generated_at,
        choices=ViewerChoices.model_validate(results.known(history, listing.choices, jobs)),
        columns=ViewerColumns(runs=listing.RUNS.sorts, jobs=listing.JOBS.sorts),
        high_scores=bool(results.high_scores),
        cut=tuple(cut),
    )


def run_items(results: Results, history: HistoryReader, rows: list[RunRow]) -> Iterable[ViewerRun]:
    """Yield runs with the high scores of their benchmarks, and their tags."""
    dead: dict[str, bool] = {}
    marked = listing.marks(history, [row.job for row in rows])
    for row in rows:
        high, delta = results.to_high(row.benchmark, row.mean_score)
        mark = marked.get(row.job, {}).get(row.id)
        yield mirror(
            ViewerRun,
            row,
            total_tokens=row.tokens,
            high_score=high,
            delta=delta,
            tags=() if mark is None else mark.tags,
            dead=_is_dead(results, row.job, row.status, dead),
        )


def job_items(results: Results, history: HistoryReader, rows: list[JobRow]) -> Iterable[ViewerJobItem]:
    """Yield jobs with their verdicts, models and tags."""
    ids = [row.id for row in rows]
    judged, marked = listing.verdicts(history, ids), listing.marks(history, ids)
    for row in rows:
        own = marked.get(row.id, {}).values()
        yield mirror(
            ViewerJobItem,
            row,
            verdict=judged.get(row.id),
            models=tuple(dict.fromkeys(one.model for one in own if one.model is not None)),
            tags=tuple(sorted({tag for one in own for tag in one.tags})),
            dead=_is_dead(results, row.id, row.status, {}),
        )


def _latest_scores(results: Results, history: HistoryReader, jobs: tuple[str, ...]) -> Iterable[LatestScore]:
    dead: dict[str, bool] = {}
    charts = results.known(history, over_time.recent, jobs)
    for row in results.known(history, listing.latest_runs, jobs):
        high, delta = results.to_high(row.benchmark, row.mean_score)
        yield mirror(
            LatestScore,
            row,
            high_score=high,
            delta=delta,
            recent=charts.get(row.id, ()),
            dead=_is_dead(results, row.job, row.status, dead),
        )


def _is_dead(results: Results, job_id: str, status: str, known: dict[str, bool]) -> bool:
    if status in ENDED:
        return False
    if job_id not in known:
        known[job_id] = died(results.directory, job_id)
    return known[job_id]
