"""Files of a benchmark that the user gives: a directory, an archive or a single file."""

from __future__ import annotations

import gzip
import lzma
import posixpath
import shutil
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO

from ...model.errors import InputError
from ...system.keeping import digest
from .entry import Entry
from .repository import take

MAX_BYTES = 64 << 30
MAX_FILES = 500_000
_CHUNK = 1 << 20
_BROKEN = (tarfile.TarError, gzip.BadGzipFile, zlib.error, lzma.LZMAError, EOFError, zipfile.BadZipFile)


def place(entry: Entry, given: Path, room: Path, target: Path) -> None:
    """Bring what the user gives below `target`, as it would be there if it was fetched; `room` is for what is unpacked.

    Raises:
        InputError: it cannot be read, holds what it must not, or is not what the entry says.
        OSError: it cannot be written.
    """
    if not given.exists():
        raise InputError("no such file or directory", path=given)
    names = {PurePosixPath(file.name).name for file in entry.files}
    if given.is_file() and given.name not in names and _is_archive(given):
        room.mkdir(parents=True, exist_ok=True)
        _unpack(given, room)
        _take_directory(entry, room, target)
    elif given.is_dir():
        _take_directory(entry, given, target)
    elif len(entry.files) == 1 and not entry.git:
        # It may have any name.
        take(given, target, entry.files[0].name)
    else:
        take(given, target, given.name)
    _check(entry, given, target)


def _take_directory(entry: Entry, given: Path, target: Path) -> None:
    """Take what an origin's checkout would give, where the directory is such a one; else all of it."""
    for top in _tops(given):
        for origin in entry.git:
            if "" not in origin.places and all((top / path).exists() for path in origin.places):
                for path, name in origin.places.items():
                    take(top / path, target, name)
                return
        if entry.files and any((top / file.name).is_file() for file in entry.files):
            for file in entry.files:
                if (top / file.name).is_file():
                    take(top / file.name, target, file.name)
            return
    *_, innermost = _tops(given)
    try:
        take(innermost, target, "")
    except shutil.Error as error:
        raise InputError(f"cannot be copied: {str(error)[:300]}", path=given) from None


def _tops(directory: Path) -> Iterator[Path]:
    """Yield the directory, and the one in it that is alone there, as in an archive of a repository, and so on."""
    for _ in range(4):
        yield directory
        children = [child for child in directory.iterdir() if child.name != ".git"]
        if len(children) != 1 or not children[0].is_dir() or children[0].is_symlink():
            return
        directory = children[0]


def _check(entry: Entry, given: Path, target: Path) -> None:
    for file in entry.files:
        found = target / file.name
        if file.sha256 is None or not found.is_file():
            continue
        if (is_ := digest(found)) != file.sha256:
            raise InputError(
                f"is not {file.name} of {entry}: its sha256 is {is_}, and should be {file.sha256}", path=given
            )


def _is_archive(path: Path) -> bool:
    try:
        return tarfile.is_tarfile(path) or zipfile.is_zipfile(path)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", path=path) from None


def _unpack(archive: Path, target: Path) -> None:
    """Write the files of an archive: nothing outside, no link that leads out, nothing without end."""
    links: list[tuple[str, str]] = []
    total = count = 0
    try:
        for name, executable, stream in _members(archive, links):
            count += 1
            path = target / _inside(archive, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("xb") as file:
                while chunk := stream.read(_CHUNK):
                    total += len(chunk)
                    if total > MAX_BYTES or count > MAX_FILES:
                        raise InputError("holds too much", path=archive)
                    file.write(chunk)
            path.chmod(0o755 if executable else 0o644)
    except (*_BROKEN, RuntimeError, NotImplementedError) as error:
        raise InputError(f"is damaged, or no archive that can be read: {error}", path=archive) from None
    except FileExistsError as error:
        raise InputError(
            f"holds a file twice: {Path(str(error.filename)).name[:200]!r}", path=archive
        ) from None
    # Links come last, so that nothing is written through one.
    for name, to in links:
        path = target / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(to)


def _members(archive: Path, links: list[tuple[str, str]]) -> Iterator[tuple[str, bool, IO[bytes]]]:
    """Yield name, executable bit and content of each file; add name and target of each link to `links`."""
    yield from (_tar if tarfile.is_tarfile(archive) else _zip)(archive, links)


def _tar(archive: Path, links: list[tuple[str, str]]) -> Iterator[tuple[str, bool, IO[bytes]]]:
    with tarfile.open(archive, "r|*") as tar:
        for member in tar:
            _inside(archive, member.name)
            if member.isdir():
                continue
            if member.issym():
                links.append((member.name, _within(archive, member.name, member.linkname)))
                continue
            stream = tar.extractfile(member) if member.isreg() else None
            if stream is None:
                raise InputError(f"holds {member.name[:200]!r}, which is no plain file", path=archive)
            yield member.name, bool(member.mode & 0o111), stream


def _zip(archive: Path, links: list[tuple[str, str]]) -> Iterator[tuple[str, bool, IO[bytes]]]:
    with zipfile.ZipFile(archive) as file:
        for member in file.infolist():
            _inside(archive, member.filename)
            mode = member.external_attr >> 16
            if member.is_dir():
                continue
            with file.open(member) as stream:
                if stat.S_ISLNK(mode):
                    to = stream.read(4096).decode("utf-8", "replace")
                    links.append((member.filename, _within(archive, member.filename, to)))
                else:
                    yield member.filename, bool(mode & 0o111), stream


def _inside(archive: Path, name: str) -> PurePosixPath:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or "\0" in name or "\\" in name:
        raise InputError(f"holds {name[:200]!r}, which is outside of it", path=archive)
    return path


def _within(archive: Path, name: str, to: str) -> str:
    """Target of a link, if it is within the archive."""
    found = posixpath.normpath(posixpath.join(posixpath.dirname(name), to))
    if to.startswith("/") or found.split("/")[0] == ".." or "\0" in to:
        raise InputError(f"holds a link that leads out of it: {name[:200]!r}", path=archive)
    return to
