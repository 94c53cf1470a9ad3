"""Clusters that are not declared: scenarios of a tag, file or directory, or with like ids, that change together."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import PurePosixPath

from ...model.numbers import difference, mean
from ...store.text import one_line
from ..pairing import Pair
from ..sides import Cell
from ..statistics import Alike, alike
from ..trials import grouped
from . import words
from .groups import Group

_CLEAR = 0.01  # p by which a correlation is no accident
_FEWEST = 3  # groups of two scenarios or more that tell one
_BEGINNING = re.compile(r"^(.+?)[/._-]")


def _by_tags(cell: Cell) -> str:
    return ", ".join(sorted(cell.tags))


def _by_beginning(cell: Cell) -> str:
    found = _BEGINNING.match(cell.scenario)
    return cell.scenario if found is None else found[1]


def _by_file(cell: Cell) -> str:
    return cell.file or ""


def _by_directory(cell: Cell) -> str:
    return str(PurePosixPath(cell.file).parent) if cell.file else ""


_WAYS: dict[str, Callable[[Cell], str]] = {
    "of the same tags": _by_tags,
    "of one file": _by_file,
    "of one directory": _by_directory,
    "with ids that begin alike": _by_beginning,
}


def likely_clusters(groups: Sequence[Group]) -> Iterator[str]:
    """Yield a note for each benchmark and agent whose scenarios seem to depend on each other, though none says so.

    It names the clearest way to group them.
    """
    for group in groups:
        if any(pair.now.cluster is not None for pair in group.pairs):
            continue
        likely: list[tuple[float, str, dict[str, list[float]], Alike]] = []
        for what, of in _WAYS.items():
            named = [(of(pair.now), _change(pair)) for pair in group.pairs]
            kinds = grouped(named, operator.itemgetter(0))
            several = {
                name: [change for _, change in some] for name, some in kinds.items() if name and len(some) > 1
            }
            found = alike(list(several.values())) if len(several) >= _FEWEST else None
            if found is not None and found.p_value < _CLEAR / len(_WAYS):
                likely.append((found.p_value, what, several, found))
        if likely:
            yield _told(group, *min(likely, key=operator.itemgetter(0))[1:])


def _change(pair: Pair) -> float:
    return difference(mean(pair.before.scores), mean(pair.now.scores))


def _told(group: Group, what: str, several: dict[str, list[float]], found: Alike) -> str:
    middle = mean([one for some in several.values() for one in some])
    furthest = max(several, key=lambda name: abs(mean(several[name]) - middle) * len(several[name]) ** 0.5)
    return (
        f"{words.place(group.benchmark, group.agent)}scenarios {what} change together (intraclass correlation "
        f"{found.correlation:.2f}, {words.p(found.p_value)}), most of all {one_line(furthest, 100)} "
        f"({len(several[furthest])}): if they share something, name it as their `cluster`; p takes them as independent"
    )
