"""`gc`: remove left-overs in the engine and on disk."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..model.errors import EngineUnavailable, InputError
from ..report.units import counted
from ..sandbox.providers import keeper
from ..store.layout import Layout
from ..system.units import size
from ._directory import directory_option
from ._output import say
from .recover import recover_jobs

if TYPE_CHECKING:
    from ..model.job import JobRecord
    from ..sandbox.protocol import Kept

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
@directory_option
def gc(all_kept: bool, older_than: float | None, directory: Path) -> None:
    """Remove what dead processes left behind, and what is no longer needed.

    That is: containers and networks of dead processes of this machine; the network of public trials, if no container
    uses it; unfinished trials of dead jobs; kept file systems of deleted jobs, with --kept those of all jobs in DIR.
    Running jobs are not touched. Finished trials are kept and indexed.
    """
    from ..store.liveness import STALE_SECONDS

    _in_engine(lambda kept: _unneeded(kept, directory, all_kept=all_kept, older_than=older_than))
    if not Layout(directory).jobs.is_dir():
        say(f"no jobs in {directory}", err=True)
        return
    if older_than is not None:
        removed = _remove_logs(directory, older_than)
        click.echo(f"removed {counted(removed, 'log of a detached job', 'logs of detached jobs')}")
    done = recover_jobs(directory, STALE_SECONDS)
    for line in (*(job.message for job in (*done.recovered, *done.repaired)), *done.problems):
        say(line)
    click.echo(f"recovered {counted(len(done.recovered), 'job')}")


def _in_engine(unneeded: Callable[[list[Kept]], list[Kept]]) -> None:
    """Remove containers, networks and images; report where no engine answers."""
    from ..model.owner import current_owner

    provider = keeper(current_owner())
    try:
        provider.check()
        click.echo(f"removed {provider.sweep() + provider.remove_network()} containers and networks")
        wanted = unneeded(provider.kept())
        removed = [one for one in wanted if provider.forget_kept(one.reference)]
    except EngineUnavailable as error:
        say(f"containers were not checked: {error}", err=True)
        return
    finally:
        provider.close()
    freed = sum(one.bytes for one in removed)
    if removed:
        click.echo(f"removed {counted(len(removed), 'kept file system')}, {size(freed)}")
    if len(removed) < len(wanted):
        click.echo(
            f"{counted(len(wanted) - len(removed), 'kept file system')} cannot be removed now", err=True
        )


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
    from ..store.bundle import JobBundle

    for bundle in JobBundle.all(directory):
        with contextlib.suppress(InputError):
            yield bundle.read()


def _lives(directory: Path, record: JobRecord) -> bool:
    from ..store.bundle import JobBundle
    from ..store.liveness import is_dead

    return not (record.status.ended or is_dead(JobBundle(directory, record.id).root, record))
