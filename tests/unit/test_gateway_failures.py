"""Each way an endpoint fails means one thing for the agent."""

from __future__ import annotations

import email.utils
import json
import socket
import ssl
from typing import Any
from unittest import mock

import aiohttp
import pytest
from aiohttp.http_exceptions import ContentEncodingError

from pytest_benchjobs.gateway.failures import of_connection, of_content, of_event, of_response
from pytest_benchjobs.gateway.meter import first_event
from pytest_benchjobs.model.ending import Ending

NOW = 1_800_000_000.0


def _anthropic(kind: str, message: str) -> dict[str, Any]:
    return {"type": "error", "error": {"type": kind, "message": message}}


def _openai(message: str, code: str | None = None) -> dict[str, Any]:
    return {"error": {"message": message, "type": "invalid_request_error", "code": code}}


def _google(code: int, status: str, message: str, **details: Any) -> dict[str, Any]:
    return {
        "error": {"code": code, "status": status, "message": message, "details": [details] if details else []}
    }


@pytest.mark.parametrize(
    ("status", "body", "ending", "again"),
    [
        (401, _anthropic("authentication_error", "invalid x-api-key"), Ending.AUTHENTICATION, False),
        (403, _anthropic("permission_error", "no"), Ending.AUTHENTICATION, False),
        (404, _anthropic("not_found_error", "model: claude-0"), Ending.UNKNOWN_MODEL, False),
        (400, _anthropic("invalid_request_error", "prompt is too long"), Ending.REFUSED, False),
        (402, _anthropic("billing_error", "pay"), Ending.QUOTA, False),
        (413, _anthropic("request_too_large", "big"), Ending.REFUSED, False),
        (429, _anthropic("rate_limit_error", "slow down"), Ending.RATE_LIMITED, True),
        (500, _anthropic("api_error", "oops"), Ending.ENDPOINT_DOWN, True),
        (529, _anthropic("overloaded_error", "busy"), Ending.ENDPOINT_DOWN, True),
        (401, _openai("Incorrect API key", "invalid_api_key"), Ending.AUTHENTICATION, False),
        (404, _openai("The model `x` does not exist", "model_not_found"), Ending.UNKNOWN_MODEL, False),
        (403, _openai("no access to model", "model_not_found"), Ending.UNKNOWN_MODEL, False),
        (429, _openai("Rate limit reached", "rate_limit_exceeded"), Ending.RATE_LIMITED, True),
        (422, _openai("no"), Ending.REFUSED, False),
        (404, {"object": "error", "message": "The model `x` does not exist.", "code": 404}, Ending.UNKNOWN_MODEL, False),
        (404, {"detail": "Not Found"}, Ending.ENDPOINT_DOWN, False),
        (400, _google(400, "INVALID_ARGUMENT", "API key not valid.", reason="API_KEY_INVALID"), Ending.AUTHENTICATION, False),
        (404, _google(404, "NOT_FOUND", "models/x is not found"), Ending.UNKNOWN_MODEL, False),
        (429, _google(429, "RESOURCE_EXHAUSTED", "quota", retryDelay="34s"), Ending.RATE_LIMITED, True),
        (503, _google(503, "UNAVAILABLE", "overloaded"), Ending.ENDPOINT_DOWN, True),
        (408, {}, Ending.ENDPOINT_DOWN, True),
        (409, {}, Ending.ENDPOINT_DOWN, True),
        (301, {}, Ending.ENDPOINT_DOWN, False),
    ],
)  # fmt: skip
def test_an_answer_that_is_none(status: int, body: dict[str, Any], ending: Ending, again: bool) -> None:
    failure = of_response(status, {}, json.dumps(body).encode(), NOW)
    assert (failure.ending, failure.again) == (ending, again)
    assert failure.message.startswith(f"{status}: ")


@pytest.mark.parametrize(
    ("headers", "body", "seconds"),
    [
        ({"retry-after": "7"}, {}, 7),
        ({"retry-after": "1.5"}, {}, 1.5),
        ({"retry-after": email.utils.formatdate(NOW + 30, usegmt=True)}, {}, 30),
        ({"retry-after": email.utils.formatdate(NOW - 30, usegmt=True)}, {}, 0),
        ({"retry-after-ms": "250", "retry-after": "1"}, {}, 0.25),
        ({"retry-after": "soon"}, {}, None),
        ({"retry-after": "nan"}, {}, None),
        ({"retry-after": "-3"}, {}, 0),
        ({}, _google(429, "RESOURCE_EXHAUSTED", "quota", retryDelay="34.5s"), 34.5),
        ({}, {}, None),
    ],
)
def test_how_long_an_endpoint_wants_to_be_left_alone(
    headers: dict[str, str], body: dict[str, Any], seconds: float | None
) -> None:
    failure = of_response(429, headers, json.dumps(body).encode(), NOW)
    assert failure.wait == (None if seconds is None else pytest.approx(seconds))


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b'{"error": "just words"}', "429: just words"),
        (b'[{"error": {"message": "in a list"}}]', "429: in a list"),
        (b"<html>\x1b[31mBusy\n</html>", "429: <html>Busy </html>"),
        (b"", "429: "),
        (b"[" * 100_000, "429: [[["),
        (b'{"error": {"message": 5, "type": 6, "details": 7}}', '429: {"error"'),
    ],
)
def test_whatever_it_says_is_one_short_line(body: bytes, words: str) -> None:
    message = of_response(429, {}, body, NOW).message
    assert message.startswith(words)
    assert len(message) < 310
    assert message.isprintable()


@pytest.mark.parametrize(
    ("error", "ending"),
    [
        ({"type": "overloaded_error", "message": "busy"}, Ending.ENDPOINT_DOWN),
        ({"type": "rate_limit_error", "message": "slow"}, Ending.RATE_LIMITED),
        ({"code": "rate_limit_exceeded", "message": "slow"}, Ending.RATE_LIMITED),
        ({"code": "insufficient_quota", "message": "pay"}, Ending.QUOTA),
        ({"type": "invalid_request_error", "message": "no"}, Ending.REFUSED),
        ({"nothing": "known"}, Ending.ENDPOINT_DOWN),
        ({"code": 429, "message": "slow"}, Ending.RATE_LIMITED),
        ({"code": 402, "message": "pay"}, Ending.QUOTA),
        ({"code": 502, "message": "upstream"}, Ending.ENDPOINT_DOWN),
        ({"code": 400, "message": "no"}, Ending.REFUSED),
        ({"code": 7, "message": "?"}, Ending.ENDPOINT_DOWN),
    ],
)
def test_an_error_within_an_answer(error: dict[str, Any], ending: Ending) -> None:
    assert of_event(error, NOW).ending is ending


@pytest.mark.parametrize(
    ("content", "status", "ending", "again"),
    [
        (b'{"error": {"code": 502, "message": "m"}}', 502, Ending.ENDPOINT_DOWN, True),
        (b'{"error": {"code": 429}, "choices": []}', 429, Ending.RATE_LIMITED, True),
        (b'{"error": {"code": 402}}', 402, Ending.QUOTA, False),
        (b'{"error": {"code": 400}}', 400, Ending.REFUSED, False),
        (b'{"type": "error", "error": {"type": "rate_limit_error"}}', 429, Ending.RATE_LIMITED, True),
        (b'{"type": "error", "error": {"type": "invalid_request_error"}}', 400, Ending.REFUSED, False),
        (b'{"error": {"code": 200, "message": "m"}}', 502, Ending.ENDPOINT_DOWN, True),
    ],
)
def test_an_error_in_the_place_of_an_answer(content: bytes, status: int, ending: Ending, again: bool) -> None:
    found = of_content(content, NOW)
    assert found is not None
    assert (found[0], found[1].ending, found[1].again) == (status, ending, again)
    for event in (b"data: %b\n\ndata: more", b"event: error\r\ndata: %b\r\n\r\n", b": ping\ndata:%b\r\r"):
        assert of_content(first_event(event % content), NOW) == found


@pytest.mark.parametrize(
    "content",
    [
        b'{"error": null, "choices": []}',
        b'{"error": {}, "choices": []}',
        b'{"error": {"code": 502}, "choices": [{}]}',
        b'{"output": [{"type": "message"}], "error": {"code": 1}}',
        b'{"choices": [{"message": {"content": "an \\"error\\""}}]}',
        b'["error"]',
        b'"error"',
        b'{"error": {"code": 502}',
    ],
)
def test_an_answer_that_speaks_of_an_error_is_an_answer(content: bytes) -> None:
    assert of_content(content, NOW) is None
    assert first_event(b"data: " + content) == b""  # it is not whole


def test_no_answer_is_worth_another_try() -> None:
    failure = of_connection(ConnectionRefusedError("refused"))
    assert (failure.ending, failure.again) == (Ending.ENDPOINT_DOWN, True)
    assert failure.message == "no answer: refused"
    refused = ConnectionRefusedError(111, "Connect call failed ('127.0.0.1', 9)")
    failure = of_connection(aiohttp.ClientConnectorError(mock.Mock(host="127.0.0.1", port=9), refused))
    assert failure.message.startswith(
        "no answer: 127.0.0.1:9: Connection refused; start the server there, or"
    )
    assert of_connection(TimeoutError()).message == "no answer: TimeoutError"


def test_an_address_that_is_none_and_a_certificate_that_is_wrong_are_not() -> None:
    assert not of_connection(aiohttp.InvalidURL("htp:/x")).again
    assert not of_connection(ssl.SSLCertVerificationError("self-signed")).again
    for number, again in ((socket.EAI_NONAME, False), (socket.EAI_AGAIN, True)):
        nobody = aiohttp.ClientConnectorError(mock.Mock(), socket.gaierror(number, "no name"))
        assert of_connection(nobody).again is again
    packed = aiohttp.ClientPayloadError("400")
    packed.__cause__ = ContentEncodingError("zstd")
    assert not of_connection(packed).again
