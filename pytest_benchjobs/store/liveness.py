"""Signs of life of a job: files by which its process and other processes communicate.

The lock is held by the process that runs the job; the kernel releases it when that process dies. The heartbeat is for
processes on other machines, which see only the files.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

from ..model.job import JobRecord
from ..model.owner import current_owner, is_alive
from .files import writing
from .layout import JobLayout

BEAT_SECONDS = 5.0
STALE_SECONDS = 300.0
"""Seconds without a heartbeat after which a process of another machine counts as dead."""


def hold(root: Path) -> int | None:
    """Take the lock of a job for as long as this process lives; None when another process has it.

    Workers of a killed process live on for some seconds and still write; until they end, the lock is not given. Where
    the file system has no locks, it always succeeds, and the owner in `job.json` decides.
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


@contextlib.contextmanager
def holding(root: Path) -> Iterator[bool]:
    """Hold the lock of a job inside the context; False: another process has it.

    Raises:
        DiskFull, ResultsUnwritable: the directory cannot be written.
    """
    with writing(root):
        lock = hold(root)
    try:
        yield lock is not None
    finally:
        if lock is not None:
            os.close(lock)


def join_crew(root: Path) -> int | None:
    """Mark this process, while it lives, as a writer of trials of the job; None where there are no locks."""
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
    """Touch the heartbeat. Never raises."""
    with contextlib.suppress(OSError):
        JobLayout(root).heartbeat.touch()


def last_beat(root: Path) -> float:
    """Return the seconds since the last heartbeat; `inf` if there is none."""
    layout = JobLayout(root)
    for path in (layout.heartbeat, layout.record):
        with contextlib.suppress(OSError):
            return max(0.0, time.time() - path.stat().st_mtime)
    return float("inf")


def has_beaten(root: Path) -> bool:
    """Return whether there is a heartbeat, of any age."""
    return JobLayout(root).heartbeat.exists()


def clear_heartbeat(root: Path) -> None:
    """Remove the heartbeat of an ended job. Never raises."""
    with contextlib.suppress(OSError):
        JobLayout(root).heartbeat.unlink()


def ask_to_cancel(root: Path) -> None:
    """Request the job's process to stop. Raises OSError: the directory cannot be written."""
    layout = JobLayout(root)
    layout.flight.mkdir(exist_ok=True)
    layout.cancel.touch()


def asked_to_cancel(root: Path) -> bool:
    """Return whether a stop of the job was requested."""
    return JobLayout(root).cancel.exists()


def is_dead(root: Path, record: JobRecord, stale_seconds: float = STALE_SECONDS) -> bool:
    """Return whether the process that runs the job with the bundle at `root` has died."""
    if record.owner.host == current_owner().host:
        return not is_alive(record.owner)
    return last_beat(root) >= stale_seconds
