"""The document of `plan`."""

from __future__ import annotations

from ...model.base import Model
from ...model.image import ImageSize
from ...model.job import JobConfig, Shard
from ...model.scenario import Validation
from . import Document
from .images import ImageTotal


class PlannedTrial(Model):
    """A selected trial."""

    node_id: str
    benchmark: str
    scenario: str
    agent: str
    attempt: int
    reused: bool
    """True if it would not run, but reuse the result of an earlier job."""
    why: str
    """Reason why a result is reused or not; empty without reuse."""
    incompatible: str | None = None
    """Reason why it would be skipped: a missing capability of its agent, a mark of pytest, or a known failure."""
    problem: str | None
    """Reason why it would end in an error."""
    images: tuple[ImageSize, ...] = ()
    """Images it needs, that of the agent first; empty for a trial that is reused, or would end in an error."""
    place: str | None = None
    """File and line of the scenario."""
    validation: Validation
    has_reference: bool
    timeout: float
    """Seconds after which the trial ends in any case."""


class PlannedRun(Model):
    """A benchmark and an agent."""

    benchmark: str
    agent: str
    trials: int
    reused: int
    skipped: int
    """Trials whose agent lacks a required capability, or that a mark or a known failure skips."""
    runs: int
    problems: int
    """Trials of `runs` that would end in an error."""
    expected_seconds: float | None
    """Sum of the times of its trials' last runs; null: unknown."""
    expected_usd: float | None


class Reason(Model):
    """A reason why trials are reused or run."""

    reused: bool
    why: str
    trials: int


class PlannedImage(ImageSize):
    """An image that trials would run or be graded in."""

    trials: int


class PlannedTime(Model):
    """Time of the job in seconds, at its concurrency."""

    at_most: float
    """Upper bound, if every trial uses its whole timeout; without pulling and building of images."""
    expected: float | None
    """Estimate from the last runs of the same trials."""
    unknown: int
    """Trials not in the estimate: they never ran, or ended in an error."""


class PlannedShard(Shard):
    """A part of the job, for one machine."""

    number: int


class PlannedCost(Model):
    """Cost in USD."""

    expected: float | None
    """Estimate from the last runs of the same trials."""
    unknown: int
    """Trials not in the estimate: their cost is unknown."""


class PlanDocument(Document):
    """`benchjobs plan`: the trials that would run, without running them."""

    trials: int
    reused: int
    skipped: int
    runs: int
    problems: int
    concurrency: int
    groups: tuple[PlannedRun, ...]
    reasons: tuple[Reason, ...]
    images: tuple[PlannedImage, ...]
    image_totals: tuple[ImageTotal, ...]
    """A total for each state of images."""
    time: PlannedTime
    cost: PlannedCost
    config: JobConfig
    """The effective configuration: options, files and defaults together."""
    shards: tuple[PlannedShard, ...] = ()
    """With `--shard`: all of them. The trials above are those of one."""
    selected: tuple[PlannedTrial, ...]
