"""Carrying files from the agent's container into the one where they are graded, as data and nothing else.

Only regular files, directories, and links that lead to something which is carried, too. No rights of other users, no
capabilities, no devices.
"""

from __future__ import annotations

import fnmatch
import posixpath
import tarfile
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager

from .protocol import Taken

FILES = 100_000
_SPOOL = 8 * 1024 * 1024
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
    spool = tempfile.SpooledTemporaryFile(_SPOOL)  # noqa: SIM115  the caller closes it
    try:
        taking = _Taking(tuple(paths), limit, only)
        with tarfile.open(fileobj=spool, mode="w", format=tarfile.PAX_FORMAT) as tar:
            for path, exclude in paths.items():
                with open_archive(path) as found:
                    if found is None:
                        taking.note(f"{path} is not there")
                        continue
                    taking.add(tar, path, *found, exclude)
        spool.seek(0)
    except BaseException:
        spool.close()
        raise
    return Taken(spool, tuple(taking.notes))


class _Taking:
    def __init__(self, tops: tuple[str, ...], limit: int, only: frozenset[str] | None) -> None:
        self.tops = tops
        self.only = only
        self.ways = frozenset(way for path in only or () for way in above(path))
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
            relative = member.name.partition("/")[2].rstrip("/")
            name = posixpath.join(path, relative) if relative else path
            if ".." in relative.split("/") or _excluded(relative, patterns) or not self._wanted(name, member):
                self.unread -= member.size
                if self.unread < 0:
                    self.note(f"{name} and what comes after it: too much to read through")
                    return
                continue
            if member.islnk():
                inside = member.linkname.partition("/")[2]
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
        if self.only is None or name in self.only or (member.isdir() and name in self.ways):
            return True
        return any(way in self.only for way in above(name))

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
        return any(goal == top or goal.startswith(f"{top}/") for top in self.tops)


def above(path: str) -> Iterator[str]:
    """The directories a path is in, without the root."""
    while (path := posixpath.dirname(path)) not in ("/", ""):
        yield path


def _excluded(relative: str, patterns: tuple[str, ...]) -> bool:
    if not patterns or not relative:
        return False
    parts = relative.split("/")
    tops = ["/".join(parts[:end]) for end in range(1, len(parts) + 1)]
    return any(
        fnmatch.fnmatchcase(one, pattern.rstrip("/")) for pattern in patterns for one in (*parts, *tops)
    )
