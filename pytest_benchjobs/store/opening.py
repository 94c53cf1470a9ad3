"""Files of trials, opened without following any link: an agent may have made them."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from ..model.errors import InputError
from .text import one_line

_DEEPEST = 64
_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def open_inside(root: Path, relative: str) -> BinaryIO:
    """Open a regular file below `root` for reading. No directory on the way is a link.

    Raises InputError: there is none.
    """
    parts = relative.split("/")
    if (
        not relative
        or len(parts) > _DEEPEST
        or any(part in ("", ".", "..") or "\0" in part for part in parts)
    ):
        raise InputError(f"{one_line(relative, 200)!r} is no path of a file")
    try:
        place = os.open(root, _FLAGS | os.O_DIRECTORY)
        try:
            for part in parts[:-1]:
                inner = os.open(part, _FLAGS | os.O_DIRECTORY, dir_fd=place)
                os.close(place)
                place = inner
            descriptor = os.open(parts[-1], _FLAGS, dir_fd=place)
        finally:
            os.close(place)
    except (OSError, ValueError):
        raise InputError(f"there is no file {one_line(relative, 200)!r}") from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise InputError(f"{one_line(relative, 200)!r} is no regular file")
    return os.fdopen(descriptor, "rb")


def files_inside(root: Path) -> Iterator[tuple[str, int]]:
    """Yield path and size of each regular file below `root`, by directory. No link is followed."""
    waiting = [PurePosixPath()]
    while waiting:
        place = waiting.pop()
        if len(place.parts) >= _DEEPEST:
            continue
        try:
            with os.scandir(root / place) as entries:
                found = sorted(entries, key=lambda entry: entry.name)
        except OSError:
            continue
        for entry in found:
            if entry.is_file(follow_symlinks=False):
                yield (place / entry.name).as_posix(), entry.stat(follow_symlinks=False).st_size
        directories = [entry.name for entry in found if entry.is_dir(follow_symlinks=False)]
        waiting.extend(place / name for name in reversed(directories))
