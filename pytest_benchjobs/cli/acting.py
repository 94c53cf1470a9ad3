"""`cancel` and `recover`: jobs of other processes, alive and dead."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..store.layout import Layout
from .common import directory_option, emit, output_option, say
from .units import counted

if TYPE_CHECKING:
    from ..model.job import JobRecord
    from ..report.documents.acting import CancelDocument, RecoverDocument
    from ..store.bundle import JobBundle

_POLL = 0.2
# Collecting a large benchmark takes seconds; only then is there anybody who listens.
_BEGINNING = 30.0
# A process of another machine that gave no sign of life for so long will not answer a request either.
_SILENCE = 60.0
_ABOUT = re.compile(r"job (\S+) (.+)", re.DOTALL)
_NOT_RECOVERED = "could not be recovered"


@click.command()
@click.argument("job")
@click.option("--no-wait", is_flag=True, help="Do not wait until it has ended.")
@click.option(
    "--timeout",
    type=click.FloatRange(min=0),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait.",
)
@directory_option
@output_option
def cancel(job: str, no_wait: bool, timeout: float, directory: Path, output: str) -> int:
    """Stop JOB: an id, the beginning of one, a name, or last. What has ended is kept.

    Trials in flight are stopped and count as not run; `benchjobs resume` runs them. Exit status 1 when the job is still
    there after the timeout.
    """
    from ..report.documents.acting import CancelDocument
    from ..store.find import find_bundle
    from ..store.history import FILE, History

    with History.open_readonly(directory / FILE) as history:
        bundle = find_bundle(history, job)
        row = history.job_row(bundle.id)
    before = bundle.read()
    if before.status.ended and row is not None and row.status != before.status.value:
        _index_again(directory, bundle)  # whoever cancelled it before was killed in the middle of it
    after = before if before.status.ended else _cancelled(directory, bundle, 0.0 if no_wait else timeout)
    document = CancelDocument(
        job=after.id,
        name=after.name,
        status=after.status,
        changed=not before.status.ended,
        planned=after.planned,
        totals=after.totals,
    )
    emit(document, lambda: _cancel_lines(document), output)
    if after.status.ended or no_wait:
        return 0
    click.echo(
        f"it has not ended within {timeout:g} s: process {after.owner.pid} of {after.owner.host} still has it; "
        f"see `benchjobs watch {after.id}`",
        err=True,
    )
    return 1


@click.command()
@click.option(
    "--stale-seconds",
    type=click.FloatRange(min=0),
    default=300.0,
    show_default=True,
    metavar="SECONDS",
    help="Jobs of other machines count as dead when they gave no sign of life for so long.",
)
@directory_option
@output_option
def recover(stale_seconds: float, directory: Path, output: str) -> None:
    """Close jobs whose process died. Each start of a job does it too.

    Whether a process of this machine lives is known for sure, so its age does not matter. What had ended is kept and
    indexed; `benchjobs resume` runs the rest.
    """
    document = recover_jobs(directory, stale_seconds)

    def lines() -> Iterator[str]:
        yield from (job.message for job in (*document.recovered, *document.repaired))
        yield f"recovered {counted(len(document.recovered), 'job')}"

    emit(document, lines, output)
    for problem in document.problems:
        say(problem, err=True)


def _cancelled(directory: Path, bundle: JobBundle, timeout: float) -> JobRecord:
    """Ask whoever runs the job to stop, and wait; of a job whose process died, do it ourselves."""
    from ..model.job import JobStatus
    from ..store.liveness import asked_to_cancel, is_dead

    started = time.monotonic()
    asked = False
    while True:
        record = bundle.read()
        if record.status.ended:
            if asked:
                # It may have tidied up just before it was asked once more.
                shutil.rmtree(bundle.layout.flight, ignore_errors=True)
            return record
        if is_dead(bundle.root, record, _SILENCE):
            # Somebody else may be closing it, or its workers are not gone yet: then it is looked at again.
            if (record := _closed(directory, bundle)).status.ended:
                return record
        else:
            # A request made before the job had begun is forgotten then.
            if not asked_to_cancel(bundle.root):
                _ask(bundle)
            asked = True
        waited = time.monotonic() - started
        if waited >= (timeout if record.status is JobStatus.RUNNING else max(timeout, _BEGINNING)):
            return record
        time.sleep(_POLL)


def _index_again(directory: Path, bundle: JobBundle) -> None:
    from ..report import write_reports
    from ..store.history import FILE, History
    from ..store.index import index_job

    with History(directory / FILE) as history:
        index_job(bundle, history)
    record = bundle.read()
    write_reports(bundle, record, bundle.outlines(record.config))


def _ask(bundle: JobBundle) -> None:
    from ..store.liveness import ask_to_cancel

    try:
        ask_to_cancel(bundle.root)
    except OSError as error:
        raise click.ClickException(f"{bundle.root}: nothing can be written there: {error.strerror}") from None


def _closed(directory: Path, bundle: JobBundle) -> JobRecord:
    """Close a job whose process died, as cancelled: that is what somebody wanted of it, and of no other job."""
    from ..job.recover import recover as recover_only
    from ..model.job import JobStatus
    from ..report import write_reports
    from ..store.history import FILE, History

    with History(directory / FILE) as history:
        recover_only(directory, history, stale_seconds=_SILENCE, only=bundle.id)
        record = bundle.read()
        if record.status is not JobStatus.FAILED:
            return record
        record = record.model_copy(
            update={"status": JobStatus.CANCELLED, "message": "cancelled after its process had died"}
        )
        bundle.write(record)
        history.save_job(record)
        history.add_event(record.id, "cancelled", record.message or "")
    write_reports(bundle, record, bundle.outlines(record.config))
    return record


def recover_jobs(directory: Path, stale_seconds: float) -> RecoverDocument:
    """Close jobs whose process died, and write their reports.

    Raises:
        DiskFull, ResultsUnwritable: the directory refuses.

    """
    from ..job.recover import DIED, NEVER_BEGAN
    from ..job.recover import recover as recover_all
    from ..report import write_reports
    from ..report.documents.acting import RecoverDocument, RecoveredJob
    from ..store.history import FILE, History

    if not Layout(directory).jobs.is_dir():
        return RecoverDocument(recovered=(), repaired=(), problems=())
    with History(directory / FILE) as history:
        lines = recover_all(
            directory,
            history,
            lambda bundle, record: write_reports(bundle, record, bundle.outlines(record.config)),
            stale_seconds,
        )
    recovered: list[RecoveredJob] = []
    repaired: list[RecoveredJob] = []
    problems: list[str] = []
    for line in lines:
        about = _ABOUT.match(line)
        if about is None or about[2].startswith(_NOT_RECOVERED):
            problems.append(line)
        else:
            where = recovered if about[2].startswith((DIED, NEVER_BEGAN)) else repaired
            where.append(RecoveredJob(job=about[1], message=line))
    return RecoverDocument(recovered=tuple(recovered), repaired=tuple(repaired), problems=tuple(problems))


def _cancel_lines(document: CancelDocument) -> Iterator[str]:
    from ..store.text import one_line

    totals = document.totals
    name = f" ({one_line(document.name, 60)})" if document.name else ""
    if not document.changed:
        yield f"job {document.job}{name} had ended before: {document.status.value}"
    else:
        yield f"job {document.job}{name}: {document.status.value}"
    planned = "" if document.planned is None else f" of {document.planned}"
    counts = (
        (totals.passed, "passed"),
        (totals.failed, "unsolved"),
        (totals.error, "errors" if totals.error != 1 else "error"),
        (totals.skipped, "skipped"),
        (totals.reused, "reused"),
    )
    listed = ", ".join(f"{count} {word}" for count, word in counts if count)
    yield f"{totals.trials}{planned} trials ended" + (f": {listed}" if listed else "")
    if document.status in ("cancelled", "timeout", "budget", "failed"):
        yield f"run the rest with `benchjobs resume {document.job}`"
