"""The document of `summary`."""

from __future__ import annotations

import datetime
from typing import Any, ClassVar

from ...analysis.attempts import AtK
from ...analysis.live import Flying
from ...analysis.scenarios import VerdictFigures
from ...model.base import Model
from ...model.job import JobConfig
from ...model.metric import Metric
from ...store.rows import RunHead
from . import Document, mirror, renamed
from .jobs import JobTotals, Reason


class Figures(Model):
    """Figures of a set of trials. Time, tokens and cost are those of this job."""

    scenarios: int
    total: int
    passed: int
    failed: int
    partial: int
    """Failed trials with a score above 0."""
    zero: int
    """Failed trials with a score of 0, or none."""
    error: int
    timeouts: int
    """Failed trials whose agent did not end in time."""
    cancelled: int
    skipped: int
    reused: int
    pass_rate: float | None
    """Share that passed among the trials that passed or failed."""
    mean_scored: float | None
    """Mean score of the trials that have one."""
    mean_score: ClassVar[Any] = renamed("mean_scored", float | None)
    mean_all: float | None
    """Sum of scores divided by all trials but skipped ones: a lower bound, as if every error hid a 0."""
    cost_usd: float | None
    unpriced: int
    """Trials whose agent ran in this job at an unknown cost; they are not in `cost_usd`."""
    input_tokens: int | None
    output_tokens: int | None
    cached_tokens: int | None
    seconds: float
    p50_seconds: float | None
    """Median time of the trials that passed or failed in this job; p95 likewise."""
    p95_seconds: float | None
    classes: dict[str, int]
    """Class of failure or error -> trials."""
    at_k: tuple[AtK, ...]
    """pass@k and pass^k for k = 1, 2, ... up to the number of attempts, if that is above 1."""
    flaky: tuple[str, ...]
    """Node ids of scenarios with attempts that passed and attempts that failed."""
    verdicts: VerdictFigures | None
    """Present with an attempt policy other than `each`."""


class AgentHead(Model):
    """An agent and its progress."""

    agent: str
    planned: int | None
    """Planned trials, while the job runs."""
    ended: int
    """Trials that ended. While the job runs, `total` may lack the latest, which the history does not have yet."""
    running: int
    """Running trials."""


class AgentFigures(Figures, AgentHead):
    """An agent over all benchmarks."""


class MetricFigures(Model):
    """A metric over the trials of a run that passed or failed."""

    name: str
    unit: str | None
    direction: str
    """Direction of better values: `higher` or `lower`."""
    mean: float
    """Mean over the trials that have it."""
    trials: int
    """Number of these trials."""


class SummaryTrial(Model):
    """A trial of a run."""

    node_id: str
    scenario: str
    attempt: int
    outcome: str
    score: float | None
    threshold: float
    seconds: float
    cost_usd: float | None
    failure: Reason | None
    reused: str | None
    """The job whose result is reused."""
    rescored: str | None
    """The job whose trial was graded again."""
    kept: str | None
    """Image with the file system as the agent left it."""
    known: str | None
    """Mode of its known-failure entry: `expected-fail`, `quarantine` or `skip`."""
    path: str
    """Path of its files, relative to the job's directory."""
    metrics: tuple[Metric, ...]
    """What its scorers measured beside the score."""


class SummaryScenario(Model):
    """All attempts of a scenario in a run."""

    node_id: str
    """Node id of the attempts, without their number."""
    scenario: str
    outcome: str
    """The verdict of the attempt policy; with `each`, passed only if every attempt did; `error` while it is open."""
    attempts: int
    """Number of planned attempts; `trials` are those that ended."""
    passed: int
    failed: int
    error: int
    mean_score: float | None
    flaky: bool
    trials: tuple[str, ...]
    """Node ids of its attempts, in order."""


class RunFigures(Figures, RunHead):
    """A run: one benchmark and one agent."""

    ended: ClassVar[Any] = renamed("total", int)
    by_scenario: tuple[SummaryScenario, ...] | None
    """With `--extended`: each scenario over all its attempts."""
    trials: tuple[SummaryTrial, ...] | None
    """With `--extended`."""
    metrics: tuple[MetricFigures, ...]
    """What scorers measured beside the score."""


class InFlight(Model):
    """A running trial."""

    node_id: str
    scenario: str
    agent: str
    attempt: int
    phase: str
    started_at: datetime.datetime
    phase_since: datetime.datetime

    @classmethod
    def of(cls, trial: Flying) -> InFlight:
        """Describe a running trial."""
        started, since = (
            datetime.datetime.fromtimestamp(seconds, datetime.UTC) for seconds in (trial.started, trial.since)
        )
        return mirror(cls, trial, started_at=started, phase_since=since)


class SummaryDocument(Document):
    """`benchjobs summary`."""

    id: str
    job: ClassVar[Any] = renamed("id", str)
    name: str | None
    status: str
    message: str | None
    """Reason for the status, where it needs one."""
    created_at: datetime.datetime
    finished_at: datetime.datetime | None
    resumed_at: tuple[datetime.datetime, ...]
    parent: str | None
    selection: bool = False
    """True if it ran a selection of scenarios: `-k`, `-m`, `--lf`, ids. Its scores are not those of the benchmarks."""
    metadata: dict[str, str]
    directory: str
    """Directory of its files."""
    planned: int | None
    attempts: int
    """Number of attempts; where benchmarks differ, the largest."""
    attempt_policy: str
    totals: JobTotals
    agents: tuple[AgentFigures, ...]
    runs: tuple[RunFigures, ...]
    left_out: int
    """Scenarios beyond `--limit`."""
    silent_seconds: float | None
    """While it runs: seconds since the last heartbeat of its process."""
    dead: bool = False
    """True if its process died. The status stays that of a running job until `recover`, or the next job, closes it."""
    in_flight: tuple[InFlight, ...]
    rescored: str | None = None
    """For a rescore: the means of the same trials and the scores that changed, then and now."""
    config: JobConfig
    reproducibility: dict[str, Any]
    """argv, git commit and state, versions, platform."""
