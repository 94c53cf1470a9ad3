"""Scenarios of trials that have ended, read from where their benchmarks are now."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..model.errors import BenchError
from ..model.job import JobRecord
from ..model.result import TrialResult
from ..model.scenario import Scenario
from ..sources import find_sources, open_source


class Scenarios:
    """Finds scenarios. Benchmarks stay open, and one scenario at a time is kept: trials come scenario by scenario."""

    def __init__(self) -> None:
        self._sources: dict[tuple[Path, str, str], tuple[Any, ...]] = {}
        self._key: tuple[Path, str, str, str] | None = None
        self._found: Scenario | None = None

    def of(self, result: TrialResult, record: JobRecord) -> Scenario | None:
        """Return the scenario as it is now; None if it is not where it was."""
        if record.invocation is None:
            return None
        root = record.invocation.rootdir
        key = (root, result.node_id.rpartition("::")[0], result.benchmark, result.scenario)
        if key != self._key:
            self._key, self._found = key, None
            with contextlib.suppress(BenchError, OSError, ValueError):
                self._found = self._load(key)
        return self._found

    def _load(self, key: tuple[Path, str, str, str]) -> Scenario | None:
        root, place, benchmark, scenario = key
        if key[:3] not in self._sources:
            self._sources[key[:3]] = ()
            self._sources[key[:3]] = tuple(_sources(root, place, benchmark))
        for source in self._sources[key[:3]]:
            with contextlib.suppress(LookupError):
                if any(ref.id == scenario for ref in source.refs(scenario.__eq__)):
                    loaded: Scenario = source.load(scenario)
                    return loaded
        return None


def _sources(root: Path, place: str, benchmark: str) -> Sequence[Any]:
    """Return sources that may have the scenario: the path in the node id, else what the name means in the project."""
    if (source := open_source(root / place)) is not None:
        return [source]
    from ..sources.project import finder_of

    finder = finder_of(root)
    if benchmark in finder.named:
        return finder.sources(finder.named[benchmark])
    below = [one for one in find_sources(root) if one.benchmark == benchmark]
    return below or finder.find(benchmark, root)[1]
