"""Documents about benchmarks: of `benchmarks`, the catalogue among them, `check` and `calibrate`."""

from __future__ import annotations

import datetime

from ...analysis.calibration import BenchmarkCalibration
from ...analysis.soundness import Verdict
from ...model.base import Model
from ...sources.catalogue.verdicts import Verdicts
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


class CalibrationDocument(Document):
    """`benchjobs calibrate`."""

    benchmarks: tuple[BenchmarkCalibration, ...]


class CatalogueItem(Model):
    """A benchmark that is known by name."""

    name: str
    version: str | None
    title: str
    aliases: tuple[str, ...] = ()
    scenarios: int | None
    """Number of scenarios according to its authors; null: unknown."""
    fetched: bool | None
    """True if all of it is on this machine; null: there is nothing to fetch."""
    here: int | None = None
    """Number of its scenarios on this machine."""


class CatalogueDocument(Document):
    """`benchjobs benchmarks list`."""

    benchmarks: tuple[CatalogueItem, ...]


class CatalogueEntryDocument(Document):
    """`benchjobs benchmarks show`."""

    benchmark: CatalogueItem
    homepage: str = ""
    licence: str = ""
    environment: str = ""
    scoring: str = ""
    attempts: int = 1
    confidential: bool = False
    gated: str | None = None
    origins: tuple[str, ...] = ()
    parameters: dict[str, str] = {}
    """Parameters by which a job says what the benchmark consists of -> their meaning."""
    exceptions: dict[str, str] = {}
    """Scenarios known to be broken -> the reason."""
    published: dict[str, float] = {}
    directory: str | None = None
    trouble: str | None = None
    """Reason why the fetched directory cannot be used."""
    origin: str | None = None
    """Source it was fetched from."""
    fetched_at: datetime.datetime | None = None
    bytes: int | None = None
    checked: Verdicts | None = None
    run: str = ""
    """Command that runs the benchmark."""
