"""Records of listings and scripts, as `sandbox/program/tree.h` describes them. Names are bytes."""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Collection, Iterator
from typing import NamedTuple

HEADER = struct.Struct("<BBHHHIIIIIQQQqq")
_LENGTHS = struct.Struct("<xxHH")
_LONGEST_TARGET = 4095
_MOST_ERRORS = 4096
_PIECE = 256 * 1024

Name = tuple[int, bytes]
"""A root's number, and a path below the directory that holds it."""


class Kind:
    """Kinds of records."""

    ROOT, ENTRY, ENTER, MAKE, LEAVE, CHECK, CONTENT, HARDLINK, SYMLINK, META, REMOVE, END, FAILED = (
        b"REDNLCFHSMXZ!"
    )


class Flag:
    """Flags of records."""

    OVERLAY, LINKED, UNSEEN = 1, 2, 4
    """Of listings: it is on an overlayfs; it is a file with several names; it is a directory that was not entered."""
    LASTING, ELSEWHERE = 1, 2
    """Of links in scripts: it is made only if what it leads to is there to stay; that may be a file of the image."""
    SAME, TOUCHED, THERE = 4, 8, 16
    """Of scripts, for this side: a link that is there if its file stays; something but content differs; a file, a link
    or a special file is there."""


class Record(NamedTuple):
    """One record, and `raw`, how it is written with its name and target."""

    kind: int
    flags: int
    name_bytes: int
    target_bytes: int
    device: int
    mode: int
    uid: int
    gid: int
    mtime_ns: int
    ctime_ns: int
    inode: int
    size: int
    data: int
    mtime: int
    ctime: int
    raw: bytes

    @property
    def name(self) -> bytes:
        """The name in it."""
        return self.raw[HEADER.size : HEADER.size + self.name_bytes]

    @property
    def target(self) -> bytes:
        """Target of a link; path of a root."""
        return self.raw[HEADER.size + self.name_bytes :]

    @property
    def type(self) -> int:
        """Type of file."""
        return stat.S_IFMT(self.mode)

    @property
    def meta(self) -> tuple[int, ...]:
        """Mode, owner and time."""
        return self.mode, self.uid, self.gid, self.mtime, self.mtime_ns

    @property
    def changed_ns(self) -> int:
        """Time of the last change."""
        return self.ctime * 1_000_000_000 + self.ctime_ns

    def turned(self, kind: int, flags: int = 0) -> bytes:
        """Return it as another kind, with other flags."""
        return bytes((kind, flags)) + self.raw[2:]

    def linked(self, flags: int, to: Name) -> bytes:
        """Return the record of a further name of the file that is `to`."""
        head = (Kind.HARDLINK, flags, self.name_bytes, len(to[1]), *self[4:11], to[0], *self[12:15])
        return HEADER.pack(*head) + self.name + to[1]


def new_record(
    kind: int, name: bytes = b"", target: bytes = b"", *, mode: int = 0, uid: int = 0, gid: int = 0, size: int = 0,
    time_ns: int = 0,
) -> bytes:  # fmt: skip
    """Return a record of our own."""
    seconds, rest = divmod(time_ns, 1_000_000_000)
    head = kind, 0, len(name), len(target), 0, mode, uid, gid, rest, 0, 0, size, 0, seconds, 0
    return HEADER.pack(*head) + name + target


def length(data: bytes | bytearray, at: int) -> int:
    """Return how long the record at `at` is, with its name and target."""
    name, target = _LENGTHS.unpack_from(data, at)
    return HEADER.size + int(name) + int(target)


def record_at(data: bytes | bytearray, at: int = 0) -> Record:
    """Return the record at a place."""
    raw = bytes(data[at : at + length(data, at)])
    return Record._make((*HEADER.unpack_from(raw), raw))


def records(data: bytes | bytearray, at: int = 0) -> Iterator[Record]:
    """Iterate over the records from a place on."""
    while at < len(data):
        yield (record := record_at(data, at))
        at += len(record.raw)


def is_directory(listing: bytes, at: int) -> bool:
    """Return True if what is listed at a place is a directory."""
    return listing[at] == Kind.ENTRY and listing[at + 9] >> 4 == stat.S_IFDIR >> 12


def directories(listing: bytes, telling: Collection[bytes] = ()) -> Iterator[tuple[int, int, set[bytes]]]:
    """Yield where each root and directory of a listing begins and ends, and which of the `telling` names it holds."""
    way: list[tuple[int, set[bytes]]] = []
    at = 0
    while at < len(listing):
        (name_size, target_size), kind, name_at = (
            _LENGTHS.unpack_from(listing, at),
            listing[at],
            at + HEADER.size,
        )
        end = name_at + name_size + target_size
        if kind == Kind.ENTRY and (name := listing[name_at : name_at + name_size]) in telling:
            way[-1][1].add(name)
        if kind == Kind.LEAVE:
            start, names = way.pop()
            yield start, end, names
        elif kind == Kind.ROOT or is_directory(listing, at):
            way.append((at, set()))
        at = end


def reason(number: int) -> str:
    """Return what an error number means. It may be any number at all."""
    return os.strerror(number) if number < _MOST_ERRORS else f"error {number}"


class Script:
    """A script that grows. Directories are entered when something is to be done in them, and not before."""

    def __init__(self) -> None:
        self.written = bytearray()
        self.data = 0
        """Bytes of content that its files have."""
        self._root = 0
        self._above = b""
        self._names: list[bytes] = []
        self._way: list[bytes] = []
        self._entered = 0
        self._path_bytes = 0

    def down(self, enter: bytes, *, do: bool = False) -> None:
        """Go into a directory, or into the one that holds a root. `do`: even if nothing is to be done there."""
        record = record_at(enter)
        self._way.append(enter)
        if record.kind == Kind.ROOT:
            self._root, self._above = record.size, record.target.rpartition(b"/")[0]
            return
        self._names.append(record.name)
        self._path_bytes += record.name_bytes + 1
        if do:
            self.add(b"")

    def up(self) -> None:
        """Go out of a directory, which then gets the mode, owner and time of the record that led into it, if any."""
        enter = self._way.pop()
        if self._names:
            self._path_bytes -= len(self._names.pop()) + 1
        if self._entered > len(self._way):
            self._entered -= 1
            self.written += bytes((Kind.LEAVE, 0)) + enter[2:]

    def follow(self, record: Record, *, do: bool = False) -> bool:
        """Go where a record of a script or listing leads, with `do` as it does; False: it leads nowhere."""
        if record.kind in (Kind.ENTER, Kind.MAKE) or (
            record.kind == Kind.ENTRY and record.type == stat.S_IFDIR
        ):
            self.down(record.raw if do else record.turned(Kind.ENTER), do=do)
        elif record.kind == Kind.ROOT:
            self.down(record.raw)
        elif record.kind == Kind.LEAVE:
            self.up()
        else:
            return False
        return True

    def add(self, raw: bytes) -> None:
        """Add something to be done in the directory."""
        for enter in self._way[self._entered :]:
            self.written += enter
        self._entered = len(self._way)
        self.written += raw

    def located(self, name: bytes) -> bytes:
        """Return the path of something in the directory."""
        path = b"/".join((self._above, *self._names, *((name,) if name else ())))
        return path.replace(b"/./", b"/", 1)  # the root `/` is called `.`

    def named(self, name: bytes) -> Name | None:
        """Return how a link would name something in the directory; None: the path is too long for one."""
        if self._path_bytes + len(name) > _LONGEST_TARGET:
            return None
        return self._root, b"/".join((*self._names, name))

    def pieces(self) -> Iterator[bytes]:
        """Yield it with its end, piece by piece."""
        for at in range(0, len(self.written), _PIECE):
            yield bytes(self.written[at : at + _PIECE])
        yield new_record(Kind.END)
