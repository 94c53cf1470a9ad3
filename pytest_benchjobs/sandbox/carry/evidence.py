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

from .compare import Listing
from .records import END, ENTRY, HEADER, LEAVE, ROOT, UNSEEN, Record, length, name_of

# Whatever is executable is a program, too.
_LOADED = re.compile(
    rb"\.(so(\.[0-9.]+)?|py[cdo]?|pth|_pth|p[lm]|rb|lua|[cm]?js|node|jar|class|php|sh|conf)$"
)
_CACHE = b"/__pycache__"
_DIRECTORY = stat.S_IFDIR >> 12


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
        """Where the names of a directory begin in `before` -> whether something in it was loaded."""
        self._names: list[bytes] = []
        self._way: list[tuple[int, Record]] = []
        """Of the directories that we are in, where the names of one begin in `before`, and its record in `after`."""

    def run(self) -> None:
        before, after = self._before, self._after
        while True:
            kinds = before.record.kind, after.record.kind
            if kinds == (END, END):
                return
            if kinds == (ROOT, ROOT):
                self._enter(b"")
            elif kinds == (LEAVE, LEAVE):
                self._names.pop()
                self._way.pop()
                before.next()
                after.next()
            elif kinds[0] == LEAVE or (kinds[1] != LEAVE and after.name < before.name):
                self._add()
            elif kinds[1] == LEAVE or before.name < after.name:
                self._remove()
            else:
                self._both()
            self._skip_equal()

    def _enter(self, name: bytes) -> None:
        record = self._after.record
        self._before.next()
        self._after.next()
        self._names.append(name)
        self._way.append((self._before.at, record))

    def _skip_equal(self) -> None:
        """Go on past what is the same, and no directory."""
        before, after, at, other = self._before.data, self._after.data, self._before.at, self._after.at
        while before[at] == ENTRY and before[at + 9] >> 4 != _DIRECTORY:
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
        return record.ctime * 1_000_000_000 + record.ctime_ns >= self._since_ns

    def _is_elsewhere(self, listing: Listing) -> bool:
        """Return True for what is left out, and for what is mounted: `/` is on the first device."""
        return listing.record.device != 0 or self._path(listing.name) in self._without

    def _both(self) -> None:
        before, after = self._before, self._after
        one, other = before.record, after.record
        is_elsewhere = self._is_elsewhere(after)
        are_directories = before.type == after.type == stat.S_IFDIR
        if not is_elsewhere and self._is_new(other):
            metas = (one.mode, one.uid, one.gid), (other.mode, other.uid, other.gid)
            if not are_directories or metas[0] != metas[1]:
                self.changed.append(self._path(after.name))
        if are_directories and not is_elsewhere and not other.flags & UNSEEN:
            self._enter(after.name)
        else:
            before.skip()
            after.skip()

    def _remove(self) -> None:
        is_whole = self._after.record.kind != LEAVE or not self._after.record.data
        if is_whole and self._is_new(self._way[-1][1]) and not self._is_elsewhere(self._before):
            self.changed.append(self._path(self._before.name))
        self._before.skip()

    def _add(self) -> None:
        after, above = self._after, self._way[-1][1]
        name, record, is_elsewhere = after.name, after.record, self._is_elsewhere(after)
        inner = after.skip()
        if is_elsewhere or not self._is_new(record) or above.mode & stat.S_ISVTX:
            return
        if _has_loaded(_entries(inner, 0)) or (not stat.S_ISDIR(record.mode) and self._is_beside(name)):
            self.added.append(self._path(name))

    def _is_beside(self, name: bytes) -> bool:
        """Return True for a start-up file, and where something in the directory that we are in was loaded."""
        start = self._way[-1][0]
        if start not in self._loaded:
            self._loaded[start] = _has_loaded(_entries(self._before.data, start, deep=False))
        return self._loaded[start] or name.startswith(b".")


def _entries(listing: bytes, at: int, *, deep: bool = True) -> Iterator[tuple[Record, bytes]]:
    """Iterate over records and names from a place on to the end of its directory, with what is below these or not."""
    depth = 0
    while at < len(listing):
        raw = listing[at : at + length(listing, at)]
        record = Record._make(HEADER.unpack_from(raw))
        if record.kind == LEAVE:
            depth -= 1
            if depth < 0:
                return
        elif record.kind == ENTRY:
            if deep or depth == 0:
                yield record, name_of(record, raw)
            depth += stat.S_ISDIR(record.mode)
        at += len(raw)


def _has_loaded(found: Iterable[tuple[Record, bytes]]) -> bool:
    """Return True if programs, modules or settings are among records and names."""
    return any(
        (stat.S_ISREG(record.mode) and record.mode & 0o111)
        or (not stat.S_ISDIR(record.mode) and _LOADED.search(name))
        for record, name in found
    )
