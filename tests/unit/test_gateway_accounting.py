"""An agent is stopped when its calls fail for good, and not while one may still go well."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from typing import Any
from unittest import mock

import pytest

from pytest_benchjobs.gateway import accounting
from pytest_benchjobs.gateway.accounting import TrialState
from pytest_benchjobs.gateway.budget import Doubt
from pytest_benchjobs.gateway.client import SpendingLimits, Upstream
from pytest_benchjobs.gateway.failures import Failure
from pytest_benchjobs.gateway.job import Job
from pytest_benchjobs.gateway.liveness import Line
from pytest_benchjobs.gateway.tokens import Tokens
from pytest_benchjobs.gateway.wires import Call, Kind
from pytest_benchjobs.model.ending import Ending
from pytest_benchjobs.model.endpoint import Endpoint

from .clocks import Clock
from .gateways import JOB

LINE = Line(
    Upstream(Endpoint(wire="openai", provider="openai", base_url="http://127.0.0.1:9/v1"), None),
    Call("openai", Kind.CHAT, "POST", "/chat/completions"),
    "m",
)


def _failure(ending: Ending, **more: Any) -> Failure:
    return Failure(ending, f"it was {ending}", **more)


def _run(scenario: Callable[[TrialState, list[str]], Coroutine[Any, Any, None]], **limits: Any) -> None:
    async def run() -> None:
        stops: list[str] = []
        await scenario(TrialState(Job(JOB), SpendingLimits(**limits), lambda: stops.append("stop")), stops)

    asyncio.run(run())


def in_a_loop(scenario: Callable[[TrialState, list[str]], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    """A test of a state, and of how often it asked for its agent to be stopped."""
    return lambda: _run(scenario)


async def _grace() -> None:
    """Let the loop run what is due."""
    for _ in range(3):
        await asyncio.sleep(0)


@pytest.mark.parametrize("ending", list(Ending))
def test_which_endings_stop_an_agent(ending: Ending) -> None:
    async def scenario(state: TrialState, stops: list[str]) -> None:
        state.failed(_failure(ending))
        assert not stops
        await _grace()
        assert bool(stops) == (
            ending
            in {
                Ending.TRIAL_LIMIT, Ending.BUDGET, Ending.QUOTA, Ending.AUTHENTICATION, Ending.UNKNOWN_MODEL,
                Ending.RATE_LIMITED, Ending.ENDPOINT_DOWN,
            }
        )  # fmt: skip
        assert (state.ending, state.message) == (ending, f"it was {ending}")

    _run(scenario)


@in_a_loop
async def test_a_limit_is_not_forgotten_because_another_call_went_well(
    state: TrialState, stops: list[str]
) -> None:
    state.failed(_failure(Ending.BUDGET))
    state.succeeded(LINE)
    state.failed(_failure(Ending.REFUSED))
    await _grace()
    assert stops == ["stop"]
    assert state.ending is Ending.BUDGET


@pytest.mark.parametrize(("ending", "waits"), [(Ending.UNKNOWN_MODEL, True), (Ending.TRIAL_LIMIT, False)])
def test_as_long_as_a_call_is_under_way_it_may_go_well_unless_at_a_limit(ending: Ending, waits: bool) -> None:
    async def scenario(state: TrialState, stops: list[str]) -> None:
        state.spending.running = 1
        state.failed(_failure(ending))
        await _grace()
        assert bool(stops) is not waits
        state.spending.running = 0
        state.consider_stopping()
        state.consider_stopping()
        assert stops == ["stop"]

    _run(scenario)


@pytest.mark.parametrize(
    ("limits", "model", "tokens", "words"),
    [
        ({"max_cost_usd": 1.0}, "unheard-of", Tokens(input=1, output=1), "no price for unheard-of"),
        ({"max_cost_usd": 1.0}, "gpt-5.5", Tokens(), "does not say how many tokens"),
        ({"max_tokens": 10}, "gpt-5.5", Tokens(), "does not say how many tokens"),
        ({"max_tokens": 10}, "unheard-of", Tokens(input=1, output=1), None),
        ({}, "unheard-of", Tokens(), None),
    ],
)
def test_a_limit_that_cannot_be_kept_is_said(
    limits: dict[str, Any], model: str, tokens: Tokens, words: str | None
) -> None:
    async def scenario(state: TrialState, stops: list[str]) -> None:
        state.answered("openai", model, model, tokens)
        if words is None:
            assert state.unmeterable is None
        else:
            assert words in str(state.unmeterable)

    _run(scenario, **limits)


@in_a_loop
async def test_models_are_told_apart_up_to_a_number_and_known_ones_go_on(
    state: TrialState, stops: list[str]
) -> None:
    for number in range(33):
        state.answered("openai", f"m{number}", "asked", Tokens())
        state.refused(f"r{number}" + "x" * 300)
    state.answered("openai", "m0", None, Tokens())
    state.answered("openai", None, "m1", Tokens())
    state.answered("openai", None, None, Tokens())
    report = state.report()
    assert report["models"] == {f"m{number}": 2 if number < 2 else 1 for number in range(32)}
    assert report["refused"] == [f"r{number}".ljust(200, "x") for number in range(32)]
    assert report["usage"]["calls"] == 36


@in_a_loop
async def test_a_model_without_a_price_is_named_if_it_was_paid_for(
    state: TrialState, stops: list[str]
) -> None:
    some = Tokens(input=1, output=1)
    state.answered("openai", "internal", "gpt-5.5", some)
    state.answered("openai", "unheard-of", "other", some)
    state.answered("openai", "silent", None, Tokens())
    state.answered("openai", "unheard-of", "gpt-5.5", some)
    state.answered("openai", "sometimes", "gpt-5.5", some)
    state.answered("openai", "sometimes", "other", some)
    assert state.report()["unknown"] == {
        "no price for unheard-of": 1,
        "did not report what they used": 1,
        "no price for sometimes": 1,
    }


def test_a_provider_has_to_make_up_for_the_tokens_of_a_call() -> None:
    async def run() -> None:
        job = Job({**JOB, "rates": {"openai": [None, 60]}})
        state = TrialState(job, SpendingLimits(), lambda: None)
        assert job.rates.of("openai").reserve() == 0
        state.answered("openai", "m", None, Tokens())
        assert job.rates.of("openai").reserve() == 0
        state.answered("openai", "m", None, Tokens(input=50, output=15))
        assert job.rates.of("openai").reserve() > 50

    asyncio.run(run())


@in_a_loop
async def test_silence_adds_up_until_a_call_is_answered_but_not_that_of_calls_at_once(
    state: TrialState, stops: list[str]
) -> None:
    clock = Clock()
    with mock.patch.object(accounting, "time", clock):
        for seconds in (3.14159, 7.26, 5.0):
            state.gave_up(seconds, LINE)
        assert state.report()["waited"] == 7.3
        clock.sleep(4)
        state.gave_up(3, LINE)
    assert state.report()["waited"] == 10.3
    state.succeeded(LINE)
    assert state.report()["waited"] == 0


@in_a_loop
async def test_a_call_that_goes_well_after_the_grace_prevents_it_too(
    state: TrialState, stops: list[str]
) -> None:
    state.spending.running = 1
    state.failed(_failure(Ending.ENDPOINT_DOWN))
    await _grace()
    state.succeeded(LINE)
    state.spending.running = 0
    state.consider_stopping()
    assert not stops
    state.failed(_failure(Ending.ENDPOINT_DOWN))
    state.consider_stopping()
    assert not stops
    await _grace()
    assert stops == ["stop"]


@in_a_loop
async def test_who_has_reported_is_not_stopped_any_more(state: TrialState, stops: list[str]) -> None:
    state.failed(_failure(Ending.ENDPOINT_DOWN))
    assert state.report()["ending"] is Ending.ENDPOINT_DOWN
    await _grace()
    assert not stops


@in_a_loop
async def test_a_report_says_what_calls_may_have_cost(state: TrialState, stops: list[str]) -> None:
    state.answered("openai", "gpt-5.5", None, Tokens(input=1000, output=0))
    known = state.report()["usage"]["cost_usd"]
    assert known > 0
    state.answered("openai", "gpt-5.5", None, Tokens(), Doubt(1, 1000, 0.5))
    report = state.report()
    assert (report["unfinished"], report["at_most"]) == (1, pytest.approx(known + 0.5))
    assert report["usage"]["cost_usd"] is None
    state.answered("openai", "gpt-5.5", None, Tokens(), Doubt(1, 1000, 0.0, bounded=False))
    report = state.report()
    assert (report["unfinished"], report["at_most"]) == (2, None)


@pytest.mark.parametrize(("more", "carries"), [({}, True), ({"within_try": True}, False)])
def test_what_an_earlier_try_or_turn_left_is_carried_on(more: dict[str, Any], carries: bool) -> None:
    async def run() -> None:
        job = Job(JOB)
        first = TrialState(job, SpendingLimits(), lambda: None)
        first.answered("openai", "a", None, Tokens(input=1, output=1))
        first.refused("b")
        carried = {**json.loads(json.dumps(first.report()["carried"])), **more}
        second = TrialState(job, SpendingLimits(), lambda: None, carried)
        assert second.spending.carries is carries
        second.answered("openai", "a", None, Tokens(input=1, output=1))
        second.refused("c")
        report = second.report()
        assert (report["models"], report["refused"], report["unknown"]) == (
            {"a": 2},
            ["b", "c"],
            {"no price for a": 2},
        )
        assert report["usage"]["calls"] == 2

    asyncio.run(run())
