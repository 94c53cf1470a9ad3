"""Lines of progress: before the first trial, while trials run, and while a job ends."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from ..report.units import counted
from ..store.text import clean, one_line

if TYPE_CHECKING:
    from .state import Job

_PATIENCE = 1.0
"""Seconds of a wait in silence."""
_LONGEST = 600.0
_SHOWN_AS = {"image": "building or pulling images", "agent": "running agents", "quota": "waiting for a quota"}


def show(config: pytest.Config, line: str) -> None:
    """Print a line, if pytest has a terminal reporter."""
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    if terminal is not None:
        terminal.ensure_newline()
        terminal.write_line(clean(line))


def say(config: pytest.Config, line: str, *, least: int = 0) -> None:
    """Show a line while trials run, unless the user wants quiet: a verbosity below `least`."""
    if config.option.verbose >= least:
        show(config, one_line(line, 500))


@contextlib.contextmanager
def waiting(config: pytest.Config, what: str) -> Iterator[None]:
    """Say what is waited for, if the block takes more than a second."""
    timer = threading.Timer(_PATIENCE, say, (config, f"bench: {what}"))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


class WaitLines:
    """Says what trials are doing while none ends: after a second, then after twice as long a wait, and so on.

    A job of any length has few such lines. Call it often.
    """

    def __init__(self, config: pytest.Config, job: Job) -> None:
        self._config = config
        self._job = job
        self._patience = _PATIENCE

    def __call__(self) -> None:
        """Print a line if the wait is long."""
        events = self._job.trials.events
        waited = time.monotonic() - events.quiet_since
        if waited < self._patience or not events.phases:
            return
        again = self._patience > _PATIENCE
        self._patience = min(2 * max(self._patience, waited), _LONGEST)
        counts = Counter(phase.partition(":")[0] for phase in dict(events.phases).values())
        phases = ", ".join(f"{count} {_SHOWN_AS.get(phase, phase)}" for phase, count in counts.most_common())
        more = "" if again else f"; each: benchjobs watch {self._job.bundle.id}"
        say(self._config, f"bench: {counted(counts.total(), 'trial')} in flight: {phases}{more}")
