"""Bounds of a mean, by a test of every mean that it may have."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_benchjobs.analysis.statistics import inversion
from pytest_benchjobs.analysis.statistics.intervals import clopper_pearson
from pytest_benchjobs.analysis.statistics.inversion import Units, bounds, mean_interval

from .examples import at_most

SCALE = (-1.0, 1.0)


def units(values: Sequence[float], exact: float | None = None) -> Units:
    return Units.of(values, ends=SCALE, exact=exact)


@pytest.mark.parametrize("n", [20, 60, 200])
def test_what_has_not_been_seen_may_be_as_often_as_chance_hides_it(n: int) -> None:
    """Of n scenarios that are as before, the drop is below 1 - 0.05^(1/n), nearly."""
    exact = 1 - 0.05 ** (1 / n)
    bound = -units([0.0] * n).low(0.05)
    assert exact <= bound < exact * (1 + 3 / n)
    assert units([0.0] * n).p_above(-exact) == pytest.approx(0.05, rel=0.3)
    assert units([0.3] * n).low(0.05) < 0.3  # all alike, and yet not certain


def tango(broke: int, fixed: int, n: int, drop: float) -> tuple[float, float]:
    """Restricted estimate of the shares that broke and were fixed, if the drop is so large (Tango 1998)."""
    b = -fixed - broke + (2 * n - broke + fixed) * drop
    q = (math.sqrt(b * b + 8 * n * fixed * drop * (1 - drop)) - b) / (4 * n)
    return q + drop, q


@pytest.mark.parametrize(
    ("broke", "fixed", "n"), [(0, 0, 20), (2, 1, 60), (9, 6, 60), (0, 3, 89), (10, 12, 300)]
)
def test_the_likeliest_shares_of_pairs_are_tangos(broke: int, fixed: int, n: int) -> None:
    drop = (broke - fixed) / n + 0.04
    values, counts = (0.0, -1.0, 1.0), (n - broke - fixed, broke, fixed)
    kept = [(value, count) for value, count in zip(values, counts, strict=True) if count]
    off = [value + drop for value, _ in kept]
    shares = inversion._likeliest(off, [count for _, count in kept], drop - 1, n)
    found = dict(zip([value for value, _ in kept], shares, strict=False))
    theirs = tango(broke, fixed, n, drop)
    assert (found.get(-1.0, 0.0) + shares[-1], found.get(1.0, 0.0)) == pytest.approx(theirs, abs=1e-6)


def chance(shares: Sequence[tuple[int, float]], n: int, total: int) -> float:
    """By the definition: the chance that n whole numbers have a sum as high as `total`."""
    low = min(one for one, _ in shares)
    one = numpy.zeros(max(one for one, _ in shares) - low + 1)
    for value, share in shares:
        one[value - low] += share
    sums = numpy.ones(1)
    for _ in range(n):
        sums = numpy.convolve(sums, one)
    return float(sums[total - n * low :].sum())


@pytest.mark.parametrize(
    ("values", "at"),
    [
        ([0] * 17 + [-1, 1, -2], -0.6), ([0] * 55 + [-1] * 3 + [1] * 2, -0.15), ([0] * 40 + [3] * 25 + [-3] * 24, -0.36),
        ([0] * 280 + [-1] * 10 + [1] * 10, -0.05), ([0] * 59 + [-1], -0.2), ([-3, -2, 0, 1, 3], -1.5), ([3] * 9 + [0], 1.6),
    ],
)  # fmt: skip
def test_the_chance_is_that_of_the_sum(values: list[int], at: float) -> None:
    """Scores in thirds: three attempts on both sides."""
    kept = sorted(set(values))
    counts = [values.count(one) for one in kept]
    shares = inversion._likeliest([one - at for one in kept], counts, -3 - at, len(values))
    expected = chance([*zip(kept, shares, strict=False), (-3, shares[-1])], len(values), sum(values))
    z = inversion._saddlepoint(
        [*(one - at for one in kept), -3 - at], shares, len(values), sum(values) - len(values) * at, 1.0
    )
    assert inversion._NORMAL.cdf(z) == pytest.approx(expected, rel=0.2)


@at_most(100)
@given(st.integers(2, 40), st.sampled_from([2, 3, 7, 0]), st.floats(0.001, 0.4), st.integers(0, 10_000))
def test_bound_and_p_say_the_same(n: int, unit: int, alpha: float, seed: int) -> None:
    made = random.Random(seed)
    values = [
        made.choice([0.0, made.randint(-unit, unit) / unit if unit else made.uniform(-1, 1)])
        for _ in range(n)
    ]
    exact = made.random() ** 4 / 2
    one = units(values, exact)
    low = one.low(alpha)
    assert -1 <= low <= one.mean + 1e-9
    if one.mean > 0:
        assert (low > 0) is (exact < alpha) or exact < 1e-4
        assert one.p_above(0.0) == pytest.approx(exact, rel=1e-6) or exact < 1e-4
    plain = units(values)
    assert plain.low(alpha) <= plain.low(min(0.5, 2 * alpha)) + 1e-6
    both = bounds(plain, level=1 - 2 * alpha)
    assert (both.low, both.high) == pytest.approx(
        (plain.low(alpha), -plain.negated(None).low(alpha)), abs=1e-6
    )
    assert Units.of(values, list(range(n)), ends=SCALE) == plain


@pytest.mark.parametrize(("passed", "n"), [(20, 20), (19, 20), (12, 20), (1, 60), (80, 89)])
def test_of_passes_it_is_nearly_the_exact_interval(passed: int, n: int) -> None:
    found = mean_interval([1.0] * passed + [0.0] * (n - passed))
    assert found is not None
    assert (found.low, found.high) == pytest.approx(clopper_pearson(passed, n), abs=0.02)


def test_clusters_count_as_one_and_what_has_no_end_by_students_t() -> None:
    values = [0.1, 0.3, -0.2, 0.4, 0.0, 0.2] * 4
    apart, together = (Units.of(values, of, ends=SCALE) for of in (None, [n // 6 for n in range(24)]))
    assert (together.n, together.mean) == (4, pytest.approx(apart.mean))
    luck = [0.5 * (-1) ** (n // 6) for n in range(24)]
    apart, together = (Units.of(luck, of, ends=SCALE) for of in (None, [n // 6 for n in range(24)]))
    assert together.low(0.05) < apart.low(0.05) < 0
    seconds = [3.0, 5.0, 4.0, 9.0]
    low = Units.of(seconds, ends=None).low(0.05)
    assert low == pytest.approx(5.25 - 2.3534 * numpy.std(seconds, ddof=1) / 2, abs=1e-2)
    many = Units.of([n / 1000 for n in range(-500, 500)], ends=SCALE)  # put together in bins
    assert len(many.values) <= 201
    assert many.low(0.05) == pytest.approx(many.mean - 1.645 * 0.2887 / math.sqrt(1000), abs=1e-3)
