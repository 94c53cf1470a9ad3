"""A scripted model server: four protocols, streaming and not, no model. `script` says what it answers.

    with ModelServer() as server:
        server.url                 # base URL of `anthropic` and `google`; with `/v1` of `openai`
        server.calls               # what was asked, oldest first
        server.usage               # what all answers together reported

Key `bad-key` is refused (401; `bad-google-key` with a 400, the way Google does), models named `no-such*` are unknown
(404).
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import json
import re
import socket
import sys
import threading
import urllib.parse
from collections.abc import Iterable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from pytest_benchjobs.gateway.own_call import PROMPT

from .script import Asked, Fault, Turn, UnknownMarker, turn
from .wires import CACHE_READ, CACHE_WRITE, INPUT_ALL, JSON, OUTPUT, REASONING, WIRES, Chat, Wire

_ROUTES = (
    (re.compile(r"/messages$"), "anthropic"),
    (re.compile(r"/chat/completions$"), "chat"),
    (re.compile(r"/responses$"), "responses"),
    (re.compile(r"/models/(?P<model>[^/:]+):(?P<method>generateContent|streamGenerateContent)$"), "google"),
)
_END = re.compile(
    rb'"message_(?:delta|stop)"|"finish_reason": "|\[DONE\]|"response\.completed"|"finishReason"|"usage": {'
)
_MODELS = ("claude-sonnet-4-5", "gpt-5.5", "gemini-2.5-pro", "fake-model")


@dataclasses.dataclass(frozen=True)
class Usage:
    """What the server reported, in the words of a trial's result: input and output are all of it."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cache_write_tokens: int | None = 0
    """None: some protocol that was spoken has no such count."""
    reasoning_tokens: int = 0


@dataclasses.dataclass
class Call:
    """One request."""

    method: str
    path: str
    """With its query."""
    wire: str
    """`anthropic`, `chat`, `responses`, `google`; empty for all that is not a model call."""
    keys: tuple[str, ...]
    headers: Mapping[str, str]
    body: Any = None
    asked: Asked | None = None
    counted: bool = False
    """The whole answer, with what it used, was sent; it is part of `ModelServer.usage`."""


class ModelServer:
    """The server, in threads of this process, on a port of the loopback that was free."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._calls: list[Call] = []
        self._faults: collections.Counter[str] = collections.Counter()
        self.closing = threading.Event()
        self.used_up: Fault | None = None
        """The last error of a quota, until the gateway has confirmed it by its own call."""
        self._http = _Server(("127.0.0.1", 0), self)
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}"
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True)

    def close(self) -> None:
        """Break all connections off and end every thread."""
        self.closing.set()
        self._http.shutdown()
        self._http.break_off()
        self._http.server_close()
        self._thread.join()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    @property
    def calls(self) -> list[Call]:
        """Requests for answers of a model so far."""
        return [call for call in self.requests if call.wire]

    @property
    def requests(self) -> list[Call]:
        """All requests so far."""
        with self._lock:
            return list(self._calls)

    @property
    def keys(self) -> set[str]:
        """Every key that was sent along."""
        return {key for call in self.requests for key in call.keys}

    @property
    def usage(self) -> Usage:
        """What complete answers reported, added up."""
        return self.usage_below("/")

    def usage_below(self, path: str) -> Usage:
        """The same of calls whose path begins so, as those of an agent that was given such a base URL do."""
        counted = [call for call in self.calls if call.counted and call.path.startswith(path)]
        wires = {call.wire for call in counted}
        calls = len(counted)
        return Usage(
            calls=calls,
            input_tokens=calls * INPUT_ALL,
            output_tokens=calls * OUTPUT,
            cached_tokens=calls * CACHE_READ,
            cache_write_tokens=None if "google" in wires else calls * CACHE_WRITE,
            reasoning_tokens=calls * REASONING,
        )

    def record(self, call: Call) -> None:
        """A request has come."""
        with self._lock:
            self._calls.append(call)

    def given(self, key: str, times: int) -> bool:
        """Whether a fault is to happen once more."""
        with self._lock:
            self._faults[key] += 1
            return self._faults[key] <= times


class _Server(ThreadingHTTPServer):
    daemon_threads = False
    request_queue_size = 256

    def __init__(self, address: tuple[str, int], owner: ModelServer) -> None:
        self.owner = owner
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        super().__init__(address, _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._open.discard(request)
        super().shutdown_request(request)

    def break_off(self) -> None:
        with self._lock:
            for connection in self._open:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        pass

    def do_HEAD(self) -> None:
        self._other()

    def do_GET(self) -> None:
        self._other()

    def do_POST(self) -> None:
        path = urllib.parse.urlsplit(self.path).path
        for pattern, name in _ROUTES:
            if match := pattern.search(path):
                self._model(name, match.groupdict())
                return
        self._other()

    def _other(self) -> None:
        """All that is not a model call."""
        self._call("")
        path = urllib.parse.urlsplit(self.path).path
        if path.endswith("/messages/count_tokens"):
            self._send(200, {"input_tokens": INPUT_ALL})
        elif path.endswith(":countTokens"):
            self._send(200, {"totalTokens": INPUT_ALL})
        elif path.endswith("/v1beta/models"):
            self._send(200, {"models": [{"name": f"models/{name}"} for name in _MODELS]})
        elif path.endswith("/models"):
            models = [
                {"id": name, "object": "model", "type": "model", "display_name": name} for name in _MODELS
            ]
            self._send(200, {"object": "list", "data": models, "has_more": False})
        elif path.endswith("/api/hello"):
            self._send(200, {})
        else:
            self._send(404, Chat().error(Fault(404), f"there is nothing at {path}"))

    def _model(self, name: str, matched: Mapping[str, str]) -> None:
        wire = WIRES[name]()
        call = self._call(name)
        owner = self.server.owner
        try:
            body = call.body
            stream = matched.get("method") == "streamGenerateContent" or bool(body.get("stream"))
            model = urllib.parse.unquote(matched.get("model") or str(body.get("model")))
            asked = call.asked = wire.asked(body, model, stream)
            answer = self._in_quota(turn(asked, owner.given), asked)
        except (UnknownMarker, AttributeError, KeyError, TypeError, ValueError) as error:
            self._send(400, wire.error(Fault(400), f"{type(error).__name__}: {error}"))
            return
        owner.closing.wait(answer.sleep)
        if refused := _refused(call, asked):
            self._send(refused[0], wire.error(Fault(refused[0]), refused[1]))
        elif answer.drop:
            self.close_connection = True
        elif answer.stall:
            owner.closing.wait()
            self.close_connection = True
        elif answer.drip:
            self._drip(call, owner.closing)
        elif answer.garbage is not None:
            self._garbage(answer.garbage)
        elif fault := answer.fault:
            status = 400 if fault.quota and name == "anthropic" else fault.status
            headers = {"Retry-After": fault.retry_after} if fault.retry_after else {}
            self._send(status, wire.error(fault, f"scripted error {status}"), headers)
        elif asked.stream:
            self._stream(call, wire, answer, asked)
        else:
            cut = answer.cut or answer.no_end
            call.counted = not cut
            self._send(200, wire.answer(answer, asked), cut=cut)

    def _in_quota(self, answer: Turn, asked: Asked) -> Turn:
        """The same error for the gateway's own call as for the call before it, which had used up the quota."""
        owner = self.server.owner
        if PROMPT in asked.texts and owner.used_up is not None:
            answer, owner.used_up = dataclasses.replace(answer, fault=owner.used_up), None
        elif answer.fault is not None and answer.fault.quota:
            owner.used_up = answer.fault
        return answer

    def _call(self, wire: str) -> Call:
        headers = {name.lower(): value for name, value in self.headers.items()}
        query = urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query)
        bearer = headers.get("authorization", "").partition(" ")[2]
        sent = [headers.get("x-api-key"), bearer, headers.get("x-goog-api-key"), *query.get("key", ())]
        content = self._content(headers)
        try:
            body = json.loads(content) if content else {}
        except ValueError:
            body = {}
        call = Call(self.command, self.path, wire, tuple(key for key in sent if key), headers, body)
        self.server.owner.record(call)
        return call

    def _content(self, headers: Mapping[str, str]) -> bytes:
        if headers.get("transfer-encoding", "").lower() != "chunked":
            return self.rfile.read(int(headers.get("content-length") or 0))
        pieces = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            pieces.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(pieces)

    def _drip(self, call: Call, closing: threading.Event) -> None:
        kind = "text/event-stream" if (call.body or {}).get("stream") else "application/json"
        self._begin(200, {"Content-Type": kind, "Transfer-Encoding": "chunked"})
        self.close_connection = True
        with contextlib.suppress(OSError):
            while not closing.wait(0.2):
                self.wfile.write(b"1\r\n\n\r\n")

    def _garbage(self, kind: str) -> None:
        content = {
            "html": b"<html><title>Welcome to nginx!</title></html>",
            "json": b'{"id": "1", "choices": [{"mess',
            "other": b'{"status": "ok"}',
            "empty": b"",
        }[kind]
        media = "text/html" if kind == "html" else "application/json"
        self._begin(200, {"Content-Type": media, "Content-Length": str(len(content))})
        self.wfile.write(content)

    def _send(
        self, status: int, body: JSON, headers: Mapping[str, str] | None = None, *, cut: bool = False
    ) -> None:
        content = json.dumps(body).encode()
        given = {"Content-Type": "application/json", "Content-Length": str(len(content)), **(headers or {})}
        self._begin(status, given)
        if self.command != "HEAD":
            self.wfile.write(content[: len(content) // 2] if cut else content)
        self.close_connection |= cut

    def _stream(self, call: Call, wire: Wire, answer: Turn, asked: Asked) -> None:
        pieces = list(wire.pieces(answer, asked, call.body or {}))
        as_list = call.wire == "google" and "alt=sse" not in call.path
        if as_list:
            pieces = _as_list(pieces)
        if answer.cut:
            whole = b"".join(pieces)
            pieces = [whole[: len(whole) // 2]]
        if answer.no_end:
            # Whatever says that it is the end, or why.
            pieces = [piece for piece in pieces if not _END.search(piece)]
        kind = "application/json" if as_list else "text/event-stream"
        self._begin(200, {"Content-Type": kind, "Transfer-Encoding": "chunked", "Cache-Control": "no-cache"})
        for number, piece in enumerate(pieces, start=1):
            if number == len(pieces) and not (answer.cut or answer.no_end):
                # Before the last byte, so that whoever has the answer finds it in the ledger.
                call.counted = call.wire != "chat" or _wants_usage(call)
            self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece))
        if answer.cut:
            self.close_connection = True
        else:
            self.wfile.write(b"0\r\n\r\n")

    def _begin(self, status: int, headers: Mapping[str, str]) -> None:
        self.send_response_only(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()


def _refused(call: Call, asked: Asked) -> tuple[int, str] | None:
    if "bad-key" in call.keys:
        return 401, "Incorrect API key provided."
    if "bad-google-key" in call.keys:
        return 400, "API key not valid. Please pass a valid API key."
    if asked.model.startswith("no-such"):
        return 404, f"The model `{asked.model}` does not exist or you do not have access to it."
    return None


def _wants_usage(call: Call) -> bool:
    return bool(((call.body or {}).get("stream_options") or {}).get("include_usage"))


def _as_list(pieces: Iterable[bytes]) -> list[bytes]:
    """Google's streams without `alt=sse`: one JSON array."""
    items = [piece.removeprefix(b"data: ").strip() for piece in pieces]
    return [(b"[" if number == 0 else b",\r\n") + item for number, item in enumerate(items)] + [b"]"]
