"""Copy of files that agents left to a directory of the user. Nothing is written outside of it, and no link is followed.

Names and contents are an agent's: a file may be a link to the user's keys, or a pipe that never ends.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from ..model.errors import InputError
from .files import remove_tree, writing
from .text import one_line

_UNSAFE = re.compile(r'[/\\:*?"<>|]')
_BLANKS = re.compile(r"\s+")
_NAME_BYTES = 150
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclasses.dataclass(slots=True)
class Copied:
    """Files that were copied, and those that were not. Sizes are in bytes."""

    files: int = 0
    bytes: int = 0
    problems: list[str] = dataclasses.field(default_factory=list)
    """Files that could not be copied, and why."""
    left_out: list[str] = dataclasses.field(default_factory=list)
    """Links, pipes and the like, which are left out on purpose."""


@contextlib.contextmanager
def staged(final: Path, marker: str) -> Iterator[Path]:
    """Give a new directory to put files in, which is then moved to its place whole, over one from an earlier call.

    `marker` names a file that every such directory has: a directory without it is never replaced. Raises InputError:
    something else is at its place; DiskFull, ResultsUnwritable: the directory cannot be written.
    """
    if os.path.lexists(final) and not (final / marker).is_file() and not _is_empty(final):
        raise InputError("has other files; choose another directory, or move them away", path=final)
    path = final.with_name(f".tmp-{secrets.token_hex(4)}")
    with writing(path):
        path.mkdir(parents=True)
    try:
        yield path
        with writing(final):
            aside = final.with_name(f".old-{secrets.token_hex(4)}") if os.path.lexists(final) else None
            if aside is not None:
                final.rename(aside)
            path.rename(final)
            if aside is not None:
                remove_tree(aside)
    finally:
        remove_tree(path)


def inside(root: Path, relative: str) -> Path:
    """Resolve a path of a bundle, which must be below `root`, without links. Raises InputError: it is not."""
    parts = PurePosixPath(relative).parts
    place = root.joinpath(*parts)
    if (
        not parts
        or PurePosixPath(relative).is_absolute()
        or ".." in parts
        or place.resolve() != root.resolve().joinpath(*parts)
    ):
        raise InputError(f"{one_line(relative, 200)!r} leads out of the bundle", path=root)
    return place


def copy_tree(source: Path, target: Path, copied: Copied, *, leave: frozenset[str] = frozenset()) -> None:
    """Copy files and directories into the existing `target`; `leave` names entries at the top that are skipped.

    Anything else goes to `copied.left_out`, and unreadable files to `copied.problems`. Raises DiskFull,
    ResultsUnwritable: the target cannot be written.
    """
    try:
        with os.scandir(source) as entries:
            found = sorted(entries, key=lambda entry: entry.name)
    except OSError as error:
        copied.problems.append(_problem(source, error))
        return
    for entry in found:
        if entry.name in leave:
            continue
        if entry.is_dir(follow_symlinks=False):
            with writing(target / entry.name):
                (target / entry.name).mkdir(exist_ok=True)
            copy_tree(source / entry.name, target / entry.name, copied)
        else:
            copy_file(source / entry.name, target / entry.name, copied)


def copy_file(source: Path, target: Path, copied: Copied) -> None:
    """Copy a regular file to a free place. Anything else goes to `copied.left_out`.

    An unreadable file goes to `copied.problems`. Raises DiskFull, ResultsUnwritable: the target cannot be written.
    """
    try:
        descriptor = os.open(source, _READ)
    except OSError as error:
        if source.is_symlink():
            copied.left_out.append(f"{_shown(source)}: is a link")
        elif error.errno == errno.ENXIO:
            copied.left_out.append(f"{_shown(source)}: is not a regular file")
        else:
            copied.problems.append(_problem(source, error))
        return
    with os.fdopen(descriptor, "rb") as reader:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            copied.left_out.append(f"{_shown(source)}: is not a regular file")
            return
        with writing(target):
            mode = (status.st_mode & 0o777) | 0o600
            with os.fdopen(os.open(target, _WRITE, mode), "wb") as writer:
                shutil.copyfileobj(reader, writer, 1 << 20)
                copied.bytes += writer.tell()
    copied.files += 1


def directory_name(text: str) -> str:
    """Make the name of a directory: characters that file systems forbid become `_`, blanks become `-`."""
    name = _BLANKS.sub("-", _UNSAFE.sub("_", one_line(text))).strip()
    while len(name.encode()) > _NAME_BYTES:
        name = name[:-1]
    name = name.rstrip(". ")
    return f"_{name}" if not name or name.startswith(".") else name


def _is_empty(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink() and not any(path.iterdir())


def _problem(path: Path, error: OSError) -> str:
    return f"{_shown(path)}: {error.strerror or error}"


def _shown(path: Path) -> str:
    return one_line(path.name, 100)
