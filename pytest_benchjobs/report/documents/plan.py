"""The document of `plan`."""

from __future__ import annotations

from ...model.base import Model
from ...model.image import ImageSize
from ...model.job import JobConfig
from ...model.scenario import Validation
from . import Document
from .images import ImageTotal


class PlannedTrial(Model):
    """A trial that was selected."""

    node_id: str
    benchmark: str
    scenario: str
    agent: str
    attempt: int
    reused: bool
    """It would not run: a result of an earlier job would be taken over."""
    why: str
    """Reason why it is reused or not; empty without reuse."""
    incompatible: str | None = None
    """Reason why it would be skipped: a missing capability of its agent, a mark of pytest, or a known failure."""
    problem: str | None
    """Reason why it would end in an error."""
    images: tuple[ImageSize, ...] = ()
    """Those it needs, that of the agent first. None of one that is reused, or would end in an error."""
    validation: Validation
    has_reference: bool
    timeout: float
    """Seconds after which it ends in any case."""


class PlannedRun(Model):
    """A benchmark and an agent."""

    benchmark: str
    agent: str
    trials: int
    reused: int
    skipped: int
    """Those whose agent lacks what the scenario requires, or that a mark or a known failure leaves out."""
    runs: int
    problems: int
    """Those of `runs` that would end in an error."""
    expected_seconds: float | None
    """Sum of what its trials took when they ran before; None: unknown."""
    expected_usd: float | None


class Reason(Model):
    """Reasons why trials are reused or run."""

    reused: bool
    why: str
    trials: int


class PlannedImage(ImageSize):
    """An image that trials would run or be graded in."""

    trials: int


class PlannedTime(Model):
    """Time it takes, in seconds, with as many trials at a time as the job has."""

    at_most: float
    """Time if every trial uses all the time it has. Pulling and building images comes on top."""
    expected: float | None
    """From what the same trials took before."""
    unknown: int
    """Trials that are in no expectation: they have not run before, or ended in an error."""


class PlannedCost(Model):
    """Cost in USD."""

    expected: float | None
    """From what the same trials cost before."""
    unknown: int
    """Trials that are in no expectation: their cost is unknown."""


class PlanDocument(Document):
    """`benchjobs plan`: what would run. Nothing has."""

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
    """A total for each state there is."""
    time: PlannedTime
    cost: PlannedCost
    config: JobConfig
    """The effective configuration: options, files and defaults together."""
    selected: tuple[PlannedTrial, ...]
