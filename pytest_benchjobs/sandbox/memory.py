"""A sandbox without a container: files in memory, for an answer to be written and graded. It runs nothing."""

from __future__ import annotations

import platform
import posixpath
from collections.abc import Iterable
from typing import Any, NoReturn

from ..model.errors import AgentSetupFailed, EngineError, ImageMissing
from ..model.result import ImageRecord
from ..model.scenario import Network
from .protocol import File, Kept

NO_IMAGE = ImageRecord(reference="none", id="none", key="none")
"""Record of the image of a trial that has no container."""


class HostProvider:
    """The part of a provider whose sandboxes run programs of this machine, and are not kept."""

    def machine(self) -> str:
        """The architecture of this machine."""
        return platform.machine()

    def kept(self) -> list[Kept]:
        """Return nothing: they are not kept."""
        return []

    def forget_kept(self, reference: str) -> bool:  # noqa: ARG002  nothing was
        """Return False: it is not there."""
        return False


class Unobserved:
    """The part of a sandbox that looks for no processes, no changed programs and no refused connections."""

    @property
    def notes(self) -> tuple[str, ...]:
        """None."""
        return ()

    def processes(self) -> tuple[str, ...]:
        """None: it does not look."""
        return ()

    adopt_processes = tampered = refused = processes

    def end_commands(self, variable: str) -> tuple[str, ...]:  # noqa: ARG002  whatever it is
        """None: they end with their time."""
        return ()

    def end_processes(self) -> None:
        """There are none."""

    def set_network(self, network: Network, allowed_hosts: Iterable[str] = ()) -> None:
        """It has no other."""

    def keep(self, name: str) -> str:  # noqa: ARG002  whatever it is
        """Not done."""
        raise EngineError("such a sandbox cannot be kept; use Docker to inspect it afterwards")

    def limit_hit(self) -> str | None:
        """No limit ends anything."""
        return None


class MemorySandbox(Unobserved):
    """The files of one trial. What asks for processes finds none; what wants to run one is refused."""

    id = "none"
    image = NO_IMAGE
    workdir = "/app"

    def __init__(self) -> None:
        self._files: dict[str, bytes] = {}

    def exec(self, *_: Any, **__: Any) -> NoReturn:
        """Refuse to run anything: an `AgentSetupFailed`."""
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

    def fetch(self, *_: Any, **__: Any) -> None:
        """None: a question has no artifacts."""

    def signal(self, pid: int, name: str) -> None:
        """Nobody is there."""

    def keep(self, name: str) -> str:
        """Refuse, by an `ImageMissing`: an answer is kept among the results."""
        raise ImageMissing(f"there is no file system to keep as {name}")

    def kill(self) -> None:
        """Do nothing: the gateway ends calls that wait for a model."""

    def remove(self) -> None:
        """Forget everything."""
        self._files.clear()

    def _path(self, path: str) -> str:
        return posixpath.normpath(posixpath.join(self.workdir, path))
