"""Scenarios of trials that have ended, read from where their benchmarks are now."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
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


def _sources(root: Path, place: str, benchmark: str) -> Iterator[Any]:
    """Yield sources that may have the scenario: the path in the node id, else benchmarks of that name."""
    if (source := open_source(root / place)) is not None:
        yield source
        return
    for directory in (root, root / "benchmarks"):
        if directory.is_dir():
            yield from (one for one in find_sources(directory) if one.benchmark == benchmark)
    from ..sources.catalogue.entry import Entry
    from ..sources.catalogue.kept import opened
    from ..sources.catalogue.lookup import Lookup

    found = Lookup([root]).find(benchmark)
    if isinstance(found, Entry):
        yield from found.sources(opened(found, None))
    elif found is not None:
        yield from found
