"""The processes of a container, as the engine sees them from outside, and the end of them.

`first` is the program that ends them; here is the engine's side of it. What an agent's processes say of themselves
decides nothing: the first process is known by the engine's own number for it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
import time
from typing import Any

import docker

from ...model.errors import ContainerEnded, InfrastructureError
from . import first
from .calling import Caller
from .engine import Engine
from .library import ERRORS

_COLUMNS = "-eo pid,ppid,stat,comm,args"
PATIENCE, _LOOKING = 15.0, 6.0
_SIGNAL_AGAIN = 3.0
FIRST_LOOK = 0.5
"""Seconds that a command waits for the first process to begin."""
_POLL = (0.005, 0.25)
_SIGNAL_TIMEOUT = 2.0

END_COMMANDS = r"""
has() {
    while IFS= read -r line || [ -n "$line" ]; do
        case $line in *"$1="*) return 0 ;; esac
        line=
    done <"$2"
    return 1
}
ends=" "
again=1
while [ "$again" ]; do
    again=
    for path in /proc/[0-9]*; do
        pid=${path#/proc/} parent= ignored=
        [ "$pid" = 1 ] || [ "$pid" = $$ ] && continue
        case $ends in *" $pid "*) continue ;; esac
        { while read -r key value rest; do
            case $key in PPid:) parent=$value ;; SigIgn:) ignored=$value ;; esac
        done <"$path/status"; } 2>/dev/null || continue
        if [ "$parent" = 0 ]; then
            { has "$1" "$path/environ"; } 2>/dev/null || continue
        else
            case $ends in *" $parent "*) ;; *) continue ;; esac
            case $ignored in *[13579bdf]) continue ;; esac
        fi
        kill -s STOP "$pid" 2>/dev/null
        ends="$ends$pid " again=1
    done
done
for pid in $ends; do kill -s KILL "$pid" 2>/dev/null; done
"""
"""A script for the container's shell: kills commands that were given the variable `$1`, and their children.

Commands are what has no parent in the container. A child that ignores SIGHUP (`nohup`) was made a daemon, and so was
what has outlived its parent. Each is stopped first, so that it starts no more. It ends nobody who resists: that is what
the first process is for.
"""


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


@dataclasses.dataclass(frozen=True, slots=True)
class Pids:
    """Numbers of processes."""

    count: int
    limit: int


class Processes:
    """Of one container. Every method raises `InfrastructureError` when the engine refuses."""

    def __init__(self, client: docker.APIClient, container: str) -> None:
        self._client = client
        self._container = container
        self._first: int | None = None
        self._seen: list[Process] = []

    def forget_first(self) -> None:
        """The container was started anew."""
        self._first = None
        self._seen = []

    def forget_seen(self) -> None:
        """A command runs: whatever was listed before may have changed."""
        self._seen = []

    def listed(self) -> list[Process]:
        """Everything in the container, its first process first; nothing where it has ended."""
        try:
            rows: list[list[str]] = self._client.top(self._container, ps_args=_COLUMNS)["Processes"] or []
        except ContainerEnded:
            self._seen = []
            return []
        table = [Process(int(row[0]), int(row[1]), row[2], row[3], row[4]) for row in rows]
        if len(table) > 1 and self._first is None:
            self._first = int(self._client.inspect_container(self._container)["State"]["Pid"])
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

    def has_looked(self, patience: float = FIRST_LOOK) -> bool:
        """Return True once the first process has seen the directories it watches; waits `patience` seconds for that.

        On a busy machine a command could begin and end before it: it would take what the command left for the start.
        """
        deadline, pause = time.monotonic() + patience, _POLL[0]
        while _name(listed := self.listed()) is None:
            if not listed or time.monotonic() > deadline:
                return False
            time.sleep(pause)
            pause = min(2 * pause, _POLL[1])
        return True

    def end_all(self) -> bool | None:
        """Have the first process end all others; returns what `is_untouched` does. None: only a new start can."""
        return self._tell(first.SIGNAL, "ended", PATIENCE)

    def is_untouched(self) -> bool:
        """Return True if the first process says that the directories it watches are as they were at the start."""
        return bool(self._tell(first.LOOK, "looked", _LOOKING))

    def _tell(self, what: str, digit: str, patience: float) -> bool | None:
        """Send the first process a signal and wait until a digit of its name tells that it has obeyed."""
        try:
            before = _name(self._seen or self.listed())
            if before is None:
                return None
            deadline = time.monotonic() + patience
            signalled, pause = 0.0, _POLL[0]
            while (now := time.monotonic()) < deadline:
                if now - signalled > _SIGNAL_AGAIN:
                    self._client.kill(self._container, signal=what)
                    signalled = now
                if not (found := self.listed()):
                    return None
                now_called = _name(found)
                if now_called is not None and now_called[digit] != before[digit]:
                    return now_called["untouched"] is not None
                time.sleep(pause)
                pause = min(2 * pause, _POLL[1])
        except ContainerEnded:
            pass
        return None

    def cpu_seconds(self) -> float:
        """Return what all of them have used so far."""
        return float(self._stats()["cpu_stats"]["cpu_usage"]["total_usage"]) / 1e9

    def count(self) -> Pids | None:
        """Return how many there are, and may be; None: the engine does not know."""
        pids = self._stats().get("pids_stats") or {}
        if not pids.get("current") or not pids.get("limit"):
            return None
        return Pids(int(pids["current"]), int(pids["limit"]))

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

    Every command is the leader of a session, so it has its children with it, but for those that left the group. The
    container's own `/bin/sh` sends it, as root; whether anybody got it is not known.
    """
    # 0 is the sender's own group, -1 is everybody.
    if pid <= 1 or name not in ("INT", "TERM"):
        return
    command = ["/bin/sh", "-c", f"kill -s {name} -- -{pid}"]
    with contextlib.suppress(InfrastructureError, *ERRORS, OSError), engine.guard(Caller(patience=0.0)):
        created = engine.post(f"/containers/{container}/exec", {"Cmd": command, "User": "0"}, _SIGNAL_TIMEOUT)
        # Detached: a shell that somebody replaced cannot hold us up.
        engine.post(f"/exec/{created['Id']}/start", {"Detach": True}, _SIGNAL_TIMEOUT)


def _name(listed: list[Process]) -> re.Match[str] | None:
    """Return what our first process calls itself; None: the first process is none of ours."""
    return first.NAME.fullmatch(listed[0].name) if listed and listed[0].command == first.FIRST else None
