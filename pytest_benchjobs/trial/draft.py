"""The result of a trial in the making. Only this module assembles a `TrialResult`."""

from __future__ import annotations

import dataclasses
import datetime
import time
from collections.abc import Mapping
from typing import Any

from ..model.job import JobConfig
from ..model.metric import Metric
from ..model.result import (
    AgentEnd,
    Failure,
    ImageRecord,
    Origin,
    Outcome,
    Phase,
    ScorerResult,
    Signature,
    StepResult,
    Trial,
    TrialResult,
)
from ..model.scenario import GradeIn
from ..model.usage import Usage
from ..system.redact import Redactor
from .confidential import held_back
from .limits import Limits
from .secrets import redacted

_OF_SCENARIO = ("benchmark", "benchmark_version", "tags", "cluster", "category", "confidential")
"""What a result has of its scenario by the same name."""


class Clock:
    """Start of a trial, and the time since then."""

    def __init__(self) -> None:
        self.started = datetime.datetime.now(datetime.UTC)
        self._zero = time.monotonic()

    @property
    def seconds(self) -> float:
        """Seconds since the trial began, by a monotonic clock."""
        return time.monotonic() - self._zero


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


@dataclasses.dataclass(slots=True)
class Findings:
    """Findings of one try of a trial, with the names of a result's fields."""

    score: float | None = None
    turns: list[float] = dataclasses.field(default_factory=list)
    steps: list[StepResult] = dataclasses.field(default_factory=list)
    failure: Failure | None = None
    scorers: list[ScorerResult] = dataclasses.field(default_factory=list)
    metrics: list[Metric] = dataclasses.field(default_factory=list)
    agent_end: AgentEnd | None = None
    graded_in: GradeIn | None = None
    agent_version: str | None = None
    image: ImageRecord | None = None
    signature: Signature | None = None
    usage: Usage = dataclasses.field(default_factory=Usage)
    """Usage of all tries so far."""
    grading_usage: Usage = dataclasses.field(default_factory=Usage)
    """Usage of scorers that ask models, of all tries so far."""
    models: Mapping[str, int] = dataclasses.field(default_factory=dict)
    kept: str | None = None
    rescored: Origin | None = None
    artifacts: list[str] = dataclasses.field(default_factory=list)
    notes: list[str] = dataclasses.field(default_factory=list)
    engine_retries: int = 0
    """Of all tries so far."""

    @classmethod
    def graded_anew(cls, original: TrialResult) -> Findings:
        """Return the findings about a trial whose agent ran in an earlier job."""
        return cls(
            agent_version=original.agent_version,
            usage=original.usage,
            models=original.models,
            kept=original.kept,
            rescored=Origin(job=original.job, path=original.path, finished_at=original.finished_at),
        )

    def without_secrets(self, redactor: Redactor, phases: tuple[Phase, ...] = ()) -> dict[str, Any]:
        """Return the findings and the phases for `Draft.result`, redacted."""
        found = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        found = {name: tuple(fact) if isinstance(fact, list) else fact for name, fact in found.items()}
        return {name: redacted(fact, redactor) for name, fact in {**found, "phases": phases}.items()}
