"""Records of listings and scripts, as `sandbox/program/tree.h` describes them. Names are bytes."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from typing import NamedTuple

ROOT, ENTRY, ENTER, MAKE, LEAVE, CHECK, CONTENT, HARDLINK, SYMLINK, META, REMOVE, LEADS, END, FAILED = (
    kind[0] for kind in (b"R", b"E", b"D", b"N", b"L", b"C", b"F", b"H", b"S", b"M", b"X", b"T", b"Z", b"!")
)
OVERLAY, LINKED, UNSEEN = 1, 2, 4
"""Flags of listings: it is on an overlayfs; it is a file with several names; it is a directory that was not entered."""
ELSEWHERE = 1
SAME, TOUCHED, THERE = 4, 8, 16
"""Flags of scripts, which only this side reads: a link that is there if its file stays; something but content differs;
a file, a link or a special file is there."""
HEADER = struct.Struct("<BBHHHIIIIIQQQqq")
_LENGTHS = struct.Struct("<HH")
_LENGTHS_AT = 2
LONGEST_TARGET = 4095
_MOST_ERRORS = 4096

Name = tuple[int, bytes]
"""A root's number, and a path below the directory that holds it."""


class Record(NamedTuple):
    """One record without its name and target."""

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

    @property
    def meta(self) -> tuple[int, ...]:
        """Mode, owner and time."""
        return self.mode, self.uid, self.gid, self.mtime, self.mtime_ns


def plain(kind: int, size: int = 0) -> bytes:
    """Return a record that has only a kind and a size."""
    return HEADER.pack(kind, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, size, 0, 0, 0)


def turned(raw: bytes, kind: int, flags: int = 0) -> bytes:
    """Return a record of another kind, with other flags."""
    return bytes((kind, flags)) + raw[2:]


def without_mode(raw: bytes) -> bytes:
    """Return a record without a mode: nothing is set by it."""
    return raw[:8] + bytes(4) + raw[12:]


def link(raw: bytes, flags: int, to: Name) -> bytes:
    """Return the record of a further name of the file that is `to`."""
    record = Record._make(HEADER.unpack_from(raw))
    changed = record._replace(kind=HARDLINK, flags=flags, size=to[0], target_bytes=len(to[1]))
    return HEADER.pack(*changed) + name_of(record, raw) + to[1]


def length(data: bytes | bytearray, at: int) -> int:
    """Return how long the record at `at` is, with its name and target."""
    name, target = _LENGTHS.unpack_from(data, at + _LENGTHS_AT)
    return HEADER.size + int(name) + int(target)


def reason(number: int) -> str:
    """Return what an error number means. It may be any number at all."""
    return os.strerror(number) if number < _MOST_ERRORS else f"error {number}"


def records(data: bytes | bytearray) -> Iterator[tuple[Record, bytes]]:
    """Iterate over records: each as it is read, and as it is written."""
    at = 0
    while at < len(data):
        end = at + length(data, at)
        raw = bytes(data[at:end])
        yield Record._make(HEADER.unpack_from(raw)), raw
        at = end


def name_of(record: Record, raw: bytes) -> bytes:
    """Return the name in a record."""
    return raw[HEADER.size : HEADER.size + record.name_bytes]


def target_of(record: Record, raw: bytes) -> bytes:
    """Return the target in a record."""
    return raw[HEADER.size + record.name_bytes :]


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

    def begin_root(self, number: int, path: bytes) -> None:
        """Go into the directory that holds a root, whose path is `path`."""
        self._root, self._above = number, path.rpartition(b"/")[0]
        self._way.append(plain(ROOT, number))

    def down(self, name: bytes, enter: bytes, *, do: bool = False) -> None:
        """Go into a directory. `do`: even if nothing is to be done there."""
        self._way.append(enter)
        self._names.append(name)
        self._path_bytes += len(name) + 1
        if do:
            self.add(b"")

    def up(self) -> None:
        """Go out of a directory, which then gets the mode, owner and time of the record that led into it, if any."""
        enter = self._way.pop()
        if self._names:
            self._path_bytes -= len(self._names.pop()) + 1
        if self._entered > len(self._way):
            self._entered -= 1
            self.written += turned(enter, LEAVE)

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
        if self._path_bytes + len(name) > LONGEST_TARGET:
            return None
        return self._root, b"/".join((*self._names, name))
