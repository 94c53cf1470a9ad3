"""`recover`: close jobs whose process died."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..report.units import counted
from ..store.layout import Layout
from ._directory import directory_option
from ._output import emit, output_option, say

if TYPE_CHECKING:
    from ..report.documents.jobs import RecoverDocument


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
@output_option
def recover(stale_seconds: float, directory: Path, output: str) -> None:
    """Close jobs whose process died. Each start of a job does it too.

    A process of this machine is known to live or not, whatever the age of its heartbeat. Finished trials are kept and
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
        DiskFull, ResultsUnwritable: the directory cannot be written.
    """
    from ..job.recover import Kind
    from ..job.recover import recover as recover_all
    from ..report.documents.jobs import RecoverDocument, RecoveredJob
    from ..store.history import History

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
