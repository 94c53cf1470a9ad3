"""No more calls and tokens go to a provider than it allows in any minute."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_benchjobs.gateway.rates import Rate, Rates

from .clocks import Clock


@given(st.integers(1, 600), st.lists(st.floats(0, 20), min_size=1, max_size=200))
def test_in_no_minute_there_are_more_requests_than_allowed(requests: int, pauses: list[float]) -> None:
    clock = Clock()
    rate = Rate(requests, None, clock.monotonic)
    turns = []
    for pause in pauses:
        clock.now += pause
        turns.append(clock.now + rate.reserve())
    for first in turns:
        assert sum(first <= turn < first + 59.999 for turn in turns) <= requests


def test_a_pause_is_for_everybody_who_asks_the_provider() -> None:
    rates = Rates({"openai": (None, None)})
    rates.of("openai").pause(30)
    rates.of("openai").pause(1)
    rates.of("new").pause(30)
    assert 29 < rates.of("openai").paused() <= 30
    assert rates.of("new").paused() > 29
    assert rates.of("anthropic").paused() == 0
    assert rates.of("anthropic").reserve() == 0


def test_a_provider_that_is_not_named_has_the_rate_of_all_others_to_itself() -> None:
    rates = Rates({"*": (1, 600), "openai": (60, None)})
    assert rates.of("groq").reserve() == 0
    assert rates.of("groq").reserve() > 50
    assert rates.of("vllm").reserve() == 0
    assert [rates.of("openai").reserve() for _ in range(3)] == [0, 0, 0]
    rates.of("openai").spend(600)
    assert rates.of("openai").reserve() > 10


@pytest.mark.parametrize(("per_minute", "at_once"), [(1, 1), (12, 1), (23, 1), (24, 2), (60, 5), (600, 50)])
def test_a_twelfth_of_a_minutes_worth_comes_at_once_and_the_rest_evenly(
    per_minute: int, at_once: int
) -> None:
    clock = Clock()
    rate = Rate(per_minute, None, clock.monotonic)
    one = 60 / (per_minute + 1 - at_once)
    assert [rate.reserve() for _ in range(at_once)] == [0] * at_once
    assert [rate.reserve() for _ in range(2)] == pytest.approx([one, 2 * one])
    clock.now += 3600  # what nobody used is not kept
    assert [rate.reserve() for _ in range(at_once)] == [0] * at_once
    assert rate.reserve() == pytest.approx(one)


def test_a_call_needs_one_token_that_is_left() -> None:
    clock = Clock()
    rate = Rate(None, 1200, clock.monotonic)  # a hundred at once
    second = 1101 / 60
    rate.spend(99)
    assert rate.reserve() == 0
    rate.spend(1)
    assert rate.reserve() == pytest.approx(1 / second)
    clock.now += 1
    rate.spend(50)
    assert rate.reserve() == pytest.approx((51 - second) / second)


def test_a_turn_comes_when_both_requests_and_tokens_allow_it() -> None:
    clock = Clock()
    few_requests, few_tokens = Rate(1, 60_000, clock.monotonic), Rate(600, 60, clock.monotonic)
    assert [few_requests.reserve() for _ in range(2)] == [0, 60]
    few_tokens.spend(61)
    assert few_tokens.reserve() == pytest.approx(57 / (56 / 60))


def test_a_pause_ends_and_a_shorter_one_does_not_end_it() -> None:
    clock = Clock()
    rate = Rate(None, None, clock.monotonic)
    rate.spend(10**6)
    assert (rate.reserve(), rate.paused()) == (0, 0)
    rate.pause(30)
    clock.now += 10
    rate.pause(5)
    assert rate.paused() == 20
    rate.pause(25)
    assert rate.paused() == 25
    clock.now += 30
    assert rate.paused() == 0


def test_limits_of_all_providers_hold_where_a_provider_has_none_of_its_own() -> None:
    rates = Rates({"*": (None, 12), "openai": (1, None), "groq": (None, None)})
    assert [rates.of("openai").reserve() > 59 for _ in range(2)] == [False, True]
    for provider in ("openai", "groq", "vllm"):
        rates.of(provider).spend(13)
        assert rates.of(provider).reserve() > 60
