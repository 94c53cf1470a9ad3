"""Hard quotas, as each provider tells of them, and when each is back."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pytest_benchjobs.gateway.client import Upstream
from pytest_benchjobs.gateway.failures import Failure, of_event, of_response
from pytest_benchjobs.gateway.job import Quotas
from pytest_benchjobs.model.ending import Ending
from pytest_benchjobs.model.endpoint import Endpoint
from pytest_benchjobs.model.quota import OnQuota
from pytest_benchjobs.store.quotas import account, read

from .clocks import Clock

NOW = 1_800_000_000.0
"""2027-01-15 08:00 UTC."""
HOUR = 3600.0


def openai(message: str, **more: Any) -> dict[str, Any]:
    return {"error": {"message": message, **more}}


def anthropic(message: str, kind: str = "invalid_request_error") -> dict[str, Any]:
    return {"type": "error", "error": {"type": kind, "message": message}}


def gemini(quota: str) -> dict[str, Any]:
    violations = {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [{"quotaId": quota}]}
    again = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "24s"}
    return {
        "error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "x", "details": [violations, again]}
    }


def of_a_day(again: str) -> dict[str, Any]:
    return openai(
        "Rate limit reached for model `llama` in organization `org` service tier `on_demand` on tokens per day "
        f"(TPD): Limit 100000, Used 97050, Requested 3619. Please try again in {again}. Need more tokens?",
        code="rate_limit_exceeded",
    )


UNIFIED = "anthropic-ratelimit-unified"
REJECTED = {f"{UNIFIED}-status": "rejected", f"{UNIFIED}-reset": "1800018000", "retry-after": "17"}
RESET = {"headers": {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1800003600000"}}


@pytest.mark.parametrize(
    ("status", "headers", "body", "back_at"),
    [
        (400, {}, anthropic("Your credit balance is too low to access the API."), None),
        (400, {}, anthropic("You have reached your specified API usage limits. You will regain access on 2027-02-01 at 00:00 UTC."), 1_801_440_000.0),
        (429, REJECTED, anthropic("This request would exceed your account's rate limit.", "rate_limit_error"), NOW + 5 * HOUR),
        (429, {}, openai("You exceeded your current quota", code="insufficient_quota"), None),
        (429, {"retry-after": "90"}, openai("No more", code="insufficient_quota"), NOW + 90),
        (429, {}, openai("The usage limit has been reached", type="usage_limit_reached", resets_at=NOW + 9), NOW + 9),
        (429, {}, openai("reached", type="usage_limit_reached", resets_at="2027-01-15T08:30:00Z"), NOW + HOUR / 2),
        (429, {}, openai("reached", type="usage_limit_reached", resets_in_seconds=602705), NOW + 602705),
        (429, {}, gemini("GenerateRequestsPerDayPerProjectPerModel-FreeTier"), NOW),  # midnight is at this very time
        (402, {}, openai("This request requires more credits", code=402), None),
        (402, {}, openai("Insufficient Balance"), None),
        (429, {}, openai("Rate limit exceeded: free-models-per-day. Add 10 credits", code=429, metadata=RESET), NOW + HOUR),
        (429, {}, of_a_day("9m38.016s"), NOW + 578.016),
        (429, {}, of_a_day("1h2m3s"), NOW + 3723),
    ],
)  # fmt: skip
def test_a_quota_is_known_and_when_it_is_back(
    status: int, headers: dict[str, str], body: dict[str, Any], back_at: float | None
) -> None:
    failure = of_response(status, headers, json.dumps(body).encode(), NOW)
    assert (failure.ending, failure.again, failure.wait) == (Ending.QUOTA, False, None)
    if back_at == NOW:
        back_at = NOW + 24 * HOUR
    assert failure.back_at == (None if back_at is None else pytest.approx(back_at))


@pytest.mark.parametrize(
    ("status", "headers", "body"),
    [
        (429, {"retry-after": "17"}, anthropic("slow down", "rate_limit_error")),
        (429, {"anthropic-ratelimit-unified-status": "allowed_warning"}, anthropic("slow", "rate_limit_error")),
        (429, {}, gemini("GenerateRequestsPerMinutePerProjectPerModel")),
        (429, {}, of_a_day("5.2s")),
        (429, {}, openai("Rate limit exceeded: free-models-per-min")),
        # An endpoint quotes what the agent sent.
        (429, {}, openai("bad tool: your credit balance is too low")),
    ],
)  # fmt: skip
def test_a_rate_limit_is_no_quota(status: int, headers: dict[str, str], body: dict[str, Any]) -> None:
    assert of_response(status, headers, json.dumps(body).encode(), NOW).ending is Ending.RATE_LIMITED


@pytest.mark.parametrize(
    "reset",
    ["soon", -5, 0, 1e300, NOW - 1, NOW + 40 * 24 * HOUR, "9" * 400, True, [NOW + 5], "2027-99-99T00:00:00Z"],
)
def test_an_impossible_time_is_none(reset: object) -> None:
    body = openai("reached", type="usage_limit_reached", resets_at=reset)
    assert of_response(429, {}, json.dumps(body).encode(), NOW).back_at is None


def test_a_quota_within_an_answer() -> None:
    failure = of_event({"code": 402, "message": "Insufficient credits", "resets_in_seconds": 60}, NOW)
    assert (failure.ending, failure.back_at) == (Ending.QUOTA, NOW + 60)


def target(key: str | None = "key", url: str = "https://one.example") -> Upstream:
    return Upstream(
        Endpoint(provider="groq", wire="openai", base_url=url, key_variables=("GROQ_API_KEY",)), key
    )


def used_up(back_at: float | None = None) -> Failure:
    return Failure(Ending.QUOTA, "402: no credit", back_at=back_at)


def test_an_account_has_a_quota_of_its_own_and_its_name_does_not_tell_the_key(tmp_path: Any) -> None:
    quotas = Quotas(OnQuota.PAUSE, tmp_path / "quotas.json", Clock(NOW).monotonic)
    quotas.note_used_up(target(), used_up())
    assert quotas.refusal(target()) == used_up()
    assert quotas.refusal(target("other")) is None
    assert quotas.refusal(target(url="https://two.example")) is None
    content = (tmp_path / "quotas.json").read_text()
    assert (tmp_path / "quotas.json").stat().st_mode & 0o777 == 0o600
    (name,) = read(tmp_path / "quotas.json")
    assert name == account("groq", "https://one.example", "key")
    assert '"key"' not in content
    assert quotas.stopped() is None


def test_only_fail_ends_the_job(tmp_path: Any) -> None:
    quotas = Quotas(OnQuota.FAIL, tmp_path / "quotas.json", Clock(NOW).monotonic)
    assert quotas.stopped() is None
    quotas.note_used_up(target(), used_up())
    assert quotas.stopped() == "the quota of groq is used up: 402: no credit"


def test_without_a_time_the_pauses_grow_to_a_quarter_of_an_hour(tmp_path: Any) -> None:
    clock = Clock(NOW)
    quotas = Quotas(OnQuota.WAIT, tmp_path / "quotas.json", clock.monotonic)
    pauses = []
    for times in range(1, 8):
        quotas.note_used_up(target(), used_up())
        quotas.note_used_up(target(), used_up())  # of a call that was under way
        (quota,) = read(tmp_path / "quotas.json").values()
        assert quota.until is not None
        assert (quota.times, quota.told, quota.since.timestamp()) == (times, False, NOW)
        pauses.append(quota.until.timestamp() - clock.now)
        clock.now = quota.until.timestamp() - 1
        assert quotas.refusal(target()) is not None
        clock.now += 1
        assert quotas.refusal(target()) is None
    assert pauses == [60, 120, 240, 480, 900, 900, 900]


def test_a_told_time_counts_and_only_a_later_answer_ends_the_wait(tmp_path: Any) -> None:
    clock = Clock(NOW)
    quotas = Quotas(OnQuota.WAIT, tmp_path / "quotas.json", clock.monotonic)
    quotas.note_used_up(target(), used_up(NOW + 100))
    (quota,) = read(tmp_path / "quotas.json").values()
    assert quota.until is not None
    assert (quota.until.timestamp(), quota.told) == (NOW + 101, True)
    quotas.note_answered(target(), NOW - 5)  # a call that was under way
    assert read(tmp_path / "quotas.json")
    clock.now = NOW + 200
    quotas.note_answered(target(), clock.now)
    assert read(tmp_path / "quotas.json") == {}
    assert quotas.refusal(target()) is None


def test_a_file_that_cannot_be_read_or_written_is_no_quota(tmp_path: Any) -> None:
    assert read(tmp_path / "nothing") == {}
    (tmp_path / "broken").write_text('{"a": 1}')
    assert read(tmp_path / "broken") == {}
    quotas = Quotas(OnQuota.WAIT, tmp_path / "no" / "where", Clock(NOW).monotonic)
    quotas.note_used_up(target(), used_up())
    assert quotas.refusal(target()) is not None
