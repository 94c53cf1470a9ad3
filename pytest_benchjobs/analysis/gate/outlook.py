"""Outlook of a baseline: the losses by which a later gate can turn red, and what it needs if none can."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

from ..pairing import Pair, cleaned
from ..sides import QUARANTINE, Cell, Side
from ..trials import grouped
from . import words
from .measure import Measured, measure
from .rounds import MEAN

_GROUPS = 3


def outlook(side: Side) -> Iterator[str]:
    """Yield a line for each benchmark and agent: the least loss that a gate of such jobs by the default rule shows."""
    cells = [cleaned(cell) for cell in side.cells.values() if cell.scores and cell.known != QUARANTINE]
    groups = grouped(cells, lambda cell: (cell.benchmark, cell.agent))
    for key in sorted(groups)[:_GROUPS]:
        place = words.place(*key) if len(groups) > 1 else ""
        yield f"{place}{_least_loss(groups[key], len(groups))}"
    if len(groups) > _GROUPS:
        yield f"the outlook of {words.count(len(groups) - _GROUPS, 'more pair')} of benchmark and agent is not shown"


def _least_loss(cells: list[Cell], comparisons: int) -> str:
    gone = measure(MEAN, [Pair(cell, _failed(cell)) for cell in cells])
    alpha = MEAN.alpha / comparisons
    if gone.tested.worse >= alpha:
        if gone.least_p >= alpha:
            remedy = gone.remedy(comparisons)
            return f"no gate can turn red by {gone.size} on both sides, even if every attempt fails: {remedy}"
        return f"no gate can turn red, even if every attempt fails: the mean score is {_mean(cells):.3g}"
    again = measure(MEAN, [Pair(cell, cell) for cell in cells])
    drop = again.detectable(comparisons)
    if drop is not None:
        return f"with this many attempts, a gate finds a drop of {words.Scale().amount(drop)} four times out of five"
    least = _broken(gone, alpha)
    if least is None:
        what = words.count(len(cells), "scenario")
        units = "" if gone.clusters is None else f", which count as {words.count(gone.units, 'cluster')},"
        return (
            f"with this many attempts, a gate turns red only when nearly all attempts of {what}{units} fail"
        )
    return (
        f"with this many attempts, a gate turns red when {least} of {words.count(len(cells), 'scenario')} "
        f"{'fails' if least == 1 else 'fail'} in all attempts"
    )


def _broken(gone: Measured, alpha: float) -> int | None:
    """Return the number of scenarios that must fail in all attempts for p below alpha; None: it is not known."""
    if gone.clusters is not None:
        return None
    ways = sorted(
        math.comb(len(old) + len(new), len(new))
        for old, new in zip(*gone.attempts, strict=True)
        if min(old) > 0
    )
    products = itertools.accumulate(ways, lambda one, other: one * other)
    return next((n for n, product in enumerate(products, 1) if 1 / product < alpha), None)


def _failed(cell: Cell) -> Cell:
    return cell._replace(scores=(0.0,) * len(cell.scores), passed=0)


def _mean(cells: list[Cell]) -> float:
    return math.fsum(cell.mean or 0.0 for cell in cells) / len(cells)
