"""Atomic writes of files, and clear messages where a write fails."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import secrets
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from ..model.errors import DiskFull, InfrastructureError, ResultsUnwritable
from ..system.keeping import replace_file

_FULL = {errno.ENOSPC, errno.EDQUOT}
_LEVELS = 8
"""Levels of directories whose paths are never too long for the system."""
DISK_ERRORS = frozenset({*_FULL, errno.EROFS})
"""`errno` values that mean a problem of the disk, whatever was being written."""


def write_error(path: Path | str, error: OSError) -> InfrastructureError:
    """Return the error to raise for an `OSError` met while writing results at `path`."""
    if error.errno in _FULL:
        return DiskFull(f"{path}: no space left for results. Free some space, or choose another place")
    reason = error.strerror or str(error)
    return ResultsUnwritable(
        f"{path}: cannot write results: {reason}. Make the directory writable, or choose another place"
    )


_LEAST_ROOM = 1 << 20
"""Bytes. With less free space, no further trial is paid for."""


def check_room(directory: Path) -> None:
    """Check that there is room for another result.

    Raises DiskFull: there is none. If the free space is unknown, the write will fail instead.
    """
    try:
        room = os.statvfs(directory)
    except OSError:
        return
    if room.f_bavail * room.f_frsize < _LEAST_ROOM or (room.f_files and not room.f_favail):
        raise write_error(directory, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))


@contextlib.contextmanager
def writing(path: Path | str) -> Iterator[None]:
    """Convert an `OSError` inside the context into `DiskFull` or `ResultsUnwritable`, with the path and what to do."""
    try:
        yield
    except OSError as error:
        raise write_error(path, error) from error


def write_atomically(path: Path, content: bytes | Iterable[bytes], *, durable: bool = True) -> None:
    """Replace a file as `replace_file` does, by default durably. Raises DiskFull, ResultsUnwritable: with the path."""
    with writing(path):
        replace_file(path, content, durable=durable)


def remove_leftovers(path: Path) -> None:
    """Remove temporary files that killed writers left beside a file. Never raises."""
    with contextlib.suppress(OSError):
        for temporary in path.parent.glob(f".{path.name}.{'[0-9a-f]' * 8}"):
            temporary.unlink(missing_ok=True)


def sync_directory(path: Path) -> None:
    """Make renames in a directory outlive a power cut, where the file system can."""
    with contextlib.suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def remove_tree(path: Path) -> None:
    """Remove a directory with its content, whatever the permissions of an agent's files. Never raises."""
    try:
        _remove(path)
    except RecursionError:
        with contextlib.suppress(OSError, RecursionError):
            _flatten(path)
            _remove(path)


def _remove(path: Path) -> None:
    def unlock(function: Callable[..., Any], name: str, _: Any) -> None:
        with contextlib.suppress(OSError):
            unlocked = False
            for directory in (Path(name).parent, Path(name)):
                mode = directory.lstat().st_mode
                if stat.S_ISDIR(mode) and mode & 0o700 != 0o700:
                    directory.chmod(0o700)
                    unlocked = True
            if function is os.unlink or function is os.rmdir:
                function(name)
            elif unlocked:  # else it would fail again, and again
                shutil.rmtree(name, onerror=unlock)

    shutil.rmtree(path, onerror=unlock)


def _flatten(root: Path) -> None:
    """Move what is deeper than a few levels to the top: `shutil.rmtree` calls itself for each level."""
    waiting, numbers = [(root, 0)], itertools.count()
    while waiting:
        directory, depth = waiting.pop()
        directory.chmod(0o700)
        with os.scandir(directory) as entries:
            below = [Path(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False)]
        for inner in below:
            if depth < _LEVELS:
                waiting.append((inner, depth + 1))
                continue
            inner.chmod(0o700)  # its entry for the directory above changes
            moved = root / f".{secrets.token_hex(8)}-{next(numbers)}"
            inner.rename(moved)
            waiting.append((moved, 1))
