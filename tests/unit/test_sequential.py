"""Rounds of attempts: boundaries against published ones and scipy, and what a look may say."""

from __future__ import annotations

import math
import random
from pathlib import Path
from statistics import NormalDist
from unittest import mock

import numpy
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_benchjobs.analysis.statistics import sequential
from pytest_benchjobs.analysis.statistics.paired import permutation
from pytest_benchjobs.analysis.statistics.sequential import look

from .examples import at_most

computed = sequential.boundaries.__wrapped__  # without its cache


def obrien_fleming(information: float, alpha: float, shape: float) -> float:
    return 2 - 2 * NormalDist().cdf(NormalDist().inv_cdf(1 - alpha / 2) / math.sqrt(information))


def pocock(information: float, alpha: float, shape: float) -> float:
    return alpha * math.log(1 + (math.e - 1) * information)


@pytest.mark.parametrize(
    ("spending", "published"),
    [
        # Jennison and Turnbull, Group Sequential Methods, 2000, and the program of Reboussin et al., 2000.
        (obrien_fleming, [4.877, 3.357, 2.680, 2.290, 2.031]),
        (pocock, [2.438, 2.427, 2.410, 2.397, 2.386]),
    ],
)
def test_boundaries_are_the_published_ones(spending: object, published: list[float]) -> None:
    with mock.patch.object(sequential, "spending", spending):
        found = computed(5, 0.025, 0.0)
    assert numpy.allclose([one.z for one in found], published, atol=6e-4)


def test_boundaries_of_hwang_shih_and_de_cani_are_those_of_gsdesign() -> None:
    assert numpy.allclose([one.z for one in computed(3, 0.025, -4.0)], [3.01, 2.55, 2.00], atol=0.005)


@settings(max_examples=12, deadline=None)
@given(
    st.integers(1, 5),
    st.sampled_from([0.05, 0.1, 0.01]),
    st.floats(-4, 1),
    st.sampled_from([None, 1, 2.5, 15]),
)
def test_boundaries_spend_alpha_and_no_more(
    rounds: int, alpha: float, shape: float, baseline_attempts: float | None
) -> None:
    found = computed(rounds, alpha, shape, baseline_attempts)
    times = numpy.array([one.information for one in found])
    assert times[-1] == 1
    assert all(numpy.diff(times) > 0)
    assert numpy.allclose([one.p_value for one in found], scipy.stats.norm.sf([one.z for one in found]))
    together = numpy.sqrt(numpy.minimum.outer(times, times) / numpy.maximum.outer(times, times))
    kept = scipy.stats.multivariate_normal.cdf(
        [one.z for one in found], cov=together, rng=numpy.random.default_rng(1)
    )
    assert math.isclose(1 - kept, alpha, abs_tol=2e-4)


def test_a_baseline_that_is_known_less_well_leaves_less_to_learn() -> None:
    first = [sequential.information(5, attempts)[0] for attempts in (1, 5, 50, None)]
    assert first == sorted(first, reverse=True)
    assert sequential.information(5, 5)[0] == pytest.approx(1 / 3)
    assert sequential.information(5, None) == pytest.approx([0.2, 0.4, 0.6, 0.8, 1.0])
    # One round is a test as ever.
    (only,) = computed(1, 0.05, sequential.SHAPE)
    assert only.p_value == pytest.approx(0.05)


def test_boundaries_are_those_of_the_documentation() -> None:
    page = (Path(__file__).parents[2] / "docs/statistics.md").read_text("utf-8")
    for attempts in (1, 5, 15):
        found = computed(5, 0.05, sequential.SHAPE, attempts)
        times = " | ".join(f"{one.information:.2f}" for one in found[:-1])
        p_values = " | ".join(f"{one.p_value:.3f}" for one in found)
        assert f"| {attempts} | t | {times} | 1 |\n| | p to stop at | {p_values} |" in page


def test_what_looks_say() -> None:
    def said(
        rates: list[float], done: int = 1, before: list[list[float]] | None = None, **more: float
    ) -> tuple[str | None, str]:
        """The share of the attempts so far that passed, of each scenario."""
        was = before or [[1.0]] * len(rates)
        now = [[1.0] * round(rate * done) + [0.0] * (done - round(rate * done)) for rate in rates]
        found = look(was, now, round=done, rounds=5, **more)
        assert found.p_value == permutation(was, now).p_value
        return found.stop, found.reason

    half = [1.0, 0.0] * 10
    stop, reason = said(half)
    assert stop == "regressed"
    assert reason.startswith("p = 0.00098, and 0.016 is enough in round 1")
    # Such a drop is real, and tolerated.
    assert said(half, tolerance=0.9)[0] == "ok"
    assert said(half, 5, tolerance=0.5)[0] == "ok"
    # A hint is followed up, until there are no rounds left.
    hint = [0.0] * 4 + [1.0] * 16
    assert said(hint, before=[[1.0] * 5] * 20)[0] == "regressed"
    unsure = [[1.0, 0.0, 1.0]] * 20
    assert said([0.0] * 9 + [1.0] * 11, before=unsure)[0] is None
    last = said([0.4] * 10 + [0.6] * 10, 5, before=unsure)
    assert last == ("ok", "the last round, and no drop beyond what chance and the tolerance explain")
    # Nothing is to be expected.
    futile = said([1.0] * 16 + [0.0] * 4, before=unsure)
    assert futile[0] == "ok"
    assert futile[1].startswith("the chance that further rounds show a drop is ")
    assert said([1.0] * 20) == ("ok", "no scenario differs from the baseline")
    # One scenario of one attempt is never enough for alpha; nor is a baseline that leaves no room to fall; nor nothing.
    certain = ("ok", "whatever the attempts to come give, it cannot be called regressed")
    assert said([0.0], before=[[1.0]]) == said([]) == certain
    assert said([0.0] * 20, before=[[0.0]] * 20) == certain
    assert said([0.0, 1.0] * 10, before=[[0.2], [0.0]] * 10, tolerance=0.15) == certain


def planned(monkeypatch: pytest.MonkeyPatch, *p_values: float) -> None:
    """Have boundaries at these p-values."""
    plan = tuple(
        sequential.Boundary((place + 1) / len(p_values), NormalDist().inv_cdf(1 - p), p)
        for place, p in enumerate(p_values)
    )
    monkeypatch.setattr(sequential, "boundaries", lambda *_: plan)


BELOW = 1 - 1e-9
CERTAIN = "whatever the attempts to come give"


@pytest.mark.parametrize(
    ("p_values", "tolerance", "stop", "why"),
    [
        # Two scenarios that passed and do not now: p is a quarter, 1/9 after one more failure, 1/16 after two.
        ((1 / 4, 1e-9), 0.0, "regressed", "p = 0.25, and 0.25 is enough in round 1"),
        ((1 / 4 * BELOW, 1e-9), 0.0, "ok", f"{CERTAIN}, it cannot be called regressed"),
        ((1 / 4, 1 / 4), 0.99, "regressed", "p = 0.25, and 0.25 is enough in round 1"),
        ((1 / 4, 1 / 4), 1.0, "ok", f"{CERTAIN}, it cannot be called regressed"),
        ((1e-9, 1 / 9), 0.0, None, "undecided"),
        ((1e-9, 1 / 9 * BELOW), 0.0, "ok", f"{CERTAIN}, it cannot be called regressed"),
        # The laxest of the rounds to come counts, wherever it is.
        ((1e-9, 1 / 16, 1e-9), 0.0, "ok", "the chance that further rounds show a drop is 0.6%"),
    ],
)
def test_boundaries_belong_to_what_regressed(
    monkeypatch: pytest.MonkeyPatch, p_values: tuple[float, ...], tolerance: float, stop: str | None, why: str
) -> None:
    planned(monkeypatch, *p_values)
    found = look([[1.0]] * 2, [[0.0]] * 2, round=1, rounds=len(p_values), tolerance=tolerance)
    assert (found.stop, found.reason[: len(why)]) == (stop, why)
    assert found.p_value == 0.25


@pytest.mark.parametrize(
    ("lower", "stop", "why"),
    [(1.0, "regressed", f"{CERTAIN}, the last round will call it so"), (BELOW, None, "undecided")],
)
def test_the_last_boundary_belongs_to_what_cannot_be_undone(
    monkeypatch: pytest.MonkeyPatch, lower: float, stop: str | None, why: str
) -> None:
    before, now = [[1.0] * 15] * 2, [[0.0] * 4] * 2
    at_best = permutation(before, [[*some, 1.0] for some in now]).p_value
    planned(monkeypatch, *[1e-9] * 4, at_best * lower)
    found = look(before, now, round=4, rounds=5)
    assert (found.stop, found.reason[: len(why)]) == (stop, why)


@pytest.mark.parametrize("tolerance", [0.0, 0.2])
@pytest.mark.parametrize(("done", "rounds"), [(1, 3), (2, 3)])
def test_predictive_power_is_the_chance_that_the_last_round_finds_a_drop(
    done: int, rounds: int, tolerance: float
) -> None:
    chance = random.Random(1)
    before = [[float(chance.random() < 0.6) for _ in range(5)] for _ in range(40)]
    now = [[float(chance.random() < 0.5) for _ in range(done)] for _ in range(40)]
    found = look(before, now, round=done, rounds=rounds, alpha=0.01, tolerance=tolerance)
    drop = numpy.mean([numpy.mean(old) - numpy.mean(new) for old, new in zip(before, now, strict=True)])
    # What chance does to the difference of a scenario's means, with as many passes as it has on both sides.
    passes = [(sum(old) + sum(new)) / (5 + done) for old, new in zip(before, now, strict=True)]
    attempts = 5 + done
    spread = [p * (1 - p) * attempts / (attempts - 1) * (1 / 5 + 1 / done) for p in passes]
    variance = sum(spread) / 40**2
    here, last = (sequential.boundaries(rounds, 0.01, sequential.SHAPE, 5.0)[at] for at in (done - 1, -1))
    final = variance * here.information
    needed = max(tolerance, last.z * math.sqrt(final))
    power = scipy.stats.norm.sf(needed, loc=drop, scale=math.sqrt(variance - final))
    shown = f"{power:.1%}" if power < 0.05 else f"{power:.0%}"
    assert found.reason.endswith(f"the chance that further rounds show a drop is {shown}")


@at_most(150)
@given(st.integers(1, 9), st.integers(2, 4), st.integers(0, 2**32), st.sampled_from([0.0, 0.1]))
def test_what_is_certain_comes_true(scenarios: int, rounds: int, seed: int, tolerance: float) -> None:
    chance = random.Random(seed)
    baseline = [[float(chance.random() < 0.6) for _ in range(4)] for _ in range(scenarios)]
    rate = chance.choice([0.0, 0.1, 0.5, 1.0])
    scores = [[float(chance.random() < rate) for _ in range(rounds)] for _ in range(scenarios)]

    def seen(done: int, of: list[list[float]]) -> sequential.Look:
        return look(baseline, [some[:done] for some in of], round=done, rounds=rounds, tolerance=tolerance)

    for done in range(1, rounds):
        found = seen(done, scores)
        if not found.reason.startswith("whatever"):
            continue
        for to_come in (0.0, 1.0, 0.5, None):  # None: by chance
            rest = [some[:done] + [float(chance.random() < 0.5) if to_come is None else to_come for _ in some[done:]] for some in scores]  # fmt: skip
            assert seen(rounds, rest).stop == found.stop
