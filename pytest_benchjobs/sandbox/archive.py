"""Tar archives on their way into a sandbox, and safely out of one.

What comes out was written by the agent: names, links and sizes are its choice. Only regular files and directories are
written, below one directory, up to a number of bytes and files; links only if they point at something inside.
"""

from __future__ import annotations

import contextlib
import fnmatch
import io
import os
import posixpath
import shutil
import tarfile
import tempfile
import time
import types
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, Any, Self

from ..system.cutting import beginning_of
from .protocol import BYTECODE, Fetched, File

MAX_FILES = 10_000
"""Most files and directories of one archive, up to twice as many with those beside what has too many."""
_SPOOL = 8 * 1024 * 1024
_CHUNK = 256 * 1024
_NAME_BYTES = 200
_PATH_BYTES = 1000
_MAX_NOTES = 100
# How much is read through to reach the small files behind big ones, which may be sparse, and how much any of them
# counts at least.
_MOST_SKIPPED, _LEAST_SKIPPED = 16 << 30, 64 << 10


def pack(files: Iterable[File], workdir: str) -> IO[bytes]:
    """One archive of all `files`, without `BYTECODE`, to be unpacked at `/`. Close it after use.

    Raises:
        OSError: a `source` cannot be read.
    """

    def fill(tar: tarfile.TarFile) -> None:
        for file in files:
            _add(tar, file, posixpath.normpath(posixpath.join(workdir, file.path)).lstrip("/"))

    return archive_of(fill)


def archive_of(fill: Callable[[tarfile.TarFile], object]) -> IO[bytes]:
    """The archive that `fill` adds members to, from its beginning. Close it after use."""
    spool = tempfile.SpooledTemporaryFile(max_size=_SPOOL)  # noqa: SIM115  the caller closes it
    try:
        with tarfile.open(fileobj=spool, mode="w", format=tarfile.PAX_FORMAT) as tar:
            fill(tar)
        spool.seek(0)
    except BaseException:
        spool.close()
        raise
    return spool


def _add(tar: tarfile.TarFile, file: File, name: str) -> None:
    if file.clean:
        # The engine removes whatever is in the way of a regular file, directories with all they hold included.
        tar.addfile(_member(name, 0o644))
    if file.content is not None:
        member = _member(name, 0o644 if file.mode is None else file.mode, file.owner)
        member.size = len(file.content)
        tar.addfile(member, io.BytesIO(file.content))
    elif file.source is not None:
        tar.add(file.source.resolve(), name, filter=_adapted(name, file))
    else:
        member = _member(name, 0o755 if file.mode is None else file.mode, file.owner)
        member.type = tarfile.DIRTYPE
        tar.addfile(member)


def _member(name: str, mode: int, owner: tuple[int, int] = (0, 0)) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.mode = mode
    member.uid, member.gid = owner
    member.mtime = int(time.time())
    return member


def _adapted(top: str, file: File) -> Callable[[tarfile.TarInfo], tarfile.TarInfo | None]:
    def adapt(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
        if member.isdir() and member.name != top and posixpath.basename(member.name) == BYTECODE:
            return None
        if as_root(member) is None:
            return None
        if file.readable:
            member.mode |= 0o555 if member.isdir() else 0o444
        if file.mode is not None and member.name == top:
            member.mode = file.mode
        return member

    return adapt


def as_root(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """The member, owned by root; None, which leaves it out, if it is a device, a pipe or a socket."""
    if not (member.isreg() or member.isdir() or member.issym() or member.islnk()):
        return None
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


class _Member(tarfile.TarInfo):
    """A member of an archive that has to have an end: `tarfile` takes any end of a stream between members for one."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        if len(buf) < tarfile.BLOCKSIZE:
            raise tarfile.ReadError("it ends before its end")
        return super().frombuf(buf, encoding, errors)


def open_stream(chunks: Iterable[bytes]) -> tarfile.TarFile:
    """The archive in a stream of chunks, to be read once from front to back. One that is cut is a `TarError`."""
    some = filter(None, chunks)  # an empty one would be the end
    stream: Any = types.SimpleNamespace(read=lambda _: next(some, b""))
    return tarfile.open(fileobj=stream, mode="r|", bufsize=_CHUNK, tarinfo=_Member)


def unpack(tar: tarfile.TarFile, destination: Path, *, limit: int, exclude: tuple[str, ...] = ()) -> Fetched:
    """Write the one file or directory in `tar` as `destination`; at most `limit` bytes.

    Raises:
        OSError: `destination` cannot be written.
        tarfile.TarError: the stream is cut.
    """
    return _Unpacking(destination, limit, exclude).run(tar)


class _Unpacking:
    def __init__(self, destination: Path, limit: int, exclude: tuple[str, ...]) -> None:
        self.destination = destination
        self.limit = limit
        self.exclude = exclude
        self.bytes = 0
        self.skipped = 0
        self.room = self.most = MAX_FILES
        self.full: str | None = None
        """Name below the top of what has too many files."""
        self.files: list[str] = []
        self.owners: dict[str, int] = {}
        self.notes: list[str] = []
        self.links: list[tuple[str, str, str]] = []
        self.written: dict[str, Path] = {}

    def run(self, tar: tarfile.TarFile) -> Fetched:
        is_empty = True
        for member in tar:
            is_empty = False
            with self._one_name(member.name):
                if not self._take(tar, member):
                    self.skipped += max(member.size, _LEAST_SKIPPED)
            if self.skipped > _MOST_SKIPPED:
                self._note("too much to read through: the rest is left out")
                break
        if is_empty:
            self._note(f"{safe_name(self.destination.name)}: neither a file nor a directory")
        for kind, name, target in self.links:
            with self._one_name(name):
                self._link(kind, name, target)
        return Fetched(tuple(self.files), self.bytes, tuple(self.notes), self.owners)

    @contextlib.contextmanager
    def _one_name(self, name: str) -> Iterator[None]:
        """Names that differ in the container may be one name once they are safe."""
        try:
            yield
        except (FileExistsError, IsADirectoryError, NotADirectoryError):
            self._note(f"{safe_name(name)}: present twice")

    def _take(self, tar: tarfile.TarFile, member: tarfile.TarInfo) -> bool:
        """Deal with one member; returns False if its content is only read past."""
        relative = _below_top(member.name)
        if relative is None:
            self._note(f"{self._shown(member.name)}: its name points outside")
        elif not excluded(relative, self.exclude) and self._has_room(relative):
            self.owners[relative] = member.uid
            if member.isreg():
                return self._file(tar, member, relative)
            if member.isdir():
                if (path := self._path(relative)) is not None:
                    path.mkdir(parents=True, exist_ok=True)
            elif member.issym() or member.islnk():
                self.links.append(("sym" if member.issym() else "hard", relative, member.linkname))
            else:
                self._note(f"{self._shown(relative)}: neither a file nor a directory")
        return False

    def _has_room(self, relative: str) -> bool:
        """Return False for what is too many; what is beside that has half as much room again."""
        name = relative.partition("/")[0]
        if name == self.full:
            return False
        if self.room == 0:
            self._note(
                f"{self._shown(name)}: more than {self.most} files: it, or the rest of it, is left out"
            )
            self.full, self.most = name, self.most // 2
            self.room = self.most
            return False
        self.room -= 1
        return True

    def _file(self, tar: tarfile.TarFile, member: tarfile.TarInfo, relative: str) -> bool:
        if self.bytes + member.size > self.limit:
            shown = self._shown(relative)
            self._note(f"{shown}: {member.size} bytes would exceed the limit of {self.limit} bytes")
            return False
        path, source = self._path(relative), tar.extractfile(member)
        if path is None or source is None:
            return False
        with self._create(path, member.mode) as out:
            shutil.copyfileobj(source, out, _CHUNK)
        self.written[relative] = path
        self._count(path, member.size)
        return True

    def _link(self, kind: str, relative: str, target: str) -> None:
        path = self._path(relative)
        if path is None:
            return
        if kind == "hard":
            inside = _below_top(target)
            original = self.written.get(inside) if inside is not None else None
            if original is None:
                self._note(f"{safe_name(relative)}: a link to something that was left out")
            elif self.bytes + (size := original.stat().st_size) > self.limit:
                self._note(f"{safe_name(relative)}: would exceed the limit of {self.limit} bytes")
            else:
                content = original.read_bytes()  # once names are safe, it may be that file
                with self._create(path, 0o644) as out:
                    out.write(content)
                self._count(path, size)
            return
        # Only what is there can be pointed at, and nothing is replaced later, so this cannot change its meaning.
        root = self.destination.resolve()
        try:
            resolved = (path.parent / target).resolve(strict=True)
        except (OSError, ValueError, RuntimeError):
            resolved = None
        if target.startswith("/") or resolved is None or not resolved.is_relative_to(root):
            self._note(f"{safe_name(relative)}: a link that points outside, or to nothing")
            return
        path.symlink_to(target)
        self._count(path, 0)

    def _count(self, path: Path, size: int) -> None:
        self.bytes += size
        self.files.append(
            path.relative_to(self.destination).as_posix() if path != self.destination else path.name
        )

    def _path(self, relative: str) -> Path | None:
        """Return where it is written; None, and a note, when the host could not hold such a name."""
        parts = [safe_name(part) for part in relative.split("/") if part]
        if len(relative.encode("utf-8", "surrogateescape")) > _PATH_BYTES or any(
            len(part.encode()) > _NAME_BYTES for part in parts
        ):
            self._note(f"{beginning_of(safe_name(relative), 100)}...: the name is too long")
            return None
        return self.destination.joinpath(*parts)

    def _create(self, path: Path, mode: int) -> IO[bytes]:
        path.parent.mkdir(parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        return os.fdopen(os.open(path, flags, 0o600 | mode & 0o155), "wb")

    def _shown(self, relative: str) -> str:
        return safe_name(relative or self.destination.name)

    def _note(self, note: str) -> None:
        if len(self.notes) < _MAX_NOTES:
            self.notes.append(note)
        elif len(self.notes) == _MAX_NOTES:
            self.notes.append("more was left out")


def excluded(relative: str, patterns: tuple[str, ...]) -> bool:
    """Return True if a pattern fits a part of a path, or of a directory it is in. Never for the top, which is empty."""
    if not patterns or not relative:
        return False
    parts = relative.split("/")
    candidates = (*parts, *("/".join(parts[:end]) for end in range(2, len(parts) + 1)))
    return any(fnmatch.fnmatchcase(one, pattern.rstrip("/")) for pattern in patterns for one in candidates)


def safe_name(name: str) -> str:
    """A name that is harmless to print and to write: no control characters, nothing that is not UTF-8."""
    return "".join(char if char.isprintable() and not "\ud800" <= char <= "\udfff" else "_" for char in name)


def _below_top(name: str) -> str | None:
    """The path below the archive's one top entry, which may be "." ('' for that itself); None if it is not below it."""
    top, _, inside = name.partition("/")
    parts = [part for part in inside.split("/") if part not in ("", ".")]
    return None if not top or ".." in (top, *parts) or "\0" in name else "/".join(parts)
