"""Temporary directories that go even if their process was killed: the next one that starts removes them.

Each holds a file that is locked for as long as the process lives which made the directory; the kernel lets go of it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

_LOCK = ".lock"
_LONGEST = 90
"""Bytes of a directory with unix sockets, whose paths have 104 at most on macOS, 108 on Linux."""
_YOUNG_SECONDS = 600.0
"""A directory without the file may have been made just now."""


def temporary_path(name: str) -> Path:
    """Return the path of such a directory, which is not made by this."""
    return Path(tempfile.gettempdir()) / f"{_prefix()}{name}"


def directory_for_sockets(prefix: str) -> Path:
    """Make a private directory, whose path is short enough for those of unix sockets."""
    if len(os.fsencode(f"{tempfile.gettempdir()}/{prefix}12345678")) <= _LONGEST:
        return Path(tempfile.mkdtemp(prefix=prefix))
    return Path(tempfile.mkdtemp(prefix=prefix, dir="/tmp"))


@contextlib.contextmanager
def temporary_directory(kind: str, *, for_sockets: bool = False) -> Iterator[Path]:
    """Make a directory, and remove it at the end."""
    prefix = f"{_prefix()}{kind}-"
    directory = directory_for_sockets(prefix) if for_sockets else Path(tempfile.mkdtemp(prefix=prefix))
    descriptor = hold(directory)
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)
        if descriptor is not None:
            os.close(descriptor)


def hold(directory: Path) -> int | None:
    """Say, until the descriptor is closed or the process ends, that a directory is in use. Never raises."""
    new = directory / f"{_LOCK}.{os.getpid()}"
    try:
        descriptor = os.open(new, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError:
        return None
    try:
        # Locked before it has its name: no process finds it unlocked.
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        new.rename(directory / _LOCK)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def sweep(prefix: str | None = None, least_age: float = 0.0) -> None:
    """Remove what processes that are dead left behind, by default of any kind, at least so old. Never raises."""
    for directory in Path(tempfile.gettempdir()).glob(f"{prefix or _prefix()}*"):
        with contextlib.suppress(OSError):
            about = directory.lstat()
            if (
                stat.S_ISDIR(about.st_mode)
                and about.st_uid == os.getuid()
                and time.time() - about.st_mtime >= least_age
                and _is_abandoned(directory, about)
            ):
                shutil.rmtree(directory, ignore_errors=True)


def _is_abandoned(directory: Path, about: os.stat_result) -> bool:
    try:
        descriptor = os.open(directory / _LOCK, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return time.time() - about.st_mtime > _YOUNG_SECONDS
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True


def _prefix() -> str:
    return f"benchjobs-{os.getuid()}-"
