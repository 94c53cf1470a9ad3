"""Failures of calls: the ending each means for an agent, whether a retry helps, and the message."""

from __future__ import annotations

import dataclasses
import json
import math
import re
import socket
from collections.abc import Iterator, Mapping
from typing import Any

from aiohttp.http_exceptions import ContentEncodingError

from ..model.ending import Ending
from ..store.text import one_line
from ..system.cutting import beginning_of
from ..system.http import retry_after
from .hard_quota import back_at, is_quota
from .wires import tables

_MESSAGE_LENGTH = 300
_SECONDS = re.compile(r"(\d+(?:\.\d+)?)s")
_LONGEST_WAIT = 86_400.0
_PASSING = (408, 409, 425, 429)
"""Statuses below 500 after which a retry may succeed."""
_ANSWERS = ("choices", "content", "output", "candidates")
_STATUSES = {Ending.RATE_LIMITED: 429, Ending.QUOTA: 402, Ending.REFUSED: 400}
_DATA = re.compile(rb"^data: ?(.*?)\r?$", re.MULTILINE)
_EVENT_END = re.compile(rb"\n\r?\n|\r\r")


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
    if is_quota(status, headers, error, set(_words(error))):
        back = back_at(headers, error, now, _wait(headers, error, now))
        return Failure(Ending.QUOTA, message, back_at=back)
    ending = _ending(status, error, text)
    return Failure(ending, message, again, _wait(headers, error, now) if again else None)


def of_event(error: Mapping[str, Any], now: float) -> Failure:
    """Failure that an answer reports after it began with 200."""
    words = set(_words(error))
    message = one_line(_message(error) or str(dict(error)), _MESSAGE_LENGTH)
    status = _told_status(error)
    if is_quota(status or 200, {}, error, words):
        return Failure(Ending.QUOTA, message, back_at=back_at({}, error, now))
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
    said = _parsed(content)
    error = said.get("error") if isinstance(said, dict) else None
    if not isinstance(error, dict) or not error or any(said.get(name) for name in _ANSWERS):
        return None
    failure = of_event(error, now)
    failure = dataclasses.replace(failure, message=f"200, but {failure.message}")
    return _told_status(error) or _STATUSES.get(failure.ending, 502), failure


def first_event(stream: bytes) -> bytes:
    """Data of the first event of a stream, if it is whole."""
    end = _EVENT_END.search(stream)
    return b"" if end is None else b"\n".join(_DATA.findall(stream[: end.start()]))


def of_rubbish(status: int, what: str) -> Failure:
    """Failure of an answer with a good status whose content is invalid."""
    return Failure(Ending.ENDPOINT_DOWN, f"{status}, but {one_line(what, _MESSAGE_LENGTH)}", again=True)


def of_connection(error: BaseException) -> Failure:
    """Failure of a connection: there was no answer at all."""
    reason = one_line(str(error), _MESSAGE_LENGTH) or type(error).__name__
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


def _number(text: str | None) -> float | None:
    try:
        number = float(text or "")
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _error(body: bytes) -> Mapping[str, Any]:
    """The error in an answer's JSON, in the format of any wire; empty if there is none."""
    answer = _parsed(body)
    if isinstance(answer, list) and answer:
        answer = answer[0]
    if not isinstance(answer, dict):
        return {}
    error = answer.get("error", answer)
    return error if isinstance(error, dict) else {"message": str(error)}


def _parsed(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def _told_status(error: Mapping[str, Any]) -> int | None:
    """The status of an error, where it is told within."""
    code = error.get("code")
    return code if isinstance(code, int) and 400 <= code < 600 else None


def _message(error: Mapping[str, Any]) -> str:
    message = error.get("message")
    return message if isinstance(message, str) else ""


def _words(error: Mapping[str, Any]) -> Iterator[str]:
    for name in ("type", "code", "status", "reason"):
        if isinstance(word := error.get(name), str):
            yield word
    for detail in tables(error, "details"):
        if isinstance(word := detail.get("reason"), str):
            yield word
