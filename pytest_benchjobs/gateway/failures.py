"""Failures of calls: the ending each means for an agent, whether a retry helps, and the message.

Hard quotas, of credit, a usage limit or a cap of a day, and when each is back:

    Anthropic API        400 or 402, "credit balance is too low"; "usage limits ... regain access on DATE at TIME UTC"
    Claude subscription  429 with `anthropic-ratelimit-unified-status: rejected` and its `-reset`, in seconds
    OpenAI               429 `insufficient_quota`, billing codes; of ChatGPT plans `usage_limit_reached`, `resets_at`
    Gemini               429 with a `PerDay` violation; back at midnight in California
    OpenRouter           402; 429 "free-models-per-day" with `X-RateLimit-Reset` in milliseconds within the error
    Groq and others      429 "tokens per day (TPD)", "try again in 9m38.016s"; 402

A rate limit is none: it is over in seconds or minutes, and the gateway retries meanwhile.
"""

from __future__ import annotations

import dataclasses
import datetime
import os
import re
import socket
import zoneinfo
from collections.abc import Iterator, Mapping
from typing import Any

from aiohttp import ClientConnectorError
from aiohttp.http_exceptions import ContentEncodingError

from ..model.ending import Ending
from ..store.text import one_line
from ..system.cutting import beginning_of
from ..system.http import retry_after
from .wires import parsed, table, tables

_MESSAGE_LENGTH = 300
_SECONDS = re.compile(r"(\d+(?:\.\d+)?)s")
_LONGEST_WAIT = 86_400.0
_PASSING = (408, 409, 425, 429)
"""Statuses below 500 after which a retry may succeed."""
_ANSWERS = ("choices", "content", "output", "candidates")
_STATUSES = {Ending.RATE_LIMITED: 429, Ending.QUOTA: 402, Ending.REFUSED: 400}


_QUOTA_CODES = frozenset(
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
_UNITS = {"d": 86_400.0, "h": 3600.0, "m": 60.0, "s": 1.0}
_CALIFORNIA = "America/Los_Angeles"
_FARTHEST = 32 * 86_400.0
_MILLISECONDS = 1e11
"""A larger time is in milliseconds: in seconds it would be in the year 5138."""


@dataclasses.dataclass(frozen=True, slots=True)
class Failure:
    """A call that got no answer."""

    ending: Ending
    message: str
    """One line."""
    again: bool = False
    """True if a retry may succeed."""
    wait: float | None = None
    """Seconds after which the endpoint accepts a retry."""
    back_at: float | None = None
    """Time when a used-up quota is back, in seconds since the epoch."""


def of_response(status: int, headers: Mapping[str, str], body: bytes, now: float) -> Failure:
    """Failure of an answer whose status is not 2xx.

    `headers` have lower-case names; `now` is in seconds since the epoch.
    """
    error = _error(body)
    text = beginning_of(body, 4096).decode("utf-8", "replace")
    message = f"{status}: {one_line(_message(error) or text, _MESSAGE_LENGTH)}"
    if status < 400:
        return Failure(Ending.ENDPOINT_DOWN, f"{message} (a redirection; give the address it leads to)")
    again = status in _PASSING or status >= 500
    if _is_quota(status, headers, error, set(_words(error))):
        back = _back_at(headers, error, now, _wait(headers, error, now))
        return Failure(Ending.QUOTA, message, back_at=back)
    ending = _ending(status, error, text)
    return Failure(ending, message, again, _wait(headers, error, now) if again else None)


def of_event(error: Mapping[str, Any], now: float) -> Failure:
    """Failure that an answer reports after it began with 200."""
    words = set(_words(error))
    message = one_line(_message(error) or str(dict(error)), _MESSAGE_LENGTH)
    status = _told_status(error)
    if _is_quota(status or 200, {}, error, words):
        return Failure(Ending.QUOTA, message, back_at=_back_at({}, error, now))
    if any("rate_limit" in word or word == "RESOURCE_EXHAUSTED" for word in words):
        return Failure(Ending.RATE_LIMITED, message, again=True)
    if any("invalid_request" in word or word in ("INVALID_ARGUMENT", "invalid_prompt") for word in words):
        return Failure(Ending.REFUSED, message)
    ending = Ending.ENDPOINT_DOWN if status is None else _ending(status, error, message)
    return Failure(ending, message, again=ending in (Ending.ENDPOINT_DOWN, Ending.RATE_LIMITED))


def of_content(content: bytes, now: float) -> tuple[int, Failure] | None:
    """Failure that stands in the place of an answer with status 200, and the status it should have had."""
    if b'"error"' not in content:
        return None
    said = parsed(content)
    error = said.get("error") if isinstance(said, dict) else None
    if not isinstance(error, dict) or not error or any(said.get(name) for name in _ANSWERS):
        return None
    failure = of_event(error, now)
    failure = dataclasses.replace(failure, message=f"200, but {failure.message}")
    return _told_status(error) or _STATUSES.get(failure.ending, 502), failure


def of_rubbish(status: int, what: str) -> Failure:
    """Failure of an answer with a good status whose content is invalid."""
    return Failure(Ending.ENDPOINT_DOWN, f"{status}, but {one_line(what, _MESSAGE_LENGTH)}", again=True)


def of_connection(error: BaseException) -> Failure:
    """Failure of a connection: there was no answer at all."""
    reason = one_line(str(error), _MESSAGE_LENGTH) or type(error).__name__
    if isinstance(error, ClientConnectorError):
        number = error.os_error.errno or 0
        why = os.strerror(number) if number > 0 else one_line(str(error.os_error.strerror), _MESSAGE_LENGTH)
        reason = f"{error.host}:{error.port}: {why}; start the server there, or correct the address of the provider"
    return Failure(Ending.ENDPOINT_DOWN, f"no answer: {reason}", again=not _stays(error))


def _stays(error: BaseException | None) -> bool:
    """True if it will be the same the next time: a wrong address or certificate, an unknown compression."""
    while error is not None:
        if isinstance(error, ValueError | ContentEncodingError):
            return True
        if isinstance(error, socket.gaierror) and error.errno == socket.EAI_NONAME:
            return True
        error = getattr(error, "os_error", None) or error.__cause__
    return False


def _ending(status: int, error: Mapping[str, Any], text: str) -> Ending:
    words = set(_words(error))
    lower = text.lower()
    # Errors may quote what the agent sent: only the beginning of a message is the endpoint's own.
    message = _message(error).lower()
    if status == 429:
        return Ending.RATE_LIMITED
    if status >= 500 or status in _PASSING:
        return Ending.ENDPOINT_DOWN
    if "model_not_found" in words:
        return Ending.UNKNOWN_MODEL
    if status in (401, 403) or "API_KEY_INVALID" in words or message.startswith("api key not valid"):
        return Ending.AUTHENTICATION
    if status == 404:
        # Any web server answers 404 for an unknown address; it is about models only if the answer says so.
        return (
            Ending.UNKNOWN_MODEL if "model" in lower or "not_found_error" in words else Ending.ENDPOINT_DOWN
        )
    return Ending.REFUSED


def _wait(headers: Mapping[str, str], error: Mapping[str, Any], now: float) -> float | None:
    seconds: float | None = None
    if (said := _number(headers.get("retry-after-ms"))) is not None:
        seconds = said / 1000
    elif (after := headers.get("retry-after")) is not None:
        seconds = retry_after(after, now)
    else:
        for detail in tables(error, "details"):
            if match := _SECONDS.fullmatch(str(detail.get("retryDelay", ""))):
                seconds = float(match[1])
    return None if seconds is None else min(max(seconds, 0.0), _LONGEST_WAIT)


def _error(body: bytes) -> Mapping[str, Any]:
    """The error in an answer's JSON, in the format of any wire; empty if there is none."""
    answer = parsed(body)
    if isinstance(answer, list) and answer:
        answer = answer[0]
    if not isinstance(answer, dict):
        return {}
    error = answer.get("error", answer)
    return error if isinstance(error, dict) else {"message": str(error)}


def _told_status(error: Mapping[str, Any]) -> int | None:
    """The status within an error, if it names one."""
    code = error.get("code")
    return code if isinstance(code, int) and 400 <= code < 600 else None


def _message(error: Mapping[str, Any]) -> str:
    message = error.get("message")
    return beginning_of(message, 4000) if isinstance(message, str) else ""


def _words(error: Mapping[str, Any]) -> Iterator[str]:
    for name in ("type", "code", "status", "reason"):
        if isinstance(word := error.get(name), str):
            yield word
    for detail in tables(error, "details"):
        if isinstance(word := detail.get("reason"), str):
            yield word


# Hard quotas


def _is_quota(status: int, headers: Mapping[str, str], error: Mapping[str, Any], words: set[str]) -> bool:
    """Return True if an answer says that a hard quota is used up.

    `headers` have lower-case names; `words` are the types and codes of the error.
    """
    message = _message(error)
    if (
        status == 402
        or words & _QUOTA_CODES
        or message.lower().startswith(_BEGINNINGS)
        or _day_is_over(error)
    ):
        return True
    if status != 429:
        return False
    if headers.get("anthropic-ratelimit-unified-status", "").strip().lower() == "rejected":
        return True
    return _OF_A_DAY.match(message) is not None and (_again(message) or _FARTHEST) > _SHORT


def _back_at(
    headers: Mapping[str, str], error: Mapping[str, Any], now: float, wait: float | None = None
) -> float | None:
    """Return the time when a used-up quota is back, in seconds since the epoch; None: the endpoint does not say.

    `wait` are the seconds of its `Retry-After`.
    """
    inner = table(table(error, "metadata"), "headers")
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
    return sum(float(number) * _UNITS[unit.lower()] for number, unit in parts) if parts else None


def _midnight(now: float) -> float | None:
    """Return the next midnight in California, where Google's days begin; None: this machine knows no time zones."""
    try:
        zone = zoneinfo.ZoneInfo(_CALIFORNIA)
    except (zoneinfo.ZoneInfoNotFoundError, OSError):
        return None
    today = datetime.datetime.fromtimestamp(now, zone).date()
    return datetime.datetime.combine(today + datetime.timedelta(days=1), datetime.time(), zone).timestamp()
