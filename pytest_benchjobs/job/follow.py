"""A job observed from another process: its record, its events, and whether its process is alive."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path
from typing import NamedTuple

from ..analysis.live import Flying, Live
from ..analysis.scenarios import judged
from ..model.errors import InputError
from ..model.event import Ended
from ..model.job import JobStatus
from ..model.result import Outcome, TrialResult
from ..report.excerpts import excerpts, last_lines
from ..store.bundle import JobBundle
from ..store.events import EventReader
from ..store.layout import Layout, namesakes
from ..store.liveness import is_dead, last_beat
from ..store.log import log_end
from ..store.reader import HistoryReader
from ..store.rows import TrialRow
from ..store.text import clean, one_line
from ..store.trials import read_result

# Who starts a job in the background closes it when pytest has died of a wrong option; that takes a moment.
_GRACE_SECONDS = 1.0
_PATIENCE_SECONDS = 5.0
_POLL_SECONDS = 0.05
_TAIL = 16_384
_LINE_LIMIT = 500


_HELD_BACK = ("Its benchmark is confidential: nothing is quoted",)


class Landed(NamedTuple):
    """A trial that has ended, and how many had then."""

    event: Ended
    number: int


def _quoted(result: TrialResult, root: Path, lines: int) -> tuple[str, ...]:
    """Why a result is what it is, and the last lines of its logs."""
    if result.confidential:
        return _HELD_BACK
    why = [] if result.failure is None else [*clean(result.failure.message, 1000).split("\n"), ""]
    shown = [line for one in excerpts(result, root, lines=lines, size=_TAIL) for line in one.text.split("\n")]
    return tuple(one_line(line, _LINE_LIMIT) if line.strip() else "" for line in (*why, *shown))


class Following:
    """`look` now and then; the rest is as it was at the last look.

    Raises:
        InputError: there is no such job, or its `job.json` is damaged.
    """

    def __init__(self, directory: Path, job_id: str) -> None:
        self.bundle = JobBundle.open(directory, job_id)
        self.record = self.bundle.read()
        self.died = False
        """True if its process is dead, though its status is that of a running job."""
        self._history = Layout(directory).history
        self._stamp: tuple[int, ...] = ()
        self._dead_since: float | None = None
        self._closed = False
        self._begin()

    @property
    def over(self) -> bool:
        """True if the job will not change any more."""
        return self.died or self.record.status.ended

    @property
    def began(self) -> bool:
        """True if a trial has begun."""
        return bool(self.live.flying or self.live.all.done)

    def look(self) -> list[Landed]:
        """Read the news; returns the trials that have ended since the last call.

        Raises:
            InputError: `job.json` is gone or damaged.
        """
        self._read()
        landed = [
            Landed(event, self.live.all.done)
            for batch in self._reader.batches()
            for event in batch
            if self.live.take(event) and isinstance(event, Ended)
        ]
        if self.record.planned is not None:
            self.live.all.planned = self.record.planned
        if not self.record.status.ended and self._is_gone():
            self._read()  # it may have ended properly in the meantime
            self.died = not self.record.status.ended
        return landed + self._close() if self.record.status.ended else landed

    def silence(self) -> float:
        """Seconds since the last heartbeat of the job's process; 0 before the first one."""
        return last_beat(self.bundle.root) if self.record.status is JobStatus.RUNNING else 0.0

    @property
    def log_file(self) -> Path | None:
        """Log file of a job that runs in the background."""
        path = self.bundle.layout.log
        return path if path.is_file() else None

    def log(self, lines: int) -> tuple[str, ...]:
        """The last lines of that."""
        try:
            with self.bundle.layout.log.open("rb") as file:
                file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL))
                text = file.read().decode("utf-8", "replace")
        except OSError:
            return ()
        cleaned = (one_line(line, _LINE_LIMIT) for line in text.splitlines())
        return tuple(line for line in cleaned if line)[-lines:]

    def trial_log(self, trial: Flying | Ended, lines: int) -> tuple[str, ...]:
        """The last lines of what a trial printed: its agent while it runs, and scorers as well once it has ended."""
        final = self.bundle.layout.trial(trial.agent, trial.scenario, trial.attempt)
        if isinstance(trial, Ended):
            for place in namesakes(final, trial.node_id):
                with contextlib.suppress(InputError):
                    result = read_result(place)
                    if clean(result.node_id) == clean(trial.node_id):
                        return _quoted(result, self.bundle.root, lines)
            return ()
        if trial.confidential:
            return _HELD_BACK
        newest = max(
            (
                path
                for path in final.parent.glob(f".tmp-*-{trial.attempt}/agent.log")
                if not path.is_symlink()
            ),
            key=lambda path: path.lstat().st_mtime_ns,
            default=None,
        )
        if newest is None:
            return ()
        text = log_end(newest, _TAIL).decode("utf-8", "replace")
        return tuple(one_line(line, _LINE_LIMIT) for line in last_lines(text, lines, _TAIL))

    def unsolved(self) -> int:
        """Scenarios, each with an agent, that were not passed; after the job has ended."""
        passed = (Outcome.PASSED, Outcome.SKIPPED)
        return sum(scenario.verdict not in passed for scenario in judged(self._rows(), self.record.config))

    def _begin(self) -> None:
        self.live = Live([agent.label for agent in self.record.config.agents])
        self._reader = EventReader(self.bundle.root)

    def _read(self) -> None:
        """Read `job.json` again if it changed. A resumed job reports all events anew."""
        with contextlib.suppress(OSError):
            stat = self.bundle.layout.record.stat()
            stamp = (stat.st_ino, stat.st_mtime_ns, stat.st_size)
            if stamp == self._stamp:
                return
            self._stamp = stamp
        before, self.record = self.record, self.bundle.read()
        if self.record.resumed_at != before.resumed_at:
            self._begin()

    def _is_gone(self) -> bool:
        """Tell whether the process that runs the job has been dead for a moment."""
        if not is_dead(self.bundle.root, self.record):
            self._dead_since = None
            return False
        now = time.monotonic()
        self._dead_since = now if self._dead_since is None else self._dead_since
        return now - self._dead_since >= _GRACE_SECONDS

    def _close(self) -> list[Landed]:
        """Read the trials without events from the history: the file of events goes with the job."""
        if self._closed:
            return []
        self._closed = True
        known = self.live.all.done
        missed = self.live.close(self._rows())
        return [Landed(event, number) for number, event in enumerate(missed, known + 1)]

    def _rows(self) -> list[TrialRow]:
        """Rows of the job in the history. The history ends a job a moment after the bundle does, so wait for that."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        with HistoryReader(self._history) as history:
            while True:
                row = history.job_row(self.record.id)
                if (row is not None and row.finished_at is not None) or time.monotonic() > deadline:
                    return history.trials(self.record.id)
                time.sleep(_POLL_SECONDS)
