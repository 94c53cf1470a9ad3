"""Files in and out of a sandbox that is no container, by programs of this machine that run inside.

There every link that an agent has made leads where it would lead the agent.
"""

from __future__ import annotations

import io
import os
import posixpath
import subprocess
import tarfile
from collections.abc import Iterable
from pathlib import Path

from ..model.errors import DiskFull, EngineError, EnvironmentFailed
from .archive import pack, unpack
from .protocol import Fetched, File

NOT_THERE = 44
_UNPACK = ("tar", "-xpf", "-", "-C", "/", "--no-same-owner", "--recursive-unlink")
_READ = f'if [ -f "$1" ] && [ ! -L "$1" ]; then exec head -c "$2" -- "$1"; else exit {NOT_THERE}; fi'
PACK = (
    f'real=$(readlink -e -- "$1") || exit {NOT_THERE}; cd -- "${{real%/*}}/" && '
    'exec tar --create --file=- --format=pax --warning=none --ignore-failed-read -- "${real##*/}" 2>/dev/null'
)


class MovedByPrograms:
    """The part of a sandbox that moves files with `tar`, `head` and `readlink`."""

    workdir: str

    def run_program(
        self, argv: Iterable[str], stdin: int = subprocess.DEVNULL
    ) -> tuple[int | None, bytes, str]:
        """Run a program inside, at `/`, to its end; return its status, its output, and what it says of errors."""
        raise NotImplementedError

    def put(self, files: Iterable[File]) -> None:
        """Put files in. Relative paths start at `workdir`, as of all that moves files."""
        with pack(files, self.workdir) as archive:
            archive.flush()
            stdin = archive.fileno()
            os.lseek(stdin, 0, os.SEEK_SET)
            status, _, error = self.run_program(_UNPACK, stdin)
        if status != 0:
            if "No space left" in error:
                raise DiskFull(f"no space left for local sandboxes: {error}")
            raise EnvironmentFailed(f"files cannot be put into a local sandbox: {error}")

    def read(self, path: str, *, limit: int) -> bytes | None:
        """One regular file, or None when there is none. More than `limit` bytes is a ValueError."""
        path = posixpath.join(self.workdir, path)
        status, content, error = self.run_program(("sh", "-c", _READ, "sh", path, str(limit + 1)))
        if status == NOT_THERE:
            return None
        if status != 0:
            raise EngineError(f"{path} cannot be read from a local sandbox: {error}")
        if len(content) > limit:
            raise ValueError(f"{path} has more than {limit} bytes")
        return content

    def fetch(
        self, path: str, destination: Path, *, limit: int, exclude: tuple[str, ...] = ()
    ) -> Fetched | None:
        """Copy a file or directory out, safely. None: not there."""
        status, content, error = self.run_program(
            ("sh", "-c", PACK, "sh", posixpath.join(self.workdir, path))
        )
        if status == NOT_THERE:
            return None
        try:
            with tarfile.open(fileobj=io.BytesIO(content)) as archive:
                return unpack(archive, destination, limit=limit, exclude=exclude)
        except tarfile.ReadError as broken:
            raise EngineError(f"{path} cannot be fetched from a local sandbox: {error or broken}") from broken
