"""What an agent asks its model passes through the gateway, and nothing else does."""

from __future__ import annotations

import gzip
import json
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from pytest_benchjobs.gateway.client import Gateway
from pytest_benchjobs.model.ending import Ending
from pytest_benchjobs.model.usage import Usage
from tests.unit.gateways import (
    EVENTS,
    KEY,
    STREAM_HEAD,
    Model,
    Said,
    agent,
    chat_answer,
    chat_stream,
    events,
    in_chunks,
    memory,
    running,
    wait_until,
)

WIRES: list[tuple[str, str, dict[str, str], dict[str, Any], dict[str, Any]]] = [
    (
        "/anthropic/v1/messages?beta=true",
        "/v1/messages?beta=true",
        {"x-api-key": KEY},
        {"type": "message", "model": "m-1", "content": []},
        {"input_tokens": 990, "cache_read_input_tokens": 10, "output_tokens": 100},
    ),
    (
        "/openai/v1/chat/completions",
        "/v1/chat/completions",
        {"authorization": f"Bearer {KEY}"},
        {"model": "m-1", "choices": [{"message": {"content": "hi"}, "finish_reason": "stop"}]},
        {"prompt_tokens": 1000, "completion_tokens": 100, "prompt_tokens_details": {"cached_tokens": 10}},
    ),
    (
        "/openai/v1/responses",
        "/v1/responses",
        {"authorization": f"Bearer {KEY}"},
        {"model": "m-1", "object": "response", "output": []},
        {"input_tokens": 1000, "output_tokens": 100, "input_tokens_details": {"cached_tokens": 10}},
    ),
    (
        "/google/v1beta/models/m-1:generateContent?key=placeholder",
        "/v1beta/models/m-1:generateContent",
        {"x-goog-api-key": KEY},
        {"candidates": []},
        {"promptTokenCount": 1000, "cachedContentTokenCount": 10, "candidatesTokenCount": 100},
    ),
]


@pytest.mark.parametrize(("path", "seen", "key", "content", "usage"), WIRES)
def test_each_wire_reaches_its_endpoint_with_the_real_key_only(
    gateway: Gateway,
    model: Model,
    path: str,
    seen: str,
    key: dict[str, str],
    content: dict[str, Any],
    usage: dict[str, Any],
) -> None:
    answer = json.dumps(
        {**content, "usageMetadata" if "google" in path else "usage": usage}, indent=2
    ).encode()
    model.says(Said(200, answer, {"X-Request-Id": "r1", "Set-Cookie": "a=b"}))
    mine = {
        "X-Api-Key": "placeholder", "Authorization": "Bearer placeholder", "X-Goog-Api-Key": "placeholder",
        "Cookie": "c=d", "OpenAI-Organization": "somebody", "Accept-Encoding": "gzip, br",
        "anthropic-version": "2023-06-01", "User-Agent": "agent/1", "Connection": "keep-alive, X-Hop",
        "X-Hop": "1",
    }  # fmt: skip
    body = {"model": "m-1", "messages": [{"role": "user", "content": "é"}]}
    with agent(gateway, model) as one:
        said = one.call(path, body, mine)
        report = one.route.close()
    [asked] = model.asked
    assert (asked.method, asked.path, asked.json) == ("POST", seen, body)
    names = {"x-api-key", "authorization", "x-goog-api-key"}
    assert {name: value for name, value in asked.headers.items() if name in names} == key
    assert "placeholder" not in str(asked)
    assert not {"cookie", "openai-organization", "x-hop"} & asked.headers.keys()
    assert asked.headers["anthropic-version"] == "2023-06-01"
    assert asked.headers["user-agent"] == "agent/1"
    assert (said.status, said.body, said.headers["x-request-id"]) == (200, answer, "r1")
    assert said.headers["content-length"] == str(len(answer))
    assert "set-cookie" not in said.headers
    cost = report.usage.cost_usd
    assert cost == pytest.approx((990 * 10 + 10 * 1 + 100 * 100) / 1e6)
    assert report.usage == Usage(
        input_tokens=1000, output_tokens=100, cached_tokens=10, calls=1, cost_usd=cost, source="gateway"
    )
    assert report.models == {"m-1": 1}
    assert (report.ending, report.message, report.unknown, report.job_stopped) == (None, None, {}, None)


def test_a_stream_arrives_while_it_is_made_byte_for_byte(gateway: Gateway, model: Model) -> None:
    more = threading.Event()
    chunks = events(
        {"type": "message_start", "message": {"model": "m-1", "usage": {"input_tokens": 7}}},
        {"type": "content_block_delta", "delta": {"text": "é\u2028"}},
        {"type": "message_delta", "usage": {"output_tokens": 3}},
        {"type": "message_stop"},
    )
    model.says(Said(200, b"", {"Content-Type": "text/event-stream; charset=utf-8"}, chunks=chunks, wait=more))
    with agent(gateway, model) as one:
        with one.stream() as response:
            first = response.read(len(chunks[0]))  # comes although the last chunk was not sent yet
            more.set()
            assert first + response.read() == b"".join(chunks)
            assert response.headers["Content-Type"] == "text/event-stream; charset=utf-8"
        assert one.route.close().usage == Usage(
            input_tokens=7, output_tokens=3, calls=1, cost_usd=0.00037, source="gateway"
        )


def test_usage_is_asked_for_in_a_chat_stream_and_kept_from_who_did_not_ask(
    gateway: Gateway, model: Model
) -> None:
    model.says(chat_stream(), chat_stream())
    with agent(gateway, model) as one:
        silent = one.chat(stream=True, stream_options={"x": 1})
        asking = one.chat(stream=True, stream_options={"include_usage": True})
        report = one.route.close()
    assert model.asked[0].json["stream_options"] == {"x": 1, "include_usage": True}
    whole = b"".join(chat_stream().chunks)
    assert asking.body == whole
    assert silent.body == b"".join(chunk for chunk in chat_stream().chunks if b"usage" not in chunk)
    assert report.usage.input_tokens == 2000
    assert report.usage.calls == 2


def test_a_server_that_knows_no_stream_options_is_asked_without(gateway: Gateway, model: Model) -> None:
    model.says(Said(400, b'{"error": {"message": "unknown field stream_options"}}'), chat_stream(usage=False))
    with agent(gateway, model) as one:
        assert one.chat(stream=True).body == b"".join(chat_stream(usage=False).chunks)
        report = one.route.close()
    assert "stream_options" not in model.asked[1].json
    assert report.usage == Usage(calls=1, source="gateway")
    assert report.ending is None


def test_an_answer_that_is_compressed_all_the_same_is_metered(gateway: Gateway, model: Model) -> None:
    plain = chat_answer().body
    model.says(Said(200, gzip.compress(plain), {"Content-Encoding": "gzip"}))
    with agent(gateway, model) as one:
        said = one.chat()
        assert one.route.close().usage.input_tokens == 1000
    assert said.body == plain
    assert "content-encoding" not in said.headers


def test_a_compressed_request_is_understood(gateway: Gateway, model: Model) -> None:
    model.says(chat_answer())
    body = {"model": "m-1", "messages": []}
    with agent(gateway, model) as one:
        packed = gzip.compress(json.dumps(body).encode())
        assert one.call("/openai/v1/chat/completions", packed, {"Content-Encoding": "gzip"}).status == 200
    assert model.asked[0].json == body
    assert "content-encoding" not in model.asked[0].headers


def test_lists_of_models_and_counts_of_tokens_cost_nothing(gateway: Gateway, model: Model) -> None:
    model.otherwise = Said(200, b'{"data": [], "usage": {"prompt_tokens": 1}}')
    with agent(gateway, model) as one:
        for method, path in (
            ("GET", "/openai/v1/models"),
            ("GET", "/anthropic/v1/models/m-1"),
            ("POST", "/anthropic/v1/messages/count_tokens"),
            ("POST", "/google/v1beta/models/m-1:countTokens"),
        ):
            assert one.call(path, {} if method == "POST" else None, method=method).status == 200
        assert one.route.close().usage.calls == 0
    assert len(model.asked) == 4


def test_a_wire_the_trial_does_not_need_is_closed(gateway: Gateway, model: Model) -> None:
    only = model.upstreams()[:1]
    model.upstreams = lambda: only  # type: ignore[method-assign,assignment]
    with agent(gateway, model) as one:
        assert one.chat().status == 404
    assert model.asked == []


def test_a_request_that_is_too_large_is_refused(gateway: Gateway, model: Model) -> None:
    with agent(gateway, model) as one, socket.create_connection(("127.0.0.1", one.port), timeout=30) as raw:
        raw.sendall(
            b"POST /openai/v1/responses HTTP/1.1\r\nHost: x\r\nContent-Length: 40000000\r\n"
            b"Expect: 100-continue\r\n\r\n"
        )
        assert raw.recv(100).startswith(b"HTTP/1.1 100 Continue")
        block = bytes(1 << 20)
        for _ in range(34):
            raw.sendall(block)
        assert raw.recv(100).startswith(b"HTTP/1.1 413")
    assert model.asked == []


def test_the_price_of_an_alias_counts_where_the_answer_names_something_else(
    gateway: Gateway, model: Model
) -> None:
    model.says(chat_answer("internal-name"))
    with agent(gateway, model) as one:
        one.chat("m-1")
        report = one.route.close()
    assert report.usage.cost_usd == pytest.approx(0.02)
    assert report.models == {"internal-name": 1}


def test_a_client_that_hangs_up_ends_the_call_of_the_endpoint(gateway: Gateway, model: Model) -> None:
    gone = threading.Event()

    def never_ending(handler: Any) -> None:
        handler.wfile.write(STREAM_HEAD)
        usage = {"type": "message_start", "message": {"model": "m-1", "usage": {"input_tokens": 1000}}}
        for chunk in [*events(usage), *[b": still here\n\n"] * 1_000_000]:
            try:
                handler.wfile.write(in_chunks(chunk))
                handler.wfile.flush()
            except OSError:
                gone.set()
                raise

    model.says(never_ending)
    with agent(gateway, model) as one:
        with one.stream() as response:
            response.read(10)
        assert gone.wait(20)
        report = one.route.close()
    assert report.usage == Usage(input_tokens=1000, calls=1, source="gateway")
    assert report.ending is None
    assert report.unfinished == 1
    # Of {"model":"m-1","stream":true} no byte is more than a token, and no model says more than 128,000.
    assert report.at_most == pytest.approx(29 * 20 / 1e6 + 12.8)


def test_an_agent_may_hang_up_as_soon_as_it_has_read_the_last_event(gateway: Gateway, model: Model) -> None:
    gone = threading.Event()
    usage = {
        "type": "message_start",
        "message": {"model": "m-1", "usage": {"input_tokens": 1000, "output_tokens": 0}},
    }

    def open_ended(handler: Any) -> None:
        handler.wfile.write(STREAM_HEAD)
        handler.wfile.write(in_chunks(*events(usage, {"type": "message_stop"})))
        handler.wfile.flush()
        handler.rfile.read(1)  # until the gateway hangs up
        gone.set()

    model.says(Said(400, b"{}"), open_ended)
    with agent(gateway, model) as one:
        assert one.chat().status == 400
        with one.stream() as response:
            while not response.readline().startswith(b'data: {"type": "message_stop"'):
                pass
        assert gone.wait(20)
        report = one.route.close()
    assert report.usage == Usage(input_tokens=1000, output_tokens=0, calls=1, cost_usd=0.01, source="gateway")
    assert report.ending is None


def test_an_agent_that_does_not_read_stops_the_endpoint_not_the_gateway(
    gateway: Gateway, model: Model
) -> None:
    sent = 0

    def flood(handler: Any) -> None:
        nonlocal sent
        handler.connection.settimeout(2)
        handler.wfile.write(STREAM_HEAD)
        block = in_chunks(b": " + b"x" * 65533 + b"\n")
        while sent < 200 << 20:
            handler.wfile.write(block)
            sent += len(block)

    before = memory(gateway)
    with agent(gateway, model) as one:
        model.says(flood, chat_answer())
        with one.stream():
            wait_until(lambda: sent)
            assert one.chat().status == 200
            assert sent < 100 << 20
            assert memory(gateway) - before < 50 << 20


def test_calls_from_this_machine_go_the_same_way(gateway: Gateway, model: Model) -> None:
    model.says(chat_answer(), Said(401, b'{"error": {"message": "no"}}'))
    with agent(gateway, model) as one:
        url = "http://127.0.0.1:4180/openai/v1/chat/completions"
        status, answer = one.route.post(url, {"model": "m-1"}, 20)
        assert (status, answer["model"]) == (200, "m-1")
        assert one.route.post(url, {"model": "m-1"}, 20) == (401, {"error": {"message": "no"}})
        assert one.route.post("http://127.0.0.1:4180/x", {}, 20)[0] == 404
        report = one.route.close()
    assert report.usage.calls == 1
    assert report.ending is Ending.AUTHENTICATION


def test_an_endpoint_of_this_machine_may_have_an_address_of_ipv6(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy, model = Model(), Model("::1")
    monkeypatch.setenv("http_proxy", proxy.url)
    try:
        model.says(chat_answer())
        with running(tmp_path) as gateway, agent(gateway, model) as one:
            assert one.chat().status == 200
    finally:
        proxy.close()
        model.close()
    [asked] = model.asked
    assert asked.headers["host"] == model.url.removeprefix("http://")
    assert asked.headers["host"].startswith("[::1]:")
    assert proxy.asked == []


def test_a_proxy_of_this_machine_is_used_but_not_for_what_is_on_it(
    tmp_path: Path, model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy = Model()
    monkeypatch.setenv("http_proxy", proxy.url)
    try:
        with running(tmp_path) as gateway:
            model.says(chat_answer())
            with agent(gateway, model) as one:
                assert one.chat().status == 200
            assert proxy.asked == []
            proxy.says(chat_answer())
            model.url = "http://model.invalid"
            with agent(gateway, model) as one:
                assert one.chat().status == 200
        assert [asked.path for asked in proxy.asked] == ["http://model.invalid/v1/chat/completions"]
    finally:
        proxy.close()


def test_large_requests_wait_for_each_other_and_small_ones_do_not(gateway: Gateway, model: Model) -> None:
    more = threading.Event()
    waiting = chat_stream(wait=more)
    model.otherwise = waiting
    with agent(gateway, model) as one, ThreadPoolExecutor(5) as pool:
        large = "x" * (2 << 20)
        calls = [pool.submit(one.chat, messages=[large]) for _ in range(5)]
        wait_until(lambda: len(model.asked) == 4)
        model.says(chat_answer("m-small"))
        assert one.chat("m-small").status == 200
        assert [len(asked.body) > 1 << 20 for asked in model.asked] == [True] * 4 + [False]
        more.set()
        assert [call.result().status for call in calls] == [200] * 5


def test_after_what_is_not_passed_on_nothing_is_read_any_more(gateway: Gateway, model: Model) -> None:
    inner = b"GET /openai/v1/models HTTP/1.1\r\nHost: x\r\n\r\n"
    with agent(gateway, model) as one:
        head = b"POST /nothing HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(inner)
        said = one.raw(head + inner + inner)
    assert said.count(b"HTTP/1.1 ") == 1
    assert said.startswith(b"HTTP/1.1 404")
    assert b"connection: close" in said.lower()
    assert model.asked == []


@pytest.mark.parametrize("version", [b"1.0", b"1.1"])
def test_a_stream_is_framed_as_the_agent_can_read_it(gateway: Gateway, model: Model, version: bytes) -> None:
    model.says(chat_stream())
    body = b'{"model": "m-1", "stream": true, "stream_options": {"include_usage": true}}'
    with agent(gateway, model) as one:
        head = b"POST /openai/v1/chat/completions HTTP/%b\r\nHost: x\r\nConnection: close\r\n" % version
        said = one.raw(head + b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
        assert one.route.close().usage.calls == 1
    head, _, content = said.partition(b"\r\n\r\n")
    assert (b"transfer-encoding: chunked" in head.lower()) is (version == b"1.1")
    whole = b"".join(chat_stream().chunks)
    assert (content == whole) is (version == b"1.0")


def test_a_stream_may_end_without_a_blank_line(gateway: Gateway, model: Model) -> None:
    *chunks, _ = chat_stream(usage=False).chunks
    chunks = [*chunks, b"data: [DONE]"]
    model.says(Said(200, b"", EVENTS, chunks=tuple(chunks)))
    with agent(gateway, model) as one:
        assert one.chat(stream=True).body == b"".join(chunks)
        assert one.route.close().ending is None


def test_a_key_is_sent_without_the_blanks_around_it(gateway: Gateway, model: Model) -> None:
    for key, sent in ((f" {KEY}\n", f"Bearer {KEY}"), (" ", None)):
        model.says(chat_answer())
        with agent(gateway, model, key=key) as one:
            one.chat()
        assert model.asked[-1].headers.get("authorization") == sent
