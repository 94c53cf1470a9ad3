"""Endpoints that say 200 and answer nothing, or take for ever: that is theirs, and takes no longer than it may."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pytest_benchjobs.gateway.client import Gateway
from pytest_benchjobs.gateway.meter import flaw
from pytest_benchjobs.gateway.wires import Kind
from pytest_benchjobs.model.ending import Ending
from tests.unit.gateways import EVENTS, Model, Said, agent, chat_answer, events, running, wait_until

pytestmark = pytest.mark.when_changed
HTML = b"<html><title>Down for maintenance</title></html>"
STREAM = {"model": "m-1", "messages": [], "stream": True}
WORDS = {"model": "m-1", "choices": [{"index": 0, "delta": {"content": "hel"}}]}
BROKEN = (http.client.IncompleteRead, ConnectionError)
CHAT = "/openai/v1/chat/completions"
GOOGLE = "/google/v1beta/models/m-1:streamGenerateContent?alt=sse"


@pytest.fixture(scope="module")
def gateway(impatient: Gateway) -> Gateway:
    return impatient


def _drip(every: float, head: bytes = b"Content-Type: application/json\r\n") -> Callable[[Any], None]:
    """An answer of a byte now and then, for as long as somebody reads."""

    def answer(handler: Any) -> None:
        handler.close_connection = True
        handler.wfile.write(b"HTTP/1.1 200 OK\r\n" + head + b"Transfer-Encoding: chunked\r\n\r\n")
        pause = threading.Event()
        for _ in range(2000):
            handler.wfile.write(b"1\r\n \r\n")
            handler.wfile.flush()
            pause.wait(every)

    return answer


def _silent(handler: Any) -> None:
    """Accept and never answer."""
    handler.close_connection = True
    handler.connection.recv(1)


GARBAGE = {
    "html": Said(200, HTML, {"Content-Type": "text/html"}), "html that calls itself JSON": Said(200, HTML),
    "half of a JSON": Said(200, b'{"id": "1", "choices": ['), "empty": Said(200, b""),
    "empty stream": Said(200, b"", EVENTS), "another JSON": Said(200, b'{"status": "ok"}'),
    "a list": Said(200, b"[]"), "a text": Said(200, b'"fine"'), "nothing": Said(200, b"null"),
}  # fmt: skip


@pytest.mark.parametrize("what", GARBAGE)
@pytest.mark.parametrize("stream", [False, True])
def test_rubbish_is_the_endpoints_fault_and_may_pass(
    patient: Gateway, model: Model, what: str, stream: bool
) -> None:
    model.says(GARBAGE[what], GARBAGE[what], chat_answer())
    with agent(patient, model) as one:
        assert one.chat(stream=stream).json["choices"]
        report = one.route.close()
    assert report.ending is None
    assert len(model.asked) == 3
    # What a model may have made may have been charged for.
    perhaps = 2 if what == "half of a JSON" else 0
    assert report.usage.calls == 1 + perhaps
    assert report.unknown == ({"had an answer that was no good": 2} if perhaps else {})
    assert report.usage.cost_usd == (None if perhaps else pytest.approx(0.02))
    assert report.at_most == pytest.approx(0.02) or perhaps


@pytest.mark.parametrize("what", GARBAGE)
def test_rubbish_that_does_not_pass_is_told_as_an_error(gateway: Gateway, model: Model, what: str) -> None:
    model.otherwise = GARBAGE[what]
    with agent(gateway, model) as one:
        said = one.chat()
        assert (said.status, said.headers["x-should-retry"]) == (502, "false")
        assert "the answer" in said.json["error"]["message"]
        wait_until(one.route.stop_asked)
        report = one.route.close()
    assert (report.ending, (report.message or "")[:8]) == (Ending.ENDPOINT_DOWN, "200, but")


def test_an_answer_with_a_wrong_byte_is_one(gateway: Gateway, model: Model) -> None:
    said = chat_answer()
    model.says(said._replace(body=said.body.replace(b"hello", b"h\xffllo")))
    with agent(gateway, model) as one:
        assert "h\ufffdllo" in one.chat().json["choices"][0]["message"]["content"]
        report = one.route.close()
    assert (report.ending, report.usage.calls, report.usage.cost_usd) == (None, 1, pytest.approx(0.02))


ERROR = {"error": {"code": 503, "message": "busy", "type": "server_error"}}
FAILED = {"type": "response.failed", "response": {"model": "m-1", "usage": None, "error": ERROR["error"]}}
FILTERED = {"model": "m-1", "choices": [{"delta": {}, "finish_reason": "content_filter"}]}
UNANSWERED = {
    "an error within a stream": (CHAT, events(WORDS, ERROR)),
    "a response that failed": ("/openai/v1/responses", events({"type": "response.created"}, FAILED)),
    "an error of Anthropic's": (
        "/anthropic/v1/messages",
        events({"type": "ping"}, {"type": "error", **ERROR}),
    ),
    "an error of Google's": (GOOGLE, events({"candidates": [{"content": {}}], "modelVersion": "m-1"}, ERROR)),
    "a refusal without usage": (CHAT, events(WORDS, FILTERED, b"[DONE]")),
    "a stream that is cut off": (CHAT, events(WORDS)),
    "an error in one piece": (CHAT, ()),
}


@pytest.mark.parametrize("limits", [{"max_cost_usd": 14}, {"max_tokens": 130_000}, {}])
@pytest.mark.parametrize("what", UNANSWERED)
def test_what_ended_with_an_error_is_neither_free_nor_the_end_of_a_trial(
    gateway: Gateway, model: Model, what: str, limits: dict[str, Any]
) -> None:
    path, chunks = UNANSWERED[what]
    model.says(Said(200, b"", EVENTS, chunks=chunks) if chunks else Said(200, json.dumps(ERROR).encode()))
    model.otherwise = chat_answer()
    with agent(gateway, model, limits=limits) as one:
        with contextlib.suppress(*BROKEN):
            one.call(path, STREAM)
        assert one.chat().status == 200
        report = one.route.close()
    # No more than 128,000 tokens came back, at 100 USD for a million; and fewer if the endpoint has ended.
    assert (report.ending, report.usage.calls, report.usage.cost_usd) == (None, len(model.asked), None)
    assert (12.82 if "cut off" in what else 0.0201) < (report.at_most or 0) < 12.85
    assert report.unfinished == 1


def test_an_answer_without_a_word_in_it_is_counted_and_no_answer(gateway: Gateway, model: Model) -> None:
    usage = {"prompt_tokens": 1000, "completion_tokens": 100}
    model.says(Said(200, json.dumps({"model": "m-1", "choices": [], "usage": usage}).encode()))
    with agent(gateway, model) as one:
        assert one.chat().status == 200
        report = one.route.close()
    assert (report.ending, report.usage.calls, report.usage.input_tokens) == (Ending.ENDPOINT_DOWN, 1, 1000)


ENDLESS = {
    "/openai/v1/chat/completions": events(WORDS, WORDS),
    "/openai/v1/responses": events({"type": "response.created", "response": {"model": "m-1"}}),
    "/anthropic/v1/messages": events({"type": "message_start", "message": {"model": "m-1"}}),
    "/google/v1beta/models/m-1:streamGenerateContent?alt=sse": events({"candidates": [{"content": {}}]}),
}
ENDS = {
    "/openai/v1/chat/completions": events({"choices": [{"delta": {}, "finish_reason": "stop"}]}),
    "/openai/v1/responses": events({"type": "response.incomplete", "response": {"model": "m-1"}}),
    "/anthropic/v1/messages": events({"type": "message_stop"}),
    "/google/v1beta/models/m-1:streamGenerateContent?alt=sse": events(
        {"candidates": [{"finishReason": "STOP"}]}
    ),
}


@pytest.mark.parametrize("path", ENDLESS)
def test_a_stream_without_its_end_broke_off(gateway: Gateway, model: Model, path: str) -> None:
    model.says(
        Said(200, b"", EVENTS, chunks=ENDLESS[path]),
        Said(200, b"", EVENTS, chunks=ENDLESS[path] + ENDS[path]),
    )
    with agent(gateway, model) as one:
        with pytest.raises(BROKEN):
            one.call(path, STREAM)
        assert not one.route.stop_asked()
        assert one.call(path, STREAM).body == b"".join(ENDLESS[path] + ENDS[path])
        report = one.route.close()
    assert (report.ending, report.usage.calls) == (None, 2)


def test_a_stream_that_calls_itself_something_else_is_one(gateway: Gateway, model: Model) -> None:
    chunks = (
        *events(WORDS, {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 1}}),
        b"data: [DONE]\n\n",
    )
    model.says(Said(200, b"", {"Content-Type": "text/plain"}, chunks=chunks))
    with agent(gateway, model) as one:
        said = one.call(CHAT, STREAM)
        assert said.headers["content-type"] == "text/event-stream"
        assert one.route.close().usage.input_tokens == 7


@pytest.mark.parametrize(
    ("answer", "words"), [(_silent, "silent for 0.2 s"), (_drip(0.02), "silent for 0.2 s")]
)
def test_an_endpoint_that_says_nothing_is_given_up(
    tmp_path: Path, model: Model, answer: Callable[[Any], None], words: str
) -> None:
    for _ in range(20):
        model.says(answer)
    with running(tmp_path, silence=0.2, patience=0.1) as gateway, agent(gateway, model) as one:
        with contextlib.suppress(*BROKEN):  # an answer that had begun breaks off
            assert one.chat().status == 502
        report = one.route.close()
    assert report.ending is Ending.ENDPOINT_DOWN
    assert words in (report.message or "")


def test_a_call_takes_no_longer_than_it_may_however_lively_its_answer(tmp_path: Path, model: Model) -> None:
    def lively(handler: Any) -> None:
        handler.close_connection = True
        handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
        pause = threading.Event()
        for _ in range(2000):
            handler.wfile.write(b"".join(events(WORDS)) * 8)
            handler.wfile.flush()
            pause.wait(0.02)

    model.says(lively)
    with running(tmp_path, silence=30, longest=0.5) as gateway, agent(gateway, model) as one:
        with pytest.raises(BROKEN):
            one.call(CHAT, STREAM)
        report = one.route.close()
    assert report.ending is Ending.ENDPOINT_DOWN
    assert "took more than 0.5 s" in (report.message or "")


@pytest.mark.parametrize("answer", [_silent, _drip(0.05)])
def test_who_gave_up_waiting_for_a_silent_endpoint_is_told_apart(
    gateway: Gateway, model: Model, answer: Callable[[Any], None]
) -> None:
    model.says(answer, chat_answer())
    with agent(gateway, model) as one:
        with pytest.raises(TimeoutError):
            one.call(CHAT, STREAM, timeout=0.5)
        wait_until(lambda: len(model.asked) == 1)
        one.chat()
        assert one.route.close().waited == 0
    model.says(answer)
    with agent(gateway, model) as one:
        with pytest.raises(TimeoutError):
            one.route.post(f"http://127.0.0.1:4180{CHAT}", STREAM, 0.5)
        assert one.route.close().waited >= 0.4


@pytest.mark.extended
def test_an_agent_that_does_not_read_cannot_say_that_it_waited(gateway: Gateway, model: Model) -> None:
    begun = threading.Event()

    def talkative(handler: Any) -> None:
        handler.close_connection = True
        handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
        for _ in range(4000):
            handler.wfile.write(b"".join(events(WORDS)) * 500)
            begun.set()

    model.says(talkative)
    with agent(gateway, model) as one, socket.create_connection(("127.0.0.1", one.port)) as lazy:
        body = json.dumps(STREAM).encode()
        head = f"POST {CHAT} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
        lazy.sendall(head.encode() + body)
        assert begun.wait(10)
        threading.Event().wait(2)
        assert one.route.close().waited < 1


def test_a_call_from_this_machine_ends_in_time_however_its_answer_drips(
    gateway: Gateway, model: Model
) -> None:
    model.says(_drip(0.05), _drip(0.05))
    url = f"http://127.0.0.1:4180{CHAT}"
    with agent(gateway, model) as one:
        with pytest.raises(TimeoutError, match=r"no answer from the model within 0\.5 s"):
            one.route.post(url, {"model": "m-1"}, 0.5)
        with pytest.raises(TimeoutError, match="stopped while waiting"):
            one.route.post(url, {"model": "m-1"}, 60, lambda: len(model.asked) == 2)


def test_an_answer_that_breaks_off_is_not_the_gateways_fault(gateway: Gateway, model: Model) -> None:
    model.says(Said(200, b'{"model": "m-1", ', cut=True))
    with agent(gateway, model) as one:
        with pytest.raises(ConnectionError, match="was cut off"):
            one.route.post(f"http://127.0.0.1:4180{CHAT}", {"model": "m-1"}, 20)
        assert one.route.close().ending is Ending.ENDPOINT_DOWN


@pytest.mark.parametrize(
    ("kind", "answer"),
    [
        (Kind.MESSAGES, b'{"type": "message", "content": []}'),
        (Kind.MESSAGES, b'{"type": "error", "error": {"type": "overloaded_error"}}'),
        (Kind.CHAT, b'{"choices": [{"message": {"content": ""}}]}'),
        (Kind.RESPONSES, b'{"output": []}'),
        (Kind.GENERATE, b'{"promptFeedback": {"blockReason": "SAFETY"}}'),
        (Kind.GENERATE, b'[{"candidates": []}, {"candidates": []}]'),
    ],
)
def test_what_is_an_answer(kind: Kind, answer: bytes) -> None:
    assert flaw(kind, answer) is None
    assert flaw(kind, answer[:-1]) is not None


@pytest.mark.parametrize("stream", [False, True])
def test_a_refusal_is_seen_and_forgotten_when_another_call_is_answered(
    gateway: Gateway, model: Model, stream: bool
) -> None:
    answer = {"model": "m-1", "choices": [{"message": {"content": None}, "finish_reason": "content_filter"}]}
    said = (
        Said(200, b"", EVENTS, chunks=events(answer, b"[DONE]"))
        if stream
        else Said(200, json.dumps(answer).encode())
    )
    model.says(said, said, chat_answer())
    with agent(gateway, model) as one:
        assert one.chat(stream=stream).status == 200
        assert one.route.close().ending is Ending.REFUSED
    with agent(gateway, model) as one:
        one.chat(stream=stream)
        one.chat()
        assert one.route.close().ending is None
