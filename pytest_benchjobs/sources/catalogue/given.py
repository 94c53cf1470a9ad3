"""Files of a benchmark given by the user: a directory, an archive or a single file."""

from __future__ import annotations

import errno
import gzip
import itertools
import lzma
import os
import posixpath
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO

from ...model.errors import InputError
from ...system.keeping import digest
from ...system.paths import exists, is_directory
from .copying import Follow, is_within, never, take
from .entry import Entry

MAX_BYTES = 64 << 30
MAX_FILES = 500_000
_CHUNK = 1 << 20
_BROKEN = (tarfile.TarError, gzip.BadGzipFile, zlib.error, lzma.LZMAError, EOFError, zipfile.BadZipFile)
_ITS_DOING = {errno.ENAMETOOLONG, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.EINVAL, errno.EILSEQ}
"""Errors of the operating system caused by names in an archive."""


def place(entry: Entry, given: Path, room: Path, target: Path) -> None:
    """Copy the given files below `target`, to where fetched files would be; `room` is for unpacking.

    Raises InputError: it cannot be read, contains something forbidden, or is not what the entry describes; OSError: it
    cannot be written.
    """
    # Links in the path itself are the user's own. The name is the one that the user sees.
    real = Path(os.path.realpath(given))
    if not exists(real):
        raise InputError("no such file or directory", path=given)
    if is_within(target, real):
        raise InputError("contains the cache directory to which it would be copied", path=given)
    try:
        _place(entry, given.name, real, room, target)
    except OSError as error:
        if error.filename is not None and is_within(Path(os.fsdecode(error.filename)), real):
            raise InputError(f"cannot be read: {error.strerror}: {error.filename!r}", path=given) from None
        raise
    _check(entry, given, target)


def _place(entry: Entry, given: str, real: Path, room: Path, target: Path) -> None:
    paths = (path for file in entry.files for path in ((file.name, file.name), (file.url or "", file.name)))
    named = {PurePosixPath(path).name: name for path, name in paths if path}
    if is_directory(real):
        _take_directory(entry, real, target, _follow_from(real), unpacked=False)
    elif given not in named and _is_archive(real):
        room.mkdir(parents=True, exist_ok=True)
        _unpack(real, room)
        _take_directory(entry, room, target, never, unpacked=True)
    elif given in named or entry.git or len(entry.files) != 1 or given.endswith(entry.other_rows):
        take(real, target, named.get(given, given))
    else:
        # It may have any name.
        take(real, target, entry.files[0].name)


def _take_directory(entry: Entry, given: Path, target: Path, follow: Follow, *, unpacked: bool) -> None:
    """Take the files that a checkout of the origin would have, if the directory looks like one; else all of it."""
    for top in _tops(given):
        for origin in entry.git:
            if "" not in origin.places and all((top / path).exists() for path in origin.places):
                for path, name in origin.places.items():
                    take(_own(top / path, given, unpacked=unpacked), target, name, follow)
                return
        if entry.files and any((top / file.name).is_file() for file in entry.files):
            for file in entry.files:
                if (top / file.name).is_file():
                    take(_own(top / file.name, given, unpacked=unpacked), target, file.name, follow)
            return
    # Archives of repositories have a single directory at the top. A directory named by the user is taken as it is.
    *_, top = itertools.islice(_tops(given), 2 if unpacked else 1)
    take(top, target, "", follow)


def _own(path: Path, top: Path, *, unpacked: bool) -> Path:
    """Return a path of the given files, unless it is an untrusted link."""
    if unpacked and (path.is_symlink() or not is_within(path, top)):
        raise InputError("is a link, so it is not copied", path=path)
    return path


def _follow_from(directory: Path) -> Follow:
    """Follow links of a directory that the user names, such as a cache of files by their digests.

    The content of a repository checkout is not trusted: its links must stay inside.
    """
    checkout = next((one for one in (directory, *directory.parents) if (one / ".git").exists()), None)
    return lambda link: checkout is None or is_within(link, checkout)


def _tops(directory: Path) -> Iterator[Path]:
    """Yield the directory, then its only subdirectory, as in an archive of a repository, and so on."""
    for _ in range(4):
        yield directory
        children = [child for child in directory.iterdir() if child.name != ".git"]
        if len(children) != 1 or not children[0].is_dir() or children[0].is_symlink():
            return
        directory = children[0]


def _check(entry: Entry, given: Path, target: Path) -> None:
    """Check the digests of the entry's files, whatever they are called, unless it takes rows of any version."""
    for file in entry.files:
        found = target / file.name
        if file.sha256 is None or (not found.is_file() and entry.other_rows):
            continue
        called = [found] if found.is_file() else sorted(target.rglob(f"*{found.suffix}"))
        digests = {digest(path): path for path in called if path.is_file()}
        if file.sha256 not in digests:
            is_ = ", ".join(list(digests)[:3]) or "that of no file"
            raise InputError(
                f"is not {file.name} of {entry}: its sha256 is {is_}, and should be {file.sha256}", path=given
            )
        found.parent.mkdir(parents=True, exist_ok=True)
        digests[file.sha256].replace(found)


def _is_archive(path: Path) -> bool:
    try:
        return tarfile.is_tarfile(path) or zipfile.is_zipfile(path)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", path=path) from None
    except _BROKEN as error:
        raise InputError(f"is damaged: {error}", path=path) from None


def _unpack(archive: Path, target: Path) -> None:
    """Unpack an archive, which is not trusted: nothing outside, no link that leads out, bounded sizes."""
    links: list[tuple[str, str]] = []
    try:
        _write_files(archive, target, links)
        # Links come last, so that no file is written through one.
        for name, to in links:
            path = _room_for(archive, target, name)
            path.symlink_to(to)
    except (*_BROKEN, RuntimeError, NotImplementedError, ValueError) as error:
        raise InputError(f"is damaged, or not a readable archive: {error}", path=archive) from None
    except OSError as error:
        # For a link, the first name is its text.
        name = Path(str(error.filename2 or error.filename)).name[:200]
        if error.errno == errno.EEXIST:
            raise InputError(f"holds a file twice: {name!r}", path=archive) from None
        if error.errno not in _ITS_DOING:
            raise
        raise InputError(f"cannot be unpacked: {error.strerror}: {name!r}", path=archive) from None
    # Each link leads inside by its text; a chain of links may still lead elsewhere.
    for name, _ in links:
        if not is_within(target / name, target):
            raise InputError(f"holds a link that leads out of it: {name[:200]!r}", path=archive)


def _write_files(archive: Path, target: Path, links: list[tuple[str, str]]) -> None:
    """Write each file; add name and target of each link to `links`."""
    total = 0
    for name, executable, stream in (_tar if tarfile.is_tarfile(archive) else _zip)(archive, links):
        path = _room_for(archive, target, name)
        with path.open("xb") as file:
            while chunk := stream.read(_CHUNK):
                total += len(chunk)
                if total > MAX_BYTES:
                    raise InputError("holds too much", path=archive)
                file.write(chunk)
        path.chmod(0o755 if executable else 0o644)


def _room_for(archive: Path, target: Path, name: str) -> Path:
    """Return the path of a member, after creating the directories above it."""
    path = target / _inside(archive, name)
    for parent in reversed(path.relative_to(target).parents):
        if (target / parent).is_symlink():
            raise InputError(f"holds a file below a link: {name[:200]!r}", path=archive)
        (target / parent).mkdir(exist_ok=True)
    return path


def _tar(archive: Path, links: list[tuple[str, str]]) -> Iterator[tuple[str, bool, IO[bytes]]]:
    with tarfile.open(archive, "r|*") as tar:
        for count, member in enumerate(tar, 1):
            _checked(archive, member.name, count)
            if member.isdir():
                continue
            if member.issym():
                links.append((member.name, _within(archive, member.name, member.linkname)))
                continue
            stream = tar.extractfile(member) if member.isreg() else None
            if stream is None:
                raise InputError(f"holds {member.name[:200]!r}, which is not a regular file", path=archive)
            yield member.name, bool(member.mode & 0o111), stream


def _zip(archive: Path, links: list[tuple[str, str]]) -> Iterator[tuple[str, bool, IO[bytes]]]:
    with zipfile.ZipFile(archive) as file:
        for count, member in enumerate(file.infolist(), 1):
            _checked(archive, member.filename, count)
            mode = member.external_attr >> 16
            if member.is_dir():
                continue
            with file.open(member) as stream:
                if stat.S_ISLNK(mode):
                    to = stream.read(4096).decode("utf-8", "replace")
                    links.append((member.filename, _within(archive, member.filename, to)))
                else:
                    yield member.filename, bool(mode & 0o111), stream


def _checked(archive: Path, name: str, count: int) -> None:
    """Check the name of a member of any type, and the number of members; links and directories count too."""
    if count > MAX_FILES:
        raise InputError("holds too much", path=archive)
    _inside(archive, name)


def _inside(archive: Path, name: str) -> PurePosixPath:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or "\0" in name or "\\" in name:
        raise InputError(f"holds {name[:200]!r}, which is outside of it", path=archive)
    return path


def _within(archive: Path, name: str, to: str) -> str:
    """Target of a link, if it is inside the archive."""
    found = posixpath.normpath(posixpath.join(posixpath.dirname(name), to))
    if to.startswith("/") or found.split("/")[0] == ".." or "\0" in to:
        raise InputError(f"holds a link that leads out of it: {name[:200]!r}", path=archive)
    return to
