"""Documents of `benchmarks`."""

from __future__ import annotations

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
