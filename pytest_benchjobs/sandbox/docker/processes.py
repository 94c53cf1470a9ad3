"""The processes of a container, as the engine sees them from outside, and the end of them by the first process.

What ends processes must not be theirs to stop. Whoever is root in a container can trace and rewrite each of its
processes, except one that is not dumpable: for that it takes CAP_SYS_PTRACE, which containers do not have. Nor can
signals from inside end the first process of a process namespace. So that is a part of our program
(`../program/first.c`), which does nothing but

    SIGUSR1    kill everybody else, again and again, until the kernel says that there is nobody else. It kills all at
               once: none can fork away meanwhile. Then change the name, which the engine sees
    deadline   end, and with it the container

The name is `bench-0`, whose digit changes by turns. An agent can send the signal as well: it dies by it, so nobody but
the engine changes the digit and is there to see it. What an agent's processes say of themselves decides nothing: the
first process is known by the engine's own number for it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
import time
from typing import Any

import docker

from ...model.errors import ContainerEnded, EngineRefused, InfrastructureError
from ..program import PROGRAM
from .calling import Caller
from .dialects import Dialect
from .engine import Engine
from .library import ERRORS

SIGNAL = "USR1"
"""Signal to the first process of a container: end all others."""

_FIRST = (PROGRAM, "first")
_NAME = re.compile(r"bench-(?P<ended>[01])")
_PATIENCE = 15.0
_SIGNAL_AGAIN = 3.0
_POLL = (0.005, 0.25)
_SIGNAL_TIMEOUT = 2.0


def first_command(lifetime: int) -> list[str]:
    """The command of a container whose first process is ours, for `lifetime` seconds."""
    return [*_FIRST, str(lifetime)]


@dataclasses.dataclass(frozen=True, slots=True)
class Process:
    """One row of the engine's table; numbers are those of its own machine."""

    pid: int
    parent: int
    state: str
    name: str
    command: str

    @property
    def is_zombie(self) -> bool:
        """True if nothing of it runs; of one that has lost only its first thread, the others do."""
        return self.state.startswith("Z") and "l" not in self.state


class Processes:
    """Of one container. Every method raises `InfrastructureError` when the engine refuses."""

    def __init__(self, client: docker.APIClient, container: str, dialect: Dialect) -> None:
        self._client = client
        self._container = container
        self._dialect = dialect
        self._first: int | None = None
        self._seen: list[Process] = []
        self.signals = 0
        """Number of signals that the first process was sent."""

    def forget_first(self) -> None:
        """The container was started anew."""
        self._first = None
        self._seen = []

    def forget_seen(self) -> None:
        """A command runs: whatever was listed before may have changed."""
        self._seen = []

    def listed(self) -> list[Process]:
        """Everything in the container, its first process first; nothing where it has ended, or nobody sees into it.

        A runtime with a kernel of its own, such as gVisor, has numbers of its own, which to the engine are of others.
        """
        try:
            rows: list[list[str]] = (
                self._client.top(self._container, ps_args=self._dialect.columns)["Processes"] or []
            )
        except (ContainerEnded, EngineRefused) as error:
            # Processes that come and go too fast for a list are ended by whoever asks for it.
            if isinstance(error, EngineRefused) and not self._dialect.lists_processes:
                raise
            self._seen = []
            return []
        table = [Process(int(row[0]), int(row[1]), row[2], row[3], row[4]) for row in rows]
        if self._first is None and (len(table) > 1 or _name(table) is None):
            about = {} if self._dialect.lists_processes else self._client.inspect_container(self._container)
            self._first = int(about["State"]["Pid"]) if about else 1
        if not self._dialect.lists_processes and self._first not in (None, *(row.pid for row in table)):
            table = []
        self._seen = sorted(table, key=lambda process: process.pid != self._first)
        return self._seen

    def others(self, *, seen: bool = False) -> list[Process] | None:
        """Return what runs beside the first process, and beside an init's waiting child; None: all has ended.

        `seen`: what was listed last will do, if no command has run since.
        """
        listed = (seen and self._seen) or self.listed()
        if not listed:
            return None
        head, *rest = listed
        if _name(listed) is None:
            waiting = next(
                (row for row in rest if row.parent == head.pid and row.command.startswith("sleep ")), None
            )
            rest = [row for row in rest if row is not waiting]
        return [row for row in rest if not row.is_zombie]

    def end_all(self) -> bool:
        """Have the first process end all others; return whether it did, for only a new start can do it else."""
        try:
            if (before := _name(self._seen or self.listed())) is None:
                return False
            deadline = time.monotonic() + _PATIENCE
            signalled, pause = 0.0, _POLL[0]
            while (now := time.monotonic()) < deadline:
                if now - signalled > _SIGNAL_AGAIN:
                    self.signals += 1
                    self._client.kill(self._container, signal=SIGNAL)
                    signalled = now
                if not (found := self.listed()):
                    return False
                now_called = _name(found)
                if now_called is not None and now_called["ended"] != before["ended"]:
                    return True
                time.sleep(pause)
                pause = min(2 * pause, _POLL[1])
        except ContainerEnded:
            pass
        return False

    def cpu_seconds(self) -> float:
        """Return what all of them have used so far."""
        return float(self._stats()["cpu_stats"]["cpu_usage"]["total_usage"]) / 1e9

    def count(self) -> tuple[int, int] | None:
        """Return how many there are, and may be; None: the engine does not know."""
        pids = self._stats().get("pids_stats") or {}
        if not pids.get("current") or not pids.get("limit"):
            return None
        return int(pids["current"]), int(pids["limit"])

    def _stats(self) -> dict[str, Any]:
        client = self._client
        answer = client.get(
            f"{client.base_url}/v{client.api_version}/containers/{self._container}/stats",
            params={"stream": "0", "one-shot": "1"},
            timeout=client.timeout,
        )
        return dict(answer.json())


def send(engine: Engine, container: str, pid: int, name: str) -> None:
    """Send a signal to a process group; `pid` is its number in the container. Never raises; takes some seconds at most.

    Every command is the leader of a session, so it has its children with it, but for those that left the group. Whether
    anybody got it is not known.
    """
    # 0 is the sender's own group, -1 is everybody.
    if pid <= 1 or name not in ("INT", "TERM"):
        return
    command = [PROGRAM, "signal", name, str(pid)]
    with contextlib.suppress(InfrastructureError, *ERRORS, OSError), engine.guard(Caller(patience=0.0)):
        created = engine.post(f"/containers/{container}/exec", {"Cmd": command, "User": "0"}, _SIGNAL_TIMEOUT)
        # Detached: a program that somebody replaced cannot hold us up.
        engine.post(f"/exec/{created['Id']}/start", {"Detach": True}, _SIGNAL_TIMEOUT)


def _name(listed: list[Process]) -> re.Match[str] | None:
    """Return what our first process calls itself; None: the first process is none of ours."""
    ours = bool(listed) and listed[0].command.startswith(" ".join(_FIRST) + " ")
    return _NAME.fullmatch(listed[0].name) if ours else None
