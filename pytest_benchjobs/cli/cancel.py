"""`cancel` and `recover`: jobs of other processes, alive and dead."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ._output import directory_option, emit, output_option, say
from ._units import counted

if TYPE_CHECKING:
    from ..report.documents.acting import CancelDocument, RecoverDocument


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
    from ..job.cancel import cancel as cancel_job
    from ..job.cancel import finish
    from ..report.documents.acting import CancelDocument
    from ..store.reader import HistoryReader
    from ..store.results import find_bundle

    with HistoryReader.of(directory) as history:
        bundle = find_bundle(history, job)
    before = bundle.read()
    if before.status.ended:
        finish(directory, bundle)
        after = before
    else:
        try:
            after = cancel_job(directory, bundle, 0.0 if no_wait else timeout)
        except OSError as error:
            message = f"{bundle.root}: nothing can be written there: {error.strerror}"
            raise click.ClickException(message) from None
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


def recover_jobs(directory: Path, stale_seconds: float) -> RecoverDocument:
    """Close jobs whose process died, and write their reports.

    Raises:
        DiskFull, ResultsUnwritable: the directory refuses.

    """
    from ..job.recover import Kind
    from ..job.recover import recover as recover_all
    from ..report.documents.acting import RecoverDocument, RecoveredJob
    from ..store.history import History

    if not (directory / "jobs").is_dir():
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
