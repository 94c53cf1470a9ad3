"""Signs of life of a job: what the process that runs it and processes that look at it tell each other by files.

The lock is held by the process that runs the job; the kernel releases it when that process dies. The heartbeat is for
those who see the files but not the process.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from pathlib import Path

from ..model.job import JobRecord
from ..model.owner import current_owner, is_alive
from .layout import JobLayout

BEAT_SECONDS = 5.0
STALE_SECONDS = 300.0
"""A process of another machine that gave no sign of life for so long counts as dead."""


def hold(root: Path) -> int | None:
    """Take the lock of a job for as long as this process lives; None when another one has it.

    Workers outlive a process that was killed by some seconds, and still write: while they do, nobody gets it.
    Where the file system knows no locks, everybody gets it: then the owner in `job.json` has to be believed.
    """
    descriptor = os.open(JobLayout(root).lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    except OSError:
        return descriptor
    if _has_crew(root):
        os.close(descriptor)
        return None
    return descriptor


def join_crew(root: Path) -> int | None:
    """Say, for as long as this process lives, that it writes trials of the job; None where there are no locks."""
    try:
        descriptor = os.open(JobLayout(root).crew, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def _has_crew(root: Path) -> bool:
    try:
        descriptor = os.open(JobLayout(root).crew, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return False


def beat(root: Path) -> None:
    """Say that the process which runs the job is alive. Never raises."""
    with contextlib.suppress(OSError):
        JobLayout(root).heartbeat.touch()


def last_beat(root: Path) -> float:
    """Seconds since the process which runs the job last said that it is alive; `inf` if it never did."""
    layout = JobLayout(root)
    for path in (layout.heartbeat, layout.record):
        with contextlib.suppress(OSError):
            return max(0.0, time.time() - path.stat().st_mtime)
    return float("inf")


def has_beaten(root: Path) -> bool:
    """Tell whether there is a heartbeat, however old."""
    return JobLayout(root).heartbeat.exists()


def clear_heartbeat(root: Path) -> None:
    """Remove the heartbeat of a job that has ended. Never raises."""
    with contextlib.suppress(OSError):
        JobLayout(root).heartbeat.unlink()


def ask_to_cancel(root: Path) -> None:
    """Ask whoever runs the job to stop.

    Raises:
        OSError: the directory refuses.

    """
    layout = JobLayout(root)
    layout.flight.mkdir(exist_ok=True)
    layout.cancel.touch()


def asked_to_cancel(root: Path) -> bool:
    """Tell whether somebody asked the job to stop."""
    return JobLayout(root).cancel.exists()


def is_dead(root: Path, record: JobRecord, stale_seconds: float = STALE_SECONDS) -> bool:
    """Tell whether the process that runs the job with the bundle at `root` has died."""
    if record.owner.host == current_owner().host:
        return not is_alive(record.owner)
    return last_beat(root) >= stale_seconds
