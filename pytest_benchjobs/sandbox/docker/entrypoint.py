"""An image's own ENTRYPOINT: started as a command like any other, and waited for until it is ready.

It is told to run a program of ours (`first`). It is ready when

    it runs that       what it does before `exec "$@"` is done. Nearly all are of this kind
    it is at rest      for those that serve and never run what they are told: for some seconds its processes were the
                       same, used next to no time of a processor, and none was a short `sleep`

A health check of the scenario has to pass as well, and is asked by the trial. One that ends is an error of its own.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

from ...model.errors import EntrypointEnded, EnvironmentFailed
from ...model.scenario import Environment
from ...system.cutting import TailSink
from ..protocol import ExecResult, Stopping
from .first import REACHED

if TYPE_CHECKING:
    from .processes import Process

_SLEEPING = ("sleep", "86400")
_REST = 3.0
_BUSY = 0.05
"""Share of a processor."""
_SLEEP = re.compile(r"(?:\S*/)?sleep (?P<seconds>\d{1,3})(?:\.\d*)?s?")
_SHOWN = 1000


class _Container(Protocol):
    """As much of a sandbox as it takes to start an ENTRYPOINT in it."""

    has_first: bool

    @property
    def exec(self) -> Callable[..., ExecResult]: ...
    def running(self) -> list[Process]: ...
    def cpu_seconds(self) -> float: ...


class Entrypoint:
    """Of one container."""

    def __init__(self, container: _Container, argv: Sequence[str], environment: Environment) -> None:
        self._container = container
        self._argv = tuple(argv)
        self._environment = environment
        self.serves = False
        """True if it left something running beside what it was told to run."""

    def start(self, check: Callable[[], None]) -> None:
        """Start it and wait until it is ready. `check` is called several times a second, and may raise.

        Raises:
            EntrypointEnded: it ended.
            EnvironmentFailed: it was at work until the time for set-up was over.
            InfrastructureError: the engine failed.
        """
        output = TailSink(_SHOWN)
        watch = _Watch(self._container, check)
        result = self._container.exec(
            (*self._argv, *(REACHED if self._container.has_first else _SLEEPING)),
            timeout=self._environment.setup_timeout,
            sink=output,
            stopping=Stopping(watch.is_ready, lambda _: None, graces=()),
        )
        self.serves = watch.serves
        printed = output.raw().decode("utf-8", "replace").strip() or "nothing"
        if result.stopped:
            return
        if result.timed_out:
            raise EnvironmentFailed(
                f"the image's ENTRYPOINT was still busy after {self._environment.setup_timeout:g} s: it neither ran "
                f'its command (`exec "$@"`) nor became idle. Its output ends with: {printed}'
            )
        raise EntrypointEnded(
            f"the image's ENTRYPOINT ended with status {result.exit_status} before the agent began. It has to run "
            f'its command (`exec "$@"`), or to keep running; `keep_entrypoint: false` disables it. Output: {printed}'
        )

    def start_again(self, check: Callable[[], None]) -> str | None:
        """Start it once more, after the agent; returns what went wrong, which is for scorers to judge."""
        try:
            self.start(check)
        except (EntrypointEnded, EnvironmentFailed) as error:
            return f"started again for grading: {error}"
        return None


class _Watch:
    def __init__(self, container: _Container, check: Callable[[], None]) -> None:
        self.serves = False
        self._container = container
        self._check = check
        self._seen: frozenset[int] = frozenset()
        self._since = self._used = 0.0

    def is_ready(self) -> bool:
        self._check()
        running = self._container.running()
        others = [process for process in running if not _is_ours(process)]
        reached = [process for process in running if _is_ours(process)]
        # Of `tini -- "$@"`, or a shell without `exec`, nothing is left but who waits for what was told to run.
        waiting, parents = set(), {process.parent for process in reached}
        while parents:
            waiting |= parents
            parents = {one.parent for one in others if one.pid in parents} - waiting
        self.serves = any(process.pid not in waiting for process in others)
        return bool(reached) or (bool(others) and self._is_at_rest(others))

    def _is_at_rest(self, processes: Iterable[Process]) -> bool:
        """Return True if the same processes have done next to nothing for some time."""
        now = time.monotonic()
        seen = frozenset(process.pid for process in processes)
        sleeping = any(_SLEEP.fullmatch(process.command) for process in processes)
        if sleeping or seen != self._seen:
            self._seen, self._since = seen, now
            self._used = self._container.cpu_seconds()
            return False
        if now - self._since < _REST:
            return False
        used = self._container.cpu_seconds()
        idle = used - self._used < _BUSY * (now - self._since)
        self._since, self._used = now, used
        return idle


def _is_ours(process: Process) -> bool:
    return process.command in (" ".join(REACHED), " ".join(_SLEEPING))
