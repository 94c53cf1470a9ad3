"""Many tests at once: p-values adjusted so that one of many is not called real because there were many."""

from __future__ import annotations

from collections.abc import Sequence

from .numbers import probabilities


def holm(p_values: Sequence[float]) -> list[float]:
    """p-values adjusted for the family-wise error rate, in the order given.

    Calling those below alpha real is wrong about any of them with a chance of at most alpha, however they depend on
    each other. S. Holm, Scand. J. Stat. 6, 1979.

    Raises:
        ValueError: one is not within [0, 1].

    """
    found = probabilities(p_values)
    adjusted = [0.0] * len(found)
    highest = 0.0
    for rank, place in enumerate(sorted(range(len(found)), key=found.__getitem__)):
        highest = max(highest, min(1.0, found[place] * (len(found) - rank)))
        adjusted[place] = highest
    return adjusted


def benjamini_hochberg(p_values: Sequence[float]) -> list[float]:
    """p-values adjusted for the false discovery rate, in the order given.

    Of those below q, a share of at most q is expected to be wrong, for tests that are independent or depend
    positively: a list to look at, not a gate. Y. Benjamini and Y. Hochberg, J. R. Stat. Soc. B 57, 1995.

    Raises:
        ValueError: one is not within [0, 1].

    """
    found = probabilities(p_values)
    adjusted = [0.0] * len(found)
    lowest = 1.0
    descending = sorted(range(len(found)), key=found.__getitem__, reverse=True)
    for rank, place in zip(range(len(found), 0, -1), descending, strict=True):
        lowest = min(lowest, found[place] * len(found) / rank)
        adjusted[place] = lowest
    return adjusted
