"""Files into a container and out of it, through the engine: nothing inside is asked."""

from __future__ import annotations

import abc
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


class ContainerFiles(abc.ABC):
    """The part of a sandbox that moves files. Relative paths start at `workdir`."""

    def __init__(self, engine: Engine, container: str, workdir: str) -> None:
        self.id = container
        self.workdir = workdir
        self._engine = engine

    @abc.abstractmethod
    def _calling(self) -> contextlib.AbstractContextManager[None]:
        """Turn what goes wrong in a call of the engine into errors of ours."""

    def put(self, files: Iterable[File]) -> None:
        """Put files in, owned by root. One round trip."""
        with pack(files, self.workdir) as archive:
            self._put_archive(archive)

    def read(self, path: str, *, limit: int) -> bytes | None:
        """One regular file, or None when there is none. More than `limit` bytes is a ValueError."""
        with self._archive(path) as found:
            if found is None or found[0]["mode"] & _NOT_REGULAR:
                return None
            stat, opened = found
            if stat["size"] > limit:
                raise ValueError(f"{path} has {stat['size']} bytes, more than {limit}")
            tar = opened()
            for member in tar:
                if member.isreg():
                    if member.size > limit:
                        raise ValueError(f"{path} has {member.size} bytes, more than {limit}")
                    content = tar.extractfile(member)
                    return content.read() if content is not None else None
        return None

    def fetch(
        self, path: str, destination: Path, *, limit: int, exclude: tuple[str, ...] = ()
    ) -> Fetched | None:
        """Copy a file or directory out, safely. None: not there."""
        with self._open(path) as found:
            return None if found is None else unpack(found[1], destination, limit=limit, exclude=exclude)

    def take(
        self, paths: Mapping[str, tuple[str, ...]], *, limit: int, only: frozenset[str] | None = None
    ) -> Taken:
        """Take files and directories (path -> patterns of what is left out of it), to give them to another sandbox."""
        return take(self._open, paths, limit=limit, only=only)

    def give(self, taken: Taken) -> None:
        """Put in what was taken from another sandbox."""
        self._put_archive(taken.archive)

    def _put_archive(self, archive: IO[bytes]) -> None:
        with self._calling():
            self._engine.client.put_archive(self.id, "/", archive)

    @contextlib.contextmanager
    def _open(self, path: str) -> Iterator[tuple[str, tarfile.TarFile] | None]:
        """Return where a path leads, and the archive of that."""
        for _ in range(2):
            with self._archive(path) as found:
                if found is None:
                    break
                stat, opened = found
                if stat["mode"] & _LINK and stat.get("linkTarget") not in (None, "", path):
                    # The engine has resolved it, inside the container's own file system.
                    path = stat["linkTarget"]
                    continue
                yield path, opened()
                return
        yield None

    @contextlib.contextmanager
    def _archive(self, path: str) -> Iterator[tuple[dict[str, Any], Callable[[], tarfile.TarFile]] | None]:
        """Yield what `path` is, and what opens the archive of it as it comes; None when it is not there."""
        with self._calling():
            try:
                chunks, stat = self._engine.client.get_archive(self.id, path)
            except docker.errors.APIError as error:
                text = str(error.explanation).lower()
                gone = isinstance(error, docker.errors.NotFound) and "no such container" not in text
                if not gone and not any(way in text for way in _NO_WAY):
                    raise
                yield None
                return
        try:
            yield stat, lambda: open_stream(_guarded(self._engine, chunks))
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
