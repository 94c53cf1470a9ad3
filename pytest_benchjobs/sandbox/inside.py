"""Work of one `serve` inside a sandbox, each of which takes a call of the engine. It does what this cannot do.

Archives are made of what our program lists (`walk -c`), and scripts for it (`unpack`) of what is in an archive.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import posixpath
import stat
import struct
import tarfile
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from ..model.errors import EnvironmentFailed, OutputLost
from .archive import open_stream, unpack
from .carry.records import HEADER, Kind, length, new_record, reason, record_at
from .protocol import Fetched, Sink
from .runner import MOST, Runner

_LISTING = 64 << 20
_ROOM = 1 << 12
"""Bytes of a frame for more than the paths, or the command with its variables."""
_CHUNK = 1 << 18
_EXTENT = struct.Struct("<QI")
_WHY = struct.Struct("<I")
_SET_ID = 0o6000
_TYPES = {stat.S_IFREG: tarfile.REGTYPE, stat.S_IFDIR: tarfile.DIRTYPE, stat.S_IFLNK: tarfile.SYMTYPE}


class CannotAct(Exception):
    """The engine has to do it."""


class IsLink(CannotAct, tarfile.ReadError):
    """What is to be read is a link."""


class Inside:
    """One `serve`, begun at its first use, and anew where it was cut off. `begin` may raise EnvironmentFailed."""

    def __init__(self, begin: Callable[[], Runner]) -> None:
        self._begin = begin
        self._runner: Runner | None = None
        self._cannot = False

    def close(self) -> None:
        """End it. It may begin again."""
        if self._runner is not None:
            self._runner.close()
            self._runner = None

    def run(
        self,
        argv: tuple[str, ...],
        env: Mapping[str, str],
        workdir: str,
        *,
        timeout: float,
        sink: Sink,
        stdout: Sink | None,
    ) -> int | None:
        """Run a command of root, by its path; returns its exit status, None if its time was up. Raises CannotAct."""

        def both(content: bytes) -> None:
            sink(content)
            if stdout is not None:
                stdout(content)

        size = sum(len(os.fsencode(text)) + 2 for text in (*argv, *env, *env.values()))
        if size > MOST - _ROOM:
            raise CannotAct
        return self._serving().run(argv, stdout=both, stderr=sink, workdir=workdir, env=env, timeout=timeout)

    def put(self, archive: IO[bytes]) -> None:
        """Put in what an archive has. Links on the way to that are not followed.

        Raises CannotAct: some of it is not there then.
        """
        found = script_of(archive, MOST - _ROOM)
        if found is None:
            raise CannotAct
        with self._may_fail():
            roots, script = found
            told = b"".join(self._serving().program(("unpack", *roots), script))
        if len(told) != HEADER.size:  # more than its end
            record = record_at(told)
            raise CannotAct(f"{reason(record.size)}")

    def read(self, path: str, limit: int) -> bytes | None:
        """One regular file; None: there is none. More than `limit` bytes is a ValueError. Raises CannotAct."""
        with contextlib.suppress(IsLink), self._may_fail(), contextlib.closing(self._archive(path)) as pieces:
            if (first := next(pieces, None)) is None:
                return None
            archive = open_stream(itertools.chain((first,), pieces))
            member = archive.next()
            if member is None or not member.isreg():
                return None
            if member.size > limit:
                raise ValueError(f"{path} has {member.size} bytes, more than {limit}")
            content = archive.extractfile(member)
            return None if content is None else content.read()
        return None

    def _archive(self, path: str) -> Generator[bytes]:
        return archive_of_listing(self._serving().program(("walk", "-c", str(_LISTING), path), ()))

    def fetch(self, path: str, destination: Path, limit: int, exclude: tuple[str, ...]) -> Fetched | None:
        """Copy a file or directory out, safely. None: not there.

        Raises CannotAct: some of it may be at the destination. A link to `/proc` leads elsewhere for a process inside.
        """
        if path != posixpath.normpath(path) or not path.startswith("/") or path == "/":
            raise CannotAct
        with self._may_fail(), contextlib.closing(self._archive(path)) as pieces:
            if (first := next(pieces, None)) is None:
                return None
            archive = open_stream(itertools.chain((first,), pieces))
            return unpack(archive, destination, limit=limit, exclude=exclude)

    def _serving(self) -> Runner:
        if self._runner is None or self._runner.has_ended:
            self.close()
            if self._cannot:
                raise CannotAct
            try:
                self._runner = self._begin()
            except EnvironmentFailed as error:
                self._cannot = True
                raise CannotAct from error
        return self._runner

    @contextlib.contextmanager
    def _may_fail(self) -> Iterator[None]:
        try:
            yield
        except IsLink:
            raise
        except (EnvironmentFailed, OutputLost, tarfile.TarError) as error:
            raise CannotAct(str(error)) from error


def _taking(pieces: Iterable[bytes]) -> Callable[[int], bytes]:
    """Return a reader of this number of bytes of a stream."""
    stream, taken = filter(None, pieces), bytearray()

    def take(size: int) -> bytes:
        while size <= _CHUNK and len(taken) < size and (piece := next(stream, b"")):
            taken.extend(piece)
        if len(taken) < size:
            raise tarfile.ReadError("it ends before its end")
        found = bytes(taken[:size])
        del taken[:size]
        return found

    return take


def archive_of_listing(listing: Iterable[bytes]) -> Generator[bytes]:
    """Yield the archive of what is listed below one root, piece by piece; nothing where nothing is.

    Raises:
        tarfile.ReadError: it cannot be listed to its end, or changed meanwhile; or a link is in the way.
    """
    take, way, found = _taking(listing), list[bytes](), False
    while True:
        raw = take(HEADER.size)
        record = record_at(raw + take(length(raw, 0) - HEADER.size))
        if record.kind == Kind.END:
            break
        if record.kind != Kind.ENTRY:
            if record.data not in (0, errno.ENOENT):
                raise tarfile.ReadError(reason(record.data))
            way = way[:-1]
            continue
        if not found and stat.S_ISLNK(record.mode):
            raise IsLink("it is a link")
        found = True
        way.append(record.name)
        member = tarfile.TarInfo(os.fsdecode(b"/".join(way)))
        member.type = _TYPES.get(stat.S_IFMT(record.mode), tarfile.FIFOTYPE)
        member.mode, member.uid, member.gid = stat.S_IMODE(record.mode), record.uid, record.gid
        member.size = record.size if member.isreg() else 0
        member.linkname = os.fsdecode(record.target)
        yield member.tobuf(tarfile.GNU_FORMAT)
        if member.isreg():
            yield from _content(take, record.size)
        if not member.isdir():
            way.pop()
    if found:
        yield bytes(2 * tarfile.BLOCKSIZE)


def _content(take: Callable[[int], bytes], size: int) -> Iterator[bytes]:
    end = 0
    while True:
        start, count = _EXTENT.unpack(take(_EXTENT.size))
        if not count:
            break
        if not end <= start <= start + count <= size:
            raise tarfile.ReadError("it makes no sense")
        yield from _zeros(start - end)
        yield take(count)
        end = start + count
    if missing := _WHY.unpack(take(_WHY.size))[0]:
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
            yield new_record(Kind.ROOT, size=number)
            yield from _made(tar, member)
            yield new_record(Kind.LEAVE)
        yield new_record(Kind.END)

    return roots, pieces()


def _made(tar: tarfile.TarFile, member: tarfile.TarInfo) -> Iterator[bytes]:
    made: dict[str, Any] = {"uid": member.uid, "gid": member.gid, "time_ns": int(member.mtime * 1e9)}
    name = os.fsencode(os.path.basename(member.name))  # noqa: PTH119
    if member.isdir():
        made["mode"] = stat.S_IFDIR | member.mode
        yield new_record(Kind.MAKE, name, **made) + new_record(Kind.LEAVE, **made)
    elif member.issym():
        yield new_record(Kind.SYMLINK, name, os.fsencode(member.linkname), **made)
    elif (content := tar.extractfile(member)) is not None:
        yield new_record(Kind.CONTENT, name, mode=stat.S_IFREG | member.mode, size=member.size, **made)
        at = 0
        while piece := content.read(_CHUNK):
            yield _EXTENT.pack(at, len(piece)) + piece
            at += len(piece)
        yield _EXTENT.pack(0, 0) + _WHY.pack(0)
