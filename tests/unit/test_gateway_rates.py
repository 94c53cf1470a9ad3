"""No more calls and tokens go to a provider than it allows in any minute."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pytest_benchjobs.gateway.rates import Rate, Rates


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@given(st.integers(1, 600), st.lists(st.floats(0, 20), min_size=1, max_size=200))
def test_in_no_minute_there_are_more_requests_than_allowed(requests: int, pauses: list[float]) -> None:
    clock = Clock()
    rate = Rate(requests, None, clock)
    turns = []
    for pause in pauses:
        clock.now += pause
        turns.append(clock.now + rate.reserve())
    for first in turns:
        assert sum(first <= turn < first + 59.999 for turn in turns) <= requests


def test_all_that_is_allowed_is_used() -> None:
    clock = Clock()
    rate = Rate(60, None, clock)
    turns = [rate.reserve() for _ in range(61)]
    assert turns == sorted(turns)
    assert 58 <= turns[-1] <= 62


def test_calls_make_up_for_the_tokens_of_those_before_them() -> None:
    clock = Clock()
    rate = Rate(None, 6000, clock)
    assert rate.reserve() == 0
    rate.spend(6000)
    assert 50 <= rate.reserve() <= 60
    clock.now += 60
    assert rate.reserve() == 0


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
