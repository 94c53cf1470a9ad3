"""Inference about a mean: one test of every value that it may have, inverted into bounds.

Most changes of a benchmark are 0, so what has not been seen yet matters as much as what has: 20 scenarios that pass
before and now do not show that fewer than one of ten broke. So for each possible mean the test takes the likeliest
distribution of values that has this mean, and in which values may lie at the end of their scale though none was seen
there: Tango's restricted estimate for pairs of 0 and 1, the empirical likelihood for all others. The chance to see a
mean as high as the observed one, if values come from there, is p: by a saddlepoint approximation, which holds in the
tails, and for a handful of values.

A change of 0 is special: if nothing changed, attempts are exchangeable, and a permutation test is exact. Its p is
that of 0, and those of the means between 0 and the observed one lead to it.

T. Tango, Stat. Med. 17, 1998; A. B. Owen, Empirical Likelihood, 2001, chapter 2; O. E. Barndorff-Nielsen, Biometrika
73, 1986; H. E. Daniels, Int. Stat. Rev. 55, 1987, with the second correction for lattices.
"""

from __future__ import annotations

import collections
import dataclasses
import math
import operator
from collections.abc import Hashable, Iterable, Sequence
from fractions import Fraction
from statistics import NormalDist

from .intervals import Interval, checked_level, t_cdf
from .numbers import finite, grouped

_BINS = 200  # of values that all differ: they lose a thousandth of a deviation
_CLEAR = 1e-4  # p below which a permutation test says no more than that
_LOCAL = 8  # power by which p of 0 counts less for a mean that is nearer to the observed one
_NEAR = 1e-3  # deviations from the observed mean within which p is taken as continuous
_FAR = 37.0  # deviations: the normal distribution has no smaller p
_TINY = 1e-9
_FINEST = 1000  # parts of 1 that are a unit
_BY_SHARE = operator.itemgetter(1)
_NORMAL = NormalDist()


@dataclasses.dataclass(frozen=True, slots=True)
class Units:
    """Independent values whose mean is asked for: scenarios, or clusters by the sums of theirs."""

    values: tuple[float, ...]
    weights: tuple[float, ...]
    """Size of each cluster, of the mean size; 1 for scenarios."""
    counts: tuple[int, ...]
    """Number of times that each value occurs."""
    n: int
    mean: float
    ends: tuple[float, float] | None
    """Ends of the scale of values; None: it has none."""
    unit: float
    """Of which all values are multiples; 0: none."""
    exact: float | None = None
    """p of the permutation test: the chance of a mean as high as this one if nothing changed."""

    @classmethod
    def of(
        cls,
        values: Sequence[float],
        clusters: Sequence[Hashable] | None = None,
        *,
        ends: tuple[float, float] | None,
        exact: float | None = None,
    ) -> Units:
        """Group values, or the sums of clusters. Raises ValueError: there is none, or one is not finite."""
        numbers = finite(values)
        if not numbers:
            raise ValueError("no values have no mean")
        n, mean = len(numbers), math.fsum(numbers) / len(numbers)
        if clusters is None or len(set(clusters)) == n:
            found = collections.Counter(numbers)
            kept = found if len(found) <= _BINS else _binned(numbers)
            weights: tuple[float, ...] = (1.0,) * len(kept)
            return cls(tuple(kept), weights, tuple(kept.values()), n, mean, ends, _unit(kept), exact)
        groups = grouped(numbers, clusters)
        scale = len(groups) / n
        both = collections.Counter((math.fsum(one) * scale, len(one) * scale) for one in groups)
        listed, weights = zip(*both, strict=True)
        return cls(listed, weights, tuple(both.values()), len(groups), mean, ends, 0.0, exact)

    def negated(self, exact: float | None) -> Units:
        """Return the same with all signs turned, and with p of the opposite."""
        ends = None if self.ends is None else (-self.ends[1], -self.ends[0])
        values = tuple(-one for one in self.values)
        return dataclasses.replace(self, values=values, mean=-self.mean, ends=ends, exact=exact)

    def p_above(self, at: float) -> float:
        """Return p of "the mean is above `at`"."""
        return _NORMAL.cdf(self._deviate(at))

    def low(self, alpha: float) -> float:
        """Return the bound that the mean is above, at this rate of errors: all means with a p below it are excluded."""
        aim = _NORMAL.inv_cdf(alpha)
        low, high = self._least(aim), self.mean
        below, above = self._deviate(low) - aim, -aim
        if low < 0 < high:  # on the side of 0 that p of 0 says
            if (off := self._deviate(0.0) - aim) < 0:
                low, below = 0.0, off
            else:
                high, above = 0.0, off
        if below >= 0 or above <= 0:
            return low if below >= 0 else high
        for _ in range(60):  # false position, with the weights of Illinois
            middle = (low * above - high * below) / (above - below)
            if not low < middle < high:
                middle = (low + high) / 2
            off = self._deviate(middle) - aim
            if abs(off) < 1e-4 or high - low < 1e-9 * (abs(low) + abs(high)):
                return middle
            if off < 0:
                low, below, above = middle, off, above / 2
            else:
                high, above, below = middle, off, below / 2
        return low

    def _least(self, aim: float) -> float:
        """Return the end of the scale, or a mean that is far enough below where it has none."""
        if self.ends is not None:
            return self.ends[0]
        away = max(abs(self.mean), 1e-9)
        while self._deviate(self.mean - away) > aim and away < 1e300:
            away *= 4
        return self.mean - away

    def _deviate(self, at: float) -> float:
        """Return the normal deviate of p: by the model, and at 0 by the permutation test."""
        z = self._modelled(at)
        if self.exact is None or self.mean <= 0 or at >= self.mean:
            return z
        model = self._modelled(0.0)
        if self.exact < _CLEAR and model < _NORMAL.inv_cdf(_CLEAR):
            return z
        exact = _NORMAL.inv_cdf(min(max(self.exact, 1e-300), 1 - 1e-16))
        if at <= 0:
            return exact if z >= model else min(exact, z + exact - model)
        return z + (exact - model) * ((self.mean - at) / self.mean) ** _LOCAL

    def _modelled(self, at: float) -> float:
        """Return the normal deviate of the chance of a mean as high as this one, if the true mean is `at`."""
        off = [value - weight * at for value, weight in zip(self.values, self.weights, strict=True)]
        if self.ends is None:
            return _student(off, self.counts, self.n)
        low, high = self.ends
        if not low < at < high:
            return -math.inf if at <= low else math.inf
        # The clusters that fall are large ones, as scenarios are in them more often.
        size = math.fsum([w * w * c for w, c in zip(self.weights, self.counts, strict=True)]) / self.n
        end = size * ((low if self.mean > at else high) - at)
        shares = _likeliest(off, self.counts, end, self.n)
        z = _saddlepoint([*off, end], shares, self.n, self.n * (self.mean - at), self.unit)
        return z if self.n < 2 else z * math.sqrt((self.n - 1) / self.n)


def bounds(units: Units, *, level: float = 0.95, opposite: float | None = None) -> Interval:
    """Return the two-sided interval; `opposite` is p of the permutation test the other way."""
    alpha = (1 - checked_level(level)) / 2
    return Interval(units.low(alpha), -units.negated(opposite).low(alpha))


def mean_interval(
    values: Sequence[float], *, level: float = 0.95, clusters: Sequence[Hashable] | None = None
) -> Interval | None:
    """Return the interval of the mean of values from 0 to 1; None for fewer than two values, or clusters.

    Raises ValueError: a value is not a finite number, or the level is not between 0 and 1.
    """
    checked_level(level)
    if len(values if clusters is None else set(clusters)) < 2:
        return None
    return bounds(Units.of(values, clusters, ends=(0.0, 1.0)), level=level)


def _binned(numbers: Iterable[float]) -> dict[float, int]:
    """Return the means of values that are nearly alike, and how many there are of each."""
    listed = sorted(numbers)
    width = (listed[-1] - listed[0]) / _BINS
    bins: dict[int, list[float]] = {}
    for one in listed:
        bins.setdefault(int((one - listed[0]) / width), []).append(one)
    return {math.fsum(some) / len(some): len(some) for some in bins.values()}


def _unit(values: Iterable[float]) -> float:
    """Return a unit of which all values, and 1, are multiples; 0 if there is none that is coarse enough."""
    denominator = 1
    for value in values:
        if abs(value * denominator - round(value * denominator)) > _TINY:
            near = Fraction(value).limit_denominator(_FINEST)
            denominator = math.lcm(denominator, near.denominator)
            if abs(float(near) - value) > _TINY or denominator > _FINEST:
                return 0.0
    return 1 / denominator


def _student(off: Sequence[float], counts: Sequence[int], n: int) -> float:
    """Return the deviate by Student's t, for values without ends."""
    middle = math.fsum([one * count for one, count in zip(off, counts, strict=True)]) / n
    squares = math.fsum([count * (one - middle) ** 2 for one, count in zip(off, counts, strict=True)])
    variance = squares / (n - 1) / n if n > 1 else 0.0
    if variance <= 0:
        return math.copysign(_FAR, -middle) if middle and n > 1 else 0.0
    t = -middle / math.sqrt(variance)
    p = t_cdf(t, n - 1)
    return _NORMAL.inv_cdf(min(p, 1 - 1e-16)) if p > 0 else -_FAR


def _likeliest(off: Sequence[float], counts: Sequence[int], end: float, n: int) -> list[float]:
    """Return the shares of values that make their mean 0, most likely given their counts; the last is of the `end`.

    Each share is count / n / (1 + m * value), and m is such that their mean is 0 (Owen). Where no m makes it so, the
    rest is at the end, which has been seen by nobody.
    """
    both = list(zip(off, counts, strict=True))
    total = math.fsum([one * count for one, count in both])
    if total == 0:
        return [*(count / n for count in counts), 0.0]
    sign = math.copysign(1.0, total)
    most = 1 / abs(end)
    low, high, m = 0.0, most, 0.0
    furthest = max(-sign * one for one in off)
    if furthest * most < 1:  # the end is further than all values: it may be needed
        excess = math.fsum([sign * one * count / (1 + sign * one * most) for one, count in both])
        if excess >= 0:
            shares = [count / n / (1 + sign * one * most) for one, count in both]
            return [*shares, max(0.0, 1 - math.fsum(shares))]
    else:
        high = 1 / furthest
    for _ in range(60):
        parts = [(1 + sign * one * m, sign * one, count) for one, count in both]
        slope = -math.fsum([count * (one / of) ** 2 for of, one, count in parts])
        excess = math.fsum([count * one / of for of, one, count in parts])
        if excess > 0:
            low = m
        else:
            high = m
        step = m - excess / slope if slope else high
        was, m = m, step if low < step < high else (low + high) / 2
        if abs(m - was) <= 1e-10 * high:
            break
    shares = [count / n / (1 + sign * one * m) for one, count in both]
    whole = math.fsum(shares)
    return [*(share / whole for share in shares), 0.0]


def _saddlepoint(off: Sequence[float], shares: Sequence[float], n: int, total: float, unit: float) -> float:
    """Return the deviate of the chance that n values with these shares and mean 0 have a sum as high as `total`."""
    kept = [(one, share) for one, share in zip(off, shares, strict=True) if share > 0]
    most, share = max(kept)
    if total >= n * most - _TINY:  # all values are the highest
        chance = math.exp(n * math.log(share))
        return _NORMAL.inv_cdf(min(1 - 1e-16, max(1e-300, chance)))
    step = _step(kept, unit)
    aim = (total - step / 2) / n
    if aim <= min(kept)[0]:
        return _FAR
    s, k, two = _solved(kept, aim)
    r = math.copysign(math.sqrt(max(0.0, 2 * n * (s * aim - k))), s)
    deviation = math.sqrt(n * two)
    if abs(r) < _NEAR:
        second, third = (math.fsum([share * math.pow(one, power) for one, share in kept]) for power in (2, 3))
        return -r - third / (6 * math.sqrt(n) * math.pow(second, 1.5))
    u = deviation * (2 * math.sinh(s * step / 2) / step if step and abs(s * step) < _FAR else s)
    return -(r + math.log(u / r) / r)


def _step(kept: Sequence[tuple[float, float]], unit: float) -> float:
    """Return the step by which a sum of such values can change: at most by half of it is a sum as high as another.

    Where they have no unit, it is the typical distance of the others from the commonest value, times its share.
    """
    if unit:
        first = kept[0][0]
        return unit * math.gcd(*(round((one - first) / unit) for one, _ in kept))
    common, share = max(kept, key=_BY_SHARE)
    away = [(abs(one - common), of) for one, of in kept]
    return share * math.fsum([one * one * of for one, of in away]) / math.fsum([one * of for one, of in away])


def _solved(kept: Sequence[tuple[float, float]], aim: float) -> tuple[float, float, float]:
    """Return where the derivative of the cumulant function is `aim`, and there its value and its second derivative."""
    values = [one for one, _ in kept]
    reach = max(map(abs, values))
    low, high = -math.inf, math.inf
    s = 0.0
    for _ in range(80):
        top = max(s * one for one in values)
        tilted = [share * math.exp(s * one - top) for one, share in kept]
        whole = math.fsum(tilted)
        mean = math.fsum([one * share for one, share in zip(values, tilted, strict=True)]) / whole
        two = (
            math.fsum([(one - mean) ** 2 * share for one, share in zip(values, tilted, strict=True)]) / whole
        )
        if abs(mean - aim) <= 1e-10 * reach:
            break
        if mean < aim:
            low = s
        else:
            high = s
        step = s + (aim - mean) / two if two > 0 else math.inf
        if not low < step < high or abs(step - s) > 4 / reach:
            ends = (
                low if math.isfinite(low) else s - 2 / reach,
                high if math.isfinite(high) else s + 2 / reach,
            )
            step = sum(ends) / 2 if math.isfinite(low) and math.isfinite(high) else ends[mean < aim]
        s = step
    return s, top + math.log(whole), two
