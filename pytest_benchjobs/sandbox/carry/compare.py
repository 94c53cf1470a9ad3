"""Comparing two listings: the script that turns the fresh place into what the agent left.

Both are sorted, so they are merged in one pass. Two records that are equal to the last bit, on overlayfs, are one file
of the image: any change makes a copy in the upper layer, with a new change time. All else is compared by its content.
What is the fresh place's own (`own.py`) is passed over in both.
"""

from __future__ import annotations

import stat
from collections.abc import Callable, Mapping

from ...model.errors import EnvironmentFailed
from .own import WHY, Own, git_directories
from .records import (
    HEADER,
    Flag,
    Kind,
    Name,
    Record,
    Script,
    directories,
    is_directory,
    length,
    reason,
    record_at,
    records,
)

MOST_NOTES = 1000
_LINK_ON_THE_WAY = "a link, or nothing, is on the way to it"

LeftOut = tuple[bytes, str]
"""Path and reason."""
Apart = Callable[[bytes], bool]
"""Returns True for a path that is not carried: it stays as it is, without a note."""


class Listing:
    """A place in a listing. `ends`: where each directory that begins at a place has its end, if that is known."""

    def __init__(self, data: bytes, ends: Mapping[int, int] | None = None) -> None:
        self.data = data
        self._ends = ends or {}
        self.files: dict[tuple[int, int], Name] = {}
        """Files with several names -> the first of these."""
        self.at, self.record = 0, record_at(data)

    def go(self, at: int) -> None:
        """Go to another place."""
        if at != self.at:
            self.at, self.record = at, record_at(self.data, at)

    def next(self) -> None:
        """Go on to what comes next."""
        self.go(self.at + len(self.record.raw))

    def skip(self) -> bytes:
        """Go on past it, with all that is below it; return that."""
        start, depth = self.at, 0
        if start in self._ends:
            self.go(self._ends[start])
            return self.data[start : self.at]
        while True:
            depth += (self.record.type == stat.S_IFDIR) - (self.record.kind == Kind.LEAVE)
            self.next()
            if not depth:
                return self.data[start : self.at]

    def first_name(self, name: Name | None) -> Name | None:
        """Return the first name of the file that is called `name`, too; None: it is the only one."""
        if not self.record.flags & Flag.LINKED or name is None:
            return None
        return self.files.setdefault((self.record.device, self.record.inode), name)


def ends_of(listing: bytes) -> dict[int, int]:
    """Return where each root and directory of a listing begins, and what comes after it."""
    return {start: end for start, end, _ in directories(listing)}


def merge(one: Listing, other: Listing, *steps: Callable[[], None]) -> None:
    """Go through two listings of the same roots side by side, by steps that go on in one of them, or in both.

    These are what to do at the beginning of a root, at the end of a directory, with what only the one has, only the
    other, and both; and, after each of these, past what is equal.
    """
    root, leave, only_one, only_other, both, skip_equal = steps
    while not one.record.kind == other.record.kind == Kind.END:
        kinds, names = {one.record.kind, other.record.kind}, (one.record.name, other.record.name)
        if kinds == {Kind.ROOT}:
            root()
        elif kinds == {Kind.LEAVE}:
            leave()
        elif other.record.kind == Kind.LEAVE or (one.record.kind != Kind.LEAVE and names[0] < names[1]):
            only_one()
        elif one.record.kind == Kind.LEAVE or names[1] < names[0]:
            only_other()
        else:
            both()
        skip_equal()


class Comparison:
    """The comparison of two listings of the same roots. Damaged ones are a `struct.error` or an IndexError."""

    def __init__(
        self, agent: bytes, fresh: bytes, own: Own | None = None, apart: Apart | None = None
    ) -> None:
        self.script = Script()
        self.left_out: list[LeftOut] = []
        self.checks = 0
        """Number of files whose content has to be compared."""
        self._agent = Listing(agent)
        self._fresh = Listing(fresh)
        self._own = own or Own()
        self._apart = apart
        self._git = git_directories(agent)

    def run(self) -> None:
        """Compare; a directory of the fresh place that cannot be read is an EnvironmentFailed."""
        steps = self._begin_root, self._end, self._add, self._remove_or_keep, self._both, self._skip_equal
        merge(self._agent, self._fresh, *steps)

    def _next(self) -> None:
        self._agent.next()
        self._fresh.next()

    def _begin_root(self) -> None:
        root = self._fresh.record
        self.script.down(root.raw)
        self._own.begin_root(root.target)
        if self._agent.record.data:
            self._leave_out(root.target.rpartition(b"/")[2], _LINK_ON_THE_WAY)
        self._next()

    def _skip_equal(self) -> None:
        """Go on past what is of the image on both sides."""
        agent, fresh, at, other = self._agent.data, self._fresh.data, self._agent.at, self._fresh.at
        while True:
            size = length(agent, at)
            raw = agent[at : at + size]
            if raw != fresh[other : other + size]:
                break
            if raw[0] == Kind.ENTRY and raw[1] & (Flag.OVERLAY | Flag.LINKED) == Flag.OVERLAY:
                if is_directory(raw, 0):
                    record = record_at(raw)
                    path = self.script.located(record.name)
                    if self._own.has(path) or self._is_apart(path):
                        break
                    self._down(record, Kind.ENTER, agent=at)
            elif raw[0] == Kind.LEAVE and not record_at(raw).data:
                self.script.up()
            else:
                break
            at += size
            other += size
        self._agent.go(at)
        self._fresh.go(other)

    def _end(self) -> None:
        if self._fresh.record.data:
            path = self.script.located(b"").decode("utf-8", "replace")
            raise EnvironmentFailed(f"{path} cannot be read in the container for grading")
        self._up()
        self._next()

    def _up(self) -> None:
        if why := self._agent.record.data:
            self._leave_out(b"", f"it cannot be read to its end: {reason(why)}")
        self.script.up()

    def _down(self, record: Record, kind: int, flags: int = 0, *, agent: int | None = None) -> None:
        """Go into a directory; `agent`: where it begins in the agent's listing, if there."""
        enter = record.turned(kind, flags)
        if agent is None:
            enter = enter[:8] + bytes(4) + enter[12:]  # without a mode, nothing is set by it
        self.script.down(enter, do=kind == Kind.MAKE or bool(flags))
        if agent is not None and (record.name == b".git" or agent in self._git):
            self._own.add_git(self.script.located(b""))

    def _stays(self, path: bytes, record: Record) -> bool:
        """Return True if the fresh place's own is there, or a way to it that is no directory."""
        return self._own.has(path) or (record.type != stat.S_IFDIR and self._own.has_way(path))

    def _is_apart(self, path: bytes) -> bool:
        return self._apart is not None and self._apart(path)

    def _leave_out(self, name: bytes, why: str) -> None:
        if len(self.left_out) < MOST_NOTES:
            self.left_out.append((self.script.located(name), why))

    def _add(self) -> None:
        """Add what only the agent has, with all that is below it."""
        agent, depth = self._agent, 0
        while True:
            record = agent.record
            path = self.script.located(record.name)
            if record.kind == Kind.LEAVE:
                self._up()
                depth -= 1
                agent.next()
            elif self._is_apart(path):
                agent.skip()
            elif self._stays(path, record):
                self._leave_out(record.name, WHY)
                agent.skip()
            elif record.type == stat.S_IFDIR:
                self._down(record, Kind.MAKE, agent=agent.at)
                depth += 1
                agent.next()
            else:
                self._new(0)
                agent.next()
            if not depth:
                return

    def _remove_or_keep(self) -> None:
        """Remove what only the fresh place has; where the agent's directory was not listed to its end, keep it."""
        self._remove(keep=self._agent.record.kind == Kind.LEAVE and self._agent.record.data > 0)

    def _remove(self, *, keep: bool = False, whole: bool = False) -> None:
        """Remove what only the fresh place has, with all below it, or `keep` it; `whole`: also what is apart."""
        fresh, way = self._fresh, list[Record | None]()
        while True:
            record, gone = fresh.record, None
            is_end, path = record.kind == Kind.LEAVE, self.script.located(record.name)
            is_apart = not (whole or is_end) and self._is_apart(path)
            if is_apart or (not is_end and self._stays(path, record)):
                # So do the directories that it is in.
                way = [None] * len(way)
                if not keep and not is_apart:
                    self._leave_out(record.name, WHY)
                fresh.skip()
            else:
                if is_end:
                    self.script.up()
                    gone = way.pop()
                elif record.type == stat.S_IFDIR:
                    self._down(record, Kind.ENTER)
                    way.append(record)
                else:
                    gone = record
                if gone and not keep:
                    self.script.add(gone.turned(Kind.REMOVE))
                fresh.next()
            if not way:
                return

    def _both(self) -> None:
        agent, fresh = self._agent.record, self._fresh.record
        types, touched = (agent.type, fresh.type), Flag.TOUCHED if agent.meta != fresh.meta else 0
        path = self.script.located(agent.name)
        if self._is_apart(path):
            self._agent.skip()
            self._fresh.skip()
        elif self._stays(path, agent):
            self._both_stay(whole=self._own.has(path))
        elif types == (stat.S_IFDIR, stat.S_IFDIR):
            self._down(agent, Kind.ENTER, touched, agent=self._agent.at)
            self._next()
        elif fresh.type == stat.S_IFDIR:
            self._remove(whole=True)
            self._add()
        elif agent.type == stat.S_IFDIR:
            self._fresh.next()
            self._add()
        else:
            # A link may have another target, and a device another number.
            is_same = (agent.type, agent.size, agent.target) == (fresh.type, fresh.size, fresh.target)
            if types == (stat.S_IFREG, stat.S_IFREG):
                self._file(touched)
            elif not is_same:
                self._new(Flag.THERE)
            elif agent.type == stat.S_IFLNK and touched:
                self.script.add(agent.turned(Kind.META))
            self._next()

    def _both_stay(self, *, whole: bool) -> None:
        """Let what the fresh place has stay, and say so where the agent has something else."""
        name, theirs = self._agent.record.name, self._agent.skip()
        if not whole:
            self._leave_out(name, WHY)
            self._remove()
        elif _seen(theirs) != _seen(self._fresh.skip()):
            self._leave_out(name, WHY)

    def _new(self, flags: int) -> None:
        record = self._agent.record
        if record.type == stat.S_IFLNK:
            self.script.add(record.turned(Kind.SYMLINK, flags))
        elif record.type == stat.S_IFREG:
            own = self.script.named(record.name)
            self._content(self._agent.first_name(own), own, flags)
        else:
            self._leave_out(record.name, "neither a file, a directory nor a link")
            if flags & Flag.THERE:
                self.script.add(record.turned(Kind.REMOVE))

    def _content(self, first: Name | None, own: Name | None, flags: int) -> None:
        record = self._agent.record
        if first is not None and first != own:
            self.script.add(record.linked(flags, first))
        else:
            self.script.add(record.turned(Kind.CONTENT, flags | record.flags & Flag.LINKED))

    def _file(self, touched: int) -> None:
        agent, fresh = self._agent.record, self._fresh.record
        own = self.script.named(agent.name) if (agent.flags | fresh.flags) & Flag.LINKED else None
        first, other = self._agent.first_name(own), self._fresh.first_name(own)
        if agent.raw == fresh.raw and agent.flags & Flag.OVERLAY:
            return
        if first != own and first is not None:
            self._content(first, own, Flag.THERE | (Flag.SAME if first == other else 0))
        elif agent.size == fresh.size and other in (None, own):
            self.script.add(agent.turned(Kind.CHECK, Flag.THERE | touched | agent.flags & Flag.LINKED))
            self.checks += 1
        else:
            self._content(None, own, Flag.THERE)


def _seen(listing: bytes) -> list[tuple[object, ...]]:
    """Return what tells whether somebody did something there."""
    return [(one.kind, one.mode, one.size, one.raw[HEADER.size :]) for one in records(listing)]
