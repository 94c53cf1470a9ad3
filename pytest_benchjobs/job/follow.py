"""A job observed from another process: its record, its events, and whether its process is alive."""

from __future__ import annotations

import contextlib
import datetime
import os
import stat
import time
from pathlib import Path
from typing import Any, NamedTuple

from ..analysis.live import Flying, Live
from ..analysis.scenarios import judged
from ..model.errors import InputError
from ..model.event import Ended
from ..model.job import JobStatus
from ..model.quota import Quota
from ..model.result import Outcome, TrialResult
from ..report.documents.watch import watch_document
from ..report.excerpts import excerpts, last_lines
from ..store.bundle import JobBundle
from ..store.events import EventReader
from ..store.layout import JobLayout, Layout, namesakes
from ..store.liveness import is_dead, last_beat
from ..store.log import log_end
from ..store.quotas import read
from ..store.reader import HistoryReader
from ..store.rows import TrialRow
from ..store.text import clean, one_line, plain
from ..store.trials import read_result

# The starter of a detached job closes it when pytest died of a wrong option; that takes a moment.
_GRACE_SECONDS = 1.0
_PATIENCE_SECONDS = 5.0
_POLL_SECONDS = 0.05
_TAIL = 16_384
_LINE_LIMIT = 500
_LOG_LINES = 100


_HELD_BACK = ("Its benchmark is confidential: nothing is quoted",)


class Landed(NamedTuple):
    """An ended trial, and the number of ended trials including it."""

    event: Ended
    number: int


def _quoted(result: TrialResult, root: Path, lines: int) -> tuple[str, ...]:
    """Return the reason of a result, and the last lines of its logs."""
    if result.confidential:
        return _HELD_BACK
    why = [] if result.failure is None else [*clean(result.failure.message, 1000).split("\n"), ""]
    shown = [line for one in excerpts(result, root, lines=lines, size=_TAIL) for line in one.text.split("\n")]
    return tuple(one_line(line, _LINE_LIMIT) if line.strip() else "" for line in (*why, *shown))


def running_log(layout: JobLayout, trial: Flying) -> Path | None:
    """Return the agent's log of a trial that runs in the job of `layout`; None if it has none yet."""
    final = layout.trial(trial.agent, trial.scenario, trial.attempt)
    found = {}
    for path in final.parent.glob(f".tmp-*-{trial.attempt}/agent.log"):
        with contextlib.suppress(FileNotFoundError):  # the trial may end at any moment
            status = path.lstat()
            if stat.S_ISREG(status.st_mode):
                found[path] = status.st_mtime_ns
    return max(found, key=found.__getitem__, default=None)


class Following:
    """A job followed from outside. Call `look` repeatedly; all other members are as of the last look.

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
        """True if the job has ended or died."""
        return self.died or self.record.status.ended

    @property
    def began(self) -> bool:
        """True if a trial has begun."""
        return bool(self.live.flying or self.live.all.done)

    def look(self) -> list[Landed]:
        """Read new events; return the trials that have ended since the last call.

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
            self._read()  # it may have ended in the meantime
            self.died = not self.record.status.ended
        return landed + self._close() if self.record.status.ended else landed

    def quotas(self) -> tuple[Quota, ...]:
        """Return the quotas of providers that are used up."""
        if self.record.status.ended:
            return self.record.decisions.quotas
        return tuple(read(self.bundle.layout.quotas).values())

    def document(self) -> dict[str, Any]:
        """Return a snapshot of the job as plain data that is safe to show; before its first trial with the log."""
        document = watch_document(
            self.record,
            self.live,
            datetime.datetime.now(datetime.UTC),
            died=self.died,
            log=() if self.began else self.log(_LOG_LINES),
            quotas=self.quotas(),
        )
        data: dict[str, Any] = plain(document.model_dump(mode="json", by_alias=True))
        return data

    def silence(self) -> float:
        """Seconds since the last heartbeat of the job's process; 0 before the first one."""
        return last_beat(self.bundle.root) if self.record.status is JobStatus.RUNNING else 0.0

    @property
    def log_file(self) -> Path | None:
        """Log file of a detached job."""
        path = self.bundle.layout.log
        return path if path.is_file() else None

    def log(self, lines: int) -> tuple[str, ...]:
        """Return the last lines of the log file."""
        try:
            with self.bundle.layout.log.open("rb") as file:
                file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL))
                text = file.read().decode("utf-8", "replace")
        except OSError:
            return ()
        cleaned = (one_line(line, _LINE_LIMIT) for line in text.splitlines())
        return tuple(line for line in cleaned if line)[-lines:]

    def trial_log(self, trial: Flying | Ended, lines: int) -> tuple[str, ...]:
        """Return the last lines of a trial's logs: of its agent while it runs, and of scorers once it has ended."""
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
        newest = running_log(self.bundle.layout, trial)
        if newest is None:
            return ()
        text = log_end(newest, _TAIL).decode("utf-8", "replace")
        return tuple(one_line(line, _LINE_LIMIT) for line in last_lines(text, lines, _TAIL))

    def unsolved(self) -> int:
        """Return the number of pairs of scenario and agent that did not pass, once the job has ended."""
        passed = (Outcome.PASSED, Outcome.SKIPPED)
        return sum(scenario.verdict not in passed for scenario in judged(self._rows(), self.record.config))

    def _begin(self) -> None:
        self.live = Live([agent.label for agent in self.record.config.agents])
        self._reader = EventReader(self.bundle.root)

    def _read(self) -> None:
        """Read `job.json` again if it changed. A resumed job sends all events again."""
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
        """Return whether the job's process has been dead for a moment."""
        if not is_dead(self.bundle.root, self.record):
            self._dead_since = None
            return False
        now = time.monotonic()
        self._dead_since = now if self._dead_since is None else self._dead_since
        return now - self._dead_since >= _GRACE_SECONDS

    def _close(self) -> list[Landed]:
        """Read trials without events from the history: the events file is removed at the end of the job."""
        if self._closed:
            return []
        self._closed = True
        known = self.live.all.done
        missed = self.live.close(self._rows())
        return [Landed(event, number) for number, event in enumerate(missed, known + 1)]

    def _rows(self) -> list[TrialRow]:
        """Return the job's rows in the history. It is updated a moment after the bundle, so wait for the end there."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        with HistoryReader(self._history) as history:
            while True:
                row = history.job_row(self.record.id)
                if (row is not None and row.finished_at is not None) or time.monotonic() > deadline:
                    return history.trials(self.record.id)
                time.sleep(_POLL_SECONDS)
