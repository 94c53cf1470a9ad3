"""Copying files of a benchmark: nothing is written through a link, and none is followed that others made."""

from __future__ import annotations

import os
import posixpath
import shutil
from collections.abc import Callable
from pathlib import Path

from ...model.errors import InputError

Follow = Callable[[Path], bool]
"""Says whether a link that ends in a file outside of what is copied is replaced by that file's content."""


def never(_: Path) -> bool:
    """Copy each link as a link: those who made the files are not to be trusted."""
    return False


def take(found: Path, target: Path, name: str, follow: Follow = never) -> None:
    """Copy a file or directory to `name` below `target`, a directory's content into it; without `.git`.

    Links stay links, but for those to files elsewhere that are to be followed.

    Raises:
        InputError: there is a link where a directory is to be, or what can be copied neither as file nor as directory.
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
    """Tell whether a path ends inside a directory once all links are followed."""
    # `Path.resolve` raises for links in a circle.
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
    """Copy a file, or a link as it is, in place of a file that is there. `top` is all that is copied, if it is more."""
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
    """Tell whether a link leads to a place below `top`, wherever that is copied to."""
    if top is None:
        return False
    text = os.fsdecode(link.readlink())
    lexical = posixpath.normpath(posixpath.join(link.parent.relative_to(top).as_posix(), text))
    return not text.startswith("/") and lexical.split("/")[0] != ".." and is_within(link, top)


def _make(directory: Path, target: Path) -> None:
    """Make a directory below `target`, which is one, or is to be.

    Raises:
        InputError: a link is in its way.
    """
    target.mkdir(parents=True, exist_ok=True)
    for part in [*reversed(directory.relative_to(target).parents[:-1]), directory.relative_to(target)]:
        made = target / part
        if made.is_symlink() or made.is_file():
            raise InputError("is to be a directory, and is a link or a file", path=made)
        made.mkdir(exist_ok=True)


def _raise(error: OSError) -> None:
    raise error
