"""The phases of a trial, each with its name, its time in the result, and the class of its errors, and its steps."""

from __future__ import annotations

import dataclasses
import os
import traceback
from collections.abc import Callable
from pathlib import Path

from ..model.errors import InfrastructureError, InputError
from ..model.result import AgentEnd, Failure, Phase, ScorerResult
from ..scoring.grade import describe, failure
from ..store.files import DISK_ERRORS, write_error
from ..store.text import clean
from .cancellation import Cancellation
from .draft import Clock
from .limits import Limits

_FIRST, _LAST = "prepare", "done"
_OF_NO_STEP = ("remove", _LAST)
_BEFORE_THE_AGENT = (_FIRST, "image", "start")


class Phases:
    """The phases of one try, without gaps, in seconds since the trial began. `on_phase` is told of each that begins."""

    def __init__(self, clock: Clock, cancellation: Cancellation, on_phase: Callable[[str], None]) -> None:
        self.ended: list[Phase] = []
        self.reached = _FIRST
        """The last phase with any work. Errors belong to it."""
        self._clock = clock
        self._cancellation = cancellation
        self._on_phase = on_phase
        self._now = _FIRST
        self._since = clock.seconds

    @property
    def now(self) -> float:
        """Seconds since the trial began."""
        return self._clock.seconds

    def begin(self) -> None:
        """Begin the first phase."""
        self._on_phase(self._now)

    def enter(self, phase: str) -> None:
        """End the current phase, and begin another; do nothing if it is the same."""
        now = self._clock.seconds
        if phase == self._now:
            return
        if phase not in _OF_NO_STEP:
            self.reached = phase
        self.ended.append(Phase(name=self._now, start=self._since, end=now))
        self._now, self._since = phase, now
        if phase != _LAST:
            self._on_phase(phase)

    def enter_unless_cancelled(self, phase: str) -> None:
        """Begin a phase; raise `Cancelled` if the trial was asked to stop."""
        self._cancellation.check()
        self.enter(phase)

    def end(self) -> None:
        """End the last phase."""
        self.enter(_LAST)


@dataclasses.dataclass(slots=True)
class Progress:
    """The step that a trial is at, and what is known of the earlier ones."""

    number: int = 0
    """Number of the step, counted from 0."""
    started: float = 0.0
    """Start of the step, in seconds since the trial began."""
    said: str | None = None
    """Reply that the agent gave in this step, as it is known before the agent's end is judged."""
    reply: str | None = None
    """Reply to grade. None: the agent did not run, or did not end by itself."""
    scorers: list[ScorerResult] = dataclasses.field(default_factory=list)
    """Results of the scorers of all ended steps."""
    ends: list[tuple[str, AgentEnd, Limits]] = dataclasses.field(default_factory=list)
    """Name, end of the agent, and limits of each ended step."""


def classify(error: BaseException, phase: str, results: Path) -> BaseException:
    """Convert an error of the operating system into what it means in a phase. The trial writes into `results`."""
    if not isinstance(error, OSError):
        return error
    if error.errno in DISK_ERRORS:
        return write_error(results, error)
    if phase in _BEFORE_THE_AGENT and error.filename is not None:
        # A file of the scenario, which existed when it was collected.
        return InputError(f"cannot be read: {error.strerror}", path=os.fsdecode(error.filename))
    return error


def explain(error: BaseException, phase: str) -> Failure:
    """Return the failure for a result from an error, classified."""
    if isinstance(error, InfrastructureError):
        return failure(error, phase)
    if isinstance(error, InputError):
        return Failure(class_="input", message=clean(str(error), 2000), phase=phase)
    return Failure(
        class_="internal",
        message=clean(describe(error), 2000),
        phase=phase,
        detail=clean("".join(traceback.format_exception(error)), 8000),
    )
