"""Carrying files from the agent's container into the one where they are graded, as data and nothing else.

Only regular files, directories, and links that lead to something which is carried, too. No rights of other users, no
capabilities, no devices.
"""

from __future__ import annotations

import posixpath
import tarfile
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager

from .archive import archive_of, excluded
from .paths import directories_above, is_below
from .protocol import Taken

FILES = 100_000
_NOTES = 20
_SKIP_FACTOR = 4
_PLAIN_BITS = 0o1777

Open = Callable[[str], AbstractContextManager[tuple[str, tarfile.TarFile] | None]]
"""A path -> where it leads, and the archive of that as the engine makes it; None: nothing is there."""


def take(
    open_archive: Open,
    paths: Mapping[str, tuple[str, ...]],
    *,
    limit: int,
    only: frozenset[str] | None = None,
) -> Taken:
    """Pack `paths` (path -> patterns of what is left out) as they come from `open_archive`.

    `only`: of these, what is one of `only` or below it, with the directories on the way there.
    """
    taking = _Taking(tuple(paths), limit, only)

    def fill(tar: tarfile.TarFile) -> None:
        for path, exclude in paths.items():
            with open_archive(path) as found:
                if found is None:
                    taking.note(f"{path} is not there")
                else:
                    taking.add(tar, path, *found, exclude)

    return Taken(archive_of(fill), tuple(taking.notes))


class _Taking:
    def __init__(self, tops: tuple[str, ...], limit: int, only: frozenset[str] | None) -> None:
        self.tops = tops
        self.only = only
        self.ways = frozenset(way for path in only or () for way in directories_above(path))
        self.left = limit
        self.unread = _SKIP_FACTOR * limit
        self.files = 0
        self.notes: list[str] = []
        self._added: set[str] = set()

    def note(self, text: str) -> None:
        if len(self.notes) < _NOTES:
            self.notes.append(f"not carried into the container for grading: {text}")

    def add(
        self, tar: tarfile.TarFile, path: str, found: str, source: tarfile.TarFile, exclude: Iterable[str]
    ) -> None:
        """Add the archive of what is at `path`, which led to `found`."""
        patterns = tuple(exclude)
        for member in source:
            relative = member.name.removeprefix("./").partition("/")[2].rstrip("/")
            name = posixpath.join(path, relative) if relative else path
            left_out = ".." in relative.split("/") or excluded(relative, patterns)
            if left_out or not self._wanted(name, member):
                self.unread -= member.size
                if self.unread < 0:
                    self.note(f"{name} and what comes after it: too much to read through")
                    return
                continue
            if member.islnk():
                inside = member.linkname.removeprefix("./").partition("/")[2]
                member.linkname = (posixpath.join(path, inside) if inside else path).lstrip("/")
            if not self._fits(member, name, found):
                if self.left < 0 or self.files > FILES:
                    return
                continue
            member.name = name.lstrip("/")
            member.mode &= _PLAIN_BITS
            member.pax_headers = {}
            content = source.extractfile(member) if member.isreg() else None
            tar.addfile(member, content)
            self._added.add(member.name)

    def _wanted(self, name: str, member: tarfile.TarInfo) -> bool:
        if self.only is None or (member.isdir() and name in self.ways):
            return True
        return is_below(name, self.only)

    def _fits(self, member: tarfile.TarInfo, name: str, found: str) -> bool:
        self.files += 1
        if self.files > FILES:
            self.note(f"more than {FILES} files: {name} and what comes after it")
            return False
        if member.isreg():
            self.left -= member.size
            if self.left < 0:
                self.note(f"{name} and what comes after it: too many bytes")
            return self.left >= 0
        if member.isdir():
            return True
        if member.islnk():
            return member.linkname in self._added
        if member.issym() and self._leads_to_what_comes_along(name, member.linkname):
            return True
        what = "a link that leads elsewhere" if member.issym() else "neither a file nor a directory"
        self.note(f"{name} is {what}" if name != found else f"{found} is {what}")
        return False

    def _leads_to_what_comes_along(self, name: str, target: str) -> bool:
        parts = target.split("/")
        climbing = [index for index, part in enumerate(parts) if part == ".."]
        if climbing != list(range(len(climbing))) or target.startswith("/.."):
            return False  # a/../b may be anywhere, if a is a link
        goal = posixpath.normpath(posixpath.join(posixpath.dirname(name), target))
        return is_below(goal, self.tops)
