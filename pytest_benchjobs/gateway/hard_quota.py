"""Hard quotas in the errors of endpoints: credit, usage limits, caps of a day; and when each is back.

    Anthropic API        400 or 402, "credit balance is too low"; "usage limits ... regain access on DATE at TIME UTC"
    Claude subscription  429 with `anthropic-ratelimit-unified-status: rejected` and its `-reset`, in seconds
    OpenAI               429 `insufficient_quota`, billing codes; of ChatGPT plans `usage_limit_reached`, `resets_at`
    Gemini               429 with a `PerDay` violation; back at midnight in California
    OpenRouter           402; 429 "free-models-per-day" with `X-RateLimit-Reset` in milliseconds within the error
    Groq and others      429 "tokens per day (TPD)", "try again in 9m38.016s"; 402

A rate limit is none: it is over in seconds or minutes, and the gateway retries meanwhile.
"""

from __future__ import annotations

import datetime
import re
import zoneinfo
from collections.abc import Mapping
from typing import Any

from ..system.cutting import beginning_of
from .wires import tables

CODES = frozenset(
    {
        *("insufficient_quota", "billing_hard_limit_reached", "billing_error", "billing_not_active"),
        *("usage_limit_reached", "usage_not_included"),
    }
)
"""Types and codes of errors that mean a hard quota."""
# Errors may quote what the agent sent: only the beginning of a message is the endpoint's own.
_BEGINNINGS = (
    "your credit balance is too low",
    "you have reached your specified api usage limits",
    "rate limit exceeded: free-models-per-day",
)
_OF_A_DAY = re.compile(
    r"^rate limit reached for .{0,300} on (?:tokens|requests) per day \((?:TPD|RPD)\)", re.IGNORECASE
)
_SHORT = 60.0
"""Seconds. A cap of a day that slides is a rate limit if a call may be repeated so soon."""
_ACCESS = re.compile(r"regain access on (\d{4})-(\d\d)-(\d\d)(?: at (\d\d):(\d\d))? ?(?:UTC)?", re.IGNORECASE)
_AGAIN = re.compile(r"try again in ((?:\d+d ?)?(?:\d+h ?)?(?:\d+m ?)?(?:\d+(?:\.\d+)?s)?)", re.IGNORECASE)
_PARTS = re.compile(r"(\d+(?:\.\d+)?)([dhms])", re.IGNORECASE)
_SECONDS = {"d": 86_400.0, "h": 3600.0, "m": 60.0, "s": 1.0}
_CALIFORNIA = "America/Los_Angeles"
_FARTHEST = 32 * 86_400.0
_MILLISECONDS = 1e11
"""A larger time is in milliseconds: in seconds it would be in the year 5138."""


def is_quota(status: int, headers: Mapping[str, str], error: Mapping[str, Any], words: set[str]) -> bool:
    """Return True if an answer says that a hard quota is used up.

    `headers` have lower-case names; `words` are the types and codes of the error.
    """
    message = _message(error)
    if status == 402 or words & CODES or message.lower().startswith(_BEGINNINGS) or _day_is_over(error):
        return True
    if status != 429:
        return False
    if headers.get("anthropic-ratelimit-unified-status", "").strip().lower() == "rejected":
        return True
    return _OF_A_DAY.match(message) is not None and (_again(message) or _FARTHEST) > _SHORT


def back_at(
    headers: Mapping[str, str], error: Mapping[str, Any], now: float, wait: float | None = None
) -> float | None:
    """Return the time when a used-up quota is back, in seconds since the epoch; None: the endpoint does not say.

    `wait` are the seconds of its `Retry-After`.
    """
    inner = _table(_table(error, "metadata"), "headers")
    told: list[object] = [
        headers.get("anthropic-ratelimit-unified-reset"),
        error.get("resets_at"),
        _after(now, error.get("resets_in_seconds")),
        next((value for name, value in inner.items() if name.lower() == "x-ratelimit-reset"), None),
        _access(_message(error)),
        _after(now, _again(_message(error))),
        _midnight(now) if _day_is_over(error) else None,
        _after(now, wait),
    ]
    times = (_time(one) for one in told)
    return next((time for time in times if time is not None and now < time <= now + _FARTHEST), None)


def _day_is_over(error: Mapping[str, Any]) -> bool:
    """Return True if a daily quota is used up, as one wire reports it; its quotas per minute look much the same."""
    return any(
        "PerDay" in str(violation.get("quotaId", ""))
        for detail in tables(error, "details")
        for violation in tables(detail, "violations")
    )


def _table(said: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = said.get(name)
    return found if isinstance(found, dict) else {}


def _message(error: Mapping[str, Any]) -> str:
    message = error.get("message")
    return beginning_of(message, 4000) if isinstance(message, str) else ""


def _time(told: object) -> float | None:
    """Return a time in seconds since the epoch, from seconds, milliseconds or an ISO time."""
    if isinstance(told, str) and "T" in told:
        try:
            time = datetime.datetime.fromisoformat(told)
        except ValueError:
            return None
        return (time if time.tzinfo else time.replace(tzinfo=datetime.UTC)).timestamp()
    number = _number(told)
    return number / 1000 if number is not None and number > _MILLISECONDS else number


def _after(now: float, seconds: object) -> float | None:
    number = _number(seconds)
    return None if number is None or number <= 0 else now + number


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if abs(number) < 1e15 else None


def _access(message: str) -> float | None:
    found = _ACCESS.search(message)
    if found is None:
        return None
    year, month, day, hour, minute = (int(part or 0) for part in found.groups())
    try:
        return datetime.datetime(year, month, day, hour, minute, tzinfo=datetime.UTC).timestamp()
    except ValueError:
        return None


def _again(message: str) -> float | None:
    """Return the seconds of "try again in 1h9m38.016s"."""
    found = _AGAIN.search(message)
    if found is None:
        return None
    parts = _PARTS.findall(found[1])
    return sum(float(number) * _SECONDS[unit.lower()] for number, unit in parts) if parts else None


def _midnight(now: float) -> float | None:
    """Return the next midnight in California, where Google's days begin; None: this machine knows no time zones."""
    try:
        zone = zoneinfo.ZoneInfo(_CALIFORNIA)
    except (zoneinfo.ZoneInfoNotFoundError, OSError):
        return None
    today = datetime.datetime.fromtimestamp(now, zone).date()
    return datetime.datetime.combine(today + datetime.timedelta(days=1), datetime.time(), zone).timestamp()
