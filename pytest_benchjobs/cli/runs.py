"""`runs`: list runs, one for each benchmark and agent of a job. Exit status 0 whatever the results are."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..report.table import Column, tabulate, width
from ..report.units import cost, counted, duration, mean_text
from ..store.text import one_line
from ._dead_jobs import dead_jobs, warn_of_dead
from ._directory import directory_option
from ._job_tables import did_you_mean, errors_cell, parse_statuses, read_page, status_cell
from ._output import emit, output_option

if TYPE_CHECKING:
    from ..report.documents.jobs import RunItem
    from ..store.reader import HistoryReader

_SORT_ALIASES = {
    "run": "id",
    "run_id": "id",
    "score": "mean_score",
    "cost": "cost_usd",
    "time": "seconds",
    "median": "median_seconds",
    "started": "started_at",
    "finished": "finished_at",
    "errors": "error",
    "version": "benchmark_version",
}


@click.command()
@click.argument("of", default=None, required=False, metavar="[JOB]")
@click.option(
    "--sort",
    default="agent",
    show_default=True,
    metavar="COLUMN",
    help="Column to sort by: agent, score, cost, ...",
)
@click.option("--desc", is_flag=True, help="Sort in descending order.")
@click.option("--limit", type=click.IntRange(min=1), default=200, show_default=True, help="At most N runs.")
@click.option("--job", help="The same as JOB.")
@click.option("--benchmark", help="Runs of this benchmark.")
@click.option("--agent", help="Runs of this agent, as it is listed.")
@click.option("--status", multiple=True, metavar="A,B", help="Runs with one of these statuses.")
@directory_option
@output_option
def runs(
    of: str | None,
    sort: str,
    desc: bool,
    limit: int,
    job: str | None,
    benchmark: str | None,
    agent: str | None,
    status: tuple[str, ...],
    directory: Path,
    output: str,
) -> None:
    """List runs: one benchmark and one agent in one job.

    Of every job, or of JOB: an id, the beginning of one, a name, or last.
    """
    if of is not None and job is not None:
        raise click.UsageError("JOB and --job cannot both be given")
    job = of or job
    from ..report.documents.jobs import RunItem, RunsDocument

    column, statuses = _sort_column(sort), parse_statuses(status)

    def page(history: HistoryReader) -> list[Any]:
        from ..store.results import find_job

        return history.run_page(
            sort=column,
            descending=desc,
            limit=limit + 1,
            job=None if job is None else find_job(history, job),
            benchmark=benchmark,
            agent=agent,
            statuses=statuses,
        )

    rows = read_page(directory, page)
    items = tuple(RunItem.model_validate(row, from_attributes=True) for row in rows[:limit])
    dead = dead_jobs(directory, ((run.job, run.status) for run in items))
    items = tuple(run.model_copy(update={"dead": run.job in dead}) for run in items)
    emit(RunsDocument(runs=items), lambda: _run_lines(items), output)
    warn_of_dead(dict.fromkeys(run.job for run in items if run.dead))
    if not items and agent is not None:
        labels = sorted(
            {row.agent for row in read_page(directory, lambda history: history.run_page(limit=1000))}
        )
        there = f"; there are {', '.join(labels[:10])}" if labels else ""
        click.echo(one_line(f"no runs of agent {agent!r}{did_you_mean(agent, labels)}{there}"), err=True)
    if len(rows) > limit:
        click.echo(f"there are more than {limit} runs; --limit shows more", err=True)


def _sort_column(name: str) -> str:
    from ..report.documents.jobs import RunItem

    wanted = name.lower().removesuffix(",run_id").removesuffix(",id")  # the id is the second key anyway
    column = _SORT_ALIASES.get(wanted, wanted)
    if column not in RunItem.model_fields:
        known = [
            *RunItem.model_fields,
            *(alias for alias in _SORT_ALIASES if alias not in RunItem.model_fields),
        ]
        raise click.ClickException(
            f"there is no column {name!r}{did_you_mean(name, known)}; there are {', '.join(known)}"
        )
    return column


def _run_lines(items: tuple[RunItem, ...]) -> Iterator[str]:
    if not items:
        yield "No benchmark runs found"
        return
    score = Column("SCORE", number=True)
    shown = [
        (Column("RUN"), lambda run: run.id),
        (Column("BENCHMARK", least=8), lambda run: run.benchmark),
        (Column("AGENT", least=12), lambda run: run.agent),
        (Column("STATUS"), status_cell),
        (Column("PASSED", number=True), lambda run: f"{run.passed}/{run.trials}"),
        (Column("ERRORS", number=True, spare=True), errors_cell),
        (score, lambda run: "N/A" if run.mean_score is None else mean_text(run.mean_score)),
        (Column("REUSED", number=True, spare=True, rare=True), lambda run: str(run.reused)),
        (Column("COST", number=True, spare=True), lambda run: cost(run.cost_usd)),
        (Column("TIME", number=True, spare=True), lambda run: duration(run.seconds)),
        (
            Column("MEDIAN", number=True, spare=True),
            lambda run: "-" if run.median_seconds is None else duration(run.median_seconds),
        ),
    ]
    yield from tabulate(items, width(), shown)
    yield counted(len(items), "run")
