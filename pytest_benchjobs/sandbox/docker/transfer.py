"""Files into a container and out of it, through the engine: nothing inside is asked."""

from __future__ import annotations

import contextlib
import os
import posixpath
import tarfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import docker.errors

from ...model.errors import EngineLost
from ..archive import open_stream, pack, unpack
from ..carrying import take
from ..protocol import Fetched, File, Taken
from .engine import Engine

# Bits of Go's os.FileMode, which the engine describes files with.
_LINK = 1 << 27
_NOT_REGULAR = 1 << 31 | _LINK | 1 << 26 | 1 << 25 | 1 << 24 | 1 << 21 | 1 << 19
# There is something on the way to a path that nobody gets past: a file, or a loop of links.
_NO_WAY = ("not a directory", "too many links", "too many levels of symbolic links")


class Transfer:
    """For one container. `calling` turns what goes wrong in a call of the engine into errors of ours."""

    def __init__(
        self, engine: Engine, container: str, calling: Callable[[], contextlib.AbstractContextManager[None]]
    ) -> None:
        self._engine = engine
        self._container = container
        self._calling = calling

    def put(self, files: Iterable[File], workdir: str) -> None:
        """Put files in, owned by root; relative paths start at `workdir`. One round trip."""
        with pack(files, workdir) as archive, self._calling():
            self._engine.client.put_archive(self._container, "/", archive)

    def read(self, path: str, *, limit: int) -> bytes | None:
        """One regular file, or None when there is none. More than `limit` bytes is a ValueError."""
        with self._archive(path) as (stat, tar):
            if stat is None or stat["mode"] & _NOT_REGULAR:
                return None
            if stat["size"] > limit:
                raise ValueError(f"{path} has {stat['size']} bytes, more than {limit}")
            for member in tar():
                if member.isreg():
                    if member.size > limit:
                        raise ValueError(f"{path} has {member.size} bytes, more than {limit}")
                    content = tar().extractfile(member)
                    return content.read() if content is not None else None
        return None

    def fetch(
        self, path: str, destination: Path, *, limit: int, exclude: tuple[str, ...] = ()
    ) -> Fetched | None:
        """Copy a file or directory out, safely. None: not there."""
        for _ in range(2):
            with self._archive(path) as (stat, tar):
                if stat is None:
                    return None
                if stat["mode"] & _LINK and stat.get("linkTarget"):
                    # The engine has resolved it, inside the container's own file system.
                    path = stat["linkTarget"]
                    continue
                return unpack(tar(), destination, limit=limit, exclude=exclude)
        return None

    def take(self, paths: Mapping[str, tuple[str, ...]], *, limit: int, only: frozenset[str] | None) -> Taken:
        """Files and directories, for another container."""
        return take(self._open, paths, limit=limit, only=only)

    def give(self, archive: IO[bytes]) -> None:
        """Put in what was taken from another container. One round trip."""
        with self._calling():
            self._engine.client.put_archive(self._container, "/", archive)

    @contextlib.contextmanager
    def _open(self, path: str) -> Iterator[tuple[str, tarfile.TarFile] | None]:
        """Return where a path leads, and the archive of that."""
        for _ in range(2):
            with self._archive(path) as (stat, tar):
                if stat is None:
                    break
                if stat["mode"] & _LINK and stat.get("linkTarget") not in (None, "", path):
                    path = stat["linkTarget"]
                    continue
                yield path, tar()
                return
        yield None

    @contextlib.contextmanager
    def _archive(self, path: str) -> Iterator[tuple[dict[str, Any] | None, Callable[[], tarfile.TarFile]]]:
        """Return what `path` is, and the archive of it as it comes; None when it is not there."""
        with self._calling():
            try:
                chunks, stat = self._engine.client.get_archive(self._container, path)
            except docker.errors.APIError as error:
                text = str(error.explanation).lower()
                gone = isinstance(error, docker.errors.NotFound) and "no such container" not in text
                if not gone and not any(way in text for way in _NO_WAY):
                    raise
                yield None, _no_archive
                return
        opened: list[tarfile.TarFile] = []

        def tar() -> tarfile.TarFile:
            if not opened:
                opened.append(open_stream(_guarded(self._engine, chunks)))
            return opened[0]

        try:
            yield stat, tar
        except tarfile.TarError as error:
            raise EngineLost(f"the Docker Engine sent half an archive of {path}: {error}") from error
        finally:
            chunks.close()


def paths_of(files: Iterable[File], workdir: str) -> Iterator[str]:
    """Every path that `put` makes of `files`."""
    for file in files:
        top = posixpath.normpath(posixpath.join(workdir, file.path))
        yield top
        if file.source is not None and file.source.is_dir():
            for place, directories, names in os.walk(file.source):
                inside = posixpath.normpath(posixpath.join(top, os.path.relpath(place, file.source)))
                yield from (posixpath.join(inside, name) for name in (*directories, *names))


def _guarded(engine: Engine, chunks: Iterator[bytes]) -> Iterator[bytes]:
    """The same chunks; what breaks is the engine's, not the writer's on our side."""
    while True:
        with engine.guard():
            chunk = next(chunks, None)
        if chunk is None:
            return
        yield chunk


def _no_archive() -> tarfile.TarFile:
    raise FileNotFoundError
