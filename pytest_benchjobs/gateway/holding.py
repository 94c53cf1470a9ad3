"""Time for which the gateway holds the calls of a trial. It is not the agent's."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator


class Holding:
    """Clock that runs while every call of a trial that is under way is held, so that its agent has to wait.

    A call is held while it waits for its turn, for the end of a pause, or for room below a limit, and while it is
    tried again. `tell` is called at each change with the seconds so far, and the time, by the machine's monotonic
    clock, since which calls are held; None: they are not.
    """

    def __init__(self, tell: Callable[[float, float | None], None] = lambda _seconds, _since: None) -> None:
        self._tell = tell
        self._calls = self._held = 0
        self._seconds = 0.0
        self._since: float | None = None

    @property
    def seconds(self) -> float:
        """Seconds so far."""
        return self._seconds + (0.0 if self._since is None else time.monotonic() - self._since)

    @contextlib.contextmanager
    def call(self) -> Iterator[None]:
        """A call is under way meanwhile."""
        self._count(calls=1)
        try:
            yield
        finally:
            self._count(calls=-1)

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """A call is held meanwhile."""
        self._count(held=1)
        try:
            yield
        finally:
            self._count(held=-1)

    def _count(self, calls: int = 0, held: int = 0) -> None:
        self._calls += calls
        self._held += held
        stands = 0 < self._calls <= self._held
        if stands and self._since is None:
            self._since = time.monotonic()
        elif not stands and self._since is not None:
            self._seconds, self._since = self.seconds, None
        else:
            return
        self._tell(self._seconds, self._since)
