"""The container of one service beside `main`: commands in it, files out of it."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Iterator, Mapping

from ...command_timeout import Drained
from ...protocol import ExecResult, Sink
from ..engine import Engine
from ..running import NOT_STARTED
from ..transfer import EngineContainer


class ServiceContainer(EngineContainer):
    """A container that Docker Compose started. The agent reaches it over the network alone."""

    @contextlib.contextmanager
    def _calling(self) -> Iterator[None]:
        with self._engine.guard():
            yield

    def exec(
        self,
        argv: Iterable[str],
        *,
        timeout: float,
        sink: Sink,
        stdout: Sink | None = None,
        user: str | None = None,
        workdir: str | None = None,
        env: Mapping[str, str] | None = None,
    ) -> ExecResult:
        """Run a command to its end or its timeout (seconds); one that timed out runs on."""
        started = time.monotonic()
        with self._attached(
            argv, sink, stdout, environment=dict(env or {}), user=user or "", workdir=workdir
        ) as running:
            why = running.wait(started + timeout)
        status = running.status
        return ExecResult(
            None if status is None else status[0],
            timed_out=why is not Drained.ENDED,
            seconds=time.monotonic() - started,
            started=status is None or status[1] != 0 or status[0] not in NOT_STARTED,
        )


def service_container(engine: Engine, container: str) -> ServiceContainer:
    """Return a container whose commands and relative paths start at its own working directory."""
    with engine.guard():
        config = engine.client.inspect_container(container)["Config"]
    return ServiceContainer(engine, container, config.get("WorkingDir") or "/")
