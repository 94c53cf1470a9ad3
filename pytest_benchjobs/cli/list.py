"""`list`, `runs` and `summary`: what is known of jobs. Whatever the results are, reading them ends with status 0."""

from __future__ import annotations

import datetime
import difflib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ._output import directory_option, emit, output_option, say
from ._table import Cell, Column, render, width

if TYPE_CHECKING:
    from ..report.documents.reading import JobItem, RunItem
    from ..store.reader import HistoryReader

_STATUS_COLOURS = {
    "completed": "green",
    "running": "blue",
    "failed": "red",
    "cancelled": "yellow",
    "timeout": "yellow",
    "budget": "yellow",
}
_GOING_ON = frozenset({"initializing", "queued", "running"})
_NAME = 60
"""Of the name of a job so many characters are shown; JSON and YAML have all of it."""
_EVER_DAYS = 36_500
_SORT_ALIASES = {
    "run": "id",
    "run_id": "id",
    "score": "mean_score",
    "cost": "cost_usd",
    "time": "seconds",
    "started": "started_at",
    "finished": "finished_at",
    "errors": "error",
    "version": "benchmark_version",
}


@click.command("list")
@click.option(
    "--days", type=click.IntRange(min=1), default=1, show_default=True, help="Jobs of the last N days."
)
@click.option("--all", "everything", is_flag=True, help="Jobs of all time.")
@click.option("--status", multiple=True, metavar="A,B", help="Jobs with one of these statuses.")
@click.option("--limit", type=click.IntRange(min=1), help="At most so many: the newest.")
@directory_option
@output_option
def list_(
    days: int, everything: bool, status: tuple[str, ...], limit: int | None, directory: Path, output: str
) -> None:
    """List jobs, the oldest first."""
    from ..report.documents.reading import JobItem, ListDocument

    statuses = _statuses(status)
    now = datetime.datetime.now(datetime.UTC)
    since = None if everything or days > _EVER_DAYS else now - datetime.timedelta(days=days)
    rows = _read(
        directory,
        lambda history: history.job_page(
            since=since, statuses=statuses, limit=-1 if limit is None else limit
        ),
    )
    jobs = tuple(JobItem.model_validate(row, from_attributes=True) for row in reversed(rows))
    dead = _dead(directory, {job.id for job in jobs if job.status in _GOING_ON})
    jobs = tuple(job.model_copy(update={"dead": job.id in dead}) for job in jobs)
    emit(ListDocument(jobs=jobs), lambda: _job_lines(jobs, now), output)
    _tell_dead(job.id for job in jobs if job.dead)


@click.command()
@click.option(
    "--sort", default="agent", show_default=True, metavar="COLUMN", help="By agent, score, cost, ..."
)
@click.option("--desc", is_flag=True, help="The greatest first.")
@click.option("--limit", type=click.IntRange(min=1), default=200, show_default=True, help="At most so many.")
@click.option("--job", help="Runs of this job: an id, the beginning of one, a name, or last.")
@click.option("--benchmark", help="Runs of this benchmark.")
@click.option("--agent", help="Runs of this agent, as it is listed.")
@click.option("--status", multiple=True, metavar="A,B", help="Runs with one of these statuses.")
@directory_option
@output_option
def runs(
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
    """List runs: one benchmark and one agent in one job."""
    from ..report.documents.reading import RunItem, RunsDocument
    from ..store.text import one_line

    column, statuses = _sort_column(sort), _statuses(status)

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

    rows = _read(directory, page)
    items = tuple(RunItem.model_validate(row, from_attributes=True) for row in rows[:limit])
    dead = _dead(directory, {run.job for run in items if run.status in _GOING_ON})
    items = tuple(run.model_copy(update={"dead": run.job in dead}) for run in items)
    emit(RunsDocument(runs=items), lambda: _run_lines(items), output)
    _tell_dead(dict.fromkeys(run.job for run in items if run.dead))
    if not items and agent is not None:
        labels = sorted({row.agent for row in _read(directory, lambda history: history.run_page(limit=1000))})
        there = f"; there are {', '.join(labels[:10])}" if labels else ""
        click.echo(one_line(f"no runs of agent {agent!r}{_meant(agent, labels)}{there}"), err=True)
    if len(rows) > limit:
        click.echo(f"there are more than {limit} runs; --limit shows more", err=True)


@click.command()
@click.argument("job", default="last")
@click.option("-e", "--extended", is_flag=True, help="Every scenario as well.")
@click.option("--limit", type=click.IntRange(min=1), help="With -e: at most so many scenarios.")
@click.option(
    "--config", is_flag=True, help="The effective configuration as well. JSON and YAML always have it."
)
@directory_option
@output_option
def summary(job: str, extended: bool, limit: int | None, config: bool, directory: Path, output: str) -> None:
    """Show the results of JOB: an id, the beginning of one, a name, or last. While it runs, how far it is."""
    from ..report.overview import summary_document
    from ..store.reader import HistoryReader
    from ..store.results import find_job
    from ._summary_text import summary_lines

    with HistoryReader.of(directory) as history:
        job_id = find_job(history, job)
        document = summary_document(directory, history, job_id, extended=extended, limit=limit)
    emit(document, lambda: summary_lines(document, width(), config=config), output)
    _tell_dead([job_id] if document.dead else [])


def ago(then: datetime.datetime, now: datetime.datetime) -> str:
    """`just now`, `5m ago`, `3h ago`, `2d ago`, `Mar 4`, `Mar 4 2024`; local dates."""
    seconds = (now - then).total_seconds()
    if seconds < 60:
        return "just now"
    for size, letter, most in ((60, "m", 60), (3600, "h", 24), (86_400, "d", 7)):
        if seconds < size * most:
            return f"{int(seconds // size)}{letter} ago"
    local, today = then.astimezone(), now.astimezone()
    return f"{local:%b} {local.day}" + ("" if local.year == today.year else f" {local.year}")


def _dead(directory: Path, job_ids: set[str]) -> set[str]:
    if not job_ids:
        return job_ids
    from ..report.overview import died

    return {job_id for job_id in job_ids if died(directory, job_id)}


def _tell_dead(job_ids: Iterable[str]) -> None:
    """Say which jobs only seem to go on. Closing them is for `recover`."""
    for job_id in job_ids:
        click.echo(
            f"job {job_id} runs no more, its process died: `benchjobs resume {job_id}` finishes it, "
            "`benchjobs recover` closes it",
            err=True,
        )


def _status(item: JobItem | RunItem) -> Cell:
    return Cell("died", "red") if item.dead else Cell(item.status, _STATUS_COLOURS.get(item.status))


def _read(directory: Path, page: Callable[[HistoryReader], list[Any]]) -> list[Any]:
    """Ask the history; where there are no jobs either, it is empty."""
    from ..store.reader import HistoryReader
    from ..store.results import has_results, refuse_without_jobs

    if not has_results(directory):
        say(f"there are no results in {directory}", err=True)
        return []
    with HistoryReader.of(directory) as history:
        rows = page(history)
        if not rows:
            refuse_without_jobs(history)
        return rows


def _statuses(given: tuple[str, ...]) -> list[str]:
    from ..model.job import JobStatus

    found = []
    for word in ",".join(given).split(",") if given else ():
        name = word.strip().lower()
        name = "cancelled" if name == "canceled" else name
        if name not in set(JobStatus):
            raise click.ClickException(
                f"invalid status {word.strip()!r}{_meant(name, JobStatus)}; valid are {', '.join(JobStatus)}"
            )
        found.append(name)
    return found


def _sort_column(name: str) -> str:
    from ..report.documents.reading import RunItem

    wanted = name.lower().removesuffix(",run_id").removesuffix(",id")  # the second key it is anyway
    column = _SORT_ALIASES.get(wanted, wanted)
    if column not in RunItem.model_fields:
        known = [
            *RunItem.model_fields,
            *(alias for alias in _SORT_ALIASES if alias not in RunItem.model_fields),
        ]
        raise click.ClickException(
            f"there is no column {name!r}{_meant(name, known)}; there are {', '.join(known)}"
        )
    return column


def _meant(word: str, known: Any) -> str:
    close = difflib.get_close_matches(word, list(known), n=1)
    return f" (did you mean {close[0]}?)" if close else ""


def _job_lines(jobs: tuple[JobItem, ...], now: datetime.datetime) -> Iterator[str]:
    from ..report.summary import percent

    if not jobs:
        yield "No benchmark jobs found"
        return
    columns = [
        Column("ID"),
        Column("NAME", least=8, most=_NAME),
        Column("STARTED"),
        Column("STATUS"),
        Column("DONE", number=True),
        Column("REUSED", number=True, spare=True),
        Column("ERRORS", number=True),
        Column("SCORE", number=True),
    ]
    rows: list[list[str | Cell]] = [
        [
            job.id,
            job.name or "-",
            ago(job.created_at, now),
            _status(job),
            f"{job.trials}/{'?' if job.planned is None else job.planned}",
            str(job.reused),
            Cell(str(job.error), "red" if job.error else None),
            "N/A"
            if job.mean_score is None
            else Cell(percent(job.mean_score), "green" if job.mean_score >= 0.5 else None),
        ]
        for job in jobs
    ]
    if not any(job.reused for job in jobs):
        columns, rows = _without(columns, rows, "REUSED")
    yield from render(columns, rows, width())
    yield f"{len(jobs)} {'job' if len(jobs) == 1 else 'jobs'}"


def _run_lines(items: tuple[RunItem, ...]) -> Iterator[str]:
    from ..report.console import duration
    from ..report.summary import percent

    if not items:
        yield "No benchmark runs found"
        return
    columns = [
        Column("RUN"),
        Column("BENCHMARK", least=8),
        Column("AGENT", least=12),
        Column("STATUS"),
        Column("PASSED", number=True),
        Column("ERRORS", number=True, spare=True),
        Column("SCORE", number=True),
        Column("REUSED", number=True, spare=True),
        Column("COST", number=True, spare=True),
        Column("TIME", number=True, spare=True),
    ]
    rows: list[list[str | Cell]] = [
        [
            run.id,
            run.benchmark,
            run.agent,
            _status(run),
            f"{run.passed}/{run.trials}",
            Cell(str(run.error), "red" if run.error else None),
            "N/A" if run.mean_score is None else percent(run.mean_score),
            str(run.reused),
            cost(run.cost_usd),
            duration(run.seconds),
        ]
        for run in items
    ]
    if not any(run.reused for run in items):
        columns, rows = _without(columns, rows, "REUSED")
    yield from render(columns, rows, width())
    yield f"{len(items)} {'run' if len(items) == 1 else 'runs'}"


def cost(usd: float | None, *, more: bool = False) -> str:
    """`$1.20`, `$0.0031`; `-` where it is unknown. `more`: a part is unknown, `$1.20+`."""
    if usd is None:
        return "-"
    return f"${usd:.2f}{'+' if more else ''}" if usd >= 0.1 or not usd else f"${usd:.4f}{'+' if more else ''}"


def _without(
    columns: list[Column], rows: list[list[str | Cell]], title: str
) -> tuple[list[Column], list[list[str | Cell]]]:
    index = next(i for i, column in enumerate(columns) if column.title == title)
    return columns[:index] + columns[index + 1 :], [row[:index] + row[index + 1 :] for row in rows]
