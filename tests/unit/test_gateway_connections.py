"""A connection to an endpoint is used again by the same trial, and only if nothing is in doubt about it."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import re
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import yarl

from pytest_benchjobs.gateway.client import Gateway
from pytest_benchjobs.gateway.connections import Connections, Response, _Connector
from pytest_benchjobs.gateway.own_call import PROMPT
from pytest_benchjobs.model.ending import Ending
from tests.unit.gateways import Agent, Wire, agent, running, wait_until

pytestmark = pytest.mark.when_changed

CHAT = "/openai/v1/chat/completions"


class Heard(NamedTuple):
    line: int
    """Number of the connection."""
    head: bytes
    body: bytes


def answer(
    name: str, version: str = "1.1", status: str = "200 OK", headers: str = "", *, chunked: bool = False
) -> bytes:
    """One that names its model, so that it shows whose it is."""
    body = json.dumps({"model": name, "choices": [{}], "usage": {"prompt_tokens": 1, "completion_tokens": 1}})
    framing = "Transfer-Encoding: chunked" if chunked else f"Content-Length: {len(body)}"
    head = f"HTTP/{version} {status}\r\nContent-Type: application/json\r\n{framing}\r\n{headers}\r\n"
    return (head + (f"{len(body):x}\r\n{body}\r\n0\r\n\r\n" if chunked else body)).encode()


def _line(stream: io.BufferedReader) -> bytes:
    try:
        return stream.readline()
    except ConnectionError:
        return b""


PLANTED = answer("m-planted")


class Lines(Wire):
    """An endpoint that says what it is told to, byte by byte."""

    def __init__(self) -> None:
        self.heard: list[Heard] = []
        self.ended = 0
        """Connections that the gateway closed."""
        self.says: list[Callable[[socket.socket, str], object]] = []
        """What to do with the next requests: `True` ends the connection. Then all are answered."""
        super().__init__()

    @property
    def lines(self) -> list[int]:
        """The connection of each request of an agent; the gateway's own call after a failure is none."""
        return [one.line for one in self.heard if PROMPT.encode() not in one.body]

    def serve(self, line: socket.socket, number: int) -> None:
        with line.makefile("rb") as stream:
            while True:
                head = b""
                while not head.endswith(b"\r\n\r\n"):
                    if not (more := _line(stream)):
                        self.ended += 1
                        return
                    head += more
                length = re.search(rb"content-length: (\d+)", head.lower())
                early = self.says and getattr(self.says[0], "early", False)
                body = b"" if early or length is None else stream.read(int(length[1]))
                self.heard.append(Heard(number, head, body))
                name = json.loads(body)["model"] if body else "m-none"
                if self.says:
                    if self.says.pop(0)(line, name):
                        return
                else:
                    line.sendall(answer(name))


@pytest.fixture
def lines() -> Iterator[Lines]:
    endpoint = Lines()
    yield endpoint
    endpoint.close()


def ask(one: Agent, name: str) -> None:
    """Make a call, and see that the answer is one to it."""
    said = one.chat(name)
    assert (said.status, said.json["model"]) == (200, name)


def say(data: bytes) -> Callable[[socket.socket, str], object]:
    return lambda line, name: line.sendall(data)


def answered(
    more: bytes = b"", version: str = "1.1", headers: str = "", *, chunked: bool = False
) -> Callable[[socket.socket, str], object]:
    """An answer to the call, and more."""
    return lambda line, name: line.sendall(answer(name, version, headers=headers, chunked=chunked) + more)


def drop(line: socket.socket, name: str) -> bool:
    return True


def reset(line: socket.socket, name: str) -> bool:
    line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    return True


def at_once(one: Agent, lines: Lines, count: int) -> None:
    """So many calls, of which none is answered before all are made."""
    ready = threading.Barrier(count)

    def together(line: socket.socket, name: str) -> None:
        ready.wait(20)
        line.sendall(answer(name))

    lines.says = [together] * count
    threads = [threading.Thread(target=ask, args=(one, f"m-{number}")) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


# --- whose a connection is -------------------------------------------------------------------------------------------


def test_a_trial_uses_its_connection_again_and_no_other_trial_does(gateway: Gateway, lines: Lines) -> None:
    with agent(gateway, lines) as one, agent(gateway, lines) as other:
        for number in range(4):
            ask(one, f"m-one{number}")
            ask(other, f"m-other{number}")
        assert one.call("/openai/v1/models", method="GET").status == 200
        assert one.route.close().usage.calls == other.route.close().usage.calls == 4
    assert lines.lines == [0, 1] * 4 + [0]
    assert {heard.line for heard in lines.heard if b"m-one" in heard.body} == {0}


def test_connections_end_with_their_trial(gateway: Gateway, lines: Lines) -> None:
    with agent(gateway, lines) as one, agent(gateway, lines) as other:
        ask(one, "m-1")
        ask(other, "m-1")
        one.route.close()
        wait_until(lambda: lines.ended == 1)
        ask(other, "m-1")
    assert lines.lines == [0, 1, 1]


def test_few_connections_are_kept(gateway: Gateway, lines: Lines) -> None:
    count = 16
    with agent(gateway, lines) as one:
        at_once(one, lines, count)
        wait_until(lambda: lines.ended == count - 8)
        ask(one, "m-last")
        assert one.route.close().usage.calls == count + 1
    assert lines.lines[-1] < count


# --- when one is in doubt --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("chunked", [False, True])
def test_a_clean_answer_leaves_a_clean_connection(gateway: Gateway, lines: Lines, chunked: bool) -> None:
    lines.says = [answered(chunked=chunked)] * 3
    with agent(gateway, lines) as one:
        for number in range(3):
            ask(one, f"m-{number}")
    assert lines.lines == [0, 0, 0]


DOUBTS = {
    "an answer to nothing": answered(PLANTED),
    "an answer to nothing, in chunks": answered(answer("m-planted", chunked=True)),
    "chunks and an answer to nothing": answered(PLANTED, chunked=True),
    "half a head": answered(PLANTED[:30]),
    "a first letter": answered(b"H"),
    "a head without its body": answered(PLANTED[: PLANTED.index(b"{")]),
    "a word after it": answered(b"HTTP/1.1 100 Continue\r\n\r\n"),
    "garbage": answered(b"\x00\xff garbage"),
    "an older HTTP": answered(version="1.0", headers="Connection: keep-alive\r\n"),
    "a last one": answered(headers="Connection: close\r\n"),
    "an encoding of it": answered(headers="Content-Encoding: identity\r\n"),
    "an error": say(answer("x", status="400 Bad Request")),
    "no such thing": say(answer("x", status="404 Not Found")),
    "another good status": say(answer("m-1", status="201 Created")),
    "rubbish": say(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}" + PLANTED),
    "an error in it": say(
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 29\r\n\r\n"
        b'data: {"error": {"a": "b"}}\n\n'
    ),
}


@pytest.mark.parametrize("doubt", DOUBTS.values(), ids=DOUBTS)
def test_after_what_is_in_doubt_there_is_a_new_connection(
    gateway: Gateway, lines: Lines, doubt: Callable[[socket.socket, str], object]
) -> None:
    lines.says = [doubt]
    with agent(gateway, lines) as one:
        assert b"planted" not in one.chat("m-first").body
        wait_until(lambda: lines.ended == 1)
        seen = len(lines.heard)
        ask(one, "m-1")
        ask(one, "m-2")
        report = one.route.close()
    assert lines.lines[0] == 0
    assert lines.lines[seen - 1 :][-2:] == [lines.lines[-1]] * 2
    assert lines.lines[-1] > 0
    assert "m-planted" not in report.models
    assert (report.usage.calls or 0) <= len(lines.heard)


@pytest.mark.parametrize(
    "surplus", [PLANTED, PLANTED[:30], b"H", b"\x00", b"HTTP/1.1 103 Early Hints\r\n\r\n"]
)
def test_what_an_endpoint_says_unasked_later_is_an_answer_to_nothing(
    gateway: Gateway, lines: Lines, surplus: bytes
) -> None:
    said, wanted = threading.Event(), threading.Event()

    def late(line: socket.socket, name: str) -> None:
        line.sendall(answer(name))
        wanted.wait(20)
        line.sendall(surplus)
        said.set()

    lines.says = [late]
    with agent(gateway, lines) as one:
        ask(one, "m-1")
        wanted.set()
        assert said.wait(20)
        ask(one, "m-2")
        assert one.route.close().models == {"m-1": 1, "m-2": 1}
    assert lines.lines == [0, 1]


def test_an_answer_to_half_a_request_ends_its_connection(gateway: Gateway, lines: Lines) -> None:
    """What an endpoint has not read by then could be the beginning of the next request to it."""

    def early(line: socket.socket, name: str) -> None:
        line.sendall(answer("m-1"))

    early.early = True  # type: ignore[attr-defined]
    lines.says = [early]
    with agent(gateway, lines) as one:
        assert one.chat("m-1", x="y" * (12 << 20)).status == 200
        ask(one, "m-2")
        assert one.route.close().usage.calls == 2
    assert lines.lines == [0, 1]


def test_who_hangs_up_in_the_middle_leaves_no_connection(gateway: Gateway, lines: Lines) -> None:
    more = threading.Event()

    def halting(line: socket.socket, name: str) -> None:
        whole = answer(name, chunked=True).replace(b"application/json", b"text/event-stream")
        line.sendall(whole[:-20])
        more.wait(20)
        line.sendall(whole[-20:])

    lines.says = [halting]
    with agent(gateway, lines) as one:
        with socket.create_connection(("127.0.0.1", one.port)) as own:
            body = b'{"model": "m-1", "stream": true}'
            own.sendall(
                b"POST %b HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%b"
                % (CHAT.encode(), len(body), body)
            )
            assert own.recv(100)
        wait_until(lambda: lines.ended == 0 and len(lines.heard) == 1)
        more.set()
        ask(one, "m-2")
        assert one.route.close().usage.calls == 2
    assert lines.lines == [0, 1]


# --- when one has ended meanwhile ------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", [drop, reset])
@pytest.mark.parametrize("method", ["POST", "GET"])
def test_a_connection_that_ends_instead_of_an_answer_costs_nothing(
    tmp_path: Path, lines: Lines, end: Callable[[socket.socket, str], bool], method: str
) -> None:
    with running(tmp_path, patience=0) as gateway, agent(gateway, lines) as one:
        ask(one, "m-1")
        lines.says = [end]
        if method == "GET":
            assert one.call("/openai/v1/models", method="GET").status == 200
        else:
            ask(one, "m-2")
        report = one.route.close()
    assert lines.lines == [0, 0, 1]
    assert lines.heard[1][1:] == lines.heard[2][1:]
    assert (report.usage.calls, report.unfinished) == (1 if method == "GET" else 2, 0)
    assert (report.sent_again, report.carried["sent_again"]) == ((0, 0) if method == "GET" else (1, 1))
    assert report.usage.cost_usd is not None
    assert report.ending is None


def test_a_connection_that_ended_while_nobody_used_it_is_left_alone(gateway: Gateway, lines: Lines) -> None:
    def last(line: socket.socket, name: str) -> bool:
        line.sendall(answer(name))
        return True

    lines.says = [last] * 3
    with agent(gateway, lines) as one:
        for number in range(3):
            ask(one, f"m-{number}")
        report = one.route.close()
    assert lines.lines == [0, 1, 2]
    assert (report.usage.calls, report.unfinished) == (3, 0)


def test_it_is_asked_again_once(tmp_path: Path, lines: Lines) -> None:
    with running(tmp_path, patience=0) as gateway, agent(gateway, lines) as one:
        at_once(one, lines, 3)
        lines.says = [drop, drop]
        assert one.chat("m-2").status == 502
        used = [*lines.lines]
        report = one.route.close()
    assert used[-1] == 3
    assert len(used) == 5
    assert (report.usage.calls, report.unfinished, report.ending) == (3, 0, Ending.ENDPOINT_DOWN)


def test_what_an_endpoint_has_begun_to_answer_is_not_asked_again(tmp_path: Path, lines: Lines) -> None:
    def half(line: socket.socket, name: str) -> bool:
        line.sendall(answer(name)[:-20].replace(b"application/json", b"text/event-stream"))
        return True

    with running(tmp_path, patience=0) as gateway, agent(gateway, lines) as one:
        ask(one, "m-1")
        lines.says = [half]
        with contextlib.suppress(Exception):
            one.chat("m-2")
        used = [*lines.lines]
        report = one.route.close()
    assert used == [0, 0]
    assert (report.usage.calls, report.unfinished, report.usage.cost_usd) == (2, 1, None)


@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize("end", [drop, reset])
@pytest.mark.parametrize("begun", [b"HTTP/1.1 200 OK\r\nContent-Ty", b"HTTP/1.1 103 Early Hints\r\n\r\n"])
def test_what_ends_in_the_beginning_of_its_answer_is_counted_and_not_asked_again(
    tmp_path: Path, lines: Lines, begun: bytes, end: Callable[[socket.socket, str], bool], kept: bool
) -> None:
    def begin(line: socket.socket, name: str) -> bool:
        line.sendall(begun)
        return end(line, name)

    with running(tmp_path, patience=0) as gateway, agent(gateway, lines) as one:
        if kept:
            ask(one, "m-1")
        lines.says = [begin]
        assert one.chat("m-2").status == 502
        used = [*lines.lines]
        report = one.route.close()
    assert used == [0] * (1 + kept)
    assert (report.usage.calls, report.unfinished, report.usage.cost_usd) == (1 + kept, 1, None)


class Answer(NamedTuple):
    response: Response
    connections: Connections


def asked(lines: Lines, *after: Callable[[Answer], object]) -> None:
    """A call for each of these, which is done with the whole answer."""

    async def ask() -> None:
        connections = Connections()
        url, body = yarl.URL(f"{lines.url}/v1/chat/completions"), b'{"model": "m-1"}'
        for then in after:
            response = await connections.request("POST", url, body, {}, lambda _sent: None, None)
            await response.read()
            then(Answer(response, connections))
        await connections.close()

    asyncio.run(ask())


def keep(one: Answer) -> None:
    one.response.keep()


def test_what_nobody_says_is_to_be_kept_is_not_used_again(lines: Lines) -> None:
    asked(lines, keep, lambda _one: None, keep, keep)
    assert lines.lines == [0, 0, 1, 1]


def test_what_came_since_and_was_not_looked_at_yet_makes_a_new_connection(lines: Lines) -> None:
    said, wanted = threading.Event(), threading.Event()

    def late(line: socket.socket, name: str) -> None:
        line.sendall(answer(name))
        assert wanted.wait(20)
        line.sendall(PLANTED)
        said.set()

    def kept_and_late(one: Answer) -> None:
        one.response.keep()
        wanted.set()
        assert said.wait(20)  # the loop stands still meanwhile

    lines.says = [late]
    asked(lines, kept_and_late, keep)
    assert lines.lines == [0, 1]


def test_no_credentials_come_from_files(
    lines: Lines, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "netrc"
    file.write_text("default login somebody password something\n")
    monkeypatch.setenv("NETRC", str(file))
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    asked(lines, keep)
    assert b"authorization" not in lines.heard[0].head.lower()


def test_calls_at_once_have_a_connection_each(gateway: Gateway, lines: Lines) -> None:
    with agent(gateway, lines) as one:
        for _ in range(4):
            at_once(one, lines, 3)
        assert one.route.close().usage.calls == 12
    assert {frozenset(lines.lines[at : at + 3]) for at in range(0, 12, 3)} == {frozenset({0, 1, 2})}


class Line:
    """A connection after a whole answer, as far as it is asked whether it may be kept."""

    should_close = False

    def __init__(self, tls: object) -> None:
        self.transport = self
        self.open, self.kept, self._tls = True, False, tls

    def data_received(self, data: bytes) -> None: ...

    def is_connected(self) -> bool:
        return self.open

    def get_extra_info(self, name: str) -> object:
        return self._tls if name == "ssl_object" else None

    def close(self) -> None:
        self.open = False


@pytest.mark.parametrize(("tls", "kept"), [(None, True), (object(), False)], ids=["plain", "TLS"])
def test_a_connection_that_has_read_ahead_is_not_kept(tls: object, kept: bool) -> None:
    async def keep() -> Line:
        connector, line = _Connector(), Line(tls)
        connector.keep(line)  # type: ignore[arg-type]
        await connector.close()
        return line

    line = asyncio.run(keep())
    assert (line.open, line.kept) == (kept, kept)
