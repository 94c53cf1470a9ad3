"""Bounds hold for every order of trials; expectations are of what is known, and unknown stays unknown."""

from __future__ import annotations

import heapq

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_benchjobs.analysis.forecast import (
    Earlier,
    Forecast,
    at_most,
    expected,
    forecast,
    scenario_seconds,
)

_lengths = st.lists(st.floats(0, 1e5, allow_nan=False), max_size=40)


def _makespan(lengths: list[float], lanes: int) -> float:
    """How long they take in this order, each on the lane that is free first."""
    free = [0.0] * lanes
    for length in lengths:
        heapq.heappush(free, heapq.heappop(free) + length)
    return max(free)


@given(_lengths.flatmap(st.permutations), st.integers(1, 50))
def test_no_order_takes_longer_than_the_bound_or_less_than_what_is_expected(
    lengths: list[float], lanes: int
) -> None:
    took = _makespan(lengths, lanes)
    assert took <= at_most(lengths, lanes) * (1 + 1e-9) + 1e-6
    assert took >= expected(lengths, lanes) * (1 - 1e-9) - 1e-6


def test_the_bound_is_reached_by_the_worst_order() -> None:
    worst = [1.0] * 6 + [3.0]
    assert at_most(worst, 3) == _makespan(worst, 3) == 5.0


@pytest.mark.parametrize("bound", [at_most, expected])
def test_nothing_takes_no_time_and_one_lane_takes_all_of_it(bound: object) -> None:
    assert bound([], 4) == 0.0  # type: ignore[operator]
    assert bound([1.0, 2.0], 1) == 3.0  # type: ignore[operator]
    assert bound([1.0, 2.0], 9) == 2.0  # type: ignore[operator]


def test_unknown_is_unknown_and_never_nothing() -> None:
    assert forecast([10.0, 10.0], [Earlier(), Earlier()], 1, None) == Forecast(20.0, None, 2, None, 2)
    assert forecast([10.0, 10.0], [Earlier(4.0, 0.5), Earlier(6.0, None)], 1, None) == Forecast(
        20.0, 10.0, 0, 0.5, 1
    )
    assert forecast([10.0], [Earlier(4.0, 0.0)], 1, None).expected_usd == 0.0


def test_the_job_ends_at_its_own_limit() -> None:
    assert forecast([10.0] * 10, [], 1, 30.0).at_most_seconds == 30.0
    assert forecast([10.0], [], 1, 30.0).at_most_seconds == 10.0


def test_an_unknown_trial_takes_as_long_as_others() -> None:
    trials = {("b", "known"): ["a", "a", "c"], ("b", "other"): ["a"], ("b", "new"): ["c", "c"]}
    assert scenario_seconds(trials, {}) == {("b", "known"): 3, ("b", "other"): 1, ("b", "new"): 2}
    known = {
        ("b", "known", "a"): 10.0,
        ("b", "known", "x"): 20.0,
        ("b", "other", "a"): 5.0,
        ("b", "gone", "a"): 1e6,
    }
    assert scenario_seconds(trials, known) == {("b", "known"): 35, ("b", "other"): 5, ("b", "new"): 20}
