"""The result of a trial in the making. Only this module assembles a `TrialResult`."""

from __future__ import annotations

import dataclasses
import datetime
import time
from collections.abc import Mapping
from typing import Any

from ..model.agent import AgentSpec
from ..model.job import JobConfig
from ..model.known_failure import Known
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


@dataclasses.dataclass(frozen=True, slots=True)
class Clock:
    """Start of a trial, and the time since then."""

    started: datetime.datetime = dataclasses.field(
        default_factory=lambda: datetime.datetime.now(datetime.UTC)
    )
    _zero: float = dataclasses.field(default_factory=time.monotonic)

    @property
    def seconds(self) -> float:
        """Seconds since the trial began, by a monotonic clock."""
        return time.monotonic() - self._zero


@dataclasses.dataclass(frozen=True, slots=True)
class Draft:
    """The part of a result that is known before anything has run."""

    job: str
    node_id: str
    benchmark: str
    scenario: str
    agent: AgentSpec
    attempt: int
    threshold: float
    benchmark_version: str | None = None
    tags: tuple[str, ...] = ()
    cluster: str | None = None
    category: str | None = None
    confidential: bool = False
    known: Known | None = None
    ran_because: str | None = None
    tries: int = 1
    clock: Clock = dataclasses.field(default_factory=Clock)

    @classmethod
    def of(
        cls,
        trial: Trial,
        job: str,
        config: JobConfig,
        clock: Clock | None = None,
        ran_because: str | None = None,
    ) -> Draft:
        """Return the draft of a trial of `job`; `config` is the job's configuration for the scenario's benchmark."""
        scenario = trial.scenario
        return cls(
            job=job,
            node_id=trial.node_id,
            benchmark=scenario.benchmark,
            benchmark_version=scenario.benchmark_version,
            scenario=scenario.id,
            agent=trial.agent,
            attempt=trial.attempt,
            threshold=Limits(scenario, config).threshold,
            tags=scenario.tags,
            cluster=scenario.cluster,
            category=scenario.category,
            confidential=scenario.confidential,
            known=trial.known,
            ran_because=ran_because,
            clock=clock or Clock(),
        )

    def result(self, outcome: Outcome, **found: object) -> TrialResult:
        """Return the result now: the draft with the findings."""
        found = held_back(found) if self.confidential else found
        drafted = {name: getattr(self, name) for name in _DRAFTED}
        return TrialResult.model_validate(
            {
                **drafted,
                "outcome": outcome,
                "started_at": self.clock.started,
                "finished_at": datetime.datetime.now(datetime.UTC),
                "seconds": self.clock.seconds,
                **found,
            }
        )


_DRAFTED = tuple(field.name for field in dataclasses.fields(Draft) if field.name != "clock")


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
        found["phases"] = phases
        lists = {name: tuple(value) for name, value in found.items() if isinstance(value, list)}
        return {name: redacted(value, redactor) for name, value in {**found, **lists}.items()}
