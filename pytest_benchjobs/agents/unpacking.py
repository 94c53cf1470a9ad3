"""Unpacking of npm archives, which are not trusted: no links, nothing outside the directory, bounded sizes."""

from __future__ import annotations

import fnmatch
import gzip
import hashlib
import io
import json
import tarfile
import zlib
from pathlib import Path, PurePosixPath
from typing import IO

from ..model.errors import InputError
from .packages import KeptFile, Package
from .snapshot import make_directories

_MAX_BYTES = 4 << 30
_MAX_FILES = 100_000
_CHUNK = 1 << 20
_MAX_ABOUT = 1 << 20
_BROKEN = (tarfile.TarError, gzip.BadGzipFile, zlib.error, EOFError)


def unpack(archive: Path, package: Package, target: Path) -> tuple[str | None, tuple[KeptFile, ...]]:
    """Unpack the files of an archive that `package` keeps below `target`.

    Returns:
        The archive's own name and version (`PACKAGE@VERSION`), and the files.

    Raises:
        InputError: it is not such an archive, is damaged, or contains something forbidden.
        OSError: it cannot be read, or there is no room.
    """
    said: str | None = None
    files: list[KeptFile] = []
    total = 0
    try:
        with tarfile.open(archive, "r|gz") as tar:
            for member in tar:
                path = _inside(archive, member)
                if member.isdir():
                    continue
                total += member.size
                stream = tar.extractfile(member) if member.isreg() else None
                if stream is None or total > _MAX_BYTES or len(files) >= _MAX_FILES:
                    raise InputError(
                        f"holds {member.name[:200]!r}, which is not a regular file, or holds too much",
                        path=archive,
                    )
                if str(path) == "package.json":
                    text = stream.read(_MAX_ABOUT)
                    said = _identity(text)
                    if not package.root:
                        files.append(_write(target, path, member, io.BytesIO(text)))
                elif (kept := _kept(path, package)) is not None:
                    files.append(_write(target, kept, member, stream))
    except _BROKEN as error:
        raise InputError(f"is not an npm archive, or is damaged: {error}", path=archive) from None
    if not files:
        raise InputError(f"has no files of {package.npm}", path=archive)
    return said, tuple(files)


def identify(archive: Path) -> str:
    """Name and version of an archive, as it states them: `PACKAGE@VERSION`.

    Raises:
        InputError: it is not an npm archive.
        OSError: it cannot be read.
    """
    try:
        with tarfile.open(archive, "r|gz") as tar:
            for member in tar:
                path = _inside(archive, member)
                stream = tar.extractfile(member) if member.isreg() else None
                if str(path) == "package.json" and stream is not None:
                    said = _identity(stream.read(_MAX_ABOUT))
                    if said is not None:
                        return said
    except _BROKEN as error:
        raise InputError(f"is not an npm archive, or is damaged: {error}", path=archive) from None
    raise InputError("is not an npm archive: it has no package.json", path=archive)


def _inside(archive: Path, member: tarfile.TarInfo) -> PurePosixPath:
    """Path below the archive's single top-level directory, which may have any name."""
    path = PurePosixPath(member.name)
    if path.is_absolute() or ".." in path.parts or "\0" in member.name:
        raise InputError(f"holds {member.name[:200]!r}, which is outside of it", path=archive)
    return PurePosixPath(*path.parts[1:])


def _kept(path: PurePosixPath, package: Package) -> PurePosixPath | None:
    root = PurePosixPath(package.root)
    if not path.is_relative_to(root):
        return None
    path = path.relative_to(root)
    left_out = any(fnmatch.fnmatchcase(str(path), pattern) for pattern in package.leave_out)
    return None if left_out else path


def _write(target: Path, path: PurePosixPath, member: tarfile.TarInfo, content: IO[bytes]) -> KeptFile:
    place = target / path
    make_directories(target, place.parent)
    digest = hashlib.sha256()
    with place.open("xb") as file:
        while chunk := content.read(_CHUNK):
            digest.update(chunk)
            file.write(chunk)
    executable = bool(member.mode & 0o111)
    place.chmod(0o555 if executable else 0o444)
    about = place.stat()
    return KeptFile(
        path=str(path),
        size=about.st_size,
        mtime_ns=about.st_mtime_ns,
        sha256=digest.hexdigest(),
        executable=executable,
    )


def _identity(text: bytes) -> str | None:
    try:
        about = json.loads(text)
        return f"{about['name']}@{about['version']}"
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
