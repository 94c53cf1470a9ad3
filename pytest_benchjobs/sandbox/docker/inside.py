"""Work of one `serve` inside a container, each of which takes a call of the engine. It does what this cannot do."""

from __future__ import annotations

import contextlib
import itertools
import os
import posixpath
import tarfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO

from ...model.errors import EnvironmentFailed, OutputLost
from ..archive import open_stream, unpack
from ..carry.archives import archive_of_listing, script_of
from ..carry.records import HEADER
from ..protocol import Fetched, Sink
from ..runner import MOST, Runner

_LISTING = 64 << 20
_ROOM = 1 << 12
"""Bytes of a frame for more than the paths, or the command with its variables."""


class CannotAct(Exception):
    """The engine has to do it."""


class Inside:
    """One `serve`, begun at its first use, and anew where it was cut off. `begin` may raise EnvironmentFailed."""

    def __init__(self, begin: Callable[[], Runner]) -> None:
        self._begin = begin
        self._runner: Runner | None = None
        self._cannot = False

    def close(self) -> None:
        """End it. It may begin again."""
        if self._runner is not None:
            self._runner.close()
            self._runner = None

    def run(
        self,
        argv: tuple[str, ...],
        env: Mapping[str, str],
        workdir: str,
        *,
        timeout: float,
        sink: Sink,
        stdout: Sink | None,
    ) -> int | None:
        """Run a command of root, by its path; returns its exit status, None if its time was up. Raises CannotAct."""

        def both(content: bytes) -> None:
            sink(content)
            if stdout is not None:
                stdout(content)

        size = sum(len(os.fsencode(text)) + 2 for text in (*argv, *env, *env.values()))
        if size > MOST - _ROOM:
            raise CannotAct
        return self._serving().run(argv, stdout=both, stderr=sink, workdir=workdir, env=env, timeout=timeout)

    def put(self, archive: IO[bytes]) -> None:
        """Put in what an archive has. Links on the way to that are not followed.

        Raises CannotAct: some of it is not there then.
        """
        found = script_of(archive, MOST - _ROOM)
        if found is None:
            raise CannotAct
        with self._may_fail():
            roots, script = found
            told = b"".join(self._serving().program(("unpack", *roots), script))
        if len(told) != HEADER.size:  # more than its end
            raise CannotAct

    def fetch(self, path: str, destination: Path, limit: int, exclude: tuple[str, ...]) -> Fetched | None:
        """Copy a file or directory out, safely. None: not there.

        Raises CannotAct: some of it may be at the destination. A link to `/proc` leads elsewhere for a process inside.
        """
        if path != posixpath.normpath(path) or not path.startswith("/") or path == "/":
            raise CannotAct
        with self._may_fail():
            pieces = archive_of_listing(self._serving().program(("walk", "-c", str(_LISTING), path), ()))
            with contextlib.closing(pieces):
                first = next(pieces, None)
                if first is None:
                    return None
                archive = open_stream(itertools.chain((first,), pieces))
                return unpack(archive, destination, limit=limit, exclude=exclude)

    def _serving(self) -> Runner:
        if self._runner is None or self._runner.has_ended:
            self.close()
            if self._cannot:
                raise CannotAct
            try:
                self._runner = self._begin()
            except EnvironmentFailed as error:
                self._cannot = True
                raise CannotAct from error
        return self._runner

    @contextlib.contextmanager
    def _may_fail(self) -> Iterator[None]:
        try:
            yield
        except (EnvironmentFailed, OutputLost, tarfile.TarError) as error:
            raise CannotAct from error
