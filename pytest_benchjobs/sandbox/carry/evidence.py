"""Evidence of what an agent did outside of its workdir, where its work is graded in place: two listings of `/`.

Files that were there before the agent count if they were changed, replaced or removed. Of what was added to a directory
that was there, what is loaded counts: programs, modules, settings, start-up files, directories with some of these, and
any file beside such. Nothing counts that is in a directory for temporary files.

No clock in a sandbox can be set, so the time of the last change tells what is the agent's. Pure.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Collection, Iterable, Iterator

from .compare import Listing, merge
from .records import Flag, Kind, Record, is_directory, length, records

# Whatever is executable is a program, too.
_LOADED = re.compile(
    rb"\.(so(\.[0-9.]+)?|py[cdo]?|pth|_pth|p[lm]|rb|lua|[cm]?js|node|jar|class|php|sh|conf)$"
)
_CACHE = b"/__pycache__"


def changed_since(before: Listing, after: bytes, since: float, without: Collection[bytes]) -> list[bytes]:
    """Return paths that were changed, replaced, removed or added since a time, but for those below `without`.

    `before` may be of another container of the same image, that was set up the same way. Directories that `after` has
    not entered are the same. Damaged listings are a `struct.error` or an IndexError.
    """
    search = _Search(before, after, int(since * 1e9), without)
    search.run()
    # Python makes caches by itself.
    return [*search.changed, *sorted(search.added, key=lambda path: _CACHE in path)]


class _Search:
    def __init__(self, before: Listing, after: bytes, since_ns: int, without: Collection[bytes]) -> None:
        self.changed: list[bytes] = []
        self.added: list[bytes] = []
        self._before, self._after = before, Listing(after)
        self._since_ns = since_ns
        self._without = without
        self._loaded: dict[int, bool] = {}
        """Start of the names of a directory in `before` -> True if a file in it was loaded."""
        self._names: list[bytes] = []
        self._way: list[tuple[int, Record]] = []
        """Of the directories that we are in, where the names of one begin in `before`, and its record in `after`."""

    def run(self) -> None:
        steps = self._begin_root, self._leave, self._remove, self._add, self._both, self._skip_equal
        merge(self._before, self._after, *steps)

    def _begin_root(self) -> None:
        self._enter(b"")

    def _leave(self) -> None:
        self._names.pop()
        self._way.pop()
        self._before.next()
        self._after.next()

    def _enter(self, name: bytes) -> None:
        record = self._after.record
        self._before.next()
        self._after.next()
        self._names.append(name)
        self._way.append((self._before.at, record))

    def _skip_equal(self) -> None:
        """Go on past what is the same, and no directory."""
        before, after, at, other = self._before.data, self._after.data, self._before.at, self._after.at
        while before[at] == Kind.ENTRY and not is_directory(before, at):
            size = length(before, at)
            if before[at : at + size] != after[other : other + size]:
                break
            at += size
            other += size
        self._before.go(at)
        self._after.go(other)

    def _path(self, name: bytes) -> bytes:
        return b"/" + b"/".join([*self._names[2:], name])

    def _is_new(self, record: Record) -> bool:
        return record.changed_ns >= self._since_ns

    def _is_elsewhere(self, record: Record) -> bool:
        """Return True for what is left out, and for what is mounted: `/` is on the first device."""
        return record.device != 0 or self._path(record.name) in self._without

    def _both(self) -> None:
        one, other = self._before.record, self._after.record
        is_elsewhere = self._is_elsewhere(other)
        are_directories = one.type == other.type == stat.S_IFDIR
        if not is_elsewhere and self._is_new(other):
            metas = (one.mode, one.uid, one.gid), (other.mode, other.uid, other.gid)
            if not are_directories or metas[0] != metas[1]:
                self.changed.append(self._path(other.name))
        if are_directories and not is_elsewhere and not other.flags & Flag.UNSEEN:
            self._enter(other.name)
        else:
            self._before.skip()
            self._after.skip()

    def _remove(self) -> None:
        is_whole = self._after.record.kind != Kind.LEAVE or not self._after.record.data
        if is_whole and self._is_new(self._way[-1][1]) and not self._is_elsewhere(self._before.record):
            self.changed.append(self._path(self._before.record.name))
        self._before.skip()

    def _add(self) -> None:
        record, above = self._after.record, self._way[-1][1]
        inner = self._after.skip()
        if self._is_elsewhere(record) or not self._is_new(record) or above.mode & stat.S_ISVTX:
            return
        is_file = record.type != stat.S_IFDIR
        if _has_loaded(_entries(inner, 0)) or (is_file and self._is_beside(record.name)):
            self.added.append(self._path(record.name))

    def _is_beside(self, name: bytes) -> bool:
        """Return True for a start-up file, and where something in the directory that we are in was loaded."""
        start = self._way[-1][0]
        if start not in self._loaded:
            self._loaded[start] = _has_loaded(_entries(self._before.data, start, deep=False))
        return self._loaded[start] or name.startswith(b".")


def _entries(listing: bytes, at: int, *, deep: bool = True) -> Iterator[Record]:
    """Iterate over entries from a place on to the end of its directory, with what is below these or not."""
    depth = 0
    for record in records(listing, at):
        if record.kind == Kind.LEAVE:
            depth -= 1
            if depth < 0:
                return
        elif record.kind == Kind.ENTRY:
            if deep or depth == 0:
                yield record
            depth += record.type == stat.S_IFDIR


def _has_loaded(entries: Iterable[Record]) -> bool:
    """Return True if programs, modules or settings are among entries."""
    return any(
        (entry.type == stat.S_IFREG and entry.mode & 0o111)
        or (entry.type != stat.S_IFDIR and _LOADED.search(entry.name))
        for entry in entries
    )
