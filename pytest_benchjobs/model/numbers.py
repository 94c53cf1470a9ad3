"""Means and differences of numbers, without the noise of their rounding."""

from __future__ import annotations

import math
from collections.abc import Sequence

_NOISE = 1e-9
"""Share of a number. Two that differ by less have been rounded differently."""


def mean(values: Sequence[float]) -> float:
    """Return the mean of at least one value. It is among them: that of equal values is each of them."""
    if len(values) == 1:
        return values[0]
    # Three times 0.2, divided by 3, is less than 0.2.
    return min(max(math.fsum(values) / len(values), min(values)), max(values))


def difference(before: float, now: float) -> float:
    """Return now minus before: exactly 0 where they differ by errors of rounding alone."""
    change = now - before
    return change if abs(change) > _NOISE * max(abs(before), abs(now)) else 0.0
