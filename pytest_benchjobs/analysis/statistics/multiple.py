"""Adjustment of p-values for multiple tests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from .numbers import probabilities


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values adjusted for the family-wise error rate, in the order given.

    Calling those below alpha real is wrong about any of them with a chance of at most alpha, however they depend on
    each other. S. Holm, Scand. J. Stat. 6, 1979.

    Raises ValueError: one is not within [0, 1].
    """
    found = probabilities(p_values)
    adjusted: dict[float, float] = {}
    highest, rest = 0.0, len(found)
    for p, times in sorted(Counter(found).items()):
        highest = adjusted[p] = max(highest, min(1.0, p * rest))
        rest -= times
    return [adjusted[p] for p in found]


def benjamini_hochberg(p_values: Sequence[float]) -> list[float]:
    """Return p-values adjusted for the false discovery rate, in the order given.

    Of those below q, a share of at most q is expected to be wrong, for tests that are independent or depend
    positively: a list to look at, not a gate. Y. Benjamini and Y. Hochberg, J. R. Stat. Soc. B 57, 1995.

    Raises ValueError: one is not within [0, 1].
    """
    found = probabilities(p_values)
    adjusted: dict[float, float] = {}
    lowest, rank = 1.0, len(found)
    for p, times in sorted(Counter(found).items(), reverse=True):
        lowest = adjusted[p] = min(lowest, p * len(found) / rank)
        rank -= times
    return [adjusted[p] for p in found]
