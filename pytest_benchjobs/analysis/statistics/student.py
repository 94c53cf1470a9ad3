"""Student's t distribution, which the standard library lacks."""

from __future__ import annotations

import math

_STEPS = 300  # of the continued fraction, far more than it takes
_TINY = 1e-300


def t_cdf(t: float, freedom: float) -> float:
    """Share of Student's t distribution below t, by the regularised incomplete beta function."""
    tail = _beta(freedom / 2, 0.5, freedom / (freedom + t * t)) / 2
    return 1 - tail if t > 0 else tail


def t_quantile(share: float, freedom: float) -> float:
    """Where the distribution has this share below, 0 < share < 1: by bisection, to the last bit but a few."""
    if share < 0.5:
        return -t_quantile(1 - share, freedom)
    low, high = 0.0, 1.0
    while t_cdf(high, freedom) < share:
        low, high = high, high * 2
    while (middle := (low + high) / 2) not in (low, high) and high - low > 1e-14 * high:
        low, high = (middle, high) if t_cdf(middle, freedom) < share else (low, middle)
    return (low + high) / 2


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
