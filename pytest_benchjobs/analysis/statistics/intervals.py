"""Intervals and errors of a mean."""

from __future__ import annotations

import collections
import dataclasses
import math
import random
from collections.abc import Hashable, Iterator, Sequence
from typing import Self

from .numbers import finite, grouped
from .rates import checked_level, normal_quantile
from .student import t_quantile

_MOST_DRAWN = 64  # units: more would take too long, and need not be
_NEARLY_NORMAL = (
    0.2  # skewness and excess of a mean up to which its expansion holds to a hundredth of its deviation
)


@dataclasses.dataclass(frozen=True, slots=True)
class Interval:
    """A confidence interval, in the unit of the values."""

    low: float
    high: float
    level: float


def bootstrap_mean(
    values: Sequence[float],
    *,
    level: float = 0.95,
    seed: int = 0,
    resamples: int = 10_000,
    clusters: Sequence[Hashable] | None = None,
) -> Interval | None:
    """Percentile bootstrap interval of the mean: of paired differences, or of scores; in their unit.

    With `clusters`, whole clusters are drawn. None for fewer than two values, or clusters: one alone does not vary.
    Of more than 64, unless few of them differ from the rest, nothing is drawn: the quantiles are those of the
    bootstrap distribution itself by its Cornish-Fisher expansion, which is closer to them than 10,000 resamples come.

    B. Efron, Ann. Stat. 7(1), 1979; Efron and Tibshirani, An Introduction to the Bootstrap, 1993, chapter 13; of
    clusters: Davison and Hinkley, Bootstrap Methods and their Application, 1997, section 3.8; expansion: P. Hall,
    The Bootstrap and Edgeworth Expansion, 1992, section 3.3.

    Raises:
        ValueError: a value is not a finite number, the level is not between 0 and 1, or `clusters` has another length.

    """
    numbers = finite(values)
    ends = ((1 - checked_level(level)) / 2, (1 + level) / 2)
    units = [(one, 1) for one in numbers]
    if clusters is not None:
        units = [(math.fsum(group), len(group)) for group in grouped(numbers, clusters)]
    if len(units) < 2:
        return None
    moments = _Moments.of(units)
    if len(units) > _MOST_DRAWN and max(abs(moments.skew), abs(moments.excess)) < _NEARLY_NORMAL:
        low, high = (moments.quantile(share) for share in ends)
    else:
        means = sorted(_means(units, random.Random(seed), resamples))  # noqa: S311 - a simulation
        low, high = (_percentile(means, share) for share in ends)
    return Interval(low, high, level)


def clustered_error(values: Sequence[float], clusters: Sequence[Hashable] | None = None) -> float | None:
    """Standard error of the mean, in the unit of the values; None for fewer than two values, or clusters.

    With `clusters`, values of one cluster may depend on each other (scenarios of the same repository, say), and the
    products of their residuals are added; without, or with one value in each, it is the ordinary s / sqrt(n).

    E. Miller, Adding Error Bars to Evals, 2024 (arXiv:2411.00640), section 2.2.

    Raises:
        ValueError: a value is not a finite number, or `clusters` has another length.

    """
    numbers = finite(values)
    groups = None if clusters is None else grouped(numbers, clusters)
    if len(numbers if groups is None else groups) < 2:
        return None
    n = len(numbers)
    mean = math.fsum(numbers) / n
    squares = math.fsum([(one - mean) ** 2 for one in numbers])
    if groups is None:
        return math.sqrt(squares / (n - 1) / n)
    # Products of different values of one cluster: the square of its sum, less its squares.
    together = math.fsum(math.fsum(one - mean for one in group) ** 2 for group in groups) - squares
    return math.sqrt(max(0.0, squares / (n - 1) / n + together / n**2))


def mean_interval(
    values: Sequence[float], *, level: float = 0.95, clusters: Sequence[Hashable] | None = None
) -> Interval | None:
    """Student's t interval of the mean, in the unit of the values; None for fewer than two values, or clusters.

    The standard error is that of `clustered_error`, the degrees of freedom one fewer than values, or clusters
    (Cameron and Miller, J. Hum. Resour. 50(2), 2015, section VI). It may reach beyond [0, 1].

    Raises:
        ValueError: as in `clustered_error`, or the level is not between 0 and 1.

    """
    checked_level(level)
    error = clustered_error(values, clusters)
    if error is None:
        return None
    mean = math.fsum(values) / len(values)
    freedom = len(values if clusters is None else set(clusters)) - 1
    half = error * t_quantile((1 + level) / 2, freedom)
    return Interval(mean - half, mean + half, level)


def _means(units: Sequence[tuple[float, int]], chance: random.Random, resamples: int) -> Iterator[float]:
    """Means of so many resamples of as many units (sum, size).

    Units that equal the commonest one are not drawn one by one: how many others a resample has is binomial.
    """
    n = len(units)
    commonest, times = collections.Counter(units).most_common(1)[0]
    others = [unit for unit in units if unit != commonest]
    same_size = len({size for _, size in units}) == 1
    # Of several sizes, a complex number adds up sum and size at once.
    usual, *rest = [
        total / size if same_size else complex(total, size) for total, size in (commonest, *others)
    ]
    weights = [_binomial(some, n, 1 - times / n) for some in range(n + 1)]
    for drawn in chance.choices(range(n + 1), weights, k=resamples):
        total = sum(chance.choices(rest, k=drawn)) + (n - drawn) * usual if drawn else n * usual
        yield total / n if isinstance(total, float) else total.real / total.imag


def _binomial(some: int, n: int, rate: float) -> float:
    """Chance of `some` in n throws that each come up with this rate."""
    if rate == 0:
        return float(some == 0)
    ways = math.lgamma(n + 1) - math.lgamma(some + 1) - math.lgamma(n - some + 1)
    return math.exp(ways + some * math.log(rate) + (n - some) * math.log1p(-rate))


def _percentile(ordered: Sequence[float], share: float) -> float:
    place = share * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


@dataclasses.dataclass(frozen=True, slots=True)
class _Moments:
    """Of the bootstrap distribution of a mean."""

    mean: float
    deviation: float
    skew: float
    excess: float

    @classmethod
    def of(cls, units: Sequence[tuple[float, int]]) -> Self:
        """Of the mean of units (sum, size); to first order where sizes differ."""
        n = len(units)
        mean = math.fsum(total for total, _ in units) / sum(size for _, size in units)
        size = sum(size for _, size in units) / n
        residuals = [(total - mean * of) / size for total, of in units]
        second, third, fourth = (
            math.fsum(math.pow(one, power) for one in residuals) / n for power in (2, 3, 4)
        )
        if second == 0:
            return cls(mean, 0.0, 0.0, 0.0)
        return cls(
            mean,
            math.sqrt(second / n),
            third / math.pow(second, 1.5) / math.sqrt(n),
            (fourth / second**2 - 3) / n,
        )

    def quantile(self, share: float) -> float:
        """By the Cornish-Fisher expansion."""
        z = normal_quantile(share)
        skewed = self.skew * (z**2 - 1) / 6 - self.skew**2 * (2 * z**3 - 5 * z) / 36
        return self.mean + self.deviation * (z + skewed + self.excess * (z**3 - 3 * z) / 24)
