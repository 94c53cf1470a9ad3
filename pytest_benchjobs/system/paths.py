"""Look at a path from a user, which may be any text: an impossible one does not exist."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from ..model.errors import InputError

_ABSENT = {errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG}


def exists(path: Path | str) -> bool:
    """Return whether there is anything.

    Raises InputError: that is unknown, as a directory above it is not accessible. So do the others.
    """
    return _mode(path) is not None


def is_link(path: Path | str) -> bool:
    """Return whether there is a link, to anything or nothing."""
    return os.path.islink(path)  # noqa: PTH114  which raises for no name


def is_file(path: Path | str) -> bool:
    """Return whether there is a regular file, or a link to one."""
    mode = _mode(path)
    return mode is not None and stat.S_ISREG(mode)


def is_directory(path: Path | str) -> bool:
    """Return whether there is a directory, or a link to one."""
    mode = _mode(path)
    return mode is not None and stat.S_ISDIR(mode)


def with_home(text: str) -> Path:
    """Return the path of a text in which `~` is a home; one of an unknown user stays as it is, and does not exist."""
    return Path(os.path.expanduser(text))  # noqa: PTH111  `Path.expanduser` raises for an unknown user


def _mode(path: Path | str) -> int | None:
    # Not by `Path.exists` and the like: for a name that is too long some versions of Python raise.
    try:
        return os.stat(path).st_mode  # noqa: PTH116  of each row of an export
    except ValueError:
        return None
    except OSError as error:
        if error.errno in _ABSENT:
            return None
        raise InputError(f"cannot be read: {error.strerror}", path=Path(path)) from error
