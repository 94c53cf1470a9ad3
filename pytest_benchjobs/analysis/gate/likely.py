"""Clusters that are not declared: scenarios of a tag, file or directory, or with like ids, that change together."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import PurePosixPath

from ...model.numbers import difference, mean
from ...store.text import one_line
from ..sides import Cell
from ..statistics.intervals import Alike, alike
from ..trials import grouped
from . import words
from .groups import Group

_CLEAR = 0.01  # p by which a correlation is no accident
_FEWEST = 3  # groups of two scenarios or more that tell one
_WAYS: dict[str, Callable[[Cell], str]] = {
    "of the same tags": lambda cell: ", ".join(sorted(cell.tags)),
    "of one file": lambda cell: cell.file or "",
    "of one directory": lambda cell: str(PurePosixPath(cell.file).parent) if cell.file else "",
    "with ids that begin alike": lambda cell: re.split(r"(?<=.)[/._-]", cell.scenario, maxsplit=1)[0],
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
            kinds = grouped(group.pairs, lambda pair, of=of: of(pair.now))  # type: ignore[misc]
            several = {
                name: [difference(mean(one.before.scores), mean(one.now.scores)) for one in some]
                for name, some in kinds.items()
                if name and len(some) > 1
            }
            found = alike(list(several.values())) if len(several) >= _FEWEST else None
            if found is not None and found.p_value < _CLEAR / len(_WAYS):
                likely.append((found.p_value, what, several, found))
        if likely:
            yield _told(group, *min(likely, key=operator.itemgetter(0))[1:])


def _told(group: Group, what: str, several: dict[str, list[float]], found: Alike) -> str:
    middle = mean([one for some in several.values() for one in some])
    furthest = max(several, key=lambda name: abs(mean(several[name]) - middle) * len(several[name]) ** 0.5)
    return (
        f"{words.place(group.benchmark, group.agent)}scenarios {what} change together (intraclass correlation "
        f"{found.correlation:.2f}, {words.p(found.p_value)}), most of all {one_line(furthest, 100)} "
        f"({len(several[furthest])}): if they share something, name it as their `cluster`; p takes them as independent"
    )
