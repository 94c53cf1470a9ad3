"""Files into a container and out of it, through the engine: nothing inside is asked."""

from __future__ import annotations

import abc
import contextlib
import shutil
import tarfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import docker.errors

from ...model.errors import EngineLost, FilesRefused
from ..archive import open_stream, pack, unpack
from ..protocol import Fetched, File
from .answers import PAUSES
from .calling import caller
from .engine import Engine
from .inside import CannotAct, Inside
from .library import BROKEN

# Bits of Go's os.FileMode, which the engine describes files with.
_LINK = 1 << 27
_NOT_REGULAR = 1 << 31 | _LINK | 1 << 26 | 1 << 25 | 1 << 24 | 1 << 21 | 1 << 19
T = TypeVar("T")


class HalfArchive(EngineLost):
    """The connection broke while an archive came."""


class ContainerFiles(abc.ABC):
    """The part of a sandbox that moves files. Relative paths start at `workdir`."""

    def __init__(self, engine: Engine, container: str, workdir: str) -> None:
        self.id = container
        self.workdir = workdir
        self._engine = engine
        self._inside: Inside | None = None

    @abc.abstractmethod
    def _calling(self) -> contextlib.AbstractContextManager[None]:
        """Turn what goes wrong in a call of the engine into errors of ours."""

    def put(self, files: Iterable[File]) -> None:
        """Put files in. One round trip."""
        files = list(files)
        if self._inside is not None:
            with contextlib.suppress(CannotAct), pack(files, self.workdir) as archive:
                return self._inside.put(archive)
        return self.put_from_outside(files)

    def put_from_outside(self, files: Iterable[File]) -> None:
        """Put files in, whatever runs inside or not."""
        with pack(files, self.workdir) as archive, self._calling():
            self._engine.client.put_archive(self.id, "/", archive)

    def read(self, path: str, *, limit: int) -> bytes | None:
        """One regular file, or None when there is none. More than `limit` bytes is a ValueError."""
        return self.whole(path, lambda: self._read(path, limit))

    def _read(self, path: str, limit: int) -> bytes | None:
        with self._archive(path) as found:
            if found is None or found[0]["mode"] & _NOT_REGULAR:
                return None
            stat, opened = found
            if stat["size"] > limit:
                raise ValueError(f"{path} has {stat['size']} bytes, more than {limit}")
            content = None
            tar = opened()
            for member in tar:
                if member.isreg() and content is None:
                    if member.size > limit:
                        raise ValueError(f"{path} has {member.size} bytes, more than {limit}")
                    reader = tar.extractfile(member)
                    content = reader.read() if reader is not None else None
            return content

    def fetch(
        self, path: str, destination: Path, *, limit: int, exclude: tuple[str, ...] = ()
    ) -> Fetched | None:
        """Copy a file or directory out, safely. None: not there."""

        def attempt() -> Fetched | None:
            with self._open(path) as found:
                return None if found is None else unpack(found[1], destination, limit=limit, exclude=exclude)

        if self._inside is not None:
            with contextlib.suppress(CannotAct):
                return self._inside.fetch(path, destination, limit, exclude)
            _discard(destination)
        return self.whole(path, attempt, lambda: _discard(destination))

    def whole(self, what: str, attempt: Callable[[], T], undo: Callable[[], object] = lambda: None) -> T:
        """Return what `attempt` read of archives; one that was cut off is fetched again.

        Raises:
            FilesRefused: that happens each time, as for files that shrink while they are read.
        """
        for pause in (*PAUSES, None):
            try:
                return attempt()
            except (HalfArchive, tarfile.TarError) as error:
                text = f"the Docker Engine sent half an archive of {what}: {error}"
                if pause is None:
                    raise FilesRefused(f"{text}, each time") from error
                undo()
                with self._calling():
                    caller().note_again(text)
                    caller().rest(pause)
        raise AssertionError("unreachable")

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
            except docker.errors.APIError:
                # What is a fault of the engine has been raised: this says that nothing is there.
                yield None
                return
        try:
            yield stat, lambda: opened(chunks)
        finally:
            chunks.close()


def _discard(path: Path) -> None:
    """Remove a file or directory that was written in part."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def opened(chunks: Iterator[bytes]) -> tarfile.TarFile:
    """The archive that the engine sends, to be read once.

    Reading it raises:
        HalfArchive: the connection broke.
        tarfile.TarError: it ends before its end.
    """
    return open_stream(_guarded(chunks))


def _guarded(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """The same chunks; what breaks is the engine's, not the writer's on our side."""
    while True:
        try:
            chunk = next(chunks, None)
        except (*BROKEN, OSError) as error:
            raise HalfArchive(str(error)) from error
        if chunk is None:
            return
        yield chunk
