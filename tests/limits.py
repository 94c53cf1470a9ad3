"""Limits of every test: one that hangs fails under its name, with the place where it hangs; so does one that stops the clock.

A signal interrupts what waits in Python, and the phase of the test fails. Where that is not to be interrupted, a watchdog
outside of Python prints all stacks a while later, and ends the process; xdist then names the test and goes on with the
others. Plugins that limit tests are loaded into the sessions under test as well, and change them; this is not.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import signal
import threading
import time
from collections.abc import Generator, Iterator
from types import FrameType

import pytest

SECONDS = 900.0
"""For a phase of a test. Only against hanging: the slowest of them takes a quarter of it on a slow machine."""
EXTENDED = 4
"""So many times as much for what takes long."""
_VARIABLE = "BENCHJOBS_TEST_SECONDS"
_CLOCK = time.monotonic
_stderr: int | None = None


def pytest_configure(config: pytest.Config) -> None:
    """Keep stderr as it is before output is captured."""
    global _stderr
    if _stderr is None:
        _stderr = os.dup(2)
        os.set_inheritable(_stderr, False)


@contextlib.contextmanager
def limited(item: pytest.Item, phase: str) -> Iterator[None]:
    """Fail what is inside when it takes too long."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    seconds = float(os.environ.get(_VARIABLE) or SECONDS)
    seconds *= EXTENDED if item.get_closest_marker("extended") else 1

    def stop(number: int, frame: FrameType | None) -> None:
        if _stderr is not None:
            faulthandler.dump_traceback(_stderr)
        pytest.fail(f"{item.nodeid} hangs: its {phase} took longer than {seconds:g} s")

    before = signal.signal(signal.SIGALRM, stop)
    # Again and again: what it interrupts may go on.
    signal.setitimer(signal.ITIMER_REAL, seconds, seconds)
    if _stderr is not None:
        faulthandler.dump_traceback_later(2.5 * seconds, exit=True, file=_stderr)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        faulthandler.cancel_dump_traceback_later()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, object, object]:
    """Limit its fixtures."""
    with limited(item, "set-up"):
        return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Limit the test itself."""
    with limited(item, "call"):
        outcome = yield
    # Another thread would wait for hours until a clock that was replaced is right again.
    assert time.monotonic is _CLOCK, "it replaces the clock of the whole process: use tests.support.set_clock"
    return outcome


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, object, object]:
    """Limit what tidies up."""
    with limited(item, "teardown"):
        return (yield)
