"""`gc`, `recover`, `rm` and `db`: remove left-overs and jobs, close dead jobs, and rebuild the history."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import click

from ..job.dead_jobs import Kind
from ..job.dead_jobs import recover as recover_all
from ..job.remove import hindrance, remove
from ..model.errors import EngineUnavailable, InfrastructureError, InputError
from ..model.job import JobRecord
from ..model.owner import current_owner
from ..report.documents import mirror
from ..report.documents.changes import CollectedDocument, RebuiltDocument, SweptEngine
from ..report.documents.jobs import RecoverDocument, RecoveredJob, RemovedDocument, RemovedJob
from ..report.units import counted
from ..sandbox.protocol import Kept
from ..sandbox.providers import all_providers, by_keeper, keeper_of
from ..store.bundle import JobBundle
from ..store.history import History
from ..store.index import rebuild as rebuild_history
from ..store.layout import Layout
from ..store.liveness import STALE_SECONDS, is_dead
from ..store.results import find_job, has_results
from ..system.units import size
from ._directory import directory_option
from ._output import confirm, emit, output_option, say, yes_option

_DAY = 86_400.0
_DETACHED_LOGS = "pytest*.log"


@click.command()
@click.option("--kept", "all_kept", is_flag=True, help="Also remove kept file systems of trials (--keep).")
@click.option(
    "--older-than",
    type=click.FloatRange(min=0),
    metavar="DAYS",
    help="Only kept file systems older than DAYS; also logs of detached jobs that ended before then.",
)
@yes_option
@directory_option
@output_option("gc")
def gc(*, all_kept: bool, older_than: float | None, yes: bool, directory: Path, output: str) -> None:
    """Remove what dead processes left behind, and what is no longer needed.

    That is: containers and networks of dead processes of this machine; the network of public trials, and agents that an
    engine elsewhere was given a week ago, if no container uses them; unfinished trials of dead jobs; kept file systems
    of deleted jobs, with --kept those of all jobs in DIR. Running jobs are not touched. Finished trials are kept and
    indexed.
    """
    if all_kept:
        age = "" if older_than is None else f" older than {older_than:g} days"
        confirm(f"Remove all kept file systems{age} of jobs in {directory}?", yes=yes)
    engine = _in_engine(lambda kept: _unneeded(kept, directory, all_kept=all_kept, older_than=older_than))
    here = Layout(directory).jobs.is_dir()
    if not here:
        say(f"no jobs in {directory}", err=True)
    logs = _remove_logs(directory, older_than) if here and older_than is not None else 0
    done = recover_jobs(directory, STALE_SECONDS)
    document = mirror(CollectedDocument, done, engine=engine, logs=logs)

    def lines() -> Iterator[str]:
        if engine is not None:
            yield f"removed {engine.containers_and_networks} containers and networks"
            if engine.kept:
                yield f"removed {counted(engine.kept, 'kept file system')}, {size(engine.bytes)}"
        if here:
            if older_than is not None:
                yield f"removed {counted(logs, 'log of a detached job', 'logs of detached jobs')}"
            yield from _recovered_lines(done)

    emit(document, lines, output)
    for problem in done.problems:
        say(problem, err=True)


def _in_engine(unneeded: Callable[[list[Kept]], list[Kept]]) -> SweptEngine | None:
    """Remove containers, networks and images; None, after a message: no engine answers."""
    swept, wanted, removed = 0, list[Kept](), list[Kept]()
    answered = True
    with all_providers(current_owner()) as providers:
        for provider in providers:
            try:
                swept += provider.sweep(shared=True)
                found = unneeded(provider.kept())
            except EngineUnavailable as error:
                say(f"containers were not checked: {error}", err=True)
                answered = False
                continue
            wanted += found
            removed += (one for one in found if provider.forget_kept(one.reference))
    if not answered:
        return None
    busy = len(wanted) - len(removed)
    if busy:
        say(f"{counted(busy, 'kept file system')} cannot be removed now", err=True)
    freed = sum(one.bytes for one in removed)
    return SweptEngine(containers_and_networks=swept, kept=len(removed), bytes=freed, busy=busy)


def _unneeded(kept: list[Kept], directory: Path, *, all_kept: bool, older_than: float | None) -> list[Kept]:
    """Return the kept file systems to remove. `kept` was listed before the jobs are read, so none is of a later job."""
    records = list(_records(directory))
    live = {record.id for record in records if _lives(directory, record)}
    # A rescore needs the kept file systems of the job it grades again.
    needed = live | {record.parent for record in records if record.id in live}
    children = {record.parent for record in records}
    newest = time.time() - (older_than or 0.0) * _DAY
    bundles = Layout(directory.resolve()).jobs

    def can_go(one: Kept) -> bool:
        here = Layout(directory).job(one.job).root.is_dir()
        was = one.bundle != "" and Path(one.bundle).parent == bundles
        if one.job in needed or not (here or was):
            return False
        deleted = not here and one.job not in children
        return deleted or (all_kept and one.created.timestamp() <= newest)

    return [one for one in kept if can_go(one)]


def _remove_logs(directory: Path, days: float) -> int:
    """Remove the logs of detached jobs that have ended; return how many."""
    removed = 0
    live = {record.id for record in _records(directory) if _lives(directory, record)}
    for path in Layout(directory).jobs.glob(f"*/{_DETACHED_LOGS}"):
        with contextlib.suppress(OSError):
            if path.parent.name not in live and path.stat().st_mtime <= time.time() - days * _DAY:
                path.unlink()
                removed += 1
    return removed


def _records(directory: Path) -> Iterator[JobRecord]:
    for bundle in JobBundle.all(directory):
        with contextlib.suppress(InputError):
            yield bundle.read()


def _lives(directory: Path, record: JobRecord) -> bool:
    return not (record.status.ended or is_dead(JobBundle(directory, record.id).root, record))


@click.command()
@click.option(
    "--stale-seconds",
    type=click.FloatRange(min=0),
    default=300.0,
    show_default=True,
    metavar="SECONDS",
    help="Jobs of other machines count as dead after so long without a heartbeat.",
)
@directory_option
@output_option("recover")
def recover(stale_seconds: float, directory: Path, output: str) -> None:
    """Close jobs whose process died. Each start of a job does it too.

    A process of this machine is known to live or not, whatever the age of its heartbeat. Finished trials are kept and
    indexed; `benchjobs resume` runs the rest.
    """
    document = recover_jobs(directory, stale_seconds)
    emit(document, lambda: _recovered_lines(document), output)
    for problem in document.problems:
        say(problem, err=True)


def _recovered_lines(document: RecoverDocument) -> Iterator[str]:
    yield from (job.message for job in (*document.recovered, *document.repaired))
    yield f"recovered {counted(len(document.recovered), 'job')}"


def recover_jobs(directory: Path, stale_seconds: float) -> RecoverDocument:
    """Close jobs whose process died, and write their reports."""
    if not Layout(directory).jobs.is_dir():
        return RecoverDocument(recovered=(), repaired=(), problems=())
    with History.of(directory) as history:
        done = recover_all(directory, history, stale_seconds)

    def of(*kinds: Kind) -> tuple[RecoveredJob, ...]:
        return tuple(RecoveredJob(job=one.job, message=one.message) for one in done if one.kind in kinds)

    return RecoverDocument(
        recovered=of(Kind.CLOSED),
        repaired=of(Kind.FINISHED, Kind.FORGOTTEN),
        problems=tuple(one.message for one in done if one.kind is Kind.FAILED),
    )


@click.command()
@click.argument("jobs", nargs=-1, required=True, metavar="JOB...")
@click.option("--force", is_flag=True, help="Also remove jobs that a baseline or other jobs need.")
@yes_option
@directory_option
@output_option("rm")
def rm(*, jobs: tuple[str, ...], force: bool, yes: bool, directory: Path, output: str) -> None:
    """Remove each JOB (an id, the beginning of one, a name, or last) with its results, logs and kept file systems.

    A running job is never removed, and only with --force one that a baseline is made of, or whose results other jobs
    have reused. Nothing is removed unless all jobs can be. On a terminal it asks first.
    """
    if not has_results(directory):
        raise InputError(f"there are no results in {directory}")
    with History.of(directory) as history:
        ids = list(dict.fromkeys(find_job(history, text) for text in jobs))
        for job_id in ids if not force else ():
            if (why := hindrance(history, job_id, ids)) is not None:
                raise InputError(f"job {job_id} is needed: {why}. --force removes it all the same")
        confirm(f"Remove {counted(len(ids), 'job')}, with results and logs: {', '.join(ids)}?", yes=yes)
        removed = [remove(directory, history, job_id) for job_id in ids]
    document = RemovedDocument(
        jobs=tuple(mirror(RemovedJob, one) for one in removed),
        kept=_forget(reference for one in removed for reference in one.kept),
    )
    lines = [f"removed job {one.job}: {counted(one.trials, 'trial')}, {size(one.bytes)}" for one in removed]
    if document.kept:
        lines.append(f"removed {counted(document.kept, 'kept file system')}")
    emit(document, lambda: lines, output)


def _forget(references: Iterable[str]) -> int:
    """Remove kept file systems from the engine; return how many. Report where no engine answers."""
    forgotten = 0
    for wanted in by_keeper(references):
        with keeper_of(wanted[0], current_owner()) as provider:
            try:
                if provider is not None:
                    provider.check()
                    forgotten += sum(map(provider.forget_kept, wanted))
            except InfrastructureError as error:
                say(f"kept file systems are still there, `benchjobs gc` removes them: {error}", err=True)
    return forgotten


@click.group(no_args_is_help=False)
def db() -> None:
    """Look after the history, which is an index of the job bundles."""


@db.command()
@directory_option
@output_option("db")
def rebuild(directory: Path, output: str) -> None:
    """Rebuild the history from the bundles. Running jobs lose nothing."""
    if not Layout(directory).jobs.is_dir():
        raise InputError(f"there are no jobs in {directory}; choose another --dir")
    jobs, trials, warnings = rebuild_history(directory)
    for warning in warnings:
        say(f"warning: {warning}", err=True)
    document = RebuiltDocument(jobs=jobs, trials=trials, warnings=tuple(map(str, warnings)))
    emit(document, lambda: [f"indexed {counted(jobs, 'job')} with {counted(trials, 'trial')}"], output)
