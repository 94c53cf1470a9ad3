"""Agents that attack the gateway: their requests reach nobody else, and nothing they make an endpoint do is uncounted.

Endpoints here are careless on purpose: they read no bodies, take what is left on a line for the next request, and
say more than they were asked.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import re
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_benchjobs.gateway.client import Gateway
from pytest_benchjobs.model.ending import Ending
from tests.unit.gateways import (
    KEY,
    Agent,
    Model,
    Said,
    Wire,
    agent,
    chat_answer,
    chat_stream,
    memory,
    running,
    wait_until,
)

pytestmark = [pytest.mark.when_changed, pytest.mark.usefixtures("answering")]

CHAT = "/openai/v1/chat/completions"
SMUGGLED = b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nX-Smuggled: 1\r\nContent-Length: 0\r\n\r\n"


class Careless(Wire):
    """An endpoint that reads no body: what follows a request's headers is its next request."""

    def __init__(self, more: bytes = b"") -> None:
        self.requests: list[bytes] = []
        self._more = more
        super().__init__()

    def serve(self, line: socket.socket, number: int) -> None:
        held = b""
        while True:
            while b"\r\n\r\n" not in held:
                more = line.recv(65536)
                if not more:
                    return
                held += more
            request, held = held.split(b"\r\n\r\n", 1)
            self.requests.append(request)
            # Says who asked, so that an answer to another request shows.
            mark = re.search(rb"x-request-id: (\w+)", request, re.IGNORECASE)
            name = b"smuggled" if mark is None else mark[1]
            usage = b'{"prompt_tokens": 1, "completion_tokens": 1}'
            body = b'{"model": "m-%b", "choices": [], "data": [], "usage": %b}' % (name, usage)
            head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
            line.sendall(head % len(body) + body + self._more)

    @property
    def smuggled(self) -> list[bytes]:
        return [request for request in self.requests if b"x-request-id" not in request.lower()]


@pytest.fixture
def careless() -> Iterator[Careless]:
    endpoint = Careless()
    yield endpoint
    endpoint.close()


def request(
    method: str, path: str, headers: dict[str, str] | None = None, body: bytes = b"", length: bool = True
) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "Host: x", "X-Request-Id: own", "Connection: close"]
    lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
    if length and body:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def statuses(said: bytes) -> list[int]:
    return [int(status) for status in re.findall(rb"HTTP/1\.[01] (\d{3}) ", said)]


def refused(said: bytes) -> bool:
    """Whether that was answered, and with nothing but refusals."""
    return bool(statuses(said)) and set(statuses(said)) <= {400, 403, 404, 405, 413, 414, 431}


# --- one trial answers for another -----------------------------------------------------------------------------------


def test_what_an_endpoint_does_not_read_is_never_another_request(
    gateway: Gateway, careless: Careless
) -> None:
    with agent(gateway, careless) as one, agent(gateway, careless) as neighbour:
        for number in range(5):
            for path in ("/openai/v1/models", "/anthropic/v1/models/x", "/google/v1beta/models"):
                one.raw(request("GET", path, body=SMUGGLED))
            mine = neighbour.call(CHAT, {"model": "m-1"}, {"X-Request-Id": f"n{number}"})
            assert mine.json["model"] == f"m-n{number}"
        assert one.route.close().usage.calls == 0
        assert neighbour.route.close().usage.calls == 5
    assert careless.smuggled == []
    assert not any(b"X-Smuggled" in seen for seen in careless.requests)


@pytest.mark.parametrize(
    "body",
    [
        b'{"model": "m-1",\r\n\r\n"a": 1}\r\n\r\n',
        b'{"model": "m-1", "x": "' + SMUGGLED.replace(b"\r\n", b"\\r\\n") + b'"}\r\n\r\n',
    ],
    ids=["line breaks between keys", "a request as a text"],
)
def test_nothing_of_a_body_can_be_a_request(gateway: Gateway, careless: Careless, body: bytes) -> None:
    with agent(gateway, careless) as one:
        for path in (CHAT, "/anthropic/v1/messages/count_tokens"):
            assert statuses(one.raw(request("POST", path, body=body))) == [200]
    assert len(careless.requests) == 2
    assert careless.smuggled == []


def test_a_body_that_is_no_json_is_passed_on_to_nobody(gateway: Gateway, careless: Careless) -> None:
    with agent(gateway, careless) as one:
        for path in (CHAT, "/anthropic/v1/messages/count_tokens"):
            for body in (SMUGGLED, b"[]", b"", b"\xff\xfe", b'{"model": "m-1"} ' + SMUGGLED):
                assert statuses(one.raw(request("POST", path, body=body))) == [400]
        report = one.route.close()
    assert careless.requests == []
    assert (report.usage.calls, report.ending) == (0, Ending.REFUSED)


def test_a_trial_reaches_no_other_trials_route(gateway: Gateway, careless: Careless) -> None:
    with agent(gateway, careless) as one, agent(gateway, careless) as other:
        for prefix in ("/r0", "/r1", "/../r0", "/control", "/host", "/door", f"/{other.route.socket}"):
            assert statuses(one.raw(request("POST", prefix + CHAT, body=b'{"model": "m-1"}'))) == [404]
        assert other.route.close().usage.calls == 0
    assert careless.requests == []


# --- how a request is framed -----------------------------------------------------------------------------------------

_CHUNKED = b"5\r\nhello\r\n0\r\n\r\n"
FRAMED_TWICE = [
    "Content-Length: 5\r\nContent-Length: 80", "Content-Length: 5, 5", "Content-Length: +5",
    "Content-Length: -5", "Content-Length: 0x5", "Content-Length: 5\r\nTransfer-Encoding: chunked",
    "Transfer-Encoding: chunked\r\nContent-Length: 80",
    "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
    "Transfer-Encoding: identity, chunked, identity", "Transfer-Encoding: xchunked",
    "Transfer-Encoding : chunked", "Transfer-Encoding:\x0bchunked", "X: y\r\n Transfer-Encoding: chunked",
    "X: y\rTransfer-Encoding: chunked", "X: y\x00z", "X y: z",
]  # fmt: skip
METHODS = ["HEAD", "OPTIONS", "DELETE", "PUT", "PATCH", "TRACE", "PROPFIND", "get"]
ELSEWHERE = [
    ("CONNECT", "127.0.0.1:22"), ("POST", "http://169.254.169.254/openai/v1/chat/completions"),
    ("GET", "/openai/v1/models/x%2f..%2f..%2ffiles"), ("GET", "*"),
]  # fmt: skip
UPGRADES = [
    {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Key": "x", "Sec-WebSocket-Version": "13"},
    {"Upgrade": "h2c", "Connection": "Upgrade, HTTP2-Settings", "HTTP2-Settings": "AAMAAABkAAQ"},
    {"Upgrade": "TLS/1.2"},
]  # fmt: skip
PLAIN = b'{"model": "m-1"}'


def upgrade(method: str, path: str, headers: dict[str, str]) -> bytes:
    return request(method, path, headers, PLAIN).replace(b"Connection: close\r\n", b"") + SMUGGLED


@pytest.mark.parametrize(
    "sent",
    [
        *(f"POST {CHAT} HTTP/1.1\r\nHost: x\r\n{two}\r\n\r\n".encode() + _CHUNKED + SMUGGLED for two in FRAMED_TWICE),
        *(request(method, path, body=SMUGGLED) + SMUGGLED for method in METHODS for path in ("/openai/v1/models/x", CHAT)),
        *(request(*place, body=PLAIN) for place in ELSEWHERE),
        *(upgrade(*place, to) for to in UPGRADES for place in (("GET", "/openai/v1/models"), ("POST", CHAT))),
    ],
    ids=lambda sent: sent[:120].decode(),
)  # fmt: skip
def test_another_framing_method_place_or_protocol_than_of_a_call_is_refused(
    gateway: Gateway, careless: Careless, sent: bytes
) -> None:
    with agent(gateway, careless) as one:
        said = one.raw(sent)
        assert one.route.close().usage.calls == 0
    assert refused(said)
    assert careless.requests == []


def test_a_chunked_body_is_passed_on_in_one_piece(gateway: Gateway, model: Model) -> None:
    body = b'{"model": "m-1"}'
    chunks = b"".join(b"1;x=%b\r\n%c\r\n" % (b"y" * 20, byte) for byte in body)
    ending = b"0\r\nX-Trailer: 1\r\n\r\n"
    with agent(gateway, model) as one:
        data = request("POST", CHAT, {"Transfer-Encoding": "chunked", "Trailer": "X-Trailer"})
        assert statuses(one.raw(data + chunks + ending)) == [200]
    [asked] = model.asked
    assert asked.body == b'{"model":"m-1"}'
    assert asked.headers["content-length"] == str(len(asked.body))
    assert not {"transfer-encoding", "trailer", "x-trailer"} & asked.headers.keys()


def test_requests_in_a_row_are_each_counted_and_refused_like_any(gateway: Gateway, model: Model) -> None:
    body = b'{"model": "m-1"}'
    last = request("POST", CHAT, body=body)
    one_request = last.replace(b"Connection: close\r\n", b"")
    with agent(gateway, model, limits={"max_calls": 3}) as one:
        said = one.raw(one_request * 5 + last)
        report = one.route.close()
    assert statuses(said)[:3] == [200, 200, 200]
    assert 200 not in statuses(said)[3:]
    assert len(model.asked) == 3
    assert report.usage.calls == 3


def test_expectations_of_an_agent_end_at_the_gateway(gateway: Gateway, model: Model) -> None:
    body = b'{"model": "m-1"}'
    with agent(gateway, model) as one:
        for expected in ("100-continue", "100-Continue"):
            assert statuses(one.raw(request("POST", CHAT, {"Expect": expected}, body))) == [100, 200]
    assert not any("expect" in asked.headers for asked in model.asked)


# --- what a request carries ------------------------------------------------------------------------------------------


def test_of_headers_only_those_pass_that_say_something_to_a_model(gateway: Gateway, model: Model) -> None:
    headers = {
        "Host": "elsewhere",
        "X-HTTP-Method-Override": "DELETE",
        "X-Goog-FieldMask": "candidates",
        "X-Original-URL": "/v1/files",
        "X-Forwarded-Host": "elsewhere",
        "Helicone-Target-URL": "http://elsewhere",
        "X-Portkey-Virtual-Key": "other",
        "X-Portkey-Config": '{"override_params": {"model": "dear"}}',
        "api-key": "mine",
        "Authorization": "Bearer mine",
        "x-api-key": "mine",
        "Proxy-Authorization": "Basic x",
        "Cookie": "a=b",
        "OpenAI-Organization": "other",
        "Content-Type": "text/plain; charset=utf-16",
        # Named as about the connection only, our own would be dropped on the way.
        "Connection": "authorization, x-api-key, content-length, content-type",
        "Anthropic-Beta": "context-1m",
    }
    with agent(gateway, model) as one:
        assert one.call(CHAT, {"model": "m-1"}, headers).status == 200
    [asked] = model.asked
    assert asked.headers == {
        "host": model.url.removeprefix("http://"),
        "accept-encoding": "identity",
        "anthropic-beta": "context-1m",
        "authorization": f"Bearer {KEY}",
        "content-length": "15",
        "content-type": "application/json",
    }


@pytest.mark.parametrize(
    ("path", "passed"),
    [
        (f"{CHAT}?model=dear&api_key=x", "/v1/chat/completions"),
        ("/anthropic/v1/messages?beta=true&model=dear", "/v1/messages?beta=true"),
        ("/google/v1beta/models/m-1:generateContent?fields=candidates&%24fields=x&%24httpMethod=GET&alt=media", "/v1beta/models/m-1:generateContent"),
        ("/google/v1beta/models/m-1:streamGenerateContent?alt=sse&alt=proto&callback=x&KEY=x", "/v1beta/models/m-1:streamGenerateContent?alt=sse"),
        ("/google/v1beta/models/m%2d1:generateContent?%61lt=json", "/v1beta/models/m-1:generateContent?alt=json"),
    ],
)  # fmt: skip
def test_of_a_query_nothing_passes_that_hides_usage_or_names_another_model(
    gateway: Gateway, model: Model, path: str, passed: str
) -> None:
    with agent(gateway, model, terms={"models": ["m-1"]}) as one:
        one.call(path, {"model": "m-1"})
    assert {asked.path for asked in model.asked} == {passed}


def test_giant_headers_are_refused(gateway: Gateway, model: Model) -> None:
    with agent(gateway, model) as one:
        for headers in ({"X-Big": "x" * (1 << 20)}, {f"X-{number}": "y" * 100 for number in range(20_000)}):
            with contextlib.suppress(ConnectionError):
                assert refused(one.raw(request("GET", "/openai/v1/models", headers)))
        assert refused(one.raw(request("GET", "/openai/v1/models?" + "x" * (1 << 20))))
        assert model.asked == []
        assert one.chat().status == 200


def test_a_body_that_never_ends_keeps_nobody_else_waiting(gateway: Gateway, model: Model) -> None:
    start = request("POST", CHAT, {"Content-Length": "3000000"}) + b'{"model'
    with agent(gateway, model) as one, agent(gateway, model) as other, contextlib.ExitStack() as lines:
        for _ in range(8):
            line = lines.enter_context(socket.create_connection(("127.0.0.1", one.port)))
            line.sendall(start)
        assert other.chat(x="y" * (2 << 20)).status == 200
        assert one.chat().status == 200  # a small one, which waits for no large one
        assert one.route.close().usage.calls == 1


@pytest.mark.extended
def test_what_is_small_when_packed_does_not_fill_the_memory(gateway: Gateway, model: Model) -> None:
    bomb = gzip.compress(bytes(400 << 20))
    before = memory(gateway)
    with agent(gateway, model) as one:
        said = one.raw(request("POST", CHAT, {"Content-Encoding": "gzip"}, bomb))
        assert refused(said)
        assert model.asked == []
        for kind in ("application/json", "text/event-stream"):
            model.says(Said(200, bomb, {"Content-Encoding": "gzip", "Content-Type": kind}))
            with contextlib.suppress(Exception):
                one.chat()
        assert one.chat().status == 200
    assert memory(gateway) - before < 300 << 20


@pytest.mark.parametrize(("unit", "times"), [(b"{},", 10_000_000), (b"[],", 700_000)])
def test_what_is_small_until_it_is_parsed_does_not_fill_the_memory(
    gateway: Gateway, model: Model, unit: bytes, times: int
) -> None:
    body = b'{"model": "m-1", "x": [' + unit * times + b"0]}"
    with agent(gateway, model) as one:
        for _ in range(2):
            assert refused(one.raw(request("POST", CHAT, body=body)))
        assert model.asked == []
        assert one.chat().status == 200
    assert memory(gateway, "VmHWM") < 500 << 20


# --- which model is called -------------------------------------------------------------------------------------------

_ANTHROPIC, _RESPONSES = "/anthropic/v1/messages", "/openai/v1/responses"


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (CHAT, b'{"model": "dear"}'),
        (_RESPONSES, b'{"model": "dear"}'),
        (_ANTHROPIC, b'{"model": "dear"}'),
        ("/google/v1beta/models/dear:generateContent", b"{}"),
        ("/google/v1beta/models/d%65ar:generateContent", b"{}"),
        ("/google/v1beta/models/m-1:generateContent", b'{"model": "models/dear"}'),
        (CHAT, b'{"model": "m-1", "model": "dear"}'),
        (CHAT, b'{"model": "m-1", "mod\\u0065l": "dear"}'),
        (CHAT, b'{"model": "m-1", "models": ["m-1", "dear"]}'),
        (_RESPONSES, b'{"model": "m-1", "tools": [{"type": "image_generation", "model": "dear"}]}'),
        (_ANTHROPIC, b'{"model": "m-1", "tools": [{"type": "advisor", "model": "dear"}]}'),
        (CHAT, '{"model": "dear"}'.encode("utf-16")),
        (CHAT, b'{"model": "m-1-large"}'),
        (CHAT, b'{"model": "M-1"}'),
        (CHAT, b'{"model": "m-1 "}'),
        (CHAT, b'{"model": "m-1", "fallbacks": ["dear"]}'),
        (CHAT, b'{"model": "m-1", "fallbacks": [{"model": "dear", "messages": []}]}'),
        (CHAT, b'{"model": "m-1", "plugins": [{"id": "fusion", "analysis_models": ["m-1", "dear"]}]}'),
        (CHAT, b'{"model": "m-1", "extra_body": {"fallback_models": ["dear"]}}'),
        (CHAT, b'{"model": "m-1", "preset": "dear"}'),
        (_RESPONSES, b'{"model": "m-1", "tools": [{"type": "x", "x": {"Default_Model": "dear"}}]}'),
    ],
)
def test_another_model_is_not_called(gateway: Gateway, careless: Careless, path: str, body: bytes) -> None:
    with agent(gateway, careless, terms={"models": ["m-1"]}) as one:
        assert statuses(one.raw(request("POST", path, body=body))) == [403]
        report = one.route.close()
    assert careless.requests == []
    assert (report.usage.calls, report.ending) == (0, Ending.REFUSED)
    assert "--bench-allow-model" in (report.message or "")
    assert len(report.refused) == 1


def test_what_is_said_to_a_model_may_be_about_models(gateway: Gateway, model: Model) -> None:
    spoken = [{"role": "assistant", "content": [{"type": "tool_use", "input": {"model": "dear"}}]}]
    schema = {"type": "object", "properties": {"model": {"type": "string"}}, "required": ["model"]}
    tools = [
        {
            "type": "function",
            "function": {"name": "ask", "parameters": {**schema, "default": {"model": "dear"}}},
        },
        {"name": "ask", "input_schema": schema, "input_examples": [{"model": "dear"}]},
    ]
    formats = {"response_format": {"type": "json_schema", "json_schema": {"schema": {"model": "dear"}}}}
    with agent(gateway, model, terms={"models": ["m-1"]}) as one:
        body = {"model": "m-1", "messages": spoken, "tools": tools, "metadata": {"model": "dear"}, **formats}
        body |= {"chat_template_kwargs": {"model_identity": "You are dear"}, "guided_json": {"model": "dear"}}
        assert one.call(CHAT, body).status == 200
        assert model.asked[0].json == body


@pytest.mark.parametrize("body", [{"model": None, "prompt": {"id": "stored"}}, {"prompt": {"id": "stored"}}])
def test_a_stored_prompt_brings_no_model_of_its_own(
    gateway: Gateway, model: Model, body: dict[str, Any]
) -> None:
    with agent(gateway, model, terms={"models": ["m-1"]}) as one:
        one.call(_RESPONSES, body)
    assert model.asked[0].json == {"prompt": {"id": "stored"}, "model": "m-1"}


def test_of_two_models_in_one_body_the_one_that_was_looked_at_is_passed_on(
    gateway: Gateway, model: Model
) -> None:
    with agent(gateway, model, terms={"models": ["m-1"]}) as one:
        assert one.call(CHAT, b'{"model": "dear", "model": "m-1"}').status == 200
        assert one.call(CHAT, b'{"messages": []}').status == 200
        assert one.call(CHAT, b"\xef\xbb\xbf" + b'{"model": "m-1"}').status == 200
        assert one.call("/openai/v1/models", method="GET").status == 200
        assert one.route.close().refused == ()
    bodies = [asked.body for asked in model.asked]
    assert bodies == [b'{"model":"m-1"}', b'{"messages":[],"model":"m-1"}', b'{"model":"m-1"}', b""]


# --- what is counted -------------------------------------------------------------------------------------------------


def _hang_up_on(one: Agent, model: Model, seen: int) -> None:
    body = b'{"model": "m-1", "max_tokens": 1000}'
    with socket.create_connection(("127.0.0.1", one.port)) as line:
        line.sendall(request("POST", CHAT, body=body))
        wait_until(lambda: len(model.asked) > seen or b"402" in _peek(line))


def _peek(line: socket.socket) -> bytes:
    try:
        return line.recv(100, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except BlockingIOError:
        return b""


@pytest.mark.parametrize(
    ("limits", "calls"),
    # Of one call that nobody heard the end of: at most 33 tokens sent and 1000 back, which is 0.10066 USD.
    [({"max_calls": 2}, 2), ({"max_cost_usd": 0.25}, 3), ({"max_tokens": 2050}, 2)],
)
def test_who_hangs_up_early_has_called_all_the_same(
    gateway: Gateway, model: Model, limits: dict[str, Any], calls: int
) -> None:
    never = threading.Event()
    model.says(*[lambda handler: never.wait(20)] * 6)  # type: ignore[list-item]
    try:
        with agent(gateway, model, limits=limits) as one:
            for number in range(calls):
                _hang_up_on(one, model, number)
            wait_until(lambda: one.chat().status == 402)
            for _ in range(3):
                _hang_up_on(one, model, calls)
            report = one.route.close()
    finally:
        never.set()
    assert len(model.asked) == calls
    assert report.ending is Ending.TRIAL_LIMIT
    assert (report.usage.calls, report.usage.cost_usd, report.unfinished) == (calls, None, calls)
    assert report.at_most == pytest.approx(calls * (33 * 20 + 1000 * 100) / 1e6)
    assert report.models == {"m-1": calls}


def test_who_hangs_up_before_anything_is_sent_has_not_called(tmp_path: Path, model: Model) -> None:
    with running(tmp_path, rates={"openai": (12, None)}) as gateway, agent(gateway, model) as one:
        assert one.chat().status == 200
        with socket.create_connection(("127.0.0.1", one.port)) as line:  # has to wait for its turn
            line.sendall(request("POST", CHAT, body=b'{"model": "m-1"}'))
        report = one.route.close()
    assert len(model.asked) == 1
    assert (report.usage.calls, report.unfinished) == (1, 0)
    assert report.usage.cost_usd == pytest.approx(0.02)


def test_a_new_try_of_a_trial_has_what_the_last_one_left_of_its_limits(
    gateway: Gateway, model: Model
) -> None:
    with agent(gateway, model, limits={"max_calls": 3}, terms={"models": ["m-1"]}) as one:
        assert [one.chat().status for _ in range(2)] == [200, 200]
        assert one.chat("dear").status == 403
        first = one.route.close()
    again = {"models": ["m-1"], "carried": first.carried}
    with agent(gateway, model, limits={"max_calls": 3}, terms=again) as one:
        assert [one.chat().status for _ in range(2)] == [200, 402]
        second = one.route.close()
    assert first.usage.calls == 2
    assert second.usage.calls == 3
    assert second.usage.cost_usd == pytest.approx(0.06)
    assert (second.models, second.refused) == ({"m-1": 3}, ("dear",))


# --- whose fault it is -----------------------------------------------------------------------------------------------


def _error(status: int, message: str, /, **more: str) -> Said:
    return Said(status, json.dumps({"error": {"message": message, **more}}).encode())


def test_what_an_agent_has_quoted_in_an_error_does_not_end_the_job(gateway: Gateway, model: Model) -> None:
    model.says(_error(400, "Invalid value: 'Your credit balance is too low'. Supported values are: 'user'"))
    model.says(_error(400, "Invalid value: 'API key not valid.'. Supported values are: 'user'"))
    with agent(gateway, model) as one:
        assert one.call(CHAT, {"messages": [{"role": "Your credit balance is too low"}]}).status == 400
        assert one.call(CHAT, {"messages": [{"role": "API key not valid."}]}).status == 400
        report = one.route.close()
    assert (report.ending, report.job_stopped) == (Ending.REFUSED, None)
    with agent(gateway, model) as other:
        assert other.chat().status == 200


@pytest.mark.parametrize(
    ("path", "body", "said"),
    [
        (
            "/google/v1beta/models/m-1:generateContent",
            {"contents": [], "cachedContent": "cachedContents/none"},
            _error(403, "CachedContent not found (or permission denied)", status="PERMISSION_DENIED"),
        ),
        (_RESPONSES, {"model": "m-1", "input": [{"content": [{"type": "input_file", "file_id": "none"}]}]}, _error(404, "No such File object: none", type="invalid_request_error")),
        (_RESPONSES, {"model": "m-1", "input": "", "previous_response_id": "none"}, _error(404, "no such response for this model")),
        (CHAT, {"model": "m-none-mini"}, _error(404, "no such model", code="model_not_found")),
        (CHAT, {"model": "m-none-mini"}, _error(403, "not for you")),
    ],
)  # fmt: skip
def test_what_an_agent_names_and_is_not_there_is_its_own_doing(
    gateway: Gateway, model: Model, path: str, body: dict[str, Any], said: Said
) -> None:
    model.says(said)
    with agent(gateway, model, terms={"models": ["m-1", "m-*-mini"]}) as one:
        assert one.call(path, body).status in (403, 404)
        assert one.route.close().ending is Ending.REFUSED


@pytest.mark.parametrize("status", [401, 403])
def test_a_key_that_is_refused_is_no_doing_of_the_agent(gateway: Gateway, model: Model, status: int) -> None:
    model.says(_error(status, "no"))
    with agent(gateway, model, terms={"models": ["m-1"]}) as one:
        assert one.call(CHAT, {"model": "m-1-20260101", "messages": []}).status == status
        assert one.route.close().ending is Ending.AUTHENTICATION


def test_the_model_the_trial_is_about_is_unknown_whatever_answered_before(
    gateway: Gateway, model: Model
) -> None:
    model.says(chat_answer(), _error(404, "no such model", code="model_not_found"))
    with agent(gateway, model, terms={"models": ["m-1", "m-*-mini"]}) as one:
        assert one.chat("m-5-mini").status == 200
        assert one.chat().status == 404
        assert one.route.close().ending is Ending.UNKNOWN_MODEL


# --- what is not counted ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("background", [True, 1, "yes"])
def test_nothing_is_answered_in_the_background(gateway: Gateway, model: Model, background: object) -> None:
    with agent(gateway, model) as one:
        assert one.call(_RESPONSES, {"model": "m-1", "background": background}).status == 400
        assert one.call(_RESPONSES, {"model": "m-1", "background": False}).status == 200
        assert one.route.close().usage.calls == 1


@pytest.mark.parametrize(
    "body",
    [
        {"stream": 1},
        {"stream": "true"},
        {"stream": True, "stream_options": {"include_usage": "no"}},
        {"stream": True, "stream_options": {"include_usage": False}},
        {"stream": True, "stream_options": "none"},
    ],
)
def test_usage_is_asked_for_whatever_a_server_takes_for_true(
    gateway: Gateway, model: Model, body: dict[str, Any]
) -> None:
    model.says(chat_stream())
    with agent(gateway, model) as one:
        assert b'"usage"' not in one.chat(**body).body
        assert one.route.close().usage.input_tokens == 1000
    assert model.asked[0].json["stream_options"]["include_usage"] is True


_DEAR = [{"service_tier": "scale"}, {"speed": "hasty"}, {"serviceTier": "SCALE"}]


@pytest.mark.parametrize("dear", _DEAR)
def test_another_rate_has_no_price_of_the_standard_one(
    tmp_path: Path, model: Model, dear: dict[str, str]
) -> None:
    model.otherwise = chat_answer("gpt-5")
    with running(tmp_path, prices=None) as gateway:
        with agent(gateway, model, terms={"models": ["gpt-5"]}) as one:
            assert [one.chat("gpt-5", **more).status for more in ({}, dear)] == [200, 200]
            report = one.route.close()
        assert report.usage.cost_usd is None
        assert len(report.models) == 2
        _, other = report.models
        assert other in ("gpt-5 (scale)", "gpt-5 (hasty)")
        assert report.unknown == {f"no price for {other}": 1}
        with agent(gateway, model, terms={"models": ["gpt-5"]}, limits={"max_cost_usd": 5}) as one:
            assert [one.chat("gpt-5", **more).status for more in (dear, {})] == [402, 200]
            assert one.chat("gpt-5", **dear).status == 402
            assert one.route.close().ending is Ending.REFUSED


def test_a_dearer_rate_may_have_a_price_of_its_own(tmp_path: Path, model: Model) -> None:
    prices = tmp_path / "own.toml"
    prices.write_text('date = 2026-11-21\n[[model]]\nnames = ["m-1 (priority)"]\ninput = 20\noutput = 200\n')
    with (
        running(tmp_path, prices=prices) as gateway,
        agent(gateway, model, limits={"max_cost_usd": 5}) as one,
    ):
        assert one.chat("m-1", service_tier="priority").status == 200
        assert one.route.close().usage.cost_usd == pytest.approx(0.04)


def test_a_small_model_without_a_price_is_the_agents_own_choice(gateway: Gateway, model: Model) -> None:
    terms = {"models": ["m-1", "x-*-mini"]}
    with agent(gateway, model, terms=terms, limits={"max_cost_usd": 5}) as one:
        assert one.chat("x-5-mini").status == 402
        assert one.route.close().ending is Ending.REFUSED
