"""A limit for every test: one that hangs fails by its name, with the stacks of all threads, and the others go on."""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
import threading
from collections.abc import Generator
from types import FrameType

import pytest

SECONDS = float(os.environ.get("BENCHJOBS_TEST_SECONDS", "900"))
"""Far more than any test takes, also on a machine that is busy."""
_EXTENDED = 4


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Fail a test that takes too long, its fixtures included."""
    if threading.current_thread() is not threading.main_thread():
        return (yield)
    limit = SECONDS * (_EXTENDED if item.get_closest_marker("extended") else 1)

    def late(_: int, frame: FrameType | None) -> None:
        faulthandler.dump_traceback(sys.__stderr__ or 2)
        pytest.fail(f"{item.nodeid} took more than {limit:g} s, the limit of a test")

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, limit)
    try:
        return (yield)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
