"""`cancel`: stop a running job from another process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from ..job.cancel import cancel as cancel_job
from ..job.cancel import finish
from ..model.errors import InputError
from ..report.documents import mirror
from ..report.documents.jobs import CancelDocument, JobTotals
from ..store.reader import HistoryReader
from ..store.results import find_bundle
from ..store.text import one_line
from ._directory import directory_option
from ._output import emit, output_option, say_wait


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
@output_option("cancel")
def cancel(job: str, no_wait: bool, timeout: float, directory: Path, output: str) -> int:
    """Stop JOB: an id, the beginning of one, a name, or last. Finished trials are kept.

    Running trials are stopped and count as not run; `benchjobs resume` runs them. Exit status 1 when the job is still
    running after the timeout.
    """
    with HistoryReader.of(directory) as history:
        bundle = find_bundle(history, job)
    before = bundle.read()
    if before.status.ended:
        finish(directory, bundle)
        after = before
    else:
        if not no_wait:
            say_wait("waiting for the trials of the job to end")
        try:
            after = cancel_job(directory, bundle, 0.0 if no_wait else timeout)
        except OSError as error:
            message = f"{bundle.root}: nothing can be written there: {error.strerror}"
            raise InputError(message) from None
    document = mirror(
        CancelDocument,
        after,
        job=after.id,
        changed=not before.status.ended,
        totals=mirror(JobTotals, after.totals),
    )
    emit(document, lambda: _cancel_lines(document), output)
    if after.status.ended or no_wait:
        return 0
    click.echo(
        f"the job has not ended within {timeout:g} s: process {after.owner.pid} of {after.owner.host} still owns it; "
        f"see `benchjobs watch {after.id}`",
        err=True,
    )
    return 1


def _cancel_lines(document: CancelDocument) -> Iterator[str]:
    totals = document.totals
    name = f" ({one_line(document.name, 60)})" if document.name else ""
    already = "" if document.changed else " had already ended"
    yield f"job {document.job}{name}{already}: {document.status.value}"
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
    if document.status in ("cancelled", "timeout", "budget", "paused", "failed"):
        yield f"run the rest with `benchjobs resume {document.job}`"
