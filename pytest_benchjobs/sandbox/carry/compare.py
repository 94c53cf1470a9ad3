"""Comparing two listings: the script that turns the fresh place into what the agent left.

Both are sorted, so they are merged in one pass. Two records that are equal to the last bit, on overlayfs, are one file
of the image: any change makes a copy in the upper layer, with a new change time. All else is compared by its content.
What is the fresh place's own (`own.py`) is passed over in both.
"""

from __future__ import annotations

import stat
from collections.abc import Callable, Mapping

from .own import WHY, Guards, Own, git_directories
from .records import (
    CHECK,
    CONTENT,
    END,
    ENTER,
    ENTRY,
    HEADER,
    LEAVE,
    LINKED,
    MAKE,
    META,
    OVERLAY,
    REMOVE,
    ROOT,
    SAME,
    SYMLINK,
    THERE,
    TOUCHED,
    Name,
    Record,
    Script,
    length,
    link,
    name_of,
    reason,
    records,
    target_of,
    turned,
    without_mode,
)

MOST_NOTES = 1000
_DIRECTORY = stat.S_IFDIR >> 12
_LINK_ON_THE_WAY = "a link, or nothing, is on the way to it"

LeftOut = tuple[bytes, str]
"""Path and reason."""
Apart = Callable[[bytes], bool]
"""Returns True for a path that is none of what is carried: it stays as it is, which nobody has to be told."""


class FreshUnreadable(Exception):
    """A directory of the fresh place cannot be read."""


class Listing:
    """A place in a listing. `ends`: where each directory that begins at a place has its end, if that is known."""

    def __init__(self, data: bytes, ends: Mapping[int, int] | None = None) -> None:
        self.data = data
        self._ends = ends or {}
        self.files: dict[tuple[int, int], Name] = {}
        """Files with several names -> the first of these."""
        self.go(0)

    def go(self, at: int) -> None:
        """Go to another place."""
        self.at = at
        self.raw = self.data[at : at + length(self.data, at)]
        self.record = Record._make(HEADER.unpack_from(self.raw))
        self.type = stat.S_IFMT(self.record.mode)

    def next(self) -> None:
        """Go on to what comes next."""
        self.go(self.at + len(self.raw))

    def skip(self) -> bytes:
        """Go on past it, with all that is below it; return that."""
        start, depth = self.at, 0
        if start in self._ends:
            self.go(self._ends[start])
            return self.data[start : self.at]
        while True:
            depth += (self.type == stat.S_IFDIR) - (self.record.kind == LEAVE)
            self.next()
            if not depth:
                return self.data[start : self.at]

    @property
    def name(self) -> bytes:
        """The name in the record."""
        return name_of(self.record, self.raw)

    def first_name(self, name: Name | None) -> Name | None:
        """Return the first name of the file that is called `name`, too; None: it is the only one."""
        if not self.record.flags & LINKED or name is None:
            return None
        return self.files.setdefault((self.record.device, self.record.inode), name)


def ends_of(listing: bytes) -> dict[int, int]:
    """Return where each root and directory of a listing begins, and what comes after it."""
    ends, way, at = dict[int, int](), list[int](), 0
    while at < len(listing):
        end, kind = at + length(listing, at), listing[at]
        if kind == LEAVE:
            ends[way.pop()] = end
        elif kind == ROOT or (kind == ENTRY and listing[at + 9] >> 4 == _DIRECTORY):
            way.append(at)
        at = end
    return ends


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
        self._guards: list[Guards] = []
        """Of the directories that we are in."""

    def run(self) -> None:
        """Compare.

        Raises:
            FreshUnreadable: a directory of the fresh place cannot be read.
        """
        while True:
            agent, fresh = self._agent.record, self._fresh.record
            if agent.kind == fresh.kind == END:
                return
            if agent.kind == fresh.kind == ROOT:
                self._begin_root()
            elif agent.kind == fresh.kind == LEAVE:
                self._end()
            elif fresh.kind == LEAVE or (agent.kind != LEAVE and self._agent.name < self._fresh.name):
                self._add()
            elif agent.kind == LEAVE or self._fresh.name < self._agent.name:
                self._remove(keep=agent.kind == LEAVE and agent.data > 0)
            else:
                self._both()
            self._skip_equal()

    def _begin_root(self) -> None:
        path = target_of(self._fresh.record, self._fresh.raw)
        self.script.begin_root(self._fresh.record.size, path)
        self._guards.append(self._own.below(path))
        if self._agent.record.data:
            self._leave_out(path.rpartition(b"/")[2], _LINK_ON_THE_WAY)
        self._agent.next()
        self._fresh.next()

    def _skip_equal(self) -> None:
        """Go on past what is of the image on both sides."""
        agent, fresh, at, other = self._agent.data, self._fresh.data, self._agent.at, self._fresh.at
        while True:
            size = length(agent, at)
            raw = agent[at : at + size]
            if raw != fresh[other : other + size]:
                break
            if raw[0] == ENTRY and raw[1] & (OVERLAY | LINKED) == OVERLAY:
                if raw[9] >> 4 == _DIRECTORY:
                    name = raw[HEADER.size :]
                    if self._guards[-1].get(name, ()) is None or self._is_apart(name):
                        break
                    self._down(name, turned(raw, ENTER), at)
            elif raw[0] == LEAVE and not Record._make(HEADER.unpack_from(raw)).data:
                self._leave()
            else:
                break
            at += size
            other += size
        self._agent.go(at)
        self._fresh.go(other)

    def _end(self) -> None:
        if self._fresh.record.data:
            raise FreshUnreadable(self.script.located(b"").decode("utf-8", "replace"))
        self._up()
        self._agent.next()
        self._fresh.next()

    def _up(self) -> None:
        if why := self._agent.record.data:
            self._leave_out(b"", f"it cannot be read to its end: {reason(why)}")
        self._leave()

    def _down(self, name: bytes, enter: bytes, agent: int | None, *, do: bool = False) -> None:
        """Go into a directory; `agent`: where it begins in the agent's listing, if there."""
        guards = self._guards[-1].get(name) or {}
        self.script.down(name, enter, do=do)
        if agent is not None and (name == b".git" or agent in self._git):
            guards = {**self._own.in_git(self.script.located(b"")), **guards}
        self._guards.append(guards)

    def _leave(self) -> None:
        self._guards.pop()
        self.script.up()

    def _stays(self, of: Listing) -> bool:
        """Return True if the fresh place's own is there, or a way to it that is no directory."""
        names, name = self._guards[-1], of.name
        return name in names and (names[name] is None or of.type != stat.S_IFDIR)

    def _is_apart(self, name: bytes) -> bool:
        return self._apart is not None and bool(name) and self._apart(self.script.located(name))

    def _pass_over(self) -> None:
        """Leave what the agent has, and say so."""
        self._leave_out(self._agent.name, WHY)
        self._agent.skip()

    def _leave_out(self, name: bytes, why: str) -> None:
        if len(self.left_out) < MOST_NOTES:
            self.left_out.append((self.script.located(name), why))

    def _add(self) -> None:
        """Add what only the agent has, with all that is below it."""
        agent, depth = self._agent, 0
        while True:
            if agent.record.kind == LEAVE:
                self._up()
                depth -= 1
                agent.next()
            elif self._is_apart(agent.name):
                agent.skip()
            elif self._stays(agent):
                self._pass_over()
            elif agent.type == stat.S_IFDIR:
                self._down(agent.name, turned(agent.raw, MAKE), agent.at, do=True)
                depth += 1
                agent.next()
            else:
                self._new(0)
                agent.next()
            if not depth:
                return

    def _remove(self, *, keep: bool = False, whole: bool = False) -> None:
        """Remove what only the fresh place has, with all below it, or `keep` it; `whole`: also what is apart."""
        fresh, way = self._fresh, list[bytes]()
        while True:
            gone = b""
            is_apart = not whole and self._is_apart(fresh.name)
            if is_apart or self._stays(fresh):
                # So do the directories that it is in.
                way = [b""] * len(way)
                if not keep and not is_apart:
                    self._leave_out(fresh.name, WHY)
                fresh.skip()
                if not way:
                    return
                continue
            if fresh.record.kind == LEAVE:
                self._leave()
                gone = way.pop()
            elif fresh.type == stat.S_IFDIR:
                self._down(fresh.name, without_mode(turned(fresh.raw, ENTER)), None)
                way.append(fresh.raw)
            else:
                gone = fresh.raw
            if gone and not keep:
                self.script.add(turned(gone, REMOVE))
            fresh.next()
            if not way:
                return

    def _both(self) -> None:
        agent, fresh = self._agent, self._fresh
        if self._is_apart(agent.name):
            agent.skip()
            fresh.skip()
            return
        if self._stays(agent):
            self._both_stay()
            return
        if agent.type == fresh.type == stat.S_IFDIR:
            touched = TOUCHED if agent.record.meta != fresh.record.meta else 0
            self._down(agent.name, turned(agent.raw, ENTER, touched), agent.at, do=bool(touched))
        elif fresh.type == stat.S_IFDIR:
            self._remove(whole=True)
            self._add()
            return
        elif agent.type == stat.S_IFDIR:
            fresh.next()
            self._add()
            return
        elif agent.type == fresh.type == stat.S_IFREG:
            self._file()
        elif agent.type != fresh.type or self._points_elsewhere():
            self._new(THERE)
        elif agent.type == stat.S_IFLNK and agent.record.meta != fresh.record.meta:
            self.script.add(turned(agent.raw, META))
        agent.next()
        fresh.next()

    def _both_stay(self) -> None:
        """Let what the fresh place has stay, and say so where the agent has something else."""
        agent, fresh = self._agent, self._fresh
        name, is_own = agent.name, self._guards[-1][agent.name] is None
        theirs = agent.skip()
        if not is_own:
            self._leave_out(name, WHY)
            self._remove()
        elif _seen(theirs) != _seen(fresh.skip()):
            self._leave_out(name, WHY)

    def _points_elsewhere(self) -> bool:
        """Return True for a link with another target, and a device of another number."""
        agent, fresh = self._agent, self._fresh
        return (agent.record.size, target_of(agent.record, agent.raw)) != (
            fresh.record.size,
            target_of(fresh.record, fresh.raw),
        )

    def _new(self, flags: int) -> None:
        agent = self._agent
        if agent.type == stat.S_IFLNK:
            self.script.add(turned(agent.raw, SYMLINK, flags))
        elif agent.type == stat.S_IFREG:
            own = self.script.named(agent.name)
            self._content(agent.first_name(own), own, flags)
        else:
            self._leave_out(agent.name, "neither a file, a directory nor a link")
            if flags & THERE:
                self.script.add(turned(agent.raw, REMOVE))

    def _content(self, first: Name | None, own: Name | None, flags: int) -> None:
        if first is not None and first != own:
            self.script.add(link(self._agent.raw, flags, first))
        else:
            self.script.add(turned(self._agent.raw, CONTENT, flags | self._agent.record.flags & LINKED))

    def _file(self) -> None:
        agent, fresh = self._agent, self._fresh
        own = self.script.named(agent.name) if (agent.record.flags | fresh.record.flags) & LINKED else None
        first, other = agent.first_name(own), fresh.first_name(own)
        if agent.raw == fresh.raw and agent.record.flags & OVERLAY:
            return
        if first != own and first is not None:
            self._content(first, own, THERE | (SAME if first == other else 0))
        elif agent.record.size == fresh.record.size and other in (None, own):
            touched = TOUCHED if agent.record.meta != fresh.record.meta else 0
            flags = THERE | touched | agent.record.flags & LINKED
            self.script.add(turned(agent.raw, CHECK, flags))
            self.checks += 1
        else:
            self._content(None, own, THERE)


def _seen(listing: bytes) -> list[tuple[object, ...]]:
    """Return what tells whether somebody did something there."""
    return [(record.kind, record.mode, record.size, raw[HEADER.size :]) for record, raw in records(listing)]
