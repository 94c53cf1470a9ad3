"""Validation of the numbers that statistics are computed from."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence


def finite(values: Iterable[float]) -> list[float]:
    """Validate numbers, and return them as a list. Raises ValueError: one is infinite or not a number."""
    numbers = list(map(float, values))
    if not all(map(math.isfinite, numbers)):
        raise ValueError(f"{next(one for one in numbers if not math.isfinite(one))} is not a finite number")
    return numbers


def probabilities(values: Iterable[float]) -> list[float]:
    """Validate numbers, and return them as a list. Raises ValueError: one is not within [0, 1]."""
    numbers = finite(values)
    if numbers and not (min(numbers) >= 0 and max(numbers) <= 1):
        raise ValueError(f"{next(one for one in numbers if not 0 <= one <= 1):g} is not within [0, 1]")
    return numbers


def grouped(values: Sequence[float], clusters: Sequence[Hashable]) -> list[list[float]]:
    """Return the values of each cluster, in the order in which clusters first appear.

    Raises ValueError: not one cluster for each value.
    """
    if len(values) != len(clusters):
        raise ValueError(f"{len(values)} values in {len(clusters)} clusters: each value needs one")
    groups: dict[Hashable, list[float]] = {}
    for value, cluster in zip(values, clusters, strict=True):
        groups.setdefault(cluster, []).append(value)
    return list(groups.values())
