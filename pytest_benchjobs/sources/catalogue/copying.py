"""Copying files of a benchmark: nothing is written through a link, and no untrusted link is followed."""

from __future__ import annotations

import os
import posixpath
import shutil
from collections.abc import Callable
from pathlib import Path

from ...model.errors import InputError

Follow = Callable[[Path], bool]
"""Decides if a link to a file outside of the copied directory is replaced by that file's content."""


def never(_: Path) -> bool:
    """Copy each link as a link: the files are not trusted."""
    return False


def take(found: Path, target: Path, name: str, follow: Follow = never) -> None:
    """Copy a file or directory to `name` below `target`, a directory's content into it; without `.git`.

    Links stay links, except for those to files elsewhere that `follow` accepts.

    Raises InputError: there is a link in place of a directory, or something that is neither file nor directory;
    OSError: it cannot be copied.
    """
    if found.is_dir():
        place = target / name
        _make(place, target)
        _copy_tree(found, place, follow)
        return
    place = target / (name or found.name)
    _make(place.parent, target)
    _copy(found, place, None, follow)


def is_within(path: Path, directory: Path) -> bool:
    """Return True if a path ends inside a directory after all links are followed."""
    # `Path.resolve` raises for circular links.
    return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(directory))


def _copy_tree(found: Path, place: Path, follow: Follow) -> None:
    for current, directories, files in os.walk(found, onerror=_raise):
        here = place / Path(current).relative_to(found)
        links = [name for name in directories if (Path(current) / name).is_symlink()]
        directories[:] = [name for name in directories if name != ".git" and name not in links]
        _make(here, place)
        for name in (*links, *files):
            if name != ".git":
                _copy(Path(current) / name, here / name, found, follow)


def _copy(path: Path, place: Path, top: Path | None, follow: Follow) -> None:
    """Copy a file, or a link as a link, replacing an existing file. `top`: the directory that is copied, if any."""
    if place.is_dir() and not place.is_symlink():
        raise InputError("is both a file and a directory", path=place)
    place.unlink(missing_ok=True)
    if path.is_symlink() and not (path.is_file() and not _stays(path, top) and follow(path)):
        place.symlink_to(path.readlink())
    elif path.is_file():
        shutil.copy2(path, place)
    else:
        raise InputError("is not a regular file", path=path)


def _stays(link: Path, top: Path | None) -> bool:
    """Return True if a link leads to a place below `top`, wherever that is copied to."""
    if top is None:
        return False
    text = os.fsdecode(link.readlink())
    lexical = posixpath.normpath(posixpath.join(link.parent.relative_to(top).as_posix(), text))
    return not text.startswith("/") and lexical.split("/")[0] != ".." and is_within(link, top)


def _make(directory: Path, target: Path) -> None:
    """Create a directory below `target`, or `target` itself."""
    target.mkdir(parents=True, exist_ok=True)
    for part in [*reversed(directory.relative_to(target).parents[:-1]), directory.relative_to(target)]:
        made = target / part
        if made.is_symlink() or made.is_file():
            raise InputError("must be a directory, but is a link or a file", path=made)
        made.mkdir(exist_ok=True)


def _raise(error: OSError) -> None:
    raise error
