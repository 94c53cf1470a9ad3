"""Ways to count deals: where one ends and the next begins, and how near the expansion comes."""

from __future__ import annotations

import functools
import math
import random

import numpy
import pytest
import scipy.signal
import scipy.stats

from pytest_benchjobs.analysis.statistics import permutations
from pytest_benchjobs.analysis.statistics.paired import permutation
from pytest_benchjobs.analysis.statistics.permutations import Test

Side = list[list[float]]


def scores(n: int, attempts: int, seed: int, low: float = 0.0, high: float = 1.0) -> Side:
    """Scores that have no common unit."""
    chance = random.Random(seed)
    return [[chance.uniform(low, high) for _ in range(attempts)] for _ in range(n)]


@pytest.mark.parametrize("scale", [1e-5, 0.7, 1e9])
@pytest.mark.parametrize("attempts", [1, 2])
def test_the_unit_of_amounts_makes_no_difference_to_what_is_as_low(scale: float, attempts: int) -> None:
    """Though sums that are equal differ by rounding then."""
    chance = random.Random(4)
    for _ in range(20):
        whole = [chance.randint(1, 4) * chance.choice([-1, 1]) for _ in range(9)]
        found = []
        for unit in (1.0, math.pi * scale):
            before = [[max(0, -one) * unit, *[0.0] * (attempts - 1)] for one in whole]
            now = [[max(0, one) * unit] for one in whole]
            found.append(permutation(before, now))
        assert (found[1].p_value, found[1].rise) == pytest.approx((found[0].p_value, found[0].rise))


def test_far_out_the_expansion_says_no_more_than_it_knows() -> None:
    fell = permutation(scores(40, 3, 1, 0.6, 1), scores(40, 2, 2, 0, 0.4))
    assert fell == Test(5e-5, rise=1.0)


@pytest.mark.parametrize(("share", "smooth"), [(0.45, True), (0.55, False)])
def test_amounts_in_clumps_may_make_half_of_the_variance(share: float, smooth: bool) -> None:
    """Where there is no common unit."""
    fine = [permutations.dealt(*pair) for pair in zip(scores(60, 3, 1), scores(60, 2, 2), strict=True)]
    fine = [part for part in fine if part is not None]
    wanted = math.fsum(map(permutations.variance, fine)) * share / (1 - share)
    chance = random.Random(5)
    signs = [chance.uniform(0.9, 1.1) for _ in range(60)]
    factor = math.sqrt(wanted / math.fsum(one * one for one in signs))
    clumps = [permutations.flipped(one * factor) for one in signs]
    parts = [*fine, *(part for part in clumps if part is not None)]
    assert (permutations._expanded(parts, None) is not None) is smooth


@pytest.mark.parametrize("n", [16, 18])
def test_a_sum_with_flat_tails_is_not_taken_for_nearly_normal(n: int) -> None:
    parts = [part for _ in range(n) if (part := permutations.flipped(1.0))]
    assert permutations._expanded(parts, 2.0) is None


_KINDS = ((600, 10), (500, 13), (500, 17))
"""Scenarios that passed once in sixteen attempts, and what a pass of theirs is worth, in tenths."""


@functools.cache
def chances_of_sums() -> numpy.ndarray:
    """Of `_KINDS`: the chance of each sum, in tenths."""
    chances = numpy.ones(1)
    for n, weight in _KINDS:
        spread = numpy.zeros(n * weight + 1)
        spread[::weight] = scipy.stats.binom(n, 1 / 16).pmf(numpy.arange(n + 1))
        chances = scipy.signal.fftconvolve(chances, spread)
    return chances


@pytest.mark.parametrize("seen", [9, 25, 37, 45, 60])
def test_the_expansion_knows_skewness_and_excess(seen: int) -> None:
    counts = [seen, 31, 31]
    parts = [
        permutations.Counted(16, 1, 1, (weight / 10,), int(place < passed))
        for (n, weight), passed in zip(_KINDS, counts, strict=True)
        for place in range(n)
    ]
    total = sum(weight * passed for (_, weight), passed in zip(_KINDS, counts, strict=True))
    exact = chances_of_sums()
    found = permutations._expanded(parts, 0.1)
    assert found == pytest.approx((exact[: total + 1].sum(), exact[total:].sum()), abs=2e-5)


@pytest.mark.parametrize("attempts", [50, 100])
def test_many_attempts_of_which_a_few_are_huge_are_not_lost_by_rounding(attempts: int) -> None:
    chance = random.Random(3)
    before, now = ([math.exp(chance.gauss(drift, 1.5)) for _ in range(attempts)] for drift in (0.0, -0.5))
    pool, draw = numpy.array([*before, *now]), numpy.random.default_rng(1)
    sums = numpy.array([draw.permutation(pool)[:attempts].sum() for _ in range(20_000)])
    expected = (sums <= sum(now)).mean()
    assert permutation([before], [now]).p_value == pytest.approx(expected, abs=0.01)
