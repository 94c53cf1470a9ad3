"""Tar archives of what our program lists (`walk -c`), and scripts for it (`unpack`) of what is in an archive."""

from __future__ import annotations

import errno
import os
import stat
import struct
import tarfile
from collections.abc import Generator, Iterable, Iterator
from typing import IO

from ..archive import reader_of
from .records import (
    CONTENT,
    END,
    ENTRY,
    HEADER,
    LEAVE,
    MAKE,
    ROOT,
    SYMLINK,
    Record,
    name_of,
    plain,
    reason,
    target_of,
)

_CHUNK = 1 << 18
_EXTENT = struct.Struct("<QI")
_WHY = struct.Struct("<I")
_SET_ID = 0o6000
_TYPES = {stat.S_IFREG: tarfile.REGTYPE, stat.S_IFDIR: tarfile.DIRTYPE, stat.S_IFLNK: tarfile.SYMTYPE}


def _take(stream: IO[bytes], size: int) -> bytes:
    taken = stream.read(size) if size <= _CHUNK else b""
    if len(taken) < size:
        raise tarfile.ReadError("it ends before its end")
    return taken


def archive_of_listing(listing: Iterable[bytes]) -> Generator[bytes]:
    """Yield the archive of what is listed below one root, piece by piece; nothing where nothing is.

    Raises:
        tarfile.ReadError: it cannot be listed to its end, or changed meanwhile; or a link is in the way.
    """
    stream, way, found = reader_of(iter(listing)), list[bytes](), False
    while True:
        raw = _take(stream, HEADER.size)
        record = Record._make(HEADER.unpack(raw))
        raw += _take(stream, record.name_bytes + record.target_bytes)
        if record.kind == END:
            break
        if record.kind != ENTRY:
            if record.data not in (0, errno.ENOENT):
                raise tarfile.ReadError(reason(record.data))
            way = way[:-1]
            continue
        if not found and stat.S_ISLNK(record.mode):
            raise tarfile.ReadError("it is a link")
        found = True
        way.append(name_of(record, raw))
        member = tarfile.TarInfo(os.fsdecode(b"/".join(way)))
        member.type = _TYPES.get(stat.S_IFMT(record.mode), tarfile.FIFOTYPE)
        member.mode, member.uid, member.gid = stat.S_IMODE(record.mode), record.uid, record.gid
        member.size = record.size if member.isreg() else 0
        member.linkname = os.fsdecode(target_of(record, raw))
        yield member.tobuf(tarfile.GNU_FORMAT)
        if member.isreg():
            yield from _content(stream, record.size)
        if not member.isdir():
            way.pop()
    if found:
        yield bytes(2 * tarfile.BLOCKSIZE)


def _content(stream: IO[bytes], size: int) -> Iterator[bytes]:
    end = 0
    while True:
        start, count = _EXTENT.unpack(_take(stream, _EXTENT.size))
        if not count:
            break
        if not end <= start <= start + count <= size:
            raise tarfile.ReadError("it makes no sense")
        yield from _zeros(start - end)
        yield _take(stream, count)
        end = start + count
    if missing := _WHY.unpack(_take(stream, _WHY.size))[0]:
        raise tarfile.ReadError(reason(missing))
    yield from _zeros(size - end + -size % tarfile.BLOCKSIZE)


def _zeros(count: int) -> Iterator[bytes]:
    for at in range(0, count, _CHUNK):
        yield bytes(min(_CHUNK, count - at))


def script_of(archive: IO[bytes], most: int) -> tuple[list[bytes], Iterator[bytes]] | None:
    """Return the roots and the script that make what is in an archive, each member a root of its own.

    None: the paths have more than so many bytes, or one is of a kind that `unpack` does not make.
    """
    tar = tarfile.open(fileobj=archive)  # noqa: SIM115  the archive is the caller's
    members = tar.getmembers()
    roots = [os.fsencode(f"/{member.name}") for member in members]
    kinds = all((one.isreg() or one.isdir() or one.issym()) and not one.mode & _SET_ID for one in members)
    if not kinds or b"/" in roots or sum(len(root) + 1 for root in roots) > most:
        return None

    def pieces() -> Iterator[bytes]:
        for number, member in enumerate(members):
            yield plain(ROOT, number)
            yield from _made(tar, member)
            yield plain(LEAVE)
        yield plain(END)

    return roots, pieces()


def _made(tar: tarfile.TarFile, member: tarfile.TarInfo) -> Iterator[bytes]:
    kind, of = (SYMLINK, stat.S_IFLNK) if member.issym() else (CONTENT, stat.S_IFREG)
    name, target = (os.fsencode(text) for text in (os.path.basename(member.name), member.linkname))  # noqa: PTH119
    seconds, fraction = divmod(member.mtime, 1)
    record = Record(
        kind=MAKE if member.isdir() else kind,
        flags=0,
        name_bytes=len(name),
        target_bytes=len(target),
        device=0,
        mode=member.mode | (stat.S_IFDIR if member.isdir() else of),
        uid=member.uid,
        gid=member.gid,
        mtime_ns=int(fraction * 1e9),
        ctime_ns=0,
        inode=0,
        size=member.size,
        data=member.size,
        mtime=int(seconds),
        ctime=0,
    )
    yield HEADER.pack(*record) + name + target
    if member.isdir():
        yield HEADER.pack(*record._replace(kind=LEAVE, name_bytes=0))
    elif (content := tar.extractfile(member) if member.isreg() else None) is not None:
        at = 0
        while piece := content.read(_CHUNK):
            yield _EXTENT.pack(at, len(piece)) + piece
            at += len(piece)
        yield _EXTENT.pack(0, 0) + _WHY.pack(0)
