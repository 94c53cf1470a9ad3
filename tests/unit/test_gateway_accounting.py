"""An agent is stopped when its calls fail for good, and not while one may still go well."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from pytest_benchjobs.gateway.accounting import TrialState
from pytest_benchjobs.gateway.client import SpendingLimits
from pytest_benchjobs.gateway.failures import Failure
from pytest_benchjobs.gateway.job import Job
from pytest_benchjobs.gateway.tokens import Tokens
from pytest_benchjobs.model.ending import Ending

NO_LIMITS = {"max_cost_usd": None, "max_tokens": None, "max_calls": None}
SETTINGS: dict[str, Any] = {
    "limits": NO_LIMITS,
    "spent": {},
    "ledger": None,
    "prices": None,
    "rates": {},
    "record": None,
    "replay": None,
    "replay_exact": False,
    "patience": 0,
    "grace": 0,
    "silence": 900,
    "longest": 3600,
    "secrets": {},
}


def _failure(ending: Ending, **more: Any) -> Failure:
    return Failure(ending, f"it was {ending}", **more)


def _run(scenario: Callable[[TrialState, list[str]], Coroutine[Any, Any, None]], **limits: Any) -> None:
    async def run() -> None:
        stops: list[str] = []
        await scenario(
            TrialState(Job(SETTINGS), SpendingLimits(**limits), lambda: stops.append("stop")), stops
        )

    asyncio.run(run())


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
                Ending.TRIAL_LIMIT,
                Ending.BUDGET,
                Ending.QUOTA,
                Ending.AUTHENTICATION,
                Ending.UNKNOWN_MODEL,
                Ending.RATE_LIMITED,
                Ending.ENDPOINT_DOWN,
            }
        )
        assert (state.ending, state.message) == (ending, f"it was {ending}")

    _run(scenario)


def test_a_call_that_goes_well_within_the_grace_prevents_it() -> None:
    async def scenario(state: TrialState, stops: list[str]) -> None:
        state.failed(_failure(Ending.ENDPOINT_DOWN, again=True))
        assert state.impatient
        state.succeeded()
        await _grace()
        assert not stops
        assert state.ending is None
        assert not state.impatient

    _run(scenario)


def test_a_limit_is_not_forgotten_because_another_call_went_well() -> None:
    async def scenario(state: TrialState, stops: list[str]) -> None:
        state.failed(_failure(Ending.BUDGET))
        state.succeeded()
        state.failed(_failure(Ending.REFUSED))
        await _grace()
        assert stops == ["stop"]
        assert state.ending is Ending.BUDGET

    _run(scenario)


def test_as_long_as_a_call_is_under_way_it_may_go_well() -> None:
    async def scenario(state: TrialState, stops: list[str]) -> None:
        state.spending.running = 1
        state.failed(_failure(Ending.UNKNOWN_MODEL))
        await _grace()
        assert not stops
        state.spending.running = 0
        state.consider_stopping()
        state.consider_stopping()
        assert stops == ["stop"]

    _run(scenario)


def test_where_one_model_answers_another_may_be_unknown() -> None:
    async def scenario(state: TrialState, stops: list[str]) -> None:
        state.succeeded()
        state.failed(_failure(Ending.UNKNOWN_MODEL))
        await _grace()
        assert not stops
        assert state.ending is Ending.UNKNOWN_MODEL

    _run(scenario)


def test_an_answer_that_broke_off_may_be_asked_for_again() -> None:
    async def scenario(state: TrialState, stops: list[str]) -> None:
        state.failed(_failure(Ending.ENDPOINT_DOWN), for_good=False)
        await _grace()
        assert not stops
        assert state.ending is Ending.ENDPOINT_DOWN

    _run(scenario)


@pytest.mark.parametrize(
    ("limits", "model", "tokens", "words"),
    [
        ({"max_cost_usd": 1.0}, "unheard-of", Tokens(input=1, output=1), "unheard-of has no (full) price"),
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


def test_an_agent_that_makes_up_models_does_not_fill_the_memory() -> None:
    async def scenario(state: TrialState, stops: list[str]) -> None:
        for number in range(1000):
            state.answered("openai", f"{number}" * 1000, None, Tokens(input=1))
        report = state.report()
        assert len(report["models"]) < 100
        assert max(map(len, report["models"])) <= 200
        assert report["usage"]["calls"] == 1000

    _run(scenario)
