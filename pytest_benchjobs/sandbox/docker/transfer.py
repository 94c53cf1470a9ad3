"""A container as the engine reaches it: commands in it, and files in and out, for which nothing inside is asked."""

from __future__ import annotations

import abc
import contextlib
import dataclasses
import shutil
import tarfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import docker.errors

from ...model.errors import ContainerEnded, EngineLost, FilesRefused, OutputLost
from ..archive import open_stream, pack, unpack
from ..inside import CannotAct, Inside
from ..protocol import Fetched, File, Sink, Stdin
from .answers import PAUSES
from .calling import caller
from .engine import ROOT_USER, Engine
from .library import BROKEN
from .mountpoints import FILE, LINK, kind_of
from .running import Death, Running

T = TypeVar("T")


class HalfArchive(EngineLost):
    """The connection broke while an archive came."""


class EngineContainer(abc.ABC):
    """A running container. Relative paths start at `workdir`."""

    def __init__(self, engine: Engine, container: str, workdir: str) -> None:
        self.id = container
        self.workdir = workdir
        self._engine = engine
        self._inside: Inside | None = None
        self._commands = 0
        """Number of commands that were started."""
        self._caller = caller()
        """Whoever it was created for is also who it is used for."""

    @abc.abstractmethod
    def _calling(self) -> contextlib.AbstractContextManager[None]:
        """Turn what goes wrong in a call of the engine into errors of ours."""

    @contextlib.contextmanager
    def _attached(
        self, argv: Iterable[str], sink: Sink, stdout: Sink | None, stdin: Stdin | None = None, **options: Any
    ) -> Iterator[Running]:
        """Start a command, and take what it prints; `options` are further ones of the client's `exec_create`."""
        with self._calling():
            if options.get("user") == "root":
                options["user"] = ROOT_USER
            created = self._engine.client.exec_create(self.id, list(argv), stdin=stdin is not None, **options)
            exec_id = str(created["Id"])
            death = self._death()
            connection, first = self._engine.hijack(f"/exec/{exec_id}/start", {"Detach": False, "Tty": False})
        self._commands += 1
        with connection:
            status, stopped = lambda: self._status(exec_id), self._caller.stopped
            running = Running(connection, status, stopped, sink, stdout, death)
            if stdin is not None:
                stdin(running.write)
            running.feed(first)
            yield running
        self._caller.check()

    def _death(self) -> Death:
        """Return what tells how commands have ended if the container ends from now on."""
        return lambda: None

    def _status(self, exec_id: str) -> tuple[int, int] | None:
        """Exit status and process id, once the engine confirms that the command ended."""
        with self._calling():
            try:
                state = self._engine.client.exec_inspect(exec_id)
            except OutputLost as error:
                # It knows the command no more: because the container is gone, or because it was restarted.
                if not self._engine.client.inspect_container(self.id)["State"]["Running"]:
                    raise ContainerEnded("the container has ended while a command ran in it") from error
                raise EngineLost(f"the Docker Engine was restarted while a command ran ({error})") from error
        if state["Running"]:
            return None
        if not isinstance(state["ExitCode"], int):
            raise EngineLost("the Docker Engine did not report how the command ended")
        return state["ExitCode"], state["Pid"] or 0

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
            if found is None or kind_of(found[0]) != FILE:
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
                if found is None:
                    return None
                fetched = unpack(found[1], destination, limit=limit, exclude=exclude)
            return fetched if self._engine.dialect.tells_owners else dataclasses.replace(fetched, owners={})

        if self._inside is not None:
            with contextlib.suppress(CannotAct):
                return self._inside.fetch(path, destination, limit, exclude)
            _discard(destination)
        return self.whole(path, attempt, lambda: _discard(destination))

    def whole(self, what: str, attempt: Callable[[], T], undo: Callable[[], object] = lambda: None) -> T:
        """Return what `attempt` read of archives; one that was cut off is fetched again.

        Raises FilesRefused: that happens each time, as for files that shrink while they are read.
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
                if kind_of(stat) == LINK and stat.get("linkTarget") not in (None, "", path):
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
            yield stat, lambda: open_stream(_guarded(chunks))
        finally:
            chunks.close()


def _discard(path: Path) -> None:
    """Remove a file or directory that was written in part."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


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
