"""Files into a local sandbox and out of it.

Programs of this machine do it, inside: there every link an agent has made leads where it would lead the agent. They
cannot be tampered with, and nothing of the agent runs beside them.
"""

from __future__ import annotations

import abc
import contextlib
import os
import posixpath
import subprocess
import tarfile
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO

from ...model.errors import DiskFull, EngineError, EnvironmentFailed
from ...system.cutting import beginning_of
from ..archive import pack, unpack
from ..protocol import Fetched, File
from .namespaces import Contained

_NOT_THERE = 44
_UNPACK = ("tar", "-xpf", "-", "-C", "/", "--no-same-owner", "--recursive-unlink")
_READ = f'if [ -f "$1" ] && [ ! -L "$1" ]; then exec head -c "$2" -- "$1"; else exit {_NOT_THERE}; fi'
_PACK = (
    f'real=$(readlink -e -- "$1") || exit {_NOT_THERE}; cd -- "${{real%/*}}/" && '
    'exec tar --create --file=- --format=pax --warning=none --ignore-failed-read -- "${real##*/}" 2>/dev/null'
)
_STDERR = 2000


class LocalFiles(abc.ABC):
    """The part of a local sandbox that moves files. Relative paths start at `workdir`."""

    workdir: str

    @abc.abstractmethod
    def _transferring(self, argv: Iterable[str], stdin: int) -> AbstractContextManager[Contained]:
        """Run a program of this machine, with such a standard input."""

    def put(self, files: Iterable[File]) -> None:
        """Put files in."""
        with pack(files, self.workdir) as archive:
            self._unpack(archive)

    def _unpack(self, archive: IO[bytes]) -> None:
        archive.flush()
        stdin = archive.fileno()
        os.lseek(stdin, 0, os.SEEK_SET)
        with self._transferring(_UNPACK, stdin) as contained:
            _, errors = contained.process.communicate()
            status = contained.close()
        if status != 0:
            said = _first_line(errors)
            if "No space left" in said:
                raise DiskFull(f"no space left for local sandboxes: {said}")
            raise EnvironmentFailed(f"files cannot be put into a local sandbox: {said}")

    def read(self, path: str, *, limit: int) -> bytes | None:
        """One regular file, or None when there is none. More than `limit` bytes is a ValueError."""
        path = posixpath.join(self.workdir, path)
        command = ("sh", "-c", _READ, "sh", path, str(limit + 1))
        with self._transferring(command, subprocess.DEVNULL) as contained:
            content, errors = contained.process.communicate()
            status = contained.close()
        if status == _NOT_THERE:
            return None
        if status != 0:
            raise EngineError(f"{path} cannot be read from a local sandbox: {_first_line(errors)}")
        if len(content) > limit:
            raise ValueError(f"{path} has more than {limit} bytes")
        return content

    def fetch(
        self, path: str, destination: Path, *, limit: int, exclude: tuple[str, ...] = ()
    ) -> Fetched | None:
        """Copy a file or directory out, safely. None: not there."""
        with self._open(path) as found:
            return None if found is None else unpack(found[1], destination, limit=limit, exclude=exclude)

    @contextlib.contextmanager
    def _open(self, path: str) -> Iterator[tuple[str, tarfile.TarFile] | None]:
        """Yield the archive of what is at a path; None: nothing is there."""
        path = posixpath.join(self.workdir, path)
        if posixpath.normpath(path) == "/":
            raise EngineError("a local sandbox cannot be fetched as a whole: most of it is this machine's")
        with self._transferring(("sh", "-c", _PACK, "sh", path), subprocess.DEVNULL) as contained:
            assert contained.process.stdout is not None  # noqa: S101  it was asked for
            try:
                archive = tarfile.open(fileobj=contained.process.stdout, mode="r|")  # noqa: SIM115  closed below
            except tarfile.ReadError as error:
                contained.process.wait()
                if contained.close() != _NOT_THERE:
                    raise EngineError(f"{path} cannot be fetched from a local sandbox: {error}") from error
                yield None
                return
            try:
                with archive:
                    yield path, archive
            except tarfile.ReadError as error:
                raise EngineError(f"{path} cannot be fetched from a local sandbox: {error}") from error


def _first_line(errors: bytes) -> str:
    return beginning_of(errors, _STDERR).decode("utf-8", "replace").strip().partition("\n")[0]
