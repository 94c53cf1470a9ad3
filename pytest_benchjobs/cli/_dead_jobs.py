"""Dead jobs: their status is `running`, but their process died."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import click

_UNFINISHED = frozenset({"initializing", "queued", "running"})


def dead_jobs(directory: Path, jobs: Iterable[tuple[str, str]]) -> set[str]:
    """Return the ids of the dead among jobs, each given by its id and a status."""
    unfinished = {job_id for job_id, status in jobs if status in _UNFINISHED}
    return {job_id for job_id in unfinished if death_of(directory, job_id) is not None}


def death_of(directory: Path, job_id: str) -> str | None:
    """Return a message about a dead job; None for any other."""
    from ..report.overview import died

    return _message(job_id) if died(directory, job_id) else None


def warn_of_dead(job_ids: Iterable[str]) -> None:
    """Print a line on stderr for each dead job. `recover` closes them."""
    for job_id in job_ids:
        click.echo(_message(job_id), err=True)


def _message(job_id: str) -> str:
    return (
        f"job {job_id} is no longer running: its process died; `benchjobs resume {job_id}` finishes it, "
        "`benchjobs recover` closes it; both count the trials that had ended"
    )
