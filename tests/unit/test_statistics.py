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

from pytest_benchjobs.analysis import attempts as attempts_of
from pytest_benchjobs.analysis.statistics import paired, permutations
from pytest_benchjobs.analysis.statistics.intervals import (
    alike,
    clopper_pearson,
    clustered_error,
    fisher,
    t_cdf,
    t_quantile,
)
from pytest_benchjobs.analysis.statistics.inversion import Units, mean_interval
from pytest_benchjobs.analysis.statistics.multiple import benjamini_hochberg, holm
from pytest_benchjobs.analysis.statistics.paired import mcnemar, permutation
from pytest_benchjobs.analysis.statistics.permutations import Test
from pytest_benchjobs.analysis.statistics.power import Aim, detectable_drop, needed
from pytest_benchjobs.analysis.statistics.sequential import look

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


def sign_flip(values: Sequence[float], *, shift: float = 0.0) -> Test:
    """Paired differences of single attempts, whose signs flip about the shift."""
    parts = [part for one in values if (part := permutations.flipped(one - shift)) is not None]
    return permutations.tails(parts)


def flips(values: Sequence[float]) -> float:
    """By the definition: all choices of signs."""
    signs = numpy.array(list(itertools.product((1, -1), repeat=len(values))))
    return float((signs @ numpy.abs(values) <= math.fsum(values) + 1e-11).mean())


@MANY
@pytest.mark.when_changed
@given(some(1, 9), st.sampled_from([0.0, 0.0, -0.05, 0.1]))
def test_sign_flips_are_counted_as_by_their_definition(values: list[float], shift: float) -> None:
    found = sign_flip(values, shift=shift)
    moved = [one - shift for one in values]
    expected = flips(moved) if any(abs(one) > 1e-12 for one in moved) else 1.0
    exact = all(close(round(one * 60), one * 60) for one in moved)  # others are rounded
    assert math.isclose(found.p_value, expected, abs_tol=1e-12 if exact else 2e-3)


@MANY
@pytest.mark.when_changed
@given(some(1, 40), st.booleans(), st.sampled_from([0.0, -0.05]))
def test_a_rise_is_a_drop_of_all_negated(values: list[float], rates: bool, shift: float) -> None:
    if rates:
        values = [round(one * 5) / 5 for one in values]
    found = sign_flip(values, shift=shift)
    negated = sign_flip([-one for one in values], shift=-shift)
    assert (found.p_value, found.rise) == pytest.approx((negated.rise, negated.p_value), abs=1e-12)
    assert found.p_value + found.rise > 1 - 1e-9  # both have this very sum


def attempts(n: int, kind: str, seed: int, most: int = 3) -> tuple[list[list[float]], list[list[float]]]:
    """Attempts at so many scenarios on both sides, one to `most` of each."""
    chance = random.Random(seed)
    make = {
        "passes": lambda: float(chance.random() < 0.5),
        "thirds": lambda: chance.randint(0, 3) / 3,
        "scores": chance.random,
    }[kind]
    one, other = ([[make() for _ in range(chance.randint(1, most))] for _ in range(n)] for _ in range(2))
    return one, other


SORTS = st.sampled_from(["passes", "thirds", "scores"])


def deals(before: Sequence[Sequence[float]], now: Sequence[Sequence[float]]) -> tuple[float, float]:
    """By the definition: all ways to deal the attempts of each scenario to its sides."""
    sums = numpy.zeros(1)
    for old, new in zip(before, now, strict=True):
        pool = numpy.array([*new, *old])
        drawn = itertools.combinations(range(len(pool)), len(new))
        means = numpy.array([pool[list(some)].mean() - numpy.delete(pool, some).mean() for some in drawn])
        sums = numpy.add.outer(sums, means).ravel()
    seen = sum(numpy.mean(new) - numpy.mean(old) for old, new in zip(before, now, strict=True))
    return float((sums <= seen + 1e-11).mean()), float((sums >= seen - 1e-11).mean())


@MANY
@pytest.mark.when_changed
@given(st.integers(1, 4), SORTS, seeds)
def test_deals_are_counted_as_by_their_definition(n: int, kind: str, seed: int) -> None:
    before, now = attempts(n, kind, seed)
    found = permutation(before, now)
    near = 1e-3 if kind == "scores" else 1e-9  # many of which are rounded
    assert numpy.allclose([found.p_value, found.rise], deals(before, now), rtol=0, atol=near)
    back = permutation(now, before)
    assert (found.p_value, found.rise) == pytest.approx((back.rise, back.p_value), abs=1e-12)


@SOME
@pytest.mark.when_changed
@given(st.integers(1, 4), SORTS, seeds)
def test_moments_are_those_of_all_deals(n: int, kind: str, seed: int) -> None:
    for old, new in zip(*attempts(n, kind, seed), strict=True):
        if (part := permutations.dealt(old, new)) is not None:
            pool = numpy.array([*new, *old])
            drawn = itertools.combinations(pool - pool.min(), len(new))
            values = numpy.array([sum(some) for some in drawn]) * (1 / len(old) + 1 / len(new))
            if isinstance(part, permutations.Counted):
                values -= values.min()
            moments = [((values - values.mean()) ** power).mean() for power in (2, 3, 4)]
            assert numpy.allclose(permutations._moments(part), [values.mean(), *moments], atol=1e-9)
            assert permutations.variance(part) == pytest.approx(moments[0])


@at_most(40)
@pytest.mark.when_changed
@given(seeds, st.integers(60, 200), st.integers(1, 15), st.integers(2, 5), st.sampled_from([0.0, 0.05, 0.1]))
def test_the_expansion_of_many_parts_is_near_the_exact_count(
    seed: int, n: int, a: int, b: int, drop: float
) -> None:
    chance = random.Random(seed)
    rates = [chance.random() for _ in range(n)]
    before = [[float(chance.random() < rate) for _ in range(a)] for rate in rates]
    now = [[float(chance.random() < rate - drop) for _ in range(b)] for rate in rates]
    parts = [part for pair in zip(before, now, strict=True) if (part := permutations.dealt(*pair))]
    unit = permutations._unit(parts)
    assert unit is not None
    expanded = permutations._expanded(parts, unit)
    exact = permutations._counted([permutations._in_units(part, unit) for part in parts])
    assume(expanded is not None)
    assert expanded is not None
    for one, other in zip(expanded, exact, strict=True):
        assert one == pytest.approx(other, rel=0.06, abs=6e-5)


def test_permutation_is_mcnemar_and_fisher_and_sign_flips() -> None:
    chance = random.Random(8)
    for _ in range(50):
        before, now = ([[float(chance.random() < rate)] for _ in range(30)] for rate in (0.6, 0.4))
        pairs = [(old[0], new[0]) for old, new in zip(before, now, strict=True)]
        expected = mcnemar(pairs.count((1.0, 0.0)), pairs.count((0.0, 1.0)))
        assert close(permutation(before, now).p_value, expected)
        one, other = ([float(chance.random() < 0.5) for _ in range(chance.randint(1, 9))] for _ in range(2))
        expected = fisher(round(sum(one)), len(one), round(sum(other)), len(other))
        assert close(permutation([one], [other]).p_value, expected)
        values = [(chance.random(), chance.random()) for _ in range(12)]
        flips = sign_flip([new - old for old, new in values])
        assert close(permutation([[old] for old, _ in values], [[new] for _, new in values]).p_value, flips.p_value)  # fmt: skip


@SOME
@pytest.mark.when_changed
@given(st.integers(1, 5), seeds)
def test_a_lower_score_now_never_makes_p_higher(n: int, seed: int) -> None:
    before, now = attempts(n, "thirds", seed)
    chance = random.Random(seed)
    lower = [[max(0.0, one - chance.choice([0, 0, 1]) / 3) for one in some] for some in now]
    assert permutation(before, lower).p_value <= permutation(before, now).p_value + 1e-12


@SOME
@pytest.mark.when_changed
@given(st.integers(1, 4), seeds, st.sampled_from([attempts_of.pass_at_k, attempts_of.pass_hat_k]))
def test_estimates_of_several_attempts_are_dealt_too(
    n: int, seed: int, estimate: Callable[..., float]
) -> None:
    before, now = attempts(n, "passes", seed, most=4)
    found = permutation(before, now, worth=lambda of, passed: estimate(of, passed, 1))
    plain = permutation(before, now)
    assert (found.p_value, found.rise) == pytest.approx((plain.p_value, plain.rise), abs=1e-9)
    two = [[*some, 1.0] for some in before], [[*some, 0.0] for some in now]
    found = permutation(*two, worth=lambda of, passed: estimate(of, passed, 2))

    def worth(scores: Sequence[float]) -> float:
        return estimate(len(scores), round(sum(scores)), 2)

    sums = numpy.zeros(1)
    for old, new in zip(*two, strict=True):
        pool = [*new, *old]
        drawn = itertools.combinations(range(len(pool)), len(new))
        some = [worth([pool[at] for at in of]) - worth([pool[at] for at in range(len(pool)) if at not in of]) for of in drawn]  # fmt: skip
        sums = numpy.add.outer(sums, some).ravel()
    seen = sum(worth(new) - worth(old) for old, new in zip(*two, strict=True))
    assert found.p_value == pytest.approx((sums <= seen + 1e-9).mean(), abs=1e-9)


def test_sides_of_a_cluster_are_exchanged_as_a_whole() -> None:
    clusters = [place // 5 for place in range(40)]
    fell = permutation([[1.0]] * 40, [[0.0]] * 40, clusters=clusters)
    assert (fell.p_value, fell.rise) == (0.5**8, 1.0)
    assert permutation([[1.0] * 3] * 40, [[0.0] * 3] * 40, clusters=clusters).p_value == 0.5**8
    # With more attempts before, their own luck must explain it no better.
    uneven = permutation([[1.0] * 3] * 40, [[0.0]] * 40, clusters=clusters)
    assert uneven.p_value == 0.5**8
    skewed = permutation([[1.0] + [0.0] * 14] * 40, [[0.0]] * 40, clusters=clusters)
    assert skewed.p_value == pytest.approx((15 / 16) ** 8)
    # One of each cluster is as if none were declared.
    scores = attempts(20, "scores", 1)
    assert permutation(*scores, clusters=range(20)) == permutation(*scores)
    # Those alone in their cluster are dealt as ever.
    alone = permutation([[1.0] * 3] * 12, [[0.0] * 3] * 12, clusters=[*range(10), 10, 10])
    assert alone.p_value == pytest.approx(0.05**10 / 2)


def test_of_few_clusters_all_must_have_fallen() -> None:
    clusters = [place // 5 for place in range(15)]
    fell = [[0.0] * 5] * 15
    assert permutation([[1.0] * 5] * 15, fell, clusters=clusters).p_value == pytest.approx(1 / 252**3)
    assert permutation(fell, [[1.0] * 5] * 15, clusters=clusters).rise == pytest.approx(1 / 252**3)
    assert permutation([[1.0] * 5] * 15, [*fell[:10], *[[1.0] * 5] * 5], clusters=clusters).p_value == 0.25
    assert permutation([[1.0]] * 15, [[0.0]] * 15, clusters=clusters).p_value == 0.125


@MANY
@pytest.mark.when_changed
@given(st.lists(st.integers(1, 6), min_size=1, max_size=5), seeds)
def test_attempts_of_a_cluster_keep_their_means(sizes: list[int], seed: int) -> None:
    chance = random.Random(seed)
    scenarios = [[chance.random() for _ in range(size)] for size in sizes]
    found = paired._together(scenarios)
    assert len(found) == min(sizes)
    assert math.fsum(found) / len(found) == pytest.approx(
        sum(math.fsum(some) / len(some) for some in scenarios)
    )
    assert found == sorted(found)


@at_most(20)
@pytest.mark.when_changed
@given(seeds, st.integers(1, 40))
def test_swapped_sides_and_the_order_of_attempts_make_no_difference(seed: int, n: int) -> None:
    before, now = attempts(n, "scores", seed)
    for some in range(0, n, 3):  # some pass or fail, and not as often on both sides
        before[some], now[some] = [1.0, 0.0, 1.0], [0.0]
    there = permutation(before, now)
    back = permutation([some[::-1] for some in now], [some[::-1] for some in before])
    assert (there.p_value, there.rise) == pytest.approx((back.rise, back.p_value), abs=1e-12)


@MANY
@pytest.mark.when_changed
@given(counts, counts)
def test_mcnemar_is_that_of_statsmodels_and_the_sign_flip_of_ones(broke: int, fixed: int) -> None:
    found = mcnemar(broke, fixed)
    assert close(found, sign_flip([-1.0] * broke + [1.0] * fixed + [0.0] * 3).p_value)
    theirs = statsmodels.stats.contingency_tables.mcnemar([[7, broke], [fixed, 4]], exact=True)
    assert close(min(1.0, 2 * min(found, mcnemar(fixed, broke))), theirs.pvalue)


@MANY
@pytest.mark.when_changed
@given(counts, counts, counts, counts)
def test_fisher_is_that_of_scipy(before_n: int, now_n: int, one: int, other: int) -> None:
    before, now = one % (before_n + 1), other % (now_n + 1)
    theirs = scipy.stats.fisher_exact([[now, now_n - now], [before, before_n - before]], alternative="less")
    assert close(fisher(before, before_n, now, now_n), theirs.pvalue)


@SOME
@pytest.mark.when_changed
@given(st.builds(made_p_values, st.integers(1, 40), seeds))
def test_adjusted_p_values_are_those_of_statsmodels(found: list[float]) -> None:
    for method, adjust in (("holm", holm), ("fdr_bh", benjamini_hochberg)):
        with mock.patch("gc.collect"):  # it collects garbage at each call
            theirs = statsmodels.stats.multitest.multipletests(found, method=method)[1]
        assert numpy.allclose(adjust(found), theirs, rtol=1e-9, atol=1e-12), method


@SOME
@pytest.mark.when_changed
@given(st.integers(1, 2000), st.integers(0, 2000), st.floats(0.5, 0.999))
def test_the_interval_of_a_rate_is_that_of_statsmodels(n: int, some: int, level: float) -> None:
    passed = some % (n + 1)
    found = clopper_pearson(passed, n, level)
    theirs = statsmodels.stats.proportion.proportion_confint(passed, n, 1 - level, "beta")
    assert numpy.allclose(found, theirs, rtol=1e-9, atol=1e-12)
    assert 0 <= found[0] <= passed / n <= found[1] <= 1


@MANY
@pytest.mark.when_changed
@given(st.integers(1, 5000), st.floats(0.0001, 0.9999), st.floats(-30, 30))
def test_t_is_that_of_scipy(freedom: int, share: float, t: float) -> None:
    assert math.isclose(t_cdf(t, freedom), scipy.stats.t.cdf(t, freedom), rel_tol=1e-9, abs_tol=1e-13)
    theirs = scipy.stats.t.ppf(share, freedom)
    assert math.isclose(t_quantile(share, freedom), theirs, rel_tol=1e-8, abs_tol=1e-9)


@SOME
@pytest.mark.when_changed
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
        clustered_error(values, clusters) or 0.0, math.sqrt(theirs.cov_params()[0][0] + own), rel_tol=1e-6, abs_tol=1e-8
    )  # fmt: skip
    alone = clustered_error(values, list(range(n)))
    assert close(alone, clustered_error(values) or 0.0)


@SOME
@pytest.mark.when_changed
@given(st.lists(some(2, 6), min_size=2, max_size=8))
def test_values_that_are_alike_are_those_of_the_analysis_of_variance(groups: list[list[float]]) -> None:
    found = alike(groups)
    theirs = scipy.stats.f_oneway(*groups)
    assume(found is not None and math.isfinite(theirs.pvalue))
    assert found is not None
    assert found.p_value == pytest.approx(theirs.pvalue, rel=1e-5, abs=1e-12)
    assert -1 <= found.correlation <= 1


def test_a_drop_that_no_suite_could_show_is_not_promised() -> None:
    hard = [[0.0]] * 18 + [[1.0], [0.0]], [[0.0]] * 18 + [[0.0], [1.0]]
    assert detectable_drop(*hard) is None  # not even a drop to 0
    more = detectable_drop(*([[100 * one for one in some] for some in side] for side in hard), scores=False)
    assert more is not None  # what is spent has no such bound
    assert more > 10


@MANY
@pytest.mark.when_changed
@given(st.floats(0.001, 0.5), st.integers(1, 500), st.integers(1, 20), st.floats(0.01, 0.5))
def test_what_is_needed_is_enough_and_no_more(
    drop: float, scenarios: int, attempts: int, sees: float
) -> None:
    more_attempts, more_scenarios = needed(drop, scenarios=scenarios, attempts=attempts, detectable=sees)
    for before, after in ((attempts, more_attempts), (scenarios, more_scenarios)):
        assert sees * math.sqrt(before / after) <= drop * (1 + 1e-6)
        assert after == 1 or sees * math.sqrt(before / (after - 1)) > drop * (1 - 1e-6)


def test_what_cannot_be_known_is_none_and_what_says_nothing_is_one() -> None:
    assert sign_flip([]) == sign_flip([0.0] * 500) == Test(1.0)
    assert sign_flip([0.1 + 0.2 - 0.3] * 50).p_value == 1.0  # a rounding error is no difference
    assert sign_flip([-0.4]).p_value == 0.5
    chance = random.Random(1)
    large = sign_flip([chance.uniform(-1e200, 1e200) for _ in range(40)])  # whole numbers, of 660 bits
    assert 0 < large.p_value < 1
    assert sign_flip([-1.0] * 4).p_value == 0.0625
    assert mcnemar(0, 0) == fisher(0, 0, 0, 0) == fisher(3, 3, 0, 0) == 1.0
    assert fisher(3, 3, 0, 3) == 0.05
    assert holm([]) == benjamini_hochberg([]) == []
    assert clopper_pearson(0, 0) == (0.0, 1.0)
    for values in ([], [0.3]):
        assert clustered_error(values) is None
        assert mean_interval(values) is None
    assert clustered_error([0.1, 0.9], ["one", "one"]) is None
    some = [[1.0] * 9 + [0.0]] * 20
    assert detectable_drop([], []) is None
    assert detectable_drop(some[:4], some[:4]) is None  # 0.5^4 is more than 0.05
    assert detectable_drop(some[:5], some[:5]) is not None
    assert detectable_drop([[1.0, 1.0]] * 20, [[1.0]] * 20) is None  # nothing varied
    assert detectable_drop([*some, []], [*some, [1.0]]) == detectable_drop(some, some)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize(
    "use",
    [
        lambda values: Units.of(values, ends=None),
        holm,
        benjamini_hochberg,
        clustered_error,
        mean_interval,
        lambda values: detectable_drop([values] * 20, [values] * 20),
        lambda values: needed(values[0], scenarios=1, attempts=1, detectable=0.1),
        lambda values: look([values], [[0.5]], round=1, rounds=5),
        lambda values: look([[0.5]], [values], round=1, rounds=5),
        lambda values: permutation([values], [[0.5]]),
    ],
)
def test_what_is_not_a_number_is_refused(use: Callable[[Any], object], bad: float) -> None:
    with pytest.raises(ValueError, match=r"not a finite number|cannot be negative"):
        use([bad, 0.5])


@pytest.mark.parametrize(
    ("use", "says"),
    [
        (lambda: mcnemar(-1, 2), "counts cannot be negative"),
        (lambda: fisher(4, 3, 0, 0), "4 of 3 attempts passed"),
        (lambda: clopper_pearson(2, 1), "2 of 1 attempts passed"),
        (lambda: clopper_pearson(1, 2, 95), "level 95: a confidence level is between 0 and 1"),
        (lambda: mean_interval([0.1, 0.2], level=0), "level 0:"),
        (lambda: holm([0.5, 1.5]), "1.5 is not within"),
        (lambda: benjamini_hochberg([-0.5]), "-0.5 is not within"),
        (lambda: Units.of([], ends=None), "no values"),
        (lambda: Units.of([0.1, 0.2], ["a"], ends=None), "2 values in 1 clusters"),
        (lambda: detectable_drop([[1.0]], []), "compared in pairs"),
        (lambda: Aim(alpha=5), "both are between 0 and 1"),
        (lambda: needed(0, scenarios=1, attempts=1, detectable=0.1), "must be positive"),
        (lambda: look([[0.1]], [[0.1]], round=6, rounds=5), "round 6 of 5"),
        (lambda: look([[0.1]], [[0.1]], round=1, rounds=5, alpha=0), "alpha 0"),
        (lambda: look([[1.5]], [[0.1]], round=1, rounds=5), r"within \[0, 1\]"),
        (lambda: look([], [[0.1]], round=1, rounds=5), "0 scenarios before and 1 now"),
        (lambda: look([[]], [[0.1]], round=1, rounds=5), "without attempts on a side"),
        (lambda: permutation([[0.1]], []), "1 scenarios before and 0 now"),
        (lambda: permutation([[0.1]], [[0.2]], clusters=["a", "b"]), "1 scenarios in 2 clusters"),
    ],
)
def test_what_makes_no_sense_is_refused(use: Callable[[], object], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        use()


HOW = st.sampled_from([(0.01, 0.9), (0.05, 0.55), (0.2, 0.99)])


@pytest.mark.parametrize("scores", [True, False])
@at_most(60)
@pytest.mark.when_changed
@given(st.integers(5, 40), st.sampled_from(["passes", "scores"]), seeds, HOW)
def test_the_detectable_drop_is_where_the_test_finds_it_with_the_power_asked_for(
    scores: bool, n: int, kind: str, seed: int, how: tuple[float, float]
) -> None:
    """By the variances that its docstring describes, written down scenario by scenario."""
    before, now = attempts(n, kind, seed)
    alpha, power = how
    drop = detectable_drop(before, now, Aim(alpha, power), scores=scores)
    assume(drop is not None)
    assert drop is not None
    a, b = (numpy.array([len(some) for some in side]) for side in (before, now))
    freedom = (a - 1).sum() + (b - 1).sum()
    if freedom:
        within = sum(len(some) * numpy.var(some) for side in (before, now) for some in side) / freedom
    else:
        differences = [new[0] - old[0] for old, new in zip(before, now, strict=True)]
        within = numpy.mean(numpy.square(differences)) / 2
    pooled = numpy.array([numpy.mean([*old, *new]) for old, new in zip(before, now, strict=True)])
    square = max(0.0, numpy.mean(pooled**2) - within * numpy.mean(1 / (a + b)))
    mean = numpy.mean([numpy.mean(some) for some in before])
    plain = within * numpy.mean(1 / a + 1 / b)
    if scores:
        share = min(1.0, drop / mean)  # of the scenarios has fallen to 0; the others are as they were
        deals = (1 - share) * plain + share * (
            within * numpy.mean(1 / b) + square * numpy.mean(1 / (a + b - 1))
        )
        seen = (1 - share) * plain + share * within * numpy.mean(1 / a) + share * (1 - share) * square
    else:
        deals, seen = plain + drop**2 * numpy.mean(1 / (a + b - 1)), plain
    normal = scipy.stats.norm.ppf
    step = numpy.mean(1 / a + 1 / b) / n / 2 if kind == "passes" else 0.0
    above = normal(power) + 0.5 / math.sqrt(n)
    expected = normal(1 - alpha) * math.sqrt(deals / n) + above * math.sqrt(seen / n)
    assert drop == pytest.approx(expected + step, rel=1e-6)


def _one_of_sixteen(n: int, seen: int) -> list[permutations.Part]:
    """So many scenarios that passed once in fifteen attempts before and one now; in so many of them now."""
    kinds = [([0.0] * 14 + [1.0], [0.0]), ([0.0] * 15, [1.0])]
    return [part for place in range(n) if (part := permutations.dealt(*kinds[place < seen])) is not None]


@pytest.mark.parametrize("n", [1500, 3000])
@pytest.mark.parametrize("off", [-2.0, -1.0, 0.0, 0.7, 2.0])
def test_the_expansion_is_that_of_a_binomial_where_all_parts_are_alike(n: int, off: float) -> None:
    seen = round(n / 16 + off * math.sqrt(n * 15 / 256))
    parts = _one_of_sixteen(n, seen)
    found = permutations._expanded(parts, permutations._unit(parts))
    theirs = scipy.stats.binom(n, 1 / 16)
    assert found == pytest.approx((theirs.cdf(seen), theirs.sf(seen - 1)), abs=3e-4)


@pytest.mark.parametrize(("n", "near"), [(100, False), (200, False), (1000, False), (1500, True)])
def test_a_sum_that_is_skewed_is_not_taken_for_nearly_normal(n: int, near: bool) -> None:
    # (1 - 2/16) / sqrt(15) * 4 of skewness for each part, over the root of their number: 0.1 at some 1,307.
    parts = _one_of_sixteen(n, 5)
    assert (permutations._expanded(parts, permutations._unit(parts)) is not None) is near
