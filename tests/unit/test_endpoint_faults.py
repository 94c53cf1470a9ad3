"""What endpoints do wrong, and whose fault the end of a trial is then, whatever its agent left."""

from __future__ import annotations

import contextlib
import dataclasses
import http.client
import json
import socket
import struct
import threading
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from pytest_benchjobs.agents.protocol import AgentReading
from pytest_benchjobs.gateway.client import Gateway, RouteReport
from pytest_benchjobs.gateway.own_call import PROMPT
from pytest_benchjobs.model.ending import Ending
from pytest_benchjobs.model.job import JobConfig
from pytest_benchjobs.model.result import AgentEnd
from pytest_benchjobs.sandbox.protocol import ExecResult
from pytest_benchjobs.trial.limits import Limits
from pytest_benchjobs.trial.outcome import ending_of, failing, infrastructure_error
from tests.unit import records
from tests.unit.gateways import EVENTS, STREAM_HEAD, Model, Said, agent, chat_answer, chat_stream, events

Behaviour = Said | Callable[[Any], None]
LIMITS = Limits(records.scenario_of(agent_timeout=60.0), JobConfig(directory=Path()))
_NEVER = threading.Event()
_TIMEOUT = 0.4
"""Seconds after which the agents of this page give up a call; it counts for a hundred times as many."""


# --- what endpoints do ----------------------------------------------------------------------------------------------


def error(status: int, **more: Any) -> Said:
    return Said(status, json.dumps({"error": {"message": "as scripted", **more}}).encode())


def told(status: int, headers: dict[str, str], **more: Any) -> Said:
    return error(status, **more)._replace(headers=headers)


def fin(handler: BaseHTTPRequestHandler) -> None:
    handler.close_connection = True
    handler.connection.shutdown(socket.SHUT_RDWR)


def rst(handler: BaseHTTPRequestHandler) -> None:
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    handler.close_connection = True
    handler.connection.close()


def raw(data: bytes, *, then: Callable[[Any], None] = fin) -> Callable[[Any], None]:
    def say(handler: BaseHTTPRequestHandler) -> None:
        handler.wfile.write(data)
        handler.wfile.flush()
        then(handler)

    return say


def hang(handler: BaseHTTPRequestHandler) -> None:
    _NEVER.wait(2)
    fin(handler)


def drip(handler: BaseHTTPRequestHandler) -> None:
    for _ in range(20):
        handler.wfile.write(b"1\r\n\n\r\n")
        _NEVER.wait(0.1)


def by_bytes(head: bytes, body: bytes) -> Callable[[Any], None]:
    """An answer of which the first bytes come one by one."""

    def say(handler: BaseHTTPRequestHandler) -> None:
        handler.wfile.write(head)
        for number in range(8):
            handler.wfile.write(body[number : number + 1])
            handler.wfile.flush()
            _NEVER.wait(0.005)
        handler.wfile.write(body[8:])
        fin(handler)

    return say


OK, STREAM = chat_answer(), chat_stream()
WORD = {"model": "m-1", "choices": [{"index": 0, "delta": {"content": "hello"}}]}
FILTERED = {"model": "m-1", "choices": [{"message": {"content": None}, "finish_reason": "content_filter"}]}
PAY = {"code": "insufficient_quota"}
OLD = b"HTTP/1.0 200 OK\r\nContent-Type: %b\r\n\r\n"


def stream(*data: Any, cut: bool = False) -> Said:
    return Said(200, b"", EVENTS, chunks=events(*data), cut=cut)


def encoded(name: str) -> Callable[[Any], None]:
    head = f"HTTP/1.1 200 OK\r\nContent-Encoding: {name}\r\nContent-Length: 9\r\n\r\n"
    return raw(head.encode() + b"not at all"[:9])


# --- whose fault it is ----------------------------------------------------------------------------------------------

DOWN, LIMITED, AUTH = "error endpoint_down", "error rate_limited", "error model_auth"
UNKNOWN, BUDGET = "error model_unknown", "error budget"
AGENT, REFUSED = "the agent's", "the agent's, refused"


class Row(NamedTuple):
    """The answers to an agent's calls, whose fault the end is, and whether the endpoint answers the gateway's own."""

    answers: Sequence[Behaviour]
    whose: str
    own: bool = False
    limits: dict[str, float] = {}


TABLE = {
    # No call was ever answered, so what the gateway's own call gets says nothing.
    "500": Row([error(500)] * 9, DOWN, own=True),
    "503, HTML": Row([Said(503, b"<html>busy</html>", {"Content-Type": "text/html"})] * 9, DOWN),
    "504, empty": Row([Said(504, b"")] * 9, DOWN, own=True),
    "529": Row([error(529, type="overloaded_error")] * 9, DOWN),
    "408": Row([error(408)] * 9, DOWN, own=True),
    "409": Row([error(409)] * 9, DOWN, own=True),
    "425": Row([error(425)] * 9, DOWN),
    "resets": Row([rst] * 9, DOWN, own=True),
    "closes": Row([fin] * 9, DOWN),
    "resets after the head": Row([raw(STREAM_HEAD, then=rst)] * 9, DOWN, own=True),
    "no HTTP": Row([raw(b"SSH-2.0-OpenSSH_9.6\r\n\r\n")] * 9, DOWN),
    "a head of 70 kB": Row([raw(b"HTTP/1.1 200 OK\r\nX: " + b"x" * 70_000 + b"\r\n\r\n")] * 9, DOWN),
    "bad chunks": Row([raw(STREAM_HEAD + b"zz\r\nnothing\r\n")] * 9, DOWN),
    "no gzip": Row([encoded("gzip")] * 9, DOWN),
    "zstd, for which nobody asked": Row([encoded("zstd")] * 2, DOWN),
    "200, HTML": Row([Said(200, b"<html>", {"Content-Type": "text/html"})] * 9, DOWN),
    "200, broken JSON": Row([Said(200, b'{"choices": [{"mess')] * 9, DOWN, own=True),
    "200, other JSON": Row([Said(200, b'{"status": "ok"}')] * 9, DOWN),
    "200, nothing": Row([Said(200, b"")] * 9, DOWN, own=True),
    "200, error 502": Row([Said(200, error(502, code=502).body)] * 9, DOWN),
    "200, error 429": Row([Said(200, error(429, code=429).body)] * 9, LIMITED),
    "200, error 401": Row([Said(200, error(401, code=401).body)] * 2, AUTH),
    "200, overloaded": Row([Said(200, error(529, type="overloaded_error").body)] * 9, DOWN, own=True),
    "a stream that is an error": Row([stream({"error": {"code": 503, "message": "no"}})] * 9, DOWN),
    "429": Row([error(429)] * 9, LIMITED, own=True),
    "429, in half a minute": Row([told(429, {"Retry-After": "30"})] * 9, LIMITED),
    "429, now": Row([told(429, {"Retry-After": "0"})] * 9, LIMITED, own=True),
    "429, in 0s": Row([error(429, details=[{"retryDelay": "0s"}])] * 9, LIMITED),
    "401": Row([error(401)] * 2, AUTH),
    "403": Row([error(403)] * 2, AUTH, own=True),
    "404, model": Row([error(404, code="model_not_found")] * 2, UNKNOWN),
    "404, HTML": Row([Said(404, b"<html>nothing here</html>")] * 2, DOWN),
    "307": Row([Said(307, b"", {"Location": "/elsewhere"})] * 2, DOWN, own=True),
    "402": Row([error(402)] * 2, BUDGET),
    "402, but not for others": Row([error(402)] * 2, DOWN, own=True),
    "a used-up quota": Row([error(429, **PAY)] * 2, BUDGET),
    "hangs": Row([hang] * 2, DOWN, own=True),
    "hangs after the head": Row([raw(STREAM_HEAD, then=hang)] * 2, DOWN),
    "drips": Row([raw(STREAM_HEAD, then=drip)] * 2, DOWN, own=True),
    "cut streams": Row([stream(WORD, cut=True)] * 2, DOWN, own=True),
    "streams without an end": Row([stream(WORD)] * 2, DOWN),
    "an error in the middle": Row([stream(WORD, {"error": {"type": "server_error"}})] * 2, DOWN, own=True),
    "a limit in the middle": Row([stream(WORD, {"error": {"code": 429, "message": "slow"}})] * 2, LIMITED),
    # It answers, and refuses what the agent asked for.
    "400": Row([error(400)] * 2, REFUSED),
    "413": Row([error(413)], REFUSED),
    "422": Row([OK, error(422)], REFUSED),
    "a filter": Row([Said(200, json.dumps(FILTERED).encode())], REFUSED),
    "200, error 400": Row([Said(200, error(400, code=400).body)], REFUSED),
    # It had answered the trial, and answers others: so what this trial got is its own.
    "500 at last": Row([OK, *[error(500)] * 9], AGENT, own=True),
    "429 at last": Row([OK, *[error(429)] * 9], AGENT, own=True),
    "reset at last": Row([OK, *[rst] * 9], AGENT, own=True),
    "cut at last": Row([OK, stream(WORD, cut=True)], AGENT, own=True),
    "200, error 502 at last": Row([OK, *[Said(200, error(502, code=502).body)] * 9], AGENT, own=True),
    "402 at last, but not for others": Row([OK, error(402)], AGENT, own=True),
    "401 at last, but not for others": Row([OK, error(401)], AGENT, own=True),
    # It had answered the trial, and now answers nobody.
    "500 for all at last": Row([OK, *[error(500)] * 9], DOWN),
    "429 for all at last": Row([OK, *[error(429)] * 9], LIMITED),
    "401 for all at last": Row([OK, *[error(401)] * 2], AUTH),
    "402 for all at last": Row([OK, error(402)], BUDGET),
    "reset for all at last": Row([OK, STREAM, *[rst] * 9], DOWN),
    "HTML for all at last": Row([OK, *[Said(200, b"<html>")] * 9], DOWN),
    # It recovered.
    "500, then well": Row([error(500), OK], AGENT),
    "429, then well": Row([told(429, {"Retry-After": "0"}), OK], AGENT),
    "409, then well": Row([error(409), OK], AGENT),
    "200, error 502, then well": Row([Said(200, error(502, code=502).body), OK], AGENT),
    "a stream that is an error, then well": Row([stream({"error": {"code": 502}}), STREAM], AGENT),
    "400, then well": Row([error(400), OK], AGENT),
    "cut, then well": Row([stream(WORD, cut=True), OK], AGENT),
    "an error in the middle, then well": Row([stream(WORD, {"error": {"type": "x"}}), OK], AGENT),
    "capitals": Row([by_bytes(OLD % b"Text/Event-Stream", b"".join(STREAM.chunks))], AGENT),
    "events called JSON": Row([by_bytes(OLD % b"application/json", b"".join(STREAM.chunks))], AGENT),
    # What the endpoint broke off may have cost more than the trial may spend.
    "cut below a limit": Row([OK, stream(WORD, cut=True), OK], BUDGET, limits={"max_cost_usd": 1.0}),
}

LEFT = {
    "right": (ExecResult(0, timed_out=False, seconds=60), None, True),
    "wrong": (ExecResult(0, timed_out=False, seconds=60), None, False),
    "crashed": (ExecResult(1, timed_out=False, seconds=60), None, False),
    "late": (ExecResult(None, timed_out=True, seconds=60), None, False),
    "right, and says so": (ExecResult(0, timed_out=False, seconds=60), Ending.SUCCESS, True),
    "gave up, and blames the endpoint": (
        ExecResult(1, timed_out=False, seconds=60),
        Ending.ENDPOINT_DOWN,
        False,
    ),
}
"""What an agent left: how it ended, what it says of that, and whether its work is right."""
OF_AGENTS = {
    AGENT: ("passed", "failed below_threshold", "failed agent_crashed", "failed agent_timeout", "passed", "failed agent_crashed"),
    REFUSED: ("passed", "failed model_refused", "failed model_refused", "failed agent_timeout", "passed", "failed model_refused"),
}  # fmt: skip


def expected(row: Row) -> tuple[str, ...]:
    of_all = [*OF_AGENTS.get(row.whose, (row.whose,) * len(LEFT))]
    if row.answers[0] in (OK, STREAM) and row.whose != BUDGET:
        of_all[4] = "passed"  # the model had answered, and the agent got on without the last call
    return tuple(of_all)


def outcome(report: RouteReport, left: str) -> str:
    result, said, right = LEFT[left]
    reading = None if said is None else AgentReading(ending=said)
    ending, message = ending_of(result, reading, report, 60)
    if (broken := infrastructure_error(ending, message)) is not None:
        return f"error {broken.code}"
    end = AgentEnd(exit_status=result.exit_status, timed_out=result.timed_out, ending=ending)
    found = failing(end, LIMITS, passed=right, trusted=False)
    if found is None:
        return "passed" if right else "failed below_threshold"
    return f"failed {found[0].value}"


def served(model: Model, row: Row) -> None:
    """Let an endpoint answer as a row says; the gateway's own call gets the last of the answers, or a good one."""
    answers = iter(row.answers)

    def say(handler: Any) -> None:
        own = model.asked[-1].body and PROMPT in json.dumps(model.asked[-1].json)
        said = (OK if row.own else row.answers[-1]) if own else next(answers, row.answers[-1])
        handler.say(said) if isinstance(said, Said) else said(handler)

    model.otherwise = None
    model.says(*[say] * 99)


@pytest.fixture(scope="module")
def gateway(impatient: Gateway) -> Gateway:
    return impatient


@pytest.mark.parametrize("name", TABLE)
def test_whose_fault_it_is(gateway: Gateway, model: Model, name: str) -> None:
    row = TABLE[name]
    served(model, row)
    provider = f"of-{list(TABLE).index(name)}"
    with agent(gateway, model, name, provider=provider, limits=dict(row.limits)) as one:
        for _ in row.answers[:3]:
            with contextlib.suppress(http.client.HTTPException, OSError):
                one.call(
                    "/openai/v1/chat/completions",
                    {"model": "m-1", "stream": "stream" in name},
                    timeout=_TIMEOUT if hang_is_in(name) else 20,
                )
        report = one.route.close()
    report = dataclasses.replace(report, waited=report.waited * 100)
    assert tuple(outcome(report, left) for left in LEFT) == expected(row), report


def hang_is_in(name: str) -> bool:
    return "hangs" in name or "drips" in name
