"""`list`: list jobs. Exit status 0 whatever their results are."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..report.table import Cell, Column, tabulate, width
from ..report.units import ago, counted, mean_text
from ._dead_jobs import dead_jobs, warn_of_dead
from ._directory import directory_option
from ._job_tables import errors_cell, parse_statuses, read_page, status_cell
from ._output import emit, output_option

if TYPE_CHECKING:
    from ..report.documents.jobs import JobItem, ListDocument
    from ..store.reader import HistoryReader
    from ..store.rows import JobRow

_NAME = 60
"""Characters shown of a job's name; JSON and YAML have the whole name."""
_SHOWN = 3
"""Agents and benchmarks shown of a job."""
_EVER_DAYS = 36_500


@click.command("list")
@click.option(
    "--days", type=click.IntRange(min=1), default=1, show_default=True, help="Jobs of the last N days."
)
@click.option("--all", "everything", is_flag=True, help="Jobs of all time.")
@click.option("--status", multiple=True, metavar="A,B", help="Jobs with one of these statuses.")
@click.option("--limit", type=click.IntRange(min=1), help="Only the newest N jobs.")
@click.option(
    "--selections",
    is_flag=True,
    help="Also all jobs that ran a selection of scenarios (-k, -m, --lf, ids) and have no name; else only the newest.",
)
@directory_option
@output_option
def list_(
    days: int,
    everything: bool,
    status: tuple[str, ...],
    limit: int | None,
    selections: bool,
    directory: Path,
    output: str,
) -> None:
    """List jobs, the oldest first."""
    from ..report.documents.jobs import JobItem, ListDocument

    statuses = parse_statuses(status)
    now = datetime.datetime.now(datetime.UTC)
    since = None if everything or days > _EVER_DAYS else now - datetime.timedelta(days=days)
    left_out = 0

    def page(history: HistoryReader) -> list[JobRow]:
        nonlocal left_out
        left_out = 0 if selections else history.earlier_selections(since=since, statuses=statuses)
        return history.job_page(
            since=since, statuses=statuses, selections=selections, limit=-1 if limit is None else limit
        )

    rows = read_page(directory, page)
    jobs = tuple(JobItem.model_validate(row, from_attributes=True) for row in reversed(rows))
    dead = dead_jobs(directory, ((job.id, job.status) for job in jobs))
    jobs = tuple(job.model_copy(update={"dead": job.id in dead}) for job in jobs)
    document = ListDocument(jobs=jobs, earlier_selections=left_out)
    emit(document, lambda: _job_lines(document, now), output)
    warn_of_dead(job.id for job in jobs if job.dead)


def _job_lines(document: ListDocument, now: datetime.datetime) -> Iterator[str]:
    jobs = document.jobs
    if not jobs:
        yield "No benchmark jobs found"
        return
    shown = [
        (Column("ID"), lambda job: job.id),
        (
            Column("NAME", least=6, most=_NAME),
            lambda job: job.name or ("(selection)" if job.selection else "-"),
        ),
        (Column("STARTED", spare=True), lambda job: ago(job.created_at, now)),
        (Column("STATUS"), status_cell),
        (Column("BENCHMARK", least=9, most=_NAME, spare=True), lambda job: _several(job.benchmarks)),
        (Column("AGENT", least=12, most=_NAME), lambda job: _several(job.agents)),
        (
            Column("DONE", number=True),
            lambda job: f"{job.trials}/{'?' if job.planned is None else job.planned}",
        ),
        (Column("REUSED", number=True, spare=True, rare=True), lambda job: str(job.reused)),
        (Column("ERRORS", number=True), errors_cell),
        (Column("SCORE", number=True), _score),
    ]
    yield from tabulate(jobs, width(), shown)
    yield counted(len(jobs), "job")
    if document.earlier_selections:
        more = counted(document.earlier_selections, "earlier job")
        yield f"not listed: {more} of a selection of scenarios (-k, -m, --lf, ids); --selections lists them"


def _several(names: tuple[str, ...]) -> str:
    more = f" +{len(names) - _SHOWN}" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more if names else "-"


def _score(job: JobItem) -> str | Cell:
    """Format the mean score of each agent, in their order; a mean over agents is of no use."""
    if len(job.agents) < 2:
        if job.mean_score is None:
            return "N/A"
        # Say how many trials have a score where others were skipped.
        scored = f" of {job.passed + job.failed}" if job.skipped else ""
        return Cell(f"{mean_text(job.mean_score)}{scored}", "green" if job.mean_score >= 0.5 else None)
    shown = [job.scores.get(agent) for agent in job.agents[:_SHOWN]]
    return " / ".join("N/A" if score is None else mean_text(score) for score in shown)
