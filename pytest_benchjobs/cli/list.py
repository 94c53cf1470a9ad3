"""`list` and `runs`: list jobs, or their runs. Exit status 0 whatever the results are."""

from __future__ import annotations

import dataclasses
import datetime
import difflib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click

from ..model.errors import InputError
from ..model.job import JobStatus
from ..report.documents.jobs import JobItem, ListDocument, RunItem, RunsDocument
from ..report.table import Cell, Column, count_cell, tabulate, width
from ..report.units import ago, cost, counted, duration, mean_text
from ..store.listing import JOBS, RUNS, Wanted, count_jobs
from ..store.listing import page as read
from ..store.reader import HistoryReader
from ..store.results import find_job, has_results, refuse_without_jobs
from ..store.rows import JobRow
from ..store.text import one_line
from ._dead_jobs import dead_jobs, warn_of_dead
from ._directory import directory_option
from ._output import emit, output_option, say

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
@output_option("list")
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
    statuses = parse_statuses(status)
    now = datetime.datetime.now(datetime.UTC)
    since = None if everything or days > _EVER_DAYS else now - datetime.timedelta(days=days)
    left_out = 0

    def page(history: HistoryReader) -> list[JobRow]:
        nonlocal left_out
        every = Wanted(since=since, statuses=tuple(statuses))
        wanted = dataclasses.replace(every, selections=selections)
        left_out = 0 if selections else count_jobs(history, every) - count_jobs(history, wanted)
        return read(history, JOBS, wanted, limit=limit).rows

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
            lambda job: f"{job.ended}/{'?' if job.planned is None else job.planned}",
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
    """Format the mean score of each agent, in their order. A mean over agents would say nothing."""
    if len(job.agents) < 2:
        if job.mean_score is None:
            return "N/A"
        # Say how many trials have a score where others were skipped.
        scored = f" of {job.passed + job.failed}" if job.skipped else ""
        return Cell(f"{mean_text(job.mean_score)}{scored}", "green" if job.mean_score >= 0.5 else None)
    shown = [job.scores.get(agent) for agent in job.agents[:_SHOWN]]
    return " / ".join("N/A" if score is None else mean_text(score) for score in shown)


_STATUS_COLOURS = {
    "completed": "green",
    "running": "blue",
    "failed": "red",
    "cancelled": "yellow",
    "timeout": "yellow",
    "budget": "yellow",
    "paused": "yellow",
}


def read_page(directory: Path, page: Callable[[HistoryReader], list[Any]]) -> list[Any]:
    """Return rows of the history; where there are no results, none, and a message on stderr."""
    if not has_results(directory):
        say(f"there are no results in {directory}", err=True)
        return []
    with HistoryReader.of(directory) as history:
        rows = page(history)
        if not rows:
            refuse_without_jobs(history)
        return rows


def parse_statuses(given: tuple[str, ...]) -> list[str]:
    """Return the statuses of `--status`, whose values may be lists with commas."""
    found = []
    for word in ",".join(given).split(",") if given else ():
        name = word.strip().lower()
        name = "cancelled" if name == "canceled" else name
        if name not in set(JobStatus):
            raise InputError(
                f"invalid status {word.strip()!r}{did_you_mean(name, JobStatus)}; valid are {', '.join(JobStatus)}"
            )
        found.append(name)
    return found


def status_cell(item: JobItem | RunItem) -> Cell:
    """Return the status in its colour."""
    return Cell("died", "red") if item.dead else Cell(item.status, _STATUS_COLOURS.get(item.status))


def errors_cell(item: JobItem | RunItem) -> Cell:
    """Return the number of errors, in red where there are any."""
    return count_cell(item.error, "red")


def did_you_mean(word: str, known: Any) -> str:
    """Return ` (did you mean NAME?)`, or nothing when no known name is like the word."""
    close = difflib.get_close_matches(word, list(known), n=1)
    return f" (did you mean {close[0]}?)" if close else ""


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
@output_option("runs")
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
    column, statuses = _sort_column(sort), parse_statuses(status)

    def page(history: HistoryReader) -> list[Any]:
        wanted = Wanted(
            jobs=() if job is None else (find_job(history, job),),
            benchmarks=() if benchmark is None else (benchmark,),
            agents=() if agent is None else (agent,),
            statuses=tuple(statuses),
        )
        return read(history, RUNS, wanted, sort=column, descending=desc, limit=limit + 1).rows

    rows = read_page(directory, page)
    items = tuple(RunItem.model_validate(row, from_attributes=True) for row in rows[:limit])
    dead = dead_jobs(directory, ((run.job, run.status) for run in items))
    items = tuple(run.model_copy(update={"dead": run.job in dead}) for run in items)
    emit(RunsDocument(runs=items), lambda: _run_lines(items), output)
    warn_of_dead(dict.fromkeys(run.job for run in items if run.dead))
    if not items and agent is not None:
        labels = sorted(set(read_page(directory, lambda history: history.distinct("agent", 1000))))
        there = f"; there are {', '.join(labels[:10])}" if labels else ""
        click.echo(one_line(f"no runs of agent {agent!r}{did_you_mean(agent, labels)}{there}"), err=True)
    if len(rows) > limit:
        click.echo(f"there are more than {limit} runs; --limit shows more", err=True)


def _sort_column(name: str) -> str:
    wanted = name.lower().removesuffix(",run_id").removesuffix(",id")  # the id is the second key anyway
    column = _SORT_ALIASES.get(wanted, wanted)
    columns = [field.serialization_alias or name for name, field in RunItem.model_fields.items()]
    if column not in columns:
        known = [*columns, *(alias for alias in _SORT_ALIASES if alias not in columns)]
        raise InputError(
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
        (Column("PASSED", number=True), lambda run: f"{run.passed}/{run.ended}"),
        (Column("ERRORS", number=True, spare=True), errors_cell),
        (score, lambda run: "N/A" if run.mean_score is None else mean_text(run.mean_score)),
        (Column("REUSED", number=True, spare=True, rare=True), lambda run: str(run.reused)),
        (Column("COST", number=True, spare=True), lambda run: cost(run.cost_usd)),
        (Column("TIME", number=True, spare=True), lambda run: duration(run.seconds)),
        (Column("MEDIAN", number=True, spare=True), lambda run: duration(run.median_seconds)),
    ]
    yield from tabulate(items, width(), shown)
    yield counted(len(items), "run")
