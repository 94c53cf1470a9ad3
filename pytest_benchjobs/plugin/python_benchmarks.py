"""Collection of benchmarks written in Python: `Benchmark` objects in variables of test modules and conftest.py files.

Imported only where the class `Benchmark` was.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import pytest

from ..model.errors import InputError
from ..system.garbage import gc_paused
from .collect import BenchmarkCollector, FileCollector
from .excerpts import shown
from .python_files import benchmarks_in, module_at

if TYPE_CHECKING:
    from ..sources.authored import Benchmark
    from .items import TrialItem


class PythonBenchmark(BenchmarkCollector, pytest.Collector):
    """Collector of a `Benchmark`, under the name of its variable."""

    source: Benchmark

    @classmethod
    def of(cls, parent: pytest.Collector, name: str, source: Benchmark) -> PythonBenchmark:
        """Make a collector."""
        made: PythonBenchmark = cls.from_parent(parent, name=name)
        made.source = source
        return made

    @gc_paused()
    def collect(self) -> Iterable[TrialItem]:
        """Return its trials."""
        _refuse_namesakes(self)
        return self.trials([self.source])


class PythonFile(FileCollector):
    """A file whose benchmarks alone are collected: a conftest.py, or one that `--bench` names."""

    def collect(self) -> Iterable[PythonBenchmark]:
        """Return its benchmarks."""
        try:
            module = module_at(self.config, self.path)
        except InputError as error:
            raise self.CollectError(str(error)) from None
        for name, source in benchmarks_in(module):
            if self.benchmark is None or any(source is one for one in self.named):
                collector = PythonBenchmark.of(self, name, source)
                collector.benchmark = self.benchmark
                yield collector


def item_of(collector: pytest.Collector, name: str, value: object) -> PythonBenchmark | None:
    """Return a collector for a variable of a test module, if it has a benchmark that no variable before had."""
    from ..sources.authored import Benchmark

    if not isinstance(value, Benchmark) or not isinstance(collector, pytest.Module):
        return None
    if (name, value) not in benchmarks_in(collector.obj):
        return None
    return PythonBenchmark.of(collector, name, value)


def _refuse_namesakes(collector: PythonBenchmark) -> None:
    """Refuse a second benchmark of a file with the name of another: their results could not be told apart."""
    parent: Any = collector.parent
    module = parent.obj if isinstance(parent, pytest.Module) else module_at(collector.config, parent.path)
    for name, other in benchmarks_in(module):
        if other is collector.source:
            return
        try:
            same = other.benchmark == collector.source.benchmark
        except InputError:
            continue  # its own collector reports that
        if same:
            raise collector.CollectError(
                f"{shown(collector.config, other.path)}:{collector.source.line}: {collector.name} and {name} (line "
                f"{other.line}) are benchmarks with one name, {other.benchmark!r}: results could not be told apart. "
                "Rename one"
            )
