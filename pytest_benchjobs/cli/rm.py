"""`rm`: remove jobs, their files and their rows in the history."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..model.errors import InfrastructureError, InputError
from ..report.units import counted
from ..system.units import size
from ._directory import directory_option
from ._output import emit, output_option, say

if TYPE_CHECKING:
    from ..report.documents.jobs import RemovedDocument


@click.command()
@click.argument("jobs", nargs=-1, required=True, metavar="JOB...")
@click.option("--force", is_flag=True, help="Also remove jobs that a baseline or other jobs need.")
@directory_option
@output_option
def rm(jobs: tuple[str, ...], force: bool, directory: Path, output: str) -> None:
    """Remove each JOB (an id, the beginning of one, a name, or last) with its results, logs and kept file systems.

    A running job is never removed, and only with --force one that a baseline is made of, or whose results other jobs
    have reused. Nothing is removed unless all jobs can be.
    """
    from ..job.remove import hindrance, remove
    from ..report.documents import mirror
    from ..report.documents.jobs import RemovedDocument, RemovedJob
    from ..store.history import History
    from ..store.results import find_job, has_results

    if not has_results(directory):
        raise InputError(f"there are no results in {directory}")
    with History.of(directory) as history:
        ids = list(dict.fromkeys(find_job(history, text) for text in jobs))
        for job_id in ids if not force else ():
            if (why := hindrance(history, job_id, ids)) is not None:
                raise InputError(f"job {job_id} is needed: {why}. --force removes it all the same")
        removed = [remove(directory, history, job_id) for job_id in ids]
    document = RemovedDocument(
        jobs=tuple(mirror(RemovedJob, one) for one in removed),
        kept=_forget(reference for one in removed for reference in one.kept),
    )
    emit(document, lambda: _lines(document), output)


def _lines(document: RemovedDocument) -> Iterator[str]:
    for one in document.jobs:
        yield f"removed job {one.job}: {counted(one.trials, 'trial')}, {size(one.bytes)}"
    if document.kept:
        yield f"removed {counted(document.kept, 'kept file system')}"


def _forget(references: Iterable[str]) -> int:
    """Remove kept file systems from the engine; return how many. Report where no engine answers."""
    from ..model.owner import current_owner
    from ..sandbox.protocol import KEPT
    from ..sandbox.providers import keeper

    wanted = [one for one in references if one.startswith(KEPT)]
    if not wanted:
        return 0
    provider = keeper(current_owner())
    try:
        provider.check()
        return sum(provider.forget_kept(one) for one in wanted)
    except InfrastructureError as error:
        say(f"kept file systems are still there, `benchjobs gc` removes them: {error}", err=True)
        return 0
    finally:
        provider.close()
