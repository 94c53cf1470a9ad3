"""Benchmarks of Harbor task directories: Terminal-Bench 2.0, and those that Harbor's registries list."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ...model.errors import InputError
from ...model.scenario import Scenario
from ..harbor import HarborTask, is_task_directory

if TYPE_CHECKING:
    from ..catalogue.entry import Entry

_MAX_DEPTH = 3


class ListedTask(HarborTask):
    """A task directory of a benchmark in the catalogue."""

    def __init__(self, path: Path, entry: Entry) -> None:
        super().__init__(path, entry.name)
        self.version = entry.version

    def load(self, scenario_id: str) -> Scenario:
        """The whole scenario. Raises InputError: the directory has become wrong since, or has another id."""
        return super().load(scenario_id).model_copy(update={"benchmark_version": self.version})


def sources(entry: Entry, directory: Path) -> Sequence[ListedTask]:
    """One source for each task directory, in order of name. Raises InputError: a directory cannot be read."""
    try:
        return [ListedTask(path, entry) for path in _tasks(directory, _MAX_DEPTH)]
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", path=directory) from None


def _tasks(directory: Path, depth: int) -> Iterator[Path]:
    for child in sorted(directory.iterdir()):
        if child.name.startswith(".") or not child.is_dir():
            continue
        if is_task_directory(child):
            yield child
        elif depth:
            yield from _tasks(child, depth - 1)
