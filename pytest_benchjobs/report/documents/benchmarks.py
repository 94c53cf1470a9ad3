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
    """Version in its manifests, if they have one."""
    sources: tuple[str, ...]
    """Its manifests and task directories."""
    scenarios: tuple[str, ...]
    archived: tuple[str, ...]
    """Scenarios that are never run."""


class Gap(Model):
    """A problem that makes a scenario, or a whole file, unusable."""

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
    """null: the problem is about all attempts together."""
    expected: str
    found: str
    files: str | None
    """The trial's directory, with its logs."""
    logs: tuple[str, ...] = ()
    """Last lines of the logs, for the first problem of each agent."""


class CheckedScenario(Model):
    """A scenario and its verdict."""

    benchmark: str
    scenario: str
    place: str | None = None
    """File and line of the scenario."""
    validation: str
    verdict: Verdict
    problems: tuple[CheckProblem, ...]
    advice: str | None = None
    """A suggestion that would improve a sound scenario."""


class CheckDocument(Document):
    """`benchjobs check` and `benchjobs scenario validate`."""

    directory: str | None = None
    """Directory of the results; null: there are none, or there was no problem, and they were removed."""
    attempts: int = 0
    """0: nothing was run, only what is written was read."""
    ok: bool
    scenarios: tuple[CheckedScenario, ...] = ()
    """Those that were run."""
    read: int | None = None
    """Scenarios that were read, where nothing was run."""
    mistakes: tuple[str, ...] = ()
    """Mistakes in what is written, for which nothing was run."""


class BenchmarkCalibration(Model):
    """Scores of a benchmark for agents whose results are certain."""

    benchmark: str
    status: Status
    suspicious: bool
    """True if something is wrong with the benchmark."""
    why: str
    """Explanation in one line."""
    scores: dict[str, float]
    """Agent with certain results -> mean score."""
    mismatches: tuple[str, ...]
    """`scenario [agent]` of results that differ from the certain ones."""
    pattern: Pattern
    """Lowest and highest mean score of all other agents."""
    agents: int
    """Number of scenarios."""


class CalibrationDocument(Document):
    """`benchjobs calibrate`."""

    benchmarks: tuple[BenchmarkCalibration, ...]
