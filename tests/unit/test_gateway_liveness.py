"""Whether an endpoint answers others is known, or found out by a call of the gateway's own, once for all who ask."""

from __future__ import annotations

import asyncio
import gzip
import json
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from pytest_benchjobs.gateway import accounting
from pytest_benchjobs.gateway.accounting import TrialState
from pytest_benchjobs.gateway.client import SpendingLimits
from pytest_benchjobs.gateway.failures import Failure
from pytest_benchjobs.gateway.job import Job
from pytest_benchjobs.gateway.liveness import Line
from pytest_benchjobs.gateway.own_call import PROMPT, is_answered
from pytest_benchjobs.gateway.route import ServedRoute
from pytest_benchjobs.gateway.wires import recognise
from pytest_benchjobs.model.ending import Ending
from tests.unit.gateways import JOB, Agent, Model, Said, agent, chat_answer, running

PATHS = {
    "anthropic": "/anthropic/v1/messages",
    "openai": "/openai/v1/chat/completions",
    "responses": "/openai/v1/responses",
    "google": "/google/v1beta/models/m-1:streamGenerateContent?alt=sse",
}
ANSWERS = {
    "anthropic": {"type": "message", "content": [], "usage": {"input_tokens": 5, "output_tokens": 5}},
    "openai": json.loads(chat_answer("m-1", 5, 5).body),
    "responses": {"output": [], "usage": {"input_tokens": 5, "output_tokens": 5}},
    "google": {"candidates": [], "usageMetadata": {"promptTokenCount": 5, "candidatesTokenCount": 5}},
}


def line(model: Model, kind: str = "openai") -> Line:
    call = recognise("POST", PATHS[kind])
    assert call is not None
    return Line(next(one for one in model.upstreams() if one.endpoint.wire == call.wire), call, "m-1")


def asked(model: Model, kind: str = "openai", **settings: Any) -> tuple[bool, Job]:
    async def ask() -> tuple[bool, Job]:
        job = Job({**JOB, **settings})
        return await is_answered(job, line(model, kind)), job

    return asyncio.run(ask())


@pytest.mark.parametrize("kind", PATHS)
def test_the_gateways_own_call_is_small_and_counts_for_the_job(model: Model, kind: str) -> None:
    model.otherwise = Said(200, json.dumps(ANSWERS[kind]).encode())
    answered, job = asked(model, kind)
    assert answered
    (sent,) = model.asked
    assert sent.path == PATHS[kind].removeprefix("/" + PATHS[kind].split("/")[1]).replace(
        "streamGenerateContent?alt=sse", "generateContent"
    )
    assert PROMPT in sent.body.decode()
    assert b"16" in sent.body
    assert (job.spending.calls, job.spending.tokens) == (1, 10)


@pytest.mark.parametrize(
    ("answers", "answered", "calls"),
    [
        ([Said(400, b"{}"), chat_answer()], True, 2),  # some know another name of the limit
        ([Said(400, b"{}"), Said(400, b"{}")], False, 2),
        ([Said(500, b"{}")], False, 1),
        ([Said(200, b"<html>")], False, 1),
        ([Said(200, b'{"choices": [', cut=True)], False, 1),
    ],
)
def test_what_is_an_answer_to_it(model: Model, answers: list[Said], answered: bool, calls: int) -> None:
    model.says(*answers)
    assert asked(model)[0] is answered
    assert len(model.asked) == calls


@pytest.mark.parametrize(
    "settings",
    [{"limits": {"max_cost_usd": None, "max_tokens": None, "max_calls": 0}}, {"replay": "/nowhere"}],
)
def test_it_is_not_made_beyond_a_limit_or_where_there_is_no_endpoint(
    model: Model, settings: dict[str, Any]
) -> None:
    assert not asked(model, **settings)[0]
    assert model.asked == []


class Trials:
    """Two trials of a job, and the gateway's own calls."""

    def __init__(self, model: Model, monkeypatch: pytest.MonkeyPatch, *, alive: bool) -> None:
        self.own = 0
        self.stops: list[int] = []
        self.line = line(model)
        job = Job(JOB)
        self.one, self.other = (
            TrialState(job, SpendingLimits(), lambda number=number: self.stops.append(number))  # type: ignore[misc]
            for number in range(2)
        )

        async def own(_job: Job, _line: Line) -> bool:
            self.own += 1
            await asyncio.sleep(0)
            return alive

        monkeypatch.setattr(accounting, "is_answered", own)


DOWN = Failure(Ending.ENDPOINT_DOWN, "500: no", again=True)


async def rest() -> None:
    for _ in range(9):
        await asyncio.sleep(0)


async def never_answered(trials: Trials) -> None:
    trials.one.failed(DOWN, trials.line)
    await rest()
    assert (trials.stops, trials.own) == ([0], 0)


async def answers_nobody(trials: Trials) -> None:
    trials.one.succeeded(trials.line)
    trials.one.failed(DOWN, trials.line)
    await rest()
    assert (trials.stops, trials.own) == ([0], 1)
    await trials.one.find_out()
    assert not trials.one.report()["answers_others"]
    assert trials.own == 1


async def answers_the_gateway(trials: Trials) -> None:
    for state in (trials.one, trials.other):
        state.succeeded(trials.line)
    for state in (trials.one, trials.other):
        state.failed(DOWN, trials.line)
    await rest()
    assert (trials.stops, trials.own) == ([], 1)  # one call for both
    assert not trials.one.impatient
    await trials.one.find_out()
    report = trials.one.report()
    assert (report["ending"], report["answered"], report["answers_others"]) == ("endpoint_down", 1, True)


async def answers_another_trial(trials: Trials) -> None:
    trials.one.succeeded(trials.line)
    trials.one.failed(DOWN, trials.line)
    trials.other.succeeded(trials.line)
    await trials.one.find_out()
    assert trials.one.report()["answers_others"]
    assert trials.own == 0


async def answered_another_trial_before(trials: Trials) -> None:
    trials.other.succeeded(trials.line)
    trials.one.succeeded(trials.line)
    trials.one.failed(DOWN, trials.line)
    await trials.one.find_out()
    assert not trials.one.report()["answers_others"]


async def is_silent(trials: Trials) -> None:
    trials.one.succeeded(trials.line)
    trials.one.gave_up(9.9, trials.line)
    await trials.one.find_out()
    assert trials.own == 0
    trials.one.gave_up(10.0, trials.line)
    await trials.one.find_out()
    assert trials.own == 1
    assert trials.one.report()["answers_others"]


async def recovers(trials: Trials) -> None:
    trials.one.succeeded(trials.line)
    trials.one.failed(DOWN, trials.line)
    await asyncio.sleep(0)
    trials.one.succeeded(trials.line)
    await rest()
    await trials.one.find_out()
    report = trials.one.report()
    assert (trials.stops, report["ending"], report["answers_others"]) == ([], None, False)


async def asks_for_too_much(trials: Trials) -> None:
    assert [await trials.one.confirm_quota(trials.line) for _ in range(9)] == [False] * 9
    assert trials.own == 1


async def has_no_credit(trials: Trials) -> None:
    trials.other.succeeded(trials.line)
    assert await trials.one.confirm_quota(trials.line)
    assert trials.own == 1


@pytest.mark.parametrize(
    ("scenario", "alive"),
    [
        (asks_for_too_much, True),
        (has_no_credit, False),
        (never_answered, True),
        (answers_nobody, False),
        (answers_the_gateway, True),
        (answers_another_trial, False),
        (answered_another_trial_before, False),
        (is_silent, True),
        (recovers, False),
    ],
)
def test_an_agent_is_stopped_if_its_endpoint_answers_nobody(
    model: Model,
    monkeypatch: pytest.MonkeyPatch,
    scenario: Callable[[Trials], Coroutine[Any, Any, None]],
    alive: bool,
) -> None:
    async def run() -> None:
        await scenario(Trials(model, monkeypatch, alive=alive))

    asyncio.run(run())


BOMB = gzip.compress(b'{"model": "m-1", "messages": [' + b" " * (33 << 20) + b"]}")
KEYS = json.dumps({"model": "m-1", "messages": [], "x": {f"model{n}": n for n in range(60_000)}}).encode()
PATH = PATHS["openai"]


def hostile(one: Agent, done: threading.Event) -> None:
    """Calls that fail, are given up, or are costly to read, until the others are done."""
    while not done.is_set():
        one.chat(max_tokens=10**9)
        one.raw(b"GET /\x00 nothing\r\n\r\n")
        one.call(PATH, BOMB, {"Content-Encoding": "gzip"})
        one.call(PATH, KEYS)
        one.call(PATH, b"(\xb5/\xfd", {"Content-Encoding": "zstd"})
        one.chat("m-1", tools=[{"type": "x", "model": []}])


def test_one_hostile_trial_among_twenty_changes_no_other_and_ends_no_job(
    tmp_path: Path, model: Model
) -> None:
    def answer(handler: Any) -> None:
        said = model.asked[-1].json
        handler.say(
            Said(402, b'{"error": {"message": "pay"}}') if said.get("max_tokens") == 10**9 else chat_answer()
        )

    model.says(*[answer] * 9999)
    done = threading.Event()
    with running(tmp_path, patience=1) as gateway, ThreadPoolExecutor(20) as pool:

        def trial(number: int) -> Any:
            with agent(gateway, model, f"t{number}") as one:
                statuses = {one.chat().status for _ in range(5)}
                report = one.route.close()
            return statuses, report.ending, report.usage.calls, report.job_stopped

        with agent(gateway, model, "hostile") as bad:
            attack = pool.submit(hostile, bad, done)
            others = [*pool.map(trial, range(19))]
            done.set()
            attack.result()
            report = bad.route.close()
    assert others == [({200}, None, 5, None)] * 19
    assert report.job_stopped is None


def test_what_breaks_within_the_gateway_is_no_fault_of_the_agent(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def breaks(_request: Any) -> Any:
        raise TypeError("unhashable type: 'dict'\nand more")

    async def run() -> None:
        trials = Trials(model, monkeypatch, alive=True)
        route = ServedRoute.__new__(ServedRoute)
        vars(route).update(_answer=breaks, _state=trials.one)
        trials.one.succeeded(trials.line)
        with pytest.raises(TypeError):
            await route._handle(mock.Mock())
        report = trials.one.report()
        assert report["ending"] is Ending.GATEWAY
        assert (
            report["message"]
            == "a call failed within the gateway: TypeError: unhashable type: 'dict' and more"
        )
        trials.one.succeeded(trials.line)
        assert trials.one.report()["ending"] is None

    asyncio.run(run())
