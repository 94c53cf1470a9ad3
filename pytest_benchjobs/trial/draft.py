"""The result of a trial in the making: its clock, phases and findings. Only this module assembles a `TrialResult`."""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable
from typing import Any

from ..model.job import JobConfig
from ..model.result import Origin, Outcome, Phase, Trial, TrialResult
from ..system.redact import Redactor
from .cancellation import Cancellation
from .confidential import held_back
from .limits import Limits
from .secrets import redacted

_OF_SCENARIO = ("benchmark", "benchmark_version", "tags", "cluster", "category", "confidential")
"""Fields that a result copies from its scenario."""
_FIRST, _LAST = "prepare", "done"
_OF_NO_STEP = ("remove", _LAST)
_OF_ORIGINAL = ("agent_version", "usage", "models", "kept")
_OF_ALL_TRIES = ("usage", "models", "grading_usage", "engine_retries")


class Clock:
    """Start of a trial, and the time since then."""

    def __init__(self) -> None:
        self.started = datetime.datetime.now(datetime.UTC)
        self._zero = time.monotonic()

    @property
    def seconds(self) -> float:
        """Seconds since the trial began, by a monotonic clock."""
        return time.monotonic() - self._zero


class Phases:
    """The phases of one try, without gaps, in seconds since the trial began. `on_phase` gets each that begins."""

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


class Draft:
    """The part of a result that is known before anything has run: `facts`, by the names of a result's fields."""

    def __init__(self, clock: Clock, **facts: object) -> None:
        self.clock = clock
        self.facts = facts

    @classmethod
    def of(
        cls, trial: Trial, job: str, config: JobConfig, clock: Clock, ran_because: str | None = None
    ) -> Draft:
        """Return the draft of a trial of `job`; `config` is the job's configuration for the scenario's benchmark."""
        scenario = trial.scenario
        return cls(
            clock,
            job=job,
            node_id=trial.node_id,
            scenario=scenario.id,
            agent=trial.agent,
            attempt=trial.attempt,
            threshold=Limits(scenario, config).threshold,
            known=trial.known,
            ran_because=ran_because,
            **{name: getattr(scenario, name) for name in _OF_SCENARIO},
        )

    def result(self, outcome: Outcome, **found: object) -> TrialResult:
        """Return the result now: the draft with the findings."""
        found = held_back(found) if self.facts["confidential"] else found
        now = datetime.datetime.now(datetime.UTC)
        times = {"started_at": self.clock.started, "finished_at": now, "seconds": self.clock.seconds}
        return TrialResult.model_validate({**self.facts, "outcome": outcome, **times, **found})


class Findings(TrialResult, frozen=False):
    """Findings of one try of a trial: fields of its result, as they become known."""

    @classmethod
    def begun(cls, original: TrialResult | None, before: Findings | None) -> Findings:
        """Return the findings of a new try: of the agent of an `original` trial, and of the tries before."""
        known: dict[str, Any] = {}
        if original is not None:
            known |= {name: getattr(original, name) for name in _OF_ORIGINAL}
            known["rescored"] = Origin(job=original.job, path=original.path, finished_at=original.finished_at)
        if before is not None:
            known |= {name: getattr(before, name) for name in _OF_ALL_TRIES}
        return cls.model_construct(**known)

    def without_secrets(self, redactor: Redactor) -> dict[str, Any]:
        """Return the findings for `Draft.result`, redacted."""
        return {name: redacted(getattr(self, name), redactor) for name in self.model_fields_set}
