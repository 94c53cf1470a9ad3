"""Every statistic against scipy or statsmodels, and against its definition on input that is small enough."""

from __future__ import annotations

import itertools
import math
import random
import warnings
from collections.abc import Callable, Sequence
from typing import Any
from unittest import mock

import numpy
import pytest
import scipy.stats
from hypothesis import assume, given
from hypothesis import strategies as st

from pytest_benchjobs.analysis import statistics as ours
from pytest_benchjobs.analysis.statistics import paired
from pytest_benchjobs.analysis.statistics.student import t_cdf, t_quantile

from .examples import at_most

with warnings.catch_warnings():  # of its own dependencies, and none of our doing
    warnings.simplefilter("ignore")
    import statsmodels.regression.linear_model
    import statsmodels.stats.contingency_tables
    import statsmodels.stats.multitest
    import statsmodels.stats.proportion

MANY = at_most(600)
SOME = at_most(200)


def made(kind: str, n: int, seed: int) -> list[float]:
    """Numbers of a kind. Hypothesis chooses what to make, which is a hundred times faster than making each number."""
    chance = random.Random(seed)
    of = chance.randint(1, 5)
    always = round(chance.uniform(-1, 1), 3)
    make = {
        "differences of rates": lambda: chance.randint(0, of) / of - chance.randint(0, of) / of,
        "of different attempts": lambda: chance.randint(0, of) / of - chance.randint(0, 3) / 3,
        "differences of scores": lambda: round(chance.uniform(-1, 1), 9),
        "mostly ties": lambda: chance.choice([0.0, 0.0, 0.0, 0.0, 0.0, -1.0, 1.0]),
        "all the same": lambda: always,
    }[kind]
    return [make() for _ in range(n)]


RATES = ["differences of rates", "of different attempts", "mostly ties"]
KINDS = [*RATES, "differences of scores", "all the same"]
seeds = st.integers(0, 2**32 - 1)


def some(least: int, most: int, kinds: Sequence[str] = KINDS) -> st.SearchStrategy[list[float]]:
    return st.builds(made, st.sampled_from(kinds), st.integers(least, most), seeds)


def made_p_values(n: int, seed: int) -> list[float]:
    chance = random.Random(seed)
    return [chance.choice([0.0, 1.0, 0.04, chance.random(), chance.random() ** 8]) for _ in range(n)]


counts = st.integers(0, 60)


def close(found: float | None, expected: float, within: float = 1e-9) -> bool:
    return found is not None and math.isclose(found, expected, rel_tol=within, abs_tol=1e-12)


def rounded_sum(values: Any, axis: int = 0) -> Any:
    """So that scipy sees ties where there are some: it compares sums with all their rounding errors."""
    return values.sum(axis=axis).round(9)


def flips(values: Sequence[float]) -> float:
    """By the definition: all choices of signs."""
    signs = numpy.array(list(itertools.product((1, -1), repeat=len(values))))
    return float((signs @ numpy.abs(values) <= math.fsum(values) + 1e-11).mean())


@MANY
@given(some(1, 9), st.sampled_from([0.0, 0.0, -0.05, 0.1]))
def test_sign_flips_are_counted_as_by_their_definition(values: list[float], shift: float) -> None:
    found = ours.sign_flip(values, shift=shift)
    moved = [one - shift for one in values]
    assert found.exact
    assert found.resamples == 0
    expected = flips(moved) if any(abs(one) > 1e-12 for one in moved) else 1.0
    assert math.isclose(found.p_value, expected, abs_tol=1e-12)


@MANY
@given(some(1, 40), st.booleans(), st.sampled_from([0.0, -0.05]))
def test_a_rise_is_a_drop_of_all_negated(values: list[float], rates: bool, shift: float) -> None:
    if rates:
        values = [round(one * 5) / 5 for one in values]
    found = ours.sign_flip(values, shift=shift, resamples=300)
    negated = ours.sign_flip([-one for one in values], shift=-shift, resamples=300)
    assert (found.p_value, found.rise) == (negated.rise, negated.p_value)
    assert not found.exact or found.p_value + found.rise > 1 - 1e-12  # both have this very sum


@at_most(100)
@given(some(2, 10, RATES))
def test_sign_flip_is_the_permutation_test_of_scipy(values: list[float]) -> None:
    theirs = scipy.stats.permutation_test(
        (values,),
        rounded_sum,
        permutation_type="samples",
        alternative="less",
        n_resamples=math.inf,
        vectorized=True,
    )
    assert close(ours.sign_flip(values).p_value, theirs.pvalue)


@at_most(10)
@given(some(paired._MOST_ENUMERATED + 1, 60, ["differences of scores"]), st.integers(0, 5))
def test_sampled_sign_flips_are_near_those_of_scipy(values: list[float], seed: int) -> None:
    assume(paired._in_units([one for one in values if one]) is None)
    assume(sum(abs(one) > 1e-12 for one in values) > paired._MOST_ENUMERATED)
    found = ours.sign_flip(values, seed=seed)
    assert (found.exact, found.resamples) == (False, 20_000)
    assert found == ours.sign_flip(values, seed=seed)
    theirs = scipy.stats.permutation_test(
        (numpy.array(values),), rounded_sum, permutation_type="samples", alternative="less",
        n_resamples=2000, vectorized=True, rng=numpy.random.default_rng(seed),
    )  # fmt: skip
    p = theirs.pvalue
    assert abs(found.p_value - p) < 6 * math.sqrt(p * (1 - p) / 2000 + p * (1 - p) / 20_000) + 1e-3


@given(some(30, 200, RATES))
@at_most(100)
def test_sampled_signs_agree_with_counted_ones(values: list[float]) -> None:
    units = paired._in_units([one for one in values if one]) if any(values) else None
    assume(units is not None)
    assert units is not None
    drawn = paired._sample(units, 0, random.Random(1), 4000)
    for exact, sampled in zip(paired._count_sums(units), drawn, strict=True):
        assert abs(sampled / 4000 - exact) < 6 * math.sqrt(exact * (1 - exact) / 4000) + 1e-3


@given(st.lists(st.integers(1, 5000), min_size=1, max_size=40), st.integers(0, 2**32))
@at_most(100)
def test_sums_added_up_bit_by_bit_are_those_of_the_drawn_magnitudes(magnitudes: list[int], seed: int) -> None:
    size = 70
    chance = random.Random(seed)
    drawn = [chance.getrandbits(size) for _ in magnitudes]
    expected = [
        sum(one for one, signs in zip(magnitudes, drawn, strict=True) if signs >> place & 1)
        for place in range(size)
    ]
    sums = paired._added(magnitudes, random.Random(seed), size)
    assert expected == [
        sum((bits >> place & 1) << weight for weight, bits in enumerate(sums)) for place in range(size)
    ]
    for limit in (-1, 0, *expected[:5], expected[0] - 1, sum(magnitudes), 2 * sum(magnitudes) + 9):
        assert paired._up_to(limit, sums, size) == sum(one <= limit for one in expected)


def test_samples_of_very_many_are_drawn_block_by_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paired, "_MOST_BITS", 1)
    units = [(-1) ** place * (place % 7 + 1) for place in range(60)]
    drawn = paired._sample(units, 0, random.Random(1), 1300)
    for exact, sampled in zip(paired._count_sums(units), drawn, strict=True):
        assert abs(sampled / 1300 - exact) < 6 * math.sqrt(exact * (1 - exact) / 1300)


@MANY
@given(counts, counts)
def test_mcnemar_is_that_of_statsmodels_and_the_sign_flip_of_ones(broke: int, fixed: int) -> None:
    found = ours.mcnemar(broke, fixed)
    assert close(found, scipy.stats.binomtest(broke, broke + fixed, alternative="greater").pvalue if broke + fixed else 1.0)  # fmt: skip
    assert close(found, ours.sign_flip([-1.0] * broke + [1.0] * fixed + [0.0] * 3).p_value)
    theirs = statsmodels.stats.contingency_tables.mcnemar([[7, broke], [fixed, 4]], exact=True)
    assert close(min(1.0, 2 * min(found, ours.mcnemar(fixed, broke))), theirs.pvalue)


@MANY
@given(counts, counts, counts, counts)
def test_fisher_is_that_of_scipy(before_n: int, now_n: int, one: int, other: int) -> None:
    before, now = one % (before_n + 1), other % (now_n + 1)
    theirs = scipy.stats.fisher_exact([[now, now_n - now], [before, before_n - before]], alternative="less")
    assert close(ours.fisher(before, before_n, now, now_n), theirs.pvalue)


@SOME
@given(st.builds(made_p_values, st.integers(1, 40), seeds))
def test_adjusted_p_values_are_those_of_statsmodels(found: list[float]) -> None:
    for method, adjust in (("holm", ours.holm), ("fdr_bh", ours.benjamini_hochberg)):
        with mock.patch("gc.collect"):  # it collects garbage at each call
            theirs = statsmodels.stats.multitest.multipletests(found, method=method)[1]
        assert numpy.allclose(adjust(found), theirs, rtol=1e-9, atol=1e-12), method
    assert numpy.allclose(ours.benjamini_hochberg(found), scipy.stats.false_discovery_control(found))


@SOME
@given(st.integers(1, 2000), st.integers(0, 2000), st.floats(0.5, 0.999))
def test_wilson_is_that_of_both(n: int, some: int, level: float) -> None:
    passed = some % (n + 1)
    found = ours.wilson(passed, n, level)
    theirs = statsmodels.stats.proportion.proportion_confint(passed, n, 1 - level, "wilson")
    assert numpy.allclose(found, theirs, rtol=1e-9, atol=1e-12)
    also = scipy.stats.binomtest(passed, n).proportion_ci(level, "wilson")
    assert numpy.allclose(found, [also.low, also.high], rtol=1e-9, atol=1e-12)
    assert 0 <= found[0] <= passed / n <= found[1] <= 1


@MANY
@given(st.integers(1, 5000), st.floats(0.0001, 0.9999), st.floats(-30, 30))
def test_t_is_that_of_scipy(freedom: int, share: float, t: float) -> None:
    assert math.isclose(t_cdf(t, freedom), scipy.stats.t.cdf(t, freedom), rel_tol=1e-9, abs_tol=1e-13)
    theirs = scipy.stats.t.ppf(share, freedom)
    assert math.isclose(t_quantile(share, freedom), theirs, rel_tol=1e-8, abs_tol=1e-9)


@SOME
@given(some(2, 60), st.floats(0.5, 0.999))
def test_the_interval_of_a_mean_is_that_of_scipy(values: list[float], level: float) -> None:
    error = scipy.stats.sem(values)
    assert close(ours.clustered_error(values), error, 1e-6)
    found = ours.mean_interval(values, level=level)
    assert found is not None
    assert found.level == level
    mean = math.fsum(values) / len(values)
    half = scipy.stats.t.ppf((1 + level) / 2, len(values) - 1) * error
    assert numpy.allclose([found.low, found.high], [mean - half, mean + half], rtol=1e-6, atol=1e-9)


@SOME
@given(some(3, 60), st.integers(1, 9), seeds)
def test_clustered_errors_are_those_of_statsmodels(values: list[float], most: int, seed: int) -> None:
    chance = random.Random(seed)
    clusters = [chance.randint(0, most) for _ in values]
    assume(len(set(clusters)) > 1)
    n = len(values)
    theirs = statsmodels.regression.linear_model.OLS(values, numpy.ones(n)).fit(
        cov_type="cluster", cov_kwds={"groups": numpy.array(clusters), "use_correction": False}
    )
    # Theirs divides all squares by n; Miller's, those of a value with itself by n - 1.
    own = numpy.var(values) / n / (n - 1)
    assert math.isclose(
        ours.clustered_error(values, clusters) or 0.0, math.sqrt(theirs.cov_params()[0][0] + own), rel_tol=1e-6, abs_tol=1e-8
    )  # fmt: skip
    alone = ours.clustered_error(values, list(range(n)))
    assert close(alone, ours.clustered_error(values) or 0.0)


@at_most(25)
@given(st.one_of(some(5, 60), some(70, 300)), st.sampled_from([0.8, 0.95]))
def test_the_bootstrap_has_the_quantiles_of_its_definition(values: list[float], level: float) -> None:
    found = ours.bootstrap_mean(values, level=level, seed=3)
    assert found is not None
    assert found == ours.bootstrap_mean(values, level=level, seed=3)
    drawn = numpy.random.default_rng(1).choice(values, (4000, len(values))).mean(1)
    deviation = numpy.std(values) / math.sqrt(len(values))
    step = 1e-9 + 1 / 60 / len(values)  # a mean of rates moves in steps
    for end, share in ((found.low, (1 - level) / 2), (found.high, (1 + level) / 2)):
        # As a share of resamples below it: a few thousand of them tell it to a percent or two.
        assert (drawn < end - 0.05 * deviation - step).mean() <= share + 0.02
        assert (drawn < end + 0.05 * deviation + step).mean() >= share - 0.02


def test_the_bootstrap_is_that_of_scipy() -> None:
    chance = random.Random(5)
    for n in (8, 40, 65, 500):
        values = [chance.betavariate(0.5, 0.5) - chance.random() for _ in range(n)]
        found = ours.bootstrap_mean(values)
        theirs = scipy.stats.bootstrap(
            (values,), numpy.mean, method="percentile", n_resamples=10_000, rng=numpy.random.default_rng(2)
        ).confidence_interval
        assert found is not None
        assert numpy.allclose([found.low, found.high], theirs, atol=0.1 * scipy.stats.sem(values))


def test_clusters_are_drawn_whole() -> None:
    chance = random.Random(6)
    clusters = [place // 5 if place < 60 else place // 2 for place in range(100)]  # of different sizes
    level = {one: chance.uniform(-1, 1) for one in set(clusters)}
    values = [level[one] + chance.gauss(0, 0.01) for one in clusters]
    apart, together = ours.bootstrap_mean(values), ours.bootstrap_mean(values, clusters=clusters)
    assert apart is not None
    assert together is not None
    generator = numpy.random.default_rng(4)
    groups = [[one for one, of in zip(values, clusters, strict=True) if of == name] for name in level]
    means = [numpy.concatenate([groups[place] for place in generator.integers(0, len(groups), len(groups))]).mean() for _ in range(4000)]  # fmt: skip
    assert numpy.allclose([together.low, together.high], numpy.quantile(means, [0.025, 0.975]), atol=0.03)
    assert together.high - together.low > 1.5 * (apart.high - apart.low)
    # Many clusters that are alike: the expansion, against the resamples of those that differ.
    many = [(value, place) for place in range(400) for value in (chance.random(),) * (1 + place % 3)]
    interval = ours.bootstrap_mean([value for value, _ in many], clusters=[place for _, place in many])
    error = ours.clustered_error([value for value, _ in many], [place for _, place in many])
    assert interval is not None
    assert close(interval.high - interval.low, 2 * 1.96 * (error or 0), 0.02)


def test_flipped_clusters_count_once() -> None:
    values = [-0.5] * 20
    assert ours.sign_flip(values).p_value == 0.5**20
    assert ours.sign_flip(values, clusters=[place // 5 for place in range(20)]).p_value == 0.5**4
    assert ours.non_inferiority([0.0] * 20, 0.02, clusters=[place // 5 for place in range(20)]) == 0.5**4


@SOME
@given(some(1, 20, RATES), st.floats(0, 0.5))
def test_not_worse_is_the_other_tail_about_the_margin(values: list[float], margin: float) -> None:
    found = ours.non_inferiority(values, margin)
    assert found == ours.sign_flip([-one for one in values], shift=margin).p_value
    if math.fsum(values) / len(values) <= -margin - 1e-9:
        assert found >= 0.5
    assert ours.non_inferiority(values, margin + 0.1) <= found + 0.02  # a wider margin is easier to show


def test_a_small_drop_is_shown_to_be_small_only_by_many() -> None:
    chance = random.Random(1)
    some = [chance.choice([-1.0, 0.0, 0.0, 1.0]) for _ in range(20)]
    many = [chance.choice([-0.2, 0.0, 0.0, 0.2]) for _ in range(500)]
    assert ours.non_inferiority(some, 0.02) > 0.05
    assert ours.non_inferiority(many, 0.02) < 0.05
    assert ours.non_inferiority([], 0.02) == 1.0


def test_detectable_drops_are_those_of_the_formula() -> None:
    # Difficulties of Beta(.5, .5) have E[p(1-p)] = 1/8. A scenario of p = (1 +- sqrt(1/2)) / 2 has just that; many
    # attempts of it measure it.
    chance = random.Random(2)

    def suite(n: int, k: int) -> list[list[float]]:
        return [[float(chance.random() < (1 + math.sqrt(0.5)) / 2) for _ in range(k)] for _ in range(n)]

    expected = {(20, 3): 16.1, (20, 5): 12.4, (89, 3): 7.6, (89, 5): 5.9, (500, 3): 3.2, (500, 5): 2.5}
    for (n, k), points in expected.items():
        found = [ours.detectable_drop(suite(n, k), suite(n, k)) or 0.0 for _ in range(60)]
        assert math.isclose(100 * math.fsum(found) / 60, points, rel_tol=0.04), (n, k)
    pooled = [ours.detectable_drop(suite(89, 15), suite(89, 3)) or 0.0 for _ in range(30)]
    assert math.isclose(100 * math.fsum(pooled) / 30, 5.9, rel_tol=0.04)
    single = [ours.detectable_drop(suite(89, 1), suite(89, 1)) or 0.0 for _ in range(60)]
    assert math.isclose(100 * math.fsum(single) / 60, 13.2, rel_tol=0.04)


@MANY
@given(st.floats(0.001, 0.5), st.integers(1, 500), st.integers(1, 20), st.floats(0.01, 0.5))
def test_what_is_needed_is_enough_and_no_more(
    drop: float, scenarios: int, attempts: int, sees: float
) -> None:
    more_attempts, more_scenarios = ours.needed(drop, scenarios=scenarios, attempts=attempts, detectable=sees)
    for before, after in ((attempts, more_attempts), (scenarios, more_scenarios)):
        assert sees * math.sqrt(before / after) <= drop * (1 + 1e-6)
        assert after == 1 or sees * math.sqrt(before / (after - 1)) > drop * (1 - 1e-6)


def test_what_cannot_be_known_is_none_and_what_says_nothing_is_one() -> None:
    assert ours.sign_flip([]) == ours.sign_flip([0.0] * 500) == ours.Test(1.0, exact=True, resamples=0)
    assert ours.sign_flip([0.1 + 0.2 - 0.3] * 50).p_value == 1.0  # a rounding error is no difference
    assert ours.sign_flip([-0.4]).p_value == 0.5
    chance = random.Random(1)
    large = ours.sign_flip([chance.uniform(-1e200, 1e200) for _ in range(40)])  # whole numbers, of 660 bits
    assert (large.exact, large.resamples) == (False, 20_000)
    assert ours.sign_flip([-1.0] * 4).p_value == 0.0625
    assert ours.mcnemar(0, 0) == ours.fisher(0, 0, 0, 0) == ours.fisher(3, 3, 0, 0) == 1.0
    assert ours.fisher(3, 3, 0, 3) == 0.05
    assert ours.holm([]) == ours.benjamini_hochberg([]) == []
    assert ours.wilson(0, 0) == (0.0, 1.0)
    for values in ([], [0.3]):
        assert ours.bootstrap_mean(values) is None
        assert ours.clustered_error(values) is None
        assert ours.mean_interval(values) is None
    assert ours.clustered_error([0.1, 0.9], ["one", "one"]) is None
    assert ours.bootstrap_mean([0.1, 0.9], clusters=["one", "one"]) is None
    assert ours.bootstrap_mean([0.25] * 30) == ours.Interval(0.25, 0.25, 0.95)
    assert ours.bootstrap_mean([0.25] * 300) == ours.Interval(0.25, 0.25, 0.95)
    assert ours.mean_interval([0.25] * 30) == ours.Interval(0.25, 0.25, 0.95)
    some = [[1.0, 0.0]] * 20
    assert ours.detectable_drop([], []) is None
    assert ours.detectable_drop(some[:4], some[:4]) is None  # 0.5^4 is more than 0.05
    assert ours.detectable_drop(some[:5], some[:5]) is not None
    assert ours.detectable_drop([[1.0, 1.0]] * 20, [[1.0]] * 20) is None  # nothing varied
    assert ours.detectable_drop([*some, []], [*some, [1.0]]) == ours.detectable_drop(some, some)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize(
    "use",
    [
        ours.sign_flip,
        lambda values: ours.sign_flip([0.1], shift=values[0]),
        lambda values: ours.non_inferiority(values, 0.1),
        lambda values: ours.non_inferiority([0.1], values[0]),
        ours.holm,
        ours.benjamini_hochberg,
        ours.bootstrap_mean,
        ours.clustered_error,
        ours.mean_interval,
        lambda values: ours.detectable_drop([values] * 20, [values] * 20),
        lambda values: ours.needed(values[0], scenarios=1, attempts=1, detectable=0.1),
        lambda values: ours.look(values, round=1, rounds=5),
        lambda values: ours.look([0.1], round=1, rounds=5, baseline=values[:1]),
    ],
)
def test_what_is_not_a_number_is_refused(use: Callable[[Any], object], bad: float) -> None:
    with pytest.raises(ValueError, match=r"not a finite number|cannot be negative"):
        use([bad, 0.5])


@pytest.mark.parametrize(
    ("use", "says"),
    [
        (lambda: ours.mcnemar(-1, 2), "counts cannot be negative"),
        (lambda: ours.fisher(4, 3, 0, 0), "4 of 3 attempts passed"),
        (lambda: ours.wilson(2, 1), "2 of 1 attempts passed"),
        (lambda: ours.wilson(1, 2, 95), "level 95: a confidence level is between 0 and 1"),
        (lambda: ours.bootstrap_mean([0.1, 0.2], level=1), "level 1:"),
        (lambda: ours.mean_interval([0.1, 0.2], level=0), "level 0:"),
        (lambda: ours.holm([0.5, 1.5]), "1.5 is not within"),
        (lambda: ours.benjamini_hochberg([-0.5]), "-0.5 is not within"),
        (lambda: ours.sign_flip([0.1, 0.2], clusters=["a"]), "2 values in 1 clusters"),
        (lambda: ours.bootstrap_mean([0.1, 0.2], clusters=["a"]), "2 values in 1 clusters"),
        (lambda: ours.non_inferiority([0.1], -0.1), "cannot be negative"),
        (lambda: ours.detectable_drop([[1.0]], []), "compared in pairs"),
        (lambda: ours.detectable_drop([[1.0]], [[1.0]], alpha=5), "both are between 0 and 1"),
        (lambda: ours.needed(0, scenarios=1, attempts=1, detectable=0.1), "must be positive"),
        (lambda: ours.look([0.1], round=6, rounds=5), "round 6 of 5"),
        (lambda: ours.look([0.1], round=1, rounds=5, alpha=0), "alpha 0"),
        (lambda: ours.look([1.5], round=1, rounds=5), r"within \[-1, 1\]"),
        (lambda: ours.look([0.1], round=1, rounds=5, baseline=[]), "0 scenarios of the baseline"),
        (lambda: ours.look([0.1], round=1, rounds=5, baseline_attempts=0), "0 attempts in the baseline"),
    ],
)
def test_what_makes_no_sense_is_refused(use: Callable[[], object], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        use()
