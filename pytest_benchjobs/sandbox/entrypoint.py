"""An image's own ENTRYPOINT: started as a command like any other, and waited for until it is ready.

It is told to run a program of ours. It is ready when

    it runs that       what it does before `exec "$@"` is done. Nearly all are of this kind
    it is at rest      for those that serve and never run what they are told: for some seconds its processes were the
                       same, used next to no time of a processor, and none was a short `sleep`

A health check of the scenario has to pass as well, and is asked by the trial. One that ends is an error of its own.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from ..model.errors import EntrypointEnded, EnvironmentFailed
from ..model.scenario import Environment
from ..system.cutting import TailSink
from .program import PROGRAM
from .protocol import ExecResult, Stopping

REACHED = (PROGRAM, "reached")
"""Command given to an image's own ENTRYPOINT: it has done then what it does before `exec "$@"`."""
_SLEEPING = ("sleep", "86400")
_REST = 3.0
_BUSY = 0.05
"""Share of a processor."""
_SLEEP = re.compile(r"(?:\S*/)?sleep (?P<seconds>\d{1,3})(?:\.\d*)?s?")
_SHOWN = 1000


class _Process(Protocol):
    @property
    def pid(self) -> int: ...
    @property
    def parent(self) -> int: ...
    @property
    def command(self) -> str: ...


class _Container(Protocol):
    """As much of a sandbox as it takes to start an ENTRYPOINT in it."""

    @property
    def exec(self) -> Callable[..., ExecResult]: ...
    def running(self) -> Sequence[_Process]: ...
    def cpu_seconds(self) -> float: ...


class Entrypoint:
    """Of one container. It is given a program of ours to run if the container `has_first`, else a sleep."""

    def __init__(
        self, container: _Container, argv: Sequence[str], environment: Environment, *, has_first: bool
    ) -> None:
        self._container = container
        self._argv = (*argv, *(REACHED if has_first else _SLEEPING))
        self._timeout = environment.setup_timeout
        self.serves = False
        """True if it left processes running beside its command."""
        self._seen: frozenset[int] = frozenset()
        self._since = self._used = 0.0

    def start(self, check: Callable[[], object]) -> None:
        """Start it and wait until it is ready. `check` is called several times a second, and may raise.

        Raises:
            EntrypointEnded: it ended.
            EnvironmentFailed: it was at work until the time for set-up was over.
        """

        def is_ready() -> bool:
            check()
            return self._is_ready()

        output = TailSink(_SHOWN)
        self.serves, self._seen = False, frozenset()
        result = self._container.exec(
            self._argv,
            timeout=self._timeout,
            sink=output,
            stopping=Stopping(is_ready, lambda _: None, graces=()),
        )
        if result.stopped:
            return
        printed = output.raw().decode("utf-8", "replace").strip() or "nothing"
        if result.timed_out:
            raise EnvironmentFailed(
                f"the image's ENTRYPOINT was still busy after {self._timeout:g} s: it neither ran its command "
                f'(`exec "$@"`) nor became idle. Its output ends with: {printed}'
            )
        raise EntrypointEnded(
            f"the image's ENTRYPOINT ended with status {result.exit_status} before the agent began. It has to run "
            f'its command (`exec "$@"`), or to keep running; `keep_entrypoint: false` disables it. Output: {printed}'
        )

    def start_again(self, check: Callable[[], object]) -> str | None:
        """Start it once more, after the agent; returns what went wrong, which is for scorers to judge."""
        try:
            self.start(check)
        except (EntrypointEnded, EnvironmentFailed) as error:
            return f"started again for grading: {error}"
        return None

    def _is_ready(self) -> bool:
        running = self._container.running()
        reached = [one for one in running if one.command in (" ".join(REACHED), " ".join(_SLEEPING))]
        others = [one for one in running if one not in reached]
        # Of `tini -- "$@"`, or a shell without `exec`, nothing is left but who waits for what was told to run.
        waiting, parents = set(), {process.parent for process in reached}
        while parents:
            waiting |= parents
            parents = {one.parent for one in others if one.pid in parents} - waiting
        self.serves = any(process.pid not in waiting for process in others)
        return bool(reached) or (bool(others) and self._is_at_rest(others))

    def _is_at_rest(self, processes: Sequence[_Process]) -> bool:
        """Return True if the same processes have done next to nothing for some time."""
        now = time.monotonic()
        seen = frozenset(process.pid for process in processes)
        sleeping = any(_SLEEP.fullmatch(process.command) for process in processes)
        if not sleeping and seen == self._seen and now - self._since < _REST:
            return False
        before, since = self._used, self._since
        self._used, self._since = self._container.cpu_seconds(), now
        if sleeping or seen != self._seen:
            self._seen = seen
            return False
        return self._used - before < _BUSY * (now - since)
