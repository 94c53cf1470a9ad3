"""Agents that run on this machine, in the thread of their trial, and work in the sandbox."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from ..agents.builtin import shell
from ..agents.protocol import PROBLEM_VARIABLE
from ..gateway.client import Route
from ..model.errors import GatewayLost
from ..sandbox.protocol import File, Sandbox
from ..scoring.output import Tail
from ..store.log import CappedLog


class HostShell:
    """The sandbox and the gateway, for an agent on this machine: see `agents.protocol.Shell`."""

    def __init__(
        self,
        sandbox: Sandbox,
        route: Route | None,
        log: CappedLog,
        *,
        deadline: float,
        user: str | None,
        env: Mapping[str, str],
        cancelled: Callable[[], bool],
    ) -> None:
        self._sandbox = sandbox
        self._route = route
        self._log = log
        self._deadline = deadline
        self._user = user
        self._env = env
        self._cancelled = cancelled

    @property
    def late(self) -> bool:
        """True once its time is up."""
        return time.monotonic() >= self._deadline

    @property
    def told_to_stop(self) -> bool:
        """True once the gateway wants it to end."""
        return self._route is not None and self._route.stop_asked()

    @property
    def stopped(self) -> bool:
        """True once it has to end."""
        return self.late or self.told_to_stop or self._cancelled()

    def run(self, command: str, timeout: float) -> tuple[int | None, str]:
        """Run a shell command as the agent's user in the workdir: exit status (None: timed out), and its output."""
        tail = Tail()
        result = self._sandbox.exec(
            shell(command),
            timeout=max(0.1, min(timeout, self._left())),
            sink=tail,
            user=self._user,
            env=self._env,
        )
        if result.timed_out:
            # It runs on, and would be in the way of what comes next.
            self._sandbox.end_commands(PROBLEM_VARIABLE)
        return result.exit_status, tail.text()

    def write(self, path: str, content: bytes) -> None:
        """Write a file; a relative path starts at the workdir."""
        self._sandbox.put([File(path, content=content)])

    def post(self, url: str, body: Mapping[str, Any]) -> tuple[int, Any]:
        """POST JSON to a URL of the gateway: status and JSON of the answer."""
        if self._route is None:
            raise GatewayLost("the agent has no route to a model; its `prepare` names no endpoints")
        return self._route.post(url, body, max(0.1, self._left()), lambda: self.stopped)

    def log(self, line: str) -> None:
        """Add a line to the agent's log."""
        self._log.write(line.encode("utf-8", "replace") + b"\n")

    def _left(self) -> float:
        return self._deadline - time.monotonic()
