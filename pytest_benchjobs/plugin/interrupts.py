"""Signals that end a session with a job. They interrupt running trials, and are deferred while a job is written.

SIGTERM and SIGHUP act like Ctrl-C; pytest alone would die of them without cleaning up. The first signal is deferred
while the record of a job is made, and again after the run loop: a job interrupted there would stay `running`. The
second signal interrupts, except in the short moment when results are written.
"""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Iterator
from types import FrameType
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

if TYPE_CHECKING:
    from ..job.ticket import Ticket
    from ..job.trials import Trials
    from ..trial.flight import Flight

T = TypeVar("T", bound="Ticket")

_TAKEN = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupts:
    """Signal handlers of a session."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._before: dict[signal.Signals, Any] = {}
        self._put_off = False
        self._deaf = False
        self._noted: int | None = None

    def take(self) -> None:
        """Install the handlers, until pytest ends. Does nothing in a thread, or a second time."""
        if self._before or threading.current_thread() is not threading.main_thread():
            return
        for number in _TAKEN:
            if signal.getsignal(number) is not signal.SIG_IGN:  # ignored by nohup or a shell: keep it so
                self._before[number] = signal.signal(number, self._handle)
        self._config.add_cleanup(self._give_back)

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Defer the first signal to the end of the block."""
        self._put_off, self._noted = True, None
        try:
            yield
        finally:
            self._put_off = False
        if self._noted is not None:
            raise _interrupt(self._noted)

    def closing(self) -> None:
        """Ignore the first signal, as all trials have ended."""
        self._put_off, self._noted = True, None

    @contextlib.contextmanager
    def deaf(self) -> Iterator[None]:
        """Ignore all signals."""
        self._put_off = self._deaf = True
        try:
            yield
        finally:
            self._deaf = False

    @pytest.hookimpl(tryfirst=True)
    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        """Leave pytest no place of ours to name below the summary, except with `--full-trace`."""
        if not self._config.option.fulltrace:
            excinfo.traceback = excinfo.traceback[:1]

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        first, self._noted = self._noted is None, number
        if self._put_off and (first or self._deaf):
            return
        raise _interrupt(number)

    def _give_back(self) -> None:
        while self._before:
            number, before = self._before.popitem()
            signal.signal(number, before)


@contextlib.contextmanager
def ending_flight(
    trials: Trials[T], seconds: float, waiting: contextlib.AbstractContextManager[None]
) -> Iterator[Flight[T]]:
    """Open a flight. If the context is left early (`-x`, Ctrl-C, SIGTERM), trials in flight end without a report.

    A second Ctrl-C ends the wait for them; closing the engine then removes the rest by force. `waiting` is around that.
    """
    flight = trials.flight()
    try:
        yield flight
    finally:
        trials.break_off()
        flight.cancel()
        with waiting:
            try:
                deadline = time.monotonic() + seconds
                while flight.outstanding and time.monotonic() < deadline:
                    flight.next(timeout=0.1)
            finally:
                trials.close()
                flight.close()


def _interrupt(number: int) -> KeyboardInterrupt:
    return KeyboardInterrupt() if number == signal.SIGINT else KeyboardInterrupt(signal.Signals(number).name)
