"""Removal of a job: its files, its rows in the history, and the kept file systems of its trials.

Files are removed first: after a killed removal the job is still in the history, without files, and can be removed
again.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

from ..model.errors import InputError
from ..store.bundle import JobBundle
from ..store.files import remove_tree, writing
from ..store.history import History
from ..store.kept_names import with_earlier_steps
from ..store.layout import aside
from ..store.liveness import holding, is_dead


class Removed(NamedTuple):
    """A job that was removed."""

    job: str
    trials: int
    bytes: int
    kept: tuple[str, ...]
    """Kept file systems of its trials, which the engine may still have."""


def hindrance(history: History, job_id: str, others: Collection[str] = ()) -> str | None:
    """Return why a job is needed by anything besides `others`; None if it is not."""
    baselines = [entry.name for entry in history.baselines() if job_id in entry.jobs]
    if baselines:
        return f"baseline {', '.join(baselines[:5])} is made of it"
    users = [user for user in history.users_of(job_id) if user not in others]
    if users:
        more = f" and {len(users) - 5} more" if len(users) > 5 else ""
        return (
            f"results of job {', '.join(users[:5])}{more} are those of its trials, and their logs are in it"
        )
    return None


def remove(directory: Path, history: History, job_id: str) -> Removed:
    """Remove a job that is not running.

    Raises:
        InputError: it is running.
        DiskFull, ResultsUnwritable: the directory cannot be written.
    """
    row = history.job_row(job_id)
    kept = {
        reference
        for trial in history.each_trial(job_id)
        if trial.kept is not None and not trial.reused
        for reference in with_earlier_steps(trial.kept)
    }
    root = JobBundle(directory, job_id).root
    size = 0
    if root.is_dir():
        _refuse_running(directory, job_id)
        size = _size(root)
        # Rename first, so that no half-removed job is visible.
        hidden = aside(root)
        with writing(root):
            root.rename(hidden)
        remove_tree(hidden)
    for left in root.parent.glob(f".old-*-{job_id}"):
        remove_tree(left)  # left by a removal that was killed
    history.forget(job_id)
    return Removed(job_id, 0 if row is None else row.ended, size, tuple(sorted(kept)))


def _refuse_running(directory: Path, job_id: str) -> None:
    """Check that no process runs or writes a job.

    Raises:
        InputError: a process does.
    """
    bundle = JobBundle(directory, job_id)
    try:
        record = bundle.read()
    except InputError:
        record = None  # damaged record: only the lock tells
    if record is not None and not record.status.ended and not is_dead(bundle.root, record):
        raise InputError(f"job {job_id} is running; `benchjobs cancel {job_id}` stops it")
    with holding(bundle.root) as is_ours:
        if not is_ours:
            raise InputError(f"another process writes job {job_id} just now; try again")


def _size(root: Path) -> int:
    total = 0
    for place, _, names in os.walk(root):
        for name in names:
            with contextlib.suppress(OSError):
                total += os.lstat(f"{place}/{name}").st_size
    return total
