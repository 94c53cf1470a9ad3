"""Recorder, which writes results into the history while a job runs; and the problems of a job.

The thread that reports trials only hands results over: the heartbeat writes them, twice a second. Results that a killed
process has not written are in the bundle, and recovered from there.
"""

from __future__ import annotations

import contextlib
import datetime
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator

from ..model.result import Outcome, TrialResult
from ..model.usage import Usage
from ..store.history import History
from ..store.text import clean
from ..store.totals import added, spent_by

_SPACING = 4
"""Pause after a save, as a multiple of its duration: saving takes at most a fifth of the time."""


class Problems:
    """Problems of a job itself, as lines for the user. They are not raised, so that no finished trial is lost."""

    def __init__(self, lines: Iterable[str] = ()) -> None:
        self.lines = list(lines)

    def add(self, line: str) -> None:
        """Add a line, unless it is there already."""
        if line not in self.lines:
            self.lines.append(line)

    @contextlib.contextmanager
    def noting(self, step: str) -> Iterator[None]:
        """Turn an exception inside the context into a line."""
        try:
            yield
        except Exception as error:
            self.add(f"{step}: {clean(str(error) or type(error).__name__, 500)}")


class Recorder:
    """Results on their way into the history. `save` may run in another thread than `record`."""

    def __init__(self, history: History, problems: Problems) -> None:
        self.spent = Usage()
        """Usage of all results together."""
        self.saved: dict[str, datetime.datetime] = {}
        """Trials in the history -> end of the result there."""
        self.unwritable: dict[str, TrialResult] = {}
        """Results that could not be stored in the bundle, by node id."""
        self._history = history
        self._problems = problems
        self._unsaved: deque[TrialResult] = deque()
        self._next_save = 0.0
        self._lock = threading.Lock()

    def record(self, result: TrialResult) -> None:
        """Queue a result for the history. A trial that was not run has no result."""
        if result.outcome is Outcome.CANCELLED:
            return
        if result.usage.calls is not None or result.grading_usage.calls is not None:
            self.spent = added(self.spent, spent_by([result]))
        if not result.path:
            self.unwritable[result.node_id] = result
        self._unsaved.append(result)

    def catch_up(self) -> None:
        """Write the queued results, unless the last save was too recent in proportion to its duration."""
        if (self._unsaved or self._history.behind) and time.monotonic() >= self._next_save:
            self.save()

    def save(self) -> None:
        """Write the queued results in one transaction, as a commit costs more than a row."""
        with self._lock:
            unsaved = [self._unsaved.popleft() for _ in range(len(self._unsaved))]
            began = time.monotonic()
            with self._problems.noting("history"):
                self._history.save_trials(unsaved)
                self.saved.update((result.node_id, result.finished_at) for result in unsaved)
            now = time.monotonic()
            self._next_save = now + _SPACING * (now - began)
