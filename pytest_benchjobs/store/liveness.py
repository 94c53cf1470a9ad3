"""How the process that runs a job and whoever looks at it from outside understand each other: files in the bundle.

.lock         locked by the process that runs the job; the kernel lets go of it when that dies
.heartbeat    touched every few seconds, for those who see the files but not the process
.flight/      what the processes of the job tell each other; gone when it has ended
  cancel      somebody asks the job to stop
  crew        locked, together, by the processes that write trials for the one that runs the job
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from pathlib import Path

BEAT_SECONDS = 5.0
FLIGHT = ".flight"
_LOCK = ".lock"
_HEARTBEAT = ".heartbeat"
_CANCEL = "cancel"
_CREW = "crew"


def hold(root: Path) -> int | None:
    """Take the lock of a job for as long as this process lives; None when another one has it.

    Workers outlive a process that was killed by some seconds, and still write: while they do, nobody gets it.
    Where the file system knows no locks, everybody gets it: then the owner in `job.json` has to be believed.
    """
    descriptor = os.open(root / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
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
        descriptor = os.open(root / FLIGHT / _CREW, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
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
        descriptor = os.open(root / FLIGHT / _CREW, os.O_RDWR | os.O_CLOEXEC)
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
        (root / _HEARTBEAT).touch()


def last_beat(root: Path) -> float:
    """Seconds since the process which runs the job last said that it is alive; `inf` if it never did."""
    for name in (_HEARTBEAT, "job.json"):
        with contextlib.suppress(OSError):
            return max(0.0, time.time() - (root / name).stat().st_mtime)
    return float("inf")


def has_beaten(root: Path) -> bool:
    """Whether there is still a heartbeat, be it an old one."""
    return (root / _HEARTBEAT).exists()


def still(root: Path) -> None:
    """Remove what is only for a running job. Never raises."""
    with contextlib.suppress(OSError):
        (root / _HEARTBEAT).unlink()


def ask_to_cancel(root: Path) -> None:
    """Ask whoever runs the job to stop.

    Raises:
        OSError: the directory refuses.

    """
    (root / FLIGHT).mkdir(exist_ok=True)
    (root / FLIGHT / _CANCEL).touch()


def asked_to_cancel(root: Path) -> bool:
    """Whether somebody has."""
    return (root / FLIGHT / _CANCEL).exists()
