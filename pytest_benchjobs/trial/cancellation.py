"""Cancellation of a trial, including one blocked in a call of the engine."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator


class Cancelled(Exception):
    """The trial was asked to stop."""


class Cancellation:
    """A flag that asks a trial to stop, with interruption of blocking calls."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._interrupts: list[Callable[[], None]] = []
        self._requested = threading.Event()

    @property
    def requested(self) -> bool:
        """True once the trial was asked to stop."""
        return self._requested.is_set()

    def wait(self, seconds: float) -> bool:
        """Sleep until the trial is asked to stop, or for these seconds; return True if it was asked."""
        return self._requested.wait(seconds)

    def request(self) -> None:
        """Ask the trial to stop; returns at once. Asking again interrupts again."""
        with self._lock:
            self._requested.set()
            interrupts = list(self._interrupts)
        for interrupt in interrupts:
            try:
                threading.Thread(target=interrupt, name="bench-interrupt", daemon=True).start()
            except (RuntimeError, MemoryError):  # no more threads: interrupt in this one, which is slower
                interrupt()

    def check(self) -> None:
        """Raise `Cancelled` if the trial was asked to stop."""
        if self.requested:
            raise Cancelled

    @contextlib.contextmanager
    def interrupting(self, interrupt: Callable[[], None]) -> Iterator[None]:
        """While inside, `request` calls `interrupt`, from another thread."""
        with self._lock:
            self._interrupts.append(interrupt)
            requested = self.requested
        if requested:
            interrupt()
        try:
            yield
        finally:
            with self._lock:
                self._interrupts.remove(interrupt)
