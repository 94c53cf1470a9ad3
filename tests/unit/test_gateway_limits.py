"""SpendingLimits hold while agents run: what is beyond them is refused, and the agent is stopped."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pytest_benchjobs.gateway.client import UNLOGGED, Gateway, SpendingLimits
from pytest_benchjobs.model.ending import Ending
from pytest_benchjobs.model.endpoint import GATEWAY_URL
from pytest_benchjobs.model.usage import Usage
from pytest_benchjobs.store import ledger
from pytest_benchjobs.store.calls import logged_calls
from pytest_benchjobs.store.layout import JobLayout
from tests.unit.gateways import Model, Said, agent, chat_answer, running, wait_until

pytestmark = pytest.mark.usefixtures("answering")
# A call of `chat_answer`: 1000 tokens sent, 100 back.
COST = 0.02


def test_a_trial_ends_at_its_limit(gateway: Gateway, model: Model) -> None:
    words = "the trial's limit of 0.03 USD is reached: 0.0400 USD spent"
    with agent(gateway, model, limits={"max_cost_usd": 0.03}) as one:
        assert [one.chat().status for _ in range(2)] == [200, 200]
        refused = one.call("/anthropic/v1/messages", {"model": "m-1"})
        assert refused.status == 402
        assert refused.json == {"type": "error", "error": {"type": "billing_error", "message": words}}
        assert refused.headers["x-should-retry"] == "false"
        wait_until(one.route.stop_asked)
        report = one.route.close()
    assert len(model.asked) == 2
    assert (report.ending, report.message, report.job_stopped) == (Ending.TRIAL_LIMIT, words, None)
    assert report.usage.calls == 2


def test_calls_that_fail_use_up_nothing_and_are_logged_as_refused_ones_are(
    gateway: Gateway, model: Model, tmp_path: Path
) -> None:
    model.says(lambda handler: handler.send_error(400), chat_answer())
    terms = {"models": ["m-1"], "calls": tmp_path / "calls"}
    with agent(gateway, model, limits={"max_calls": 1}, terms=terms) as one:
        assert [one.chat(name).status for name in ("m-1", "dear", "m-1", "m-1")] == [400, 403, 200, 402]
        assert one.call("/openai/v1/chat/completions", b"{").status == 400
        for kept in (True, False):
            one.route.post(f"{GATEWAY_URL['openai']}/chat/completions", {"model": "dear"}, 20, logged=kept)
        assert one.call("/openai/v1/chat/completions", {"model": "dear"}, {UNLOGGED: "1"}).status == 403
        report = one.route.close()
    with (tmp_path / "calls").open("rb") as file:
        logged = [(call.status, call.tokens[0]) for call in logged_calls(file) if call.answer]
    assert logged == [
        (400, None),
        (403, None),
        (200, 1000),
        (402, None),
        (400, None),
        (403, None),
        (403, None),
    ]
    assert report.left_out == 0


def test_a_model_without_a_price_is_not_called_where_cost_is_limited(gateway: Gateway, model: Model) -> None:
    with agent(gateway, model, limits={"max_cost_usd": 5}) as one:
        assert one.chat("unheard-of").status == 402
        report = one.route.close()
    assert model.asked == []
    assert report.ending is Ending.BUDGET
    assert "no price for unheard-of, so no cost limit" in (report.message or "")
    assert "--bench-prices" in (report.message or "")


def test_the_job_ends_at_its_limit_for_all_trials(tmp_path: Path, model: Model) -> None:
    before = {"limits": SpendingLimits(max_cost_usd=0.5), "spent": Usage(cost_usd=0.47, calls=9)}
    with (
        running(tmp_path, **before) as gateway,
        agent(gateway, model) as one,
        agent(gateway, model, "other") as other,
    ):
        assert one.chat().status == 200
        assert other.chat().status == 200
        assert one.chat().status == 402
        stopped, untouched = one.route.close(), other.route.close()
    assert (stopped.ending, stopped.job_stopped) == (Ending.BUDGET, Ending.BUDGET)
    assert "the job's limit of 0.5 USD is reached: 0.5100 USD spent" in (stopped.message or "")
    # It was not cut short: what it did counts.
    assert (untouched.ending, untouched.message, untouched.job_stopped) == (None, None, Ending.BUDGET)
    assert untouched.job_message == stopped.message
    assert untouched.usage.cost_usd == pytest.approx(COST)


def test_what_is_spent_is_written_down_after_each_answer(tmp_path: Path, model: Model) -> None:
    before = Usage(calls=5, input_tokens=10, output_tokens=1, cost_usd=1.0)
    file = JobLayout(tmp_path).spent
    with running(tmp_path, spent=before, ledger=file) as gateway, agent(gateway, model) as one:
        assert not file.exists()
        one.chat()
        wait_until(lambda: ledger.noted(tmp_path).calls == 6)
        once = Usage(calls=6, input_tokens=1010, output_tokens=101, cost_usd=1 + COST)
        assert ledger.noted(tmp_path) == once
        model.says(chat_answer("without-a-price"))
        one.chat("without-a-price")
        one.chat()
        wait_until(lambda: ledger.noted(tmp_path).calls == 8)
        more = Usage(calls=8, input_tokens=3010, output_tokens=301, cost_usd=1 + 2 * COST)
        assert ledger.noted(tmp_path) == more


@pytest.mark.parametrize("where", ["gone/.spent.json", "."])
def test_a_ledger_that_cannot_be_written_stops_nobody(tmp_path: Path, model: Model, where: str) -> None:
    with running(tmp_path, ledger=tmp_path / where) as gateway, agent(gateway, model) as one:
        assert [one.chat().status for _ in range(2)] == [200, 200]


def test_a_trial_that_makes_many_calls_at_once_exceeds_its_limit_by_one_call_at_most(
    gateway: Gateway, model: Model
) -> None:
    with agent(gateway, model, limits={"max_cost_usd": 0.09}) as one:
        with ThreadPoolExecutor(16) as pool:
            statuses = list(pool.map(lambda _: one.chat().status, range(16)))
        report = one.route.close()
    assert statuses.count(200) == 5
    assert report.usage.cost_usd == pytest.approx(5 * COST)


def test_a_provider_gets_no_more_calls_than_its_rate_allows(tmp_path: Path, model: Model) -> None:
    with running(tmp_path, rates={"openai": (120, None)}) as gateway, agent(gateway, model) as one:
        started = time.monotonic()
        with ThreadPoolExecutor(12) as pool:
            statuses = list(pool.map(lambda _: one.chat().status, range(12)))
        assert statuses == [200] * 12
        assert time.monotonic() - started >= 1  # ten may come at once, then two a second


def test_after_a_call_that_nobody_can_count_no_other_is_made_under_a_limit(
    gateway: Gateway, model: Model
) -> None:
    message = {"index": 0, "message": {"role": "assistant", "content": "hello"}, "finish_reason": "stop"}
    model.otherwise = Said(200, json.dumps({"id": "1", "model": "m-1", "choices": [message]}).encode())
    words = "the endpoint does not say how many tokens m-1 used, so no limit can be enforced"
    with agent(gateway, model, limits={"max_tokens": 10**6}) as one:
        assert one.chat().status == 200
        refused = one.chat()
        report = one.route.close()
    assert (refused.status, len(model.asked)) == (402, 1)
    assert words in refused.json["error"]["message"]
    assert (report.ending, report.message) == (Ending.BUDGET, words)
