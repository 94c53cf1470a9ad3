"""Errors of a mean, intervals and a test of pass rates, and the t distribution, which the standard library lacks."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Hashable, Sequence
from statistics import NormalDist

from .numbers import finite, grouped

_STEPS = 300  # steps of the continued fraction, far more than needed
_TINY = 1e-300
_NEARLY_NORMAL = 30


@dataclasses.dataclass(frozen=True, slots=True)
class Interval:
    """A confidence interval, in the unit of the values."""

    low: float
    high: float


def clustered_error(values: Sequence[float], clusters: Sequence[Hashable] | None = None) -> float | None:
    """Standard error of the mean, in the unit of the values; None for fewer than two values, or clusters.

    With `clusters`, values of one cluster may depend on each other (scenarios of the same repository, say), and the
    products of their residuals are added; without, or with one value in each, it is the ordinary s / sqrt(n).

    E. Miller, Adding Error Bars to Evals, 2024 (arXiv:2411.00640), section 2.2.

    Raises ValueError: a value is not a finite number, or `clusters` has another length.
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


def clopper_pearson(passed: int, n: int, level: float = 0.95) -> tuple[float, float]:
    """Exact interval of a pass rate, (low, high) within [0, 1]; (0, 1) of no attempts at all.

    For independent attempts: of one scenario, or one of each scenario. C. J. Clopper and E. S. Pearson, Biometrika 26,
    1934: it covers the rate at the level or more often whatever the rate is, also at 0.99 of 20 attempts.

    Raises ValueError: not 0 <= passed <= n, or the level is not between 0 and 1.
    """
    checked_count(passed, n)
    half = (1 - checked_level(level)) / 2
    low, high = (_beta_quantile(half, some, n - some + 1) if some else 0.0 for some in (passed, n - passed))
    return low, 1 - high


@dataclasses.dataclass(frozen=True, slots=True)
class Alike:
    """True if values of a group are more alike than others."""

    correlation: float
    """Intraclass correlation: the share of the variance that is between groups."""
    p_value: float


def alike(groups: Sequence[Sequence[float]]) -> Alike | None:
    """Return the intraclass correlation of groups of values, and p of the F test; None where they do not differ.

    By one-way analysis of variance: R. A. Fisher, Statistical Methods for Research Workers, 1925.
    """
    sizes = [len(group) for group in groups]
    n, k = sum(sizes), len(groups)
    means = [math.fsum(group) / len(group) for group in groups]
    middle = math.fsum([size * mean for size, mean in zip(sizes, means, strict=True)]) / n
    inner = math.fsum([(one - mean) ** 2 for group, mean in zip(groups, means, strict=True) for one in group])
    outer = math.fsum([size * (mean - middle) ** 2 for size, mean in zip(sizes, means, strict=True)])
    if outer <= 0:
        return None
    within, between = inner / (n - k), outer / (k - 1)
    size = (n - sum(one * one for one in sizes) / n) / (k - 1)
    p_value = _beta((n - k) / 2, (k - 1) / 2, inner / (inner + outer))
    return Alike((between - within) / (between + (size - 1) * within), p_value)


def t_cdf(t: float, freedom: float) -> float:
    """Share of Student's t distribution below t, by the regularised incomplete beta function (DLMF 8.17)."""
    whole = freedom + t * t
    if t * t < freedom:  # near the middle use the area in between, far out the tail: neither loses digits
        return 0.5 + math.copysign(_beta(0.5, freedom / 2, t * t / whole) / 2, t)
    tail = _beta(freedom / 2, 0.5, freedom / whole) / 2
    return 1 - tail if t > 0 else tail


@functools.lru_cache(maxsize=1024)
def t_quantile(share: float, freedom: float) -> float:
    """Return the quantile with this share below it, 0 < share < 1, accurate to the last few bits."""
    if share < 0.5:
        return -t_quantile(1 - share, freedom)
    if freedom >= _NEARLY_NORMAL:
        return _newton(share, freedom)
    low, high = 0.0, 1.0
    while t_cdf(high, freedom) < share:
        low, high = high, high * 2
    while (middle := (low + high) / 2) not in (low, high) and high - low > 1e-14 * high:
        low, high = (middle, high) if t_cdf(middle, freedom) < share else (low, middle)
    return (low + high) / 2


def _newton(share: float, freedom: float) -> float:
    """Return the quantile where the normal distribution is near: three Newton steps suffice, bisection takes fifty.

    Begins at the expansion of Abramowitz and Stegun, Handbook of Mathematical Functions, 26.7.5.
    """
    z = NormalDist().inv_cdf(share)
    t = z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)
    scale = math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2) - math.log(freedom * math.pi) / 2
    for _ in range(3):
        density = math.exp(scale - (freedom + 1) / 2 * math.log1p(t * t / freedom))
        t -= (t_cdf(t, freedom) - share) / density
    return t


def _beta(a: float, b: float, x: float) -> float:
    """Regularised incomplete beta function I_x(a, b), NIST Digital Library of Mathematical Functions 8.17."""
    if x <= 0 or x >= 1:
        return min(1.0, max(0.0, x))
    if x > (a + 1) / (a + b + 2):
        return 1 - _beta(b, a, 1 - x)
    front = math.exp(
        math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    )
    return front / a / _fraction(a, b, x)


def _beta_quantile(share: float, a: float, b: float) -> float:
    low, high = 0.0, 1.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if _beta(a, b, middle) < share else (low, middle)
    return low


def _fraction(a: float, b: float, x: float) -> float:
    """The continued fraction of DLMF 8.17.22, upside down, by the method of Lentz."""
    value = c = 1.0
    d = 0.0
    for step in range(1, _STEPS):
        m = step // 2
        if step % 2:
            term = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        else:
            term = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        d = 1 / ((1 + term * d) or _TINY)
        c = (1 + term / c) or _TINY
        value *= c * d
        if abs(c * d - 1) < 1e-16:
            break
    return value


def fisher(before_passed: int, before_n: int, now_passed: int, now_n: int) -> float:
    """Fisher's exact test, one-sided: p of "attempts pass less often now", of one scenario. 1 when a side has none.

    R. A. Fisher, J. R. Stat. Soc. 85, 1922: the hypergeometric chance of no more passes now than were seen, with
    all passes of both sides dealt at random.

    Raises ValueError: not 0 <= passed <= n on a side.
    """
    checked_count(before_passed, before_n)
    checked_count(now_passed, now_n)
    passed, n = before_passed + now_passed, before_n + now_n
    fewest = max(0, passed - before_n)
    ways = sum(
        math.comb(now_n, some) * math.comb(before_n, passed - some) for some in range(fewest, now_passed + 1)
    )
    return ways / math.comb(n, passed)


def checked_level(level: float) -> float:
    """The level itself. Raises ValueError: it is not between 0 and 1."""
    if not 0 < level < 1:
        raise ValueError(f"level {level:g}: a confidence level is between 0 and 1, 0.95 for instance")
    return level


def checked_count(passed: int, n: int) -> None:
    """Raise ValueError if this number of n attempts cannot have passed."""
    if not 0 <= passed <= n:
        raise ValueError(f"{passed} of {n} attempts passed: needs 0 <= passed <= n")
