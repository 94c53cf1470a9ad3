"""What goes wrong at the endpoint is tried again as long as that helps, and then said once."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
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
    Agent,
    Model,
    Said,
    agent,
    chat_answer,
    events,
    running,
    wait_until,
)

BUSY = Said(503, b'{"error": {"message": "busy"}}')
LIMITED = Said(429, b'{"error": {"message": "slow down"}}', {"Retry-After": "0.1"})


@pytest.fixture(scope="module")
def gateway(patient: Gateway) -> Gateway:
    return patient


def _reset(handler: Any) -> None:
    handler.close_connection = True
    handler.connection.shutdown(socket.SHUT_RDWR)


def _nothing_after_the_head(handler: Any) -> None:
    handler.wfile.write(STREAM_HEAD)
    _reset(handler)


@pytest.mark.parametrize("fault", [BUSY, LIMITED, Said(529, b"{}"), _reset, _nothing_after_the_head])
def test_what_passes_is_never_seen_by_the_agent(gateway: Gateway, model: Model, fault: Any) -> None:
    model.says(fault, fault, chat_answer())
    with agent(gateway, model) as one:
        assert one.chat().status == 200
        report = one.route.close()
    assert len(model.asked) == 3
    assert (report.ending, report.usage.calls) == (None, 1)


@pytest.mark.parametrize(
    ("fault", "status", "ending", "words"),
    [
        (BUSY, 503, Ending.ENDPOINT_DOWN, "503: busy"),
        (LIMITED, 429, Ending.RATE_LIMITED, "429: slow down"),
        (Said(529, b'{"error": {"message": "overloaded"}}'), 529, Ending.ENDPOINT_DOWN, "529: overloaded"),
        (_reset, 502, Ending.ENDPOINT_DOWN, "no answer: Server disconnected"),
    ],
)
def test_what_does_not_pass_is_said_once_and_then_at_once(
    impatient: Gateway, model: Model, fault: Any, status: int, ending: Ending, words: str
) -> None:
    for _ in range(50):
        model.says(fault)
    with agent(impatient, model) as one:
        said = one.chat()
        assert said.status == status
        assert said.headers["x-should-retry"] == "false"
        assert "retry-after" not in said.headers
        tries = len(model.asked)
        assert tries > 1
        assert one.chat().status == status
        assert len(model.asked) == tries + 1
        wait_until(one.route.stop_asked)
        report = one.route.close()
    assert (report.ending, report.message) == (ending, words)
    assert report.usage.calls == 0


def test_nobody_there(impatient: Gateway, model: Model) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        model.url = f"http://127.0.0.1:{closed.getsockname()[1]}"
        with agent(impatient, model) as one:
            said = one.call("/anthropic/v1/messages", {"model": "m-1"})
            report = one.route.close()
    assert said.status == 502
    assert said.json["type"] == "error"
    assert "no answer" in said.json["error"]["message"]
    assert report.ending is Ending.ENDPOINT_DOWN


def test_while_an_endpoint_wants_to_be_left_alone_no_trial_calls_it(gateway: Gateway, model: Model) -> None:
    heard = threading.Event()
    times: list[float] = []

    def limited(handler: Any) -> None:
        times.append(time.monotonic())
        handler.wfile.write(b"HTTP/1.1 429 x\r\nRetry-After: 3\r\nContent-Length: 2\r\n\r\n{}")
        handler.wfile.flush()
        handler.rfile.read(1)  # until the gateway has read it, and hangs up
        heard.set()

    model.says(limited, chat_answer(), chat_answer())
    with (
        agent(gateway, model, provider="respected") as one,
        agent(gateway, model, "b", provider="respected") as other,
        agent(gateway, model, "c", provider="another") as third,
        ThreadPoolExecutor(1) as pool,
    ):
        first = pool.submit(one.chat)
        assert heard.wait(20)
        model.says(chat_answer())
        assert third.chat().status == 200  # of another provider: at once, or it would wait in line here
        assert len(model.asked) == 2
        assert other.chat().status == 200
        assert time.monotonic() - times[0] >= 3
        assert first.result().status == 200
    assert len(model.asked) == 4


@pytest.mark.parametrize(
    ("status", "body", "ending", "stops"),
    [
        (401, {"error": {"message": f"Incorrect key {KEY}"}}, Ending.AUTHENTICATION, True),
        (404, {"error": {"message": "no such model", "code": "model_not_found"}}, Ending.UNKNOWN_MODEL, True),
        (400, {"error": {"message": "too long"}}, Ending.REFUSED, False),
    ],
)
def test_what_trying_again_does_not_mend_is_said_at_once(
    gateway: Gateway, model: Model, status: int, body: Any, ending: Ending, stops: bool
) -> None:
    model.says(Said(status, json.dumps(body).encode()))
    with agent(gateway, model) as one:
        said = one.chat()
        assert (said.status, said.body) == (status, json.dumps(body).replace(KEY, "*" * len(KEY)).encode())
        if stops:
            wait_until(one.route.stop_asked)
        else:
            assert not one.route.stop_asked()
        report = one.route.close()
    assert report.ending is ending
    assert report.message is not None
    assert KEY not in report.message
    assert len(model.asked) == 1


def test_a_call_that_goes_well_makes_up_for_those_that_did_not(tmp_path: Path, model: Model) -> None:
    model.says(Said(400, b"{}"), Said(401, b"{}"), chat_answer(), BUSY, chat_answer())
    # That the grace ends then is told in test_gateway_accounting.py. Here the next call has all the time to come in.
    with running(tmp_path, patience=30, grace=60) as gateway, agent(gateway, model) as one:
        assert [one.chat().status for _ in range(4)] == [400, 401, 200, 200]
        assert not one.route.stop_asked()
        assert one.route.close().ending is None


def test_an_unknown_side_model_does_not_stop_an_agent_whose_own_answers(
    gateway: Gateway, model: Model
) -> None:
    unknown = Said(404, b'{"error": {"message": "model"}}')
    model.says(chat_answer(), unknown, Said(401, b"{}"))
    with agent(gateway, model) as one:
        one.chat()
        assert one.chat("m-small").status == 404
        assert not one.route.stop_asked()
        one.chat()  # the stop that this one asks for comes after any that the other might have
        wait_until(one.route.stop_asked)


def test_a_redirection_is_not_followed(gateway: Gateway, model: Model) -> None:
    model.says(Said(307, b"", {"Location": model.url + "/elsewhere"}))
    with agent(gateway, model) as one:
        assert one.chat().status == 502
        report = one.route.close()
    assert len(model.asked) == 1
    assert report.ending is Ending.ENDPOINT_DOWN
    assert "redirection" in (report.message or "")


def _broken(one: Agent, body: Any) -> bytes:
    with pytest.raises(http.client.IncompleteRead) as caught:
        one.call("/anthropic/v1/messages", body)
    return caught.value.partial


START = events({"type": "message_start", "message": {"model": "m-1", "usage": {"input_tokens": 1000}}})


def test_a_stream_that_breaks_off_breaks_off_for_the_agent_too(gateway: Gateway, model: Model) -> None:
    model.says(Said(200, b"", EVENTS, chunks=START, cut=True))
    with agent(gateway, model) as one:
        assert _broken(one, {"model": "m-1", "stream": True}) in (START[0], b"")
        assert not one.route.stop_asked()
        report = one.route.close()
    assert report.usage == Usage(input_tokens=1000, calls=1, source="gateway")
    assert report.ending is Ending.ENDPOINT_DOWN
    assert "was cut off" in (report.message or "")


def test_an_endpoint_that_breaks_off_was_not_given_up_by_the_agent(gateway: Gateway, model: Model) -> None:
    never = threading.Event()

    def halting(handler: Any) -> None:
        handler.wfile.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 999\r\n\r\n" + START[0]
        )
        never.wait(0.15)
        _reset(handler)

    model.says(halting)
    with agent(gateway, model) as one:
        _broken(one, {"model": "m-1", "stream": True})
        report = one.route.close()
    assert (report.ending, report.waited) == (Ending.ENDPOINT_DOWN, 0)


def test_the_end_of_a_connection_is_not_the_end_of_an_answer(gateway: Gateway, model: Model) -> None:
    def without_a_length(handler: Any) -> None:
        handler.wfile.write(b"HTTP/1.0 200 OK\r\nContent-Type: text/event-stream\r\n\r\n" + START[0])
        handler.close_connection = True

    def to_the_end(handler: Any) -> None:
        rest = events({"type": "message_delta", "usage": {"output_tokens": 1}}, {"type": "message_stop"})
        handler.wfile.write(
            b"HTTP/1.0 200 OK\r\nContent-Type: text/event-stream\r\n\r\n" + b"".join(START + rest)
        )
        handler.close_connection = True

    model.says(without_a_length, to_the_end)
    with agent(gateway, model) as one:
        _broken(one, {"model": "m-1", "stream": True})
        assert one.call("/anthropic/v1/messages", {"model": "m-1", "stream": True}).status == 200
        assert one.route.close().ending is None


def test_an_answer_in_one_piece_that_breaks_off(gateway: Gateway, model: Model) -> None:
    model.says(Said(200, b'{"model": "m-1", ', cut=True), chat_answer())
    with agent(gateway, model) as one:
        _broken(one, {"model": "m-1"})
        assert one.chat().status == 200
        report = one.route.close()
    assert (report.ending, report.usage.calls) == (None, 2)


@pytest.mark.parametrize(
    ("kind", "ending"), [("overloaded_error", Ending.ENDPOINT_DOWN), ("billing_error", Ending.QUOTA)]
)
def test_an_error_within_a_stream_is_how_it_ended_and_a_quota_stops_the_agent(
    gateway: Gateway, model: Model, kind: str, ending: Ending
) -> None:
    error = events({"type": "error", "error": {"type": kind, "message": "busy"}})
    model.says(Said(200, b"", EVENTS, chunks=START + error))
    with agent(gateway, model, provider="poor") as one:
        assert one.call("/anthropic/v1/messages", {"model": "m-1"}).body == b"".join(START + error)
        if ending is Ending.QUOTA:
            wait_until(one.route.stop_asked)
        report = one.route.close()
    assert (report.ending, report.message) == (ending, "busy")


PAY = Said(402, b'{"error": {"message": "pay", "code": "insufficient_quota"}}')


def test_a_hard_quota_ends_the_job_for_that_provider(tmp_path: Path, model: Model) -> None:
    model.says(PAY, PAY, chat_answer())  # the second to the gateway's own call, which confirms it
    with running(tmp_path) as gateway, agent(gateway, model) as one, agent(gateway, model, "other") as other:
        assert one.chat().status == 402
        wait_until(one.route.stop_asked)
        assert other.chat().status == 402
        assert other.call("/anthropic/v1/messages", {"model": "m-1"}).status == 200
        first, second = one.route.close(), other.route.close()
    assert (first.ending, first.message, first.job_stopped) == (Ending.QUOTA, "402: pay", Ending.QUOTA)
    assert (second.ending, second.job_stopped) == (Ending.QUOTA, Ending.QUOTA)
    assert second.job_message == "the quota of openai is used up: 402: pay"
    assert len(model.asked) == 3


def test_a_quota_that_suffices_for_others_is_no_end_of_the_job(tmp_path: Path, model: Model) -> None:
    model.says(PAY, chat_answer(), chat_answer())
    with running(tmp_path) as gateway, agent(gateway, model) as one, agent(gateway, model, "other") as other:
        assert one.chat(max_tokens=10**9).status == 402
        assert other.chat().status == 200
        first, second = one.route.close(), other.route.close()
    assert (first.ending, first.answered, first.job_stopped) == (Ending.ENDPOINT_DOWN, 0, None)
    assert (second.ending, second.job_stopped) == (None, None)
    own = model.asked[1].json
    assert own == {"model": "m-1", "messages": [{"role": "user", "content": "Say OK."}], "max_tokens": 16}


@pytest.mark.parametrize(
    ("said", "status", "body"),
    [
        (Said(400, b""), 400, None),
        (Said(400, b"as it is"), 400, b"as it is"),
        (Said(399, b"as it is"), 502, None),
        (Said(300, b"as it is"), 502, None),
    ],
)
def test_an_error_is_passed_on_as_it_came_if_it_is_one(
    gateway: Gateway, model: Model, said: Said, status: int, body: bytes | None
) -> None:
    model.says(said)
    with agent(gateway, model) as one:
        answer = one.chat()
        report = one.route.close()
    assert answer.status == status
    if body is None:
        assert answer.json["error"]["message"] == report.message
        assert answer.headers["content-type"] == "application/json"
    else:
        assert answer.body == body
    assert "x-should-retry" not in answer.headers


def test_a_list_of_models_that_fails_is_no_ending_and_uses_up_patience(
    impatient: Gateway, model: Model
) -> None:
    model.otherwise = BUSY
    with agent(impatient, model) as one:
        assert one.call("/openai/v1/models", method="GET").status == 503
        tries = len(model.asked)
        assert tries > 1
        assert one.call("/openai/v1/models", method="GET").status == 503
        assert len(model.asked) == tries + 1
        assert one.route.close().ending is None


def test_without_a_key_it_is_said_which_variable_is_missing(gateway: Gateway, model: Model) -> None:
    for key, hint in ((None, True), (KEY, False)):
        model.says(Said(401, b'{"error": {"message": "no"}}'))
        with agent(gateway, model, key=key) as one:
            one.chat()
            message = one.route.close().message or ""
        assert message.startswith("401: no")
        assert ("name one with openai_key_variable" in message) is hint
