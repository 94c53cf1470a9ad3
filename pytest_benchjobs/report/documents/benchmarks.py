"""Documents about benchmarks: of `benchmarks`, `check` and `calibrate`."""

from __future__ import annotations

from ...analysis.calibration import Pattern, Status
from ...analysis.soundness import Verdict
from ...model.base import Model
from . import Document


class BenchmarkItem(Model):
    """A benchmark and its scenarios, by id."""

    benchmark: str
    versions: tuple[str, ...]
    """Of its manifests, if they give any."""
    sources: tuple[str, ...]
    """Manifests and task directories."""
    scenarios: tuple[str, ...]
    archived: tuple[str, ...]
    """Those of `scenarios` that are never run."""


class Gap(Model):
    """Something that keeps a scenario, or a whole file, from being of use."""

    source: str
    line: int | None
    scenario: str | None
    message: str


class BenchmarksDocument(Document):
    """`benchjobs benchmarks`."""

    benchmarks: tuple[BenchmarkItem, ...]
    gaps: tuple[Gap, ...]


class CheckProblem(Model):
    """A problem of a scenario."""

    agent: str
    attempt: int | None
    """None: it is about all of them together."""
    expected: str
    found: str
    files: str | None
    """The trial's directory, with its log and what its scorers said."""
    logs: tuple[str, ...] = ()
    """Last lines of these, of the first problem of an agent."""


class CheckedScenario(Model):
    """A scenario and its verdict."""

    benchmark: str
    scenario: str
    validation: str
    verdict: Verdict
    problems: tuple[CheckProblem, ...]
    advice: str | None = None
    """Advice that would make a sound scenario better."""


class CheckDocument(Document):
    """`benchjobs check`."""

    directory: str | None
    """Directory of the results; None: nothing was wrong, and they were removed."""
    attempts: int
    ok: bool
    scenarios: tuple[CheckedScenario, ...]


class BenchmarkCalibration(Model):
    """Scores of a benchmark for agents whose results are certain."""

    benchmark: str
    status: Status
    suspicious: bool
    """Something is wrong with the benchmark."""
    why: str
    """In a line."""
    scores: dict[str, float]
    """Agent whose results are certain -> mean score."""
    mismatches: tuple[str, ...]
    """`scenario [agent]` of results that are not what is certain."""
    pattern: Pattern
    """Of the mean scores of all other agents."""
    agents: int
    """Number of these scenarios."""


class CalibrationDocument(Document):
    """`benchjobs calibrate`."""

    benchmarks: tuple[BenchmarkCalibration, ...]
