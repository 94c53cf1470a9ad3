"""A clock for tests of what waits."""

from __future__ import annotations

from collections.abc import Callable


class Clock:
    """Stands for `time`: nothing but a pause takes any."""

    def __init__(self, now: float = 100.0) -> None:
        self.now = now
        self.pauses: list[float] = []
        self.meanwhile: Callable[[], object] = lambda: None

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds
        self.meanwhile()
