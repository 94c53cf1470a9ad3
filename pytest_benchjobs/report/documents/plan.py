"""The documents of `plan` and of `benchmarks images`, and totals of images."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ...model.base import Model
from ...model.image import ImageSize, ImageState
from ...model.job import JobConfig, Shard
from ...model.scenario import Validation
from . import Document

_STATES: tuple[ImageState, ...] = ("here", "pull", "build")


class ImageTotal(Model):
    """Images of one state."""

    state: ImageState
    images: int
    bytes: int
    """Sum of the known sizes: on disk; for images to pull the compressed size, where that is known."""
    unknown: int
    """Images of unknown size, not in the sum."""


class ListedImage(ImageSize):
    """An image that scenarios need."""

    scenarios: int
    error: str | None = None
    """Reason why its size could not be found, or why it could not be pulled or built."""


class ImagesDocument(Document):
    """`benchjobs benchmarks images`."""

    benchmark: str
    scenarios: int
    """Scenarios that need images."""
    without: int
    """Scenarios that need no image: they are questions, or would be skipped."""
    problems: dict[str, int] = {}
    """Reason why a scenario cannot run -> scenarios."""
    images: tuple[ListedImage, ...]
    totals: tuple[ImageTotal, ...]


def totals(images: Iterable[ImageSize]) -> Iterator[ImageTotal]:
    """Yield the total of each state there is."""
    there = list(images)
    for state in _STATES:
        sizes = [to_count(image) for image in there if image.state == state]
        if sizes:
            known = [size for size in sizes if size is not None]
            yield ImageTotal(
                state=state, images=len(sizes), bytes=sum(known), unknown=len(sizes) - len(known)
            )


def to_count(image: ImageSize) -> int | None:
    """Return the size to count: compressed for an image to pull, where that is known, else on disk."""
    return image.bytes if image.download is None else image.download


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
