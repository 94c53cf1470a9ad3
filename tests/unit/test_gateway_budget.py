"""SpendingLimits let through what is left, and no more than one call of a trial beyond it."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from pytest_benchjobs.gateway.budget import Doubt, Spending, Turnstile
from pytest_benchjobs.gateway.client import SpendingLimits
from pytest_benchjobs.gateway.tokens import Tokens
from pytest_benchjobs.model.ending import Ending
from pytest_benchjobs.model.usage import Usage

CALL = Tokens(input=90, output=10)


def _trial(**limits: Any) -> Spending:
    return Spending("trial", SpendingLimits(**limits))


def test_what_was_spent_adds_up_as_far_as_it_is_known() -> None:
    spending = _trial()
    assert spending.usage() == Usage(calls=0, input_tokens=0, output_tokens=0, cost_usd=0.0)
    spending.add(Tokens(input=10, output=5, cached=3), 0.5)
    spending.add(Tokens(input=1, output=1, reasoning=1), 0.25)
    figures = {"input_tokens": 11, "output_tokens": 6, "cached_tokens": 3, "reasoning_tokens": 1}
    assert spending.usage() == Usage(**figures, cost_usd=0.75, calls=2)
    spending.add(Tokens(input=1), None)
    assert spending.usage() == Usage(**{**figures, "input_tokens": 12}, calls=3)
    spending = _trial()
    spending.add(Tokens(), None)
    assert spending.usage() == Usage(calls=1)


def test_an_answer_that_broke_off_makes_the_cost_unknown_and_counts_for_all_it_can_have_used() -> None:
    spending = _trial(max_cost_usd=3.0, max_tokens=2000)
    spending.add(CALL, 0.5)
    spending.add(Tokens(input=40), 0.25, Doubt(1, 1000, 2.0))
    assert spending.usage() == Usage(input_tokens=130, output_tokens=10, calls=2)
    assert spending.doubtful == Doubt(1, 960, 1.75)
    assert spending.counted().cost_usd == pytest.approx(2.5)
    assert spending.reached() is None
    spending.add(Tokens(), None, Doubt(1, 900, 0.5))
    words = "the trial's limit of 3 USD is reached: 3.0000 USD spent, counting the most that 2 unfinished calls can have used"
    assert spending.reached() == words


def test_what_may_have_been_used_counts_as_tokens_as_well() -> None:
    spending = _trial(max_tokens=1000)
    spending.add(Tokens(), None, Doubt(1, 1000, 0.0, bounded=False))
    assert spending.reached() == (
        "the trial's limit of 1000 tokens is reached: 1000 used, counting the most that 1 unfinished calls can have used"
    )
    assert not spending.doubtful.bounded


@pytest.mark.parametrize("limits", [{"max_cost_usd": 1.0}, {"max_tokens": 1000}])
def test_what_may_have_been_used_leaves_less_room_for_calls_at_once(limits: dict[str, Any]) -> None:
    spending = _trial(**limits)
    spending.add(CALL, 0.25)
    spending.running = 1
    assert spending.has_room(1)
    spending.add(Tokens(), None, Doubt(1, 800, 0.5))
    assert not spending.has_room(1)
    assert spending.has_room(0)


def test_the_next_try_of_a_trial_goes_on_where_the_last_one_ended() -> None:
    first, second = _trial(max_calls=3), _trial(max_calls=3)
    first.add(CALL, 0.5)
    first.add(Tokens(), None, Doubt(1, 10, 0.1))
    second.carry(json.loads(json.dumps(first.carried())))
    second.add(CALL, 0.5)
    assert second.usage() == Usage(input_tokens=180, output_tokens=20, calls=3)
    assert second.cost == pytest.approx(1.0)
    assert second.doubtful == first.doubtful
    assert second.reached() == "the trial's limit of 3 calls is reached"


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ({"max_cost_usd": 1.0}, "the trial's limit of 1 USD is reached: 1.0000 USD spent"),
        ({"max_tokens": 200}, "the trial's limit of 200 tokens is reached: 200 used"),
        ({"max_calls": 2}, "the trial's limit of 2 calls is reached"),
    ],
)
def test_a_limit_that_is_reached_says_so(limits: dict[str, Any], words: str) -> None:
    spending = _trial(**limits)
    spending.add(CALL, 0.5)
    assert spending.reached() is None
    spending.add(CALL, 0.5)
    assert spending.reached() == words


def test_what_the_job_spent_before_counts() -> None:
    before = Usage(input_tokens=100, output_tokens=20, cost_usd=0.9, calls=7)
    assert Spending("job", SpendingLimits(max_cost_usd=0.9), before).reached() is not None
    assert Spending("job", SpendingLimits(max_tokens=120), before).reached() is not None
    assert Spending("job", SpendingLimits(max_calls=7), before).reached() is not None
    assert (
        Spending("job", SpendingLimits(max_cost_usd=1, max_tokens=121, max_calls=8), before).reached() is None
    )


async def _crowd(job: Spending, trials: list[Spending], each: int, cost: float) -> list[int]:
    """Every trial makes `each` calls at once. Calls made by each."""
    turnstile = Turnstile(job)
    made = [0] * len(trials)

    async def call(at: int) -> None:
        if await turnstile.enter(trials[at]) is not None:
            return
        made[at] += 1
        await asyncio.sleep(0)
        for spending in (trials[at], job):
            spending.add(CALL, cost)
        turnstile.leave(trials[at])

    async with asyncio.timeout(10):
        await asyncio.gather(*(call(at) for at in range(len(trials)) for _ in range(each)))
    return made


def test_a_trial_that_makes_many_calls_at_once_exceeds_its_limit_by_one_of_them_at_most() -> None:
    trial = _trial(max_cost_usd=1.0)
    made = asyncio.run(_crowd(Spending("job", SpendingLimits()), [trial], 50, 0.3))
    assert made == [4]
    assert trial.cost == pytest.approx(1.2)


def test_a_job_exceeds_its_limit_by_one_call_of_each_trial_at_most() -> None:
    job = Spending("job", SpendingLimits(max_cost_usd=1.0))
    asyncio.run(_crowd(job, [_trial() for _ in range(8)], 5, 0.05))
    assert 1.0 <= job.cost <= 1.0 + 8 * 0.05 + 1e-9


def test_of_a_limit_on_calls_not_one_too_many_is_made() -> None:
    job = Spending("job", SpendingLimits(max_calls=10))
    made = asyncio.run(_crowd(job, [_trial(), _trial(max_calls=2), _trial()], 8, 0.0))
    assert sum(made) == 10
    assert made[1] <= 2


def test_a_call_that_is_given_up_while_it_waits_holds_up_nobody() -> None:
    async def scenario() -> None:
        turnstile = Turnstile(Spending("job", SpendingLimits()))
        trial = _trial(max_calls=2)
        assert await turnstile.enter(trial) is None
        assert await turnstile.enter(trial) is None
        waiting = asyncio.create_task(turnstile.enter(trial))
        other = asyncio.create_task(turnstile.enter(trial))
        await asyncio.sleep(0)
        waiting.cancel()
        turnstile.leave(trial)  # failed: nothing was added
        async with asyncio.timeout(10):
            assert await other is None
        assert trial.running == 2

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("limits", "running", "ours", "room"),
    [
        ({}, 5, 5, True),
        ({"max_calls": 4}, 1, 1, True),
        ({"max_calls": 4}, 2, 0, False),
        ({"max_calls": 4}, 2, 2, False),
        ({"max_cost_usd": 2.0}, 1, 1, True),
        ({"max_cost_usd": 2.0}, 2, 2, False),  # 1.0 was spent, and these two may be as dear as the dearest
        ({"max_cost_usd": 2.0}, 2, 0, True),
        ({"max_cost_usd": 2.001}, 2, 2, True),
        ({"max_tokens": 320}, 1, 1, True),
        ({"max_tokens": 320}, 2, 2, False),
        ({"max_tokens": 321}, 2, 2, True),
        ({"max_tokens": 321, "max_cost_usd": 2.0}, 2, 2, False),
        ({"max_tokens": 320, "max_cost_usd": 2.001}, 2, 2, False),
    ],
)
def test_calls_at_once_are_as_many_as_fit_if_each_is_as_dear_as_the_dearest(
    limits: dict[str, Any], running: int, ours: int, room: bool
) -> None:
    spending = _trial(**limits)
    spending.add(Tokens(input=100, output=0), 0.5)
    spending.add(Tokens(input=10, output=10), 0.5)
    spending.running = running
    assert spending.has_room(ours) is room


@pytest.mark.parametrize("limits", [{"max_cost_usd": 5.0}, {"max_tokens": 500}])
def test_until_the_first_call_is_over_nobody_knows_how_many_fit(limits: dict[str, Any]) -> None:
    spending = _trial(**limits)
    assert spending.has_room(0)
    assert not spending.has_room(1)
    assert _trial(max_calls=2).has_room(1)


def test_no_call_makes_the_dearest_one_cheaper() -> None:
    spending = _trial(max_cost_usd=1.0, max_tokens=1000)
    spending.add(Tokens(input=500), 0.0)
    spending.add(Tokens(), 0.5)
    spending.running = 1
    assert not spending.has_room(1)


def test_a_doubt_is_never_less_than_none() -> None:
    doubt = Doubt().plus(Doubt(1, 10, 1.0), 4, 0.25)
    assert doubt == Doubt(1, 6, 0.75)
    assert doubt.plus(Doubt(2, 10, 1.0), 11, 2.0) == Doubt(3, 6, 0.75)
    assert not Doubt(bounded=False).plus(Doubt(), 0, 0.0).bounded
    assert not Doubt().plus(Doubt(bounded=False), 0, 0.0).bounded


def test_a_turn_within_a_try_carries_what_its_try_did() -> None:
    first, second, third = _trial(), _trial(), _trial()
    first.add(CALL, 0.5)
    second.carry(first.carried(), within_try=True)
    assert not second.carries
    third.carry(second.carried())
    assert third.carries
    second.carry(third.carried(), within_try=True)
    assert second.carries
    assert second.usage() == first.usage()


@pytest.mark.parametrize(
    ("job", "trial", "carries", "doubt", "ending"),
    [
        ({"max_calls": 1}, {}, False, {}, Ending.BUDGET),
        ({"max_calls": 1}, {"max_calls": 1}, False, {}, Ending.BUDGET),
        ({}, {"max_calls": 1}, False, {}, Ending.TRIAL_LIMIT),
        ({}, {"max_calls": 1}, True, {}, Ending.BUDGET),
        # What an endpoint broke off may have used more than the trial may.
        ({}, {"max_cost_usd": 1}, False, {"broken_off": True}, Ending.BUDGET),
        ({}, {"max_tokens": 1000}, False, {"broken_off": True}, Ending.BUDGET),
        ({}, {"max_cost_usd": 1}, False, {"broken_off": False}, Ending.TRIAL_LIMIT),
        ({}, {"max_cost_usd": 0.5}, False, {"broken_off": True}, Ending.TRIAL_LIMIT),
        ({}, {"max_calls": 2, "max_cost_usd": 1}, False, {"broken_off": True}, Ending.TRIAL_LIMIT),
    ],
)
def test_a_limit_is_the_jobs_first_and_the_agents_doing_only_within_one_try(
    job: dict[str, Any], trial: dict[str, Any], carries: bool, doubt: dict[str, bool], ending: Ending
) -> None:
    async def scenario() -> None:
        whole, one = Spending("job", SpendingLimits(**job)), _trial(**trial)
        for spending in (whole, one):
            spending.add(CALL, 0.5)
            if doubt:
                spending.add(Tokens(), None, Doubt(1, 2000, 1.28), **doubt)
        one.carry(one.carried(), within_try=True)
        one.carries = carries
        turned_away = await Turnstile(whole).enter(one)
        assert turned_away is not None
        assert turned_away[0] is ending
        assert turned_away[1].startswith("the job" if job else "the trial")
        assert whole.running == one.running == 0

    asyncio.run(scenario())
