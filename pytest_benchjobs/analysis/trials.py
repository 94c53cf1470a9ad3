"""What analysis is given: rows of the history, or results made into such."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any, TypeVar

from ..model.result import TrialResult
from ..store.rows import TrialRow, trial_values

Item = TypeVar("Item")
Key = TypeVar("Key", bound=Hashable)


def as_row(result: TrialResult) -> TrialRow:
    """Return a result as the history would have it, but for the number of its run."""
    values: tuple[Any, ...] = (*trial_values(result), "")
    return TrialRow(*values)


def grouped(items: Iterable[Item], key: Callable[[Item], Key]) -> dict[Key, list[Item]]:
    """Items by key, in the order keys first appear."""
    groups: dict[Key, list[Item]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups
