"""A sandbox without a container: files in memory, for an answer to be written and graded. It runs nothing."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Mapping
from pathlib import Path

from ..model.errors import AgentSetupFailed, ImageMissing
from ..model.result import ImageRecord
from ..model.scenario import Network
from .protocol import ExecResult, Fetched, File, Sink, Stdin, Stopping

NO_IMAGE = ImageRecord(reference="none", id="none", key="none")
"""Record of the image of a trial that has no container."""
_WORKDIR = "/app"


class MemorySandbox:
    """The files of one trial. What asks for processes finds none; what wants to run one is refused."""

    id = "none"
    image = NO_IMAGE
    workdir = _WORKDIR
    notes: tuple[str, ...] = ()

    def __init__(self) -> None:
        self._files: dict[str, bytes] = {}

    def exec(
        self,
        argv: Iterable[str],  # noqa: ARG002
        *,
        timeout: float,  # noqa: ARG002
        sink: Sink,  # noqa: ARG002
        stdout: Sink | None = None,  # noqa: ARG002
        user: str | None = None,  # noqa: ARG002
        workdir: str | None = None,  # noqa: ARG002
        env: Mapping[str, str] | None = None,  # noqa: ARG002
        silent: float | None = None,  # noqa: ARG002
        stopping: Stopping | None = None,  # noqa: ARG002
        stdin: Stdin | None = None,  # noqa: ARG002
    ) -> ExecResult:
        """Refuse to run anything.

        Raises:
            AgentSetupFailed: always.

        """
        raise AgentSetupFailed(
            "a question is answered without a container, so no command can run: an agent that runs any must not say "
            "that it answers"
        )

    def put(self, files: Iterable[File]) -> None:
        """Put files in; directories there are none."""
        for file in files:
            if file.content is not None:
                self._files[self._path(file.path)] = file.content
            elif file.source is not None and file.source.is_file():
                self._files[self._path(file.path)] = file.source.read_bytes()

    def read(self, path: str, *, limit: int) -> bytes | None:
        """One file, or None when there is none. More than `limit` bytes is a ValueError."""
        content = self._files.get(self._path(path))
        if content is not None and len(content) > limit:
            raise ValueError(f"{path} has {len(content)} bytes, more than {limit}")
        return content

    def fetch(
        self,
        path: str,  # noqa: ARG002
        destination: Path,  # noqa: ARG002
        *,
        limit: int,  # noqa: ARG002
        exclude: tuple[str, ...] = (),  # noqa: ARG002
    ) -> Fetched | None:
        """None: a question has no artifacts."""
        return None

    def signal(self, pid: int, name: str) -> None:
        """Nobody is there."""

    def processes(self) -> tuple[str, ...]:
        """None run."""
        return ()

    def adopt_processes(self) -> tuple[str, ...]:
        """None run."""
        return ()

    def end_commands(self, variable: str) -> tuple[str, ...]:  # noqa: ARG002
        """None run."""
        return ()

    def end_processes(self) -> None:
        """None run."""

    def tampered(self) -> tuple[str, ...]:
        """None: there are no programs."""
        return ()

    def set_network(self, network: Network, allowed_hosts: Iterable[str] = ()) -> None:
        """There is none."""

    def refused(self) -> tuple[str, ...]:
        """Nothing: there is no network."""
        return ()

    def keep(self, name: str) -> str:
        """Refuse: an answer is kept among the results.

        Raises:
            ImageMissing: always.

        """
        raise ImageMissing(f"there is no file system to keep as {name}")

    def kill(self) -> None:
        """Whoever waits for a model is told by the gateway."""

    def remove(self) -> None:
        """Forget everything."""
        self._files.clear()

    def limit_hit(self) -> str | None:
        """None: there are no limits."""
        return None

    def _path(self, path: str) -> str:
        return posixpath.normpath(posixpath.join(_WORKDIR, path))
