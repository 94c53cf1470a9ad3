"""A real gateway process between tests and an endpoint of their own, entered as a container's door does."""

from __future__ import annotations

import atexit
import contextlib
import functools
import http.client
import json
import queue
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple
from unittest import mock

from pytest_benchjobs.gateway import client
from pytest_benchjobs.gateway.client import (
    Gateway,
    GatewaySettings,
    Route,
    SpendingLimits,
    Terms,
    Upstream,
    open_route,
)
from pytest_benchjobs.model.endpoint import Endpoint

from .. import forking

KEY = "sk-real-0123456789-A"
PRICES = """
date = 2026-11-21
[[model]]
names = ["m-*"]
input = 10
output = 100
cached = 1
cache_write = 20
"""
JOB: dict[str, Any] = {
    "limits": {"max_cost_usd": None, "max_tokens": None, "max_calls": None},
    "spent": {},
    "ledger": None,
    "prices": None,
    "rates": {},
    "record": None,
    "replay": None,
    "replay_exact": False,
    "on_quota": "fail",
    "quotas": None,
    "patience": 0,
    "grace": 0,
    "silence": 900,
    "longest": 3600,
    "secrets": {},
}
"""Settings of a job, as the gateway's own process gets them."""


EVENTS = {"Content-Type": "text/event-stream"}
STREAM_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
"""The beginning of a stream that an endpoint's handler writes by itself."""


class Asked(NamedTuple):
    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Said(NamedTuple):
    """An answer. `cut` after its body: less comes than was promised."""

    status: int
    body: bytes
    headers: Mapping[str, str] = {}
    cut: bool = False
    chunks: tuple[bytes, ...] = ()
    wait: threading.Event | None = None
    """Set by the test before the last chunk is sent."""


class Model:
    """An endpoint. Says what is in `script`, in order, then `otherwise`."""

    def __init__(self, host: str = "127.0.0.1") -> None:
        self.asked: list[Asked] = []
        self.script: queue.SimpleQueue[Said | Callable[[BaseHTTPRequestHandler], None]] = queue.SimpleQueue()
        self.otherwise: Said | None = None
        model = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                headers = {name.lower(): value for name, value in self.headers.items()}
                model.asked.append(Asked(self.command, self.path, headers, body))
                try:
                    said = model.script.get_nowait()
                except queue.Empty:
                    assert model.otherwise is not None
                    said = model.otherwise
                with contextlib.suppress(OSError):
                    if isinstance(said, Said):
                        self.say(said)
                    else:
                        said(self)

            def say(self, said: Said) -> None:
                self.send_response(said.status)
                chunked = bool(said.chunks)
                for name, value in {"Content-Type": "application/json", **said.headers}.items():
                    self.send_header(name, value)
                if chunked:
                    self.send_header("Transfer-Encoding", "chunked")
                else:
                    self.send_header("Content-Length", str(len(said.body) + 10 * said.cut))
                self.end_headers()
                self.wfile.write(said.body)
                for at, chunk in enumerate(said.chunks):
                    if said.wait is not None and at == len(said.chunks) - 1:
                        said.wait.wait(20)
                    self.wfile.write(in_chunks(chunk))
                    self.wfile.flush()
                if said.cut:
                    self.close_connection = True
                elif chunked:
                    self.wfile.write(b"0\r\n\r\n")

            do_GET = do_POST = answer  # noqa: N815

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
                pass

        class Server(ThreadingHTTPServer):
            address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
            daemon_threads = True

        self._server = Server((host, 0), Handler)
        place = f"[{host}]" if ":" in host else host
        self.url = f"http://{place}:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        self._thread.start()

    def says(self, *said: Said | Callable[[BaseHTTPRequestHandler], None]) -> None:
        for one in said:
            self.script.put(one)

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def upstreams(self, key: str | None = KEY, provider: str | None = None) -> list[Upstream]:
        return [
            Upstream(Endpoint(wire="anthropic", provider=provider or "anthropic", base_url=self.url), key),
            Upstream(Endpoint(wire="openai", provider=provider or "openai", base_url=self.url + "/v1"), key),
            Upstream(Endpoint(wire="google", provider=provider or "google", base_url=self.url), key),
        ]


class Wire:
    """An endpoint of bare connections: what is said on one is up to `serve`."""

    def __init__(self) -> None:
        self.opened = 0
        """Connections."""
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                line, _ = self._listening.accept()
                self.opened += 1
                threading.Thread(target=self._serve, args=(line, self.opened - 1), daemon=True).start()

    def _serve(self, line: socket.socket, number: int) -> None:
        with contextlib.suppress(OSError), line:
            self.serve(line, number)

    def serve(self, line: socket.socket, number: int) -> None:
        """Answer on connection `number`, which ends with this."""
        raise NotImplementedError

    def close(self) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)  # to close it would leave the thread waiting at the port
        self._accepting.join()
        self._listening.close()

    def upstreams(self) -> list[Upstream]:
        return [
            Upstream(Endpoint(wire=wire, provider="openai", base_url=self.url + version), KEY)
            for wire, version in (("openai", "/v1"), ("anthropic", ""), ("google", ""))
        ]


class Answered(NamedTuple):
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Agent:
    """What runs in a container: knows a port of its loopback."""

    def __init__(self, route: Route, pid: int = 42) -> None:
        self.route = route
        with socket.socket() as listening:
            listening.bind(("127.0.0.1", 0))
            listening.listen(5)
            self.port = listening.getsockname()[1]
            hand_over(route.socket, listening, pid.to_bytes(4, "little"))

    def call(
        self,
        path: str,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        *,
        method: str = "POST",
        timeout: float = 30,
    ) -> Answered:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            content = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
            connection.request(method, path, content, {"Content-Type": "application/json", **(headers or {})})
            response = connection.getresponse()
            return Answered(
                response.status, {k.lower(): v for k, v in response.headers.items()}, response.read()
            )
        finally:
            connection.close()

    def chat(self, model: str = "m-1", **more: Any) -> Answered:
        return self.call("/openai/v1/chat/completions", {"model": model, "messages": [], **more})

    @contextlib.contextmanager
    def stream(self) -> Iterator[http.client.HTTPResponse]:
        """A stream of Anthropic's wire, of which nothing was read yet."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        connection.request("POST", "/anthropic/v1/messages", json.dumps({"model": "m-1", "stream": True}))
        with contextlib.closing(connection), connection.getresponse() as response:
            yield response

    def raw(self, data: bytes) -> bytes:
        """Everything the gateway says to these bytes until it closes the line."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=20) as line:
            line.sendall(data)
            said = b""
            with contextlib.suppress(ConnectionError):
                while more := line.recv(65536):
                    said += more
            return said


def hand_over(door: Path, handed: socket.socket, message: bytes) -> None:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(door))
        socket.send_fds(connection, [message], [handed.fileno()])


def in_chunks(*data: bytes) -> bytes:
    return b"".join(b"%x\r\n%b\r\n" % (len(one), one) for one in data)


def chat_answer(model: str = "m-1", sent: int = 1000, back: int = 100, **more: Any) -> Said:
    usage = {"prompt_tokens": sent, "completion_tokens": back, "total_tokens": sent + back, **more}
    message = {"index": 0, "message": {"role": "assistant", "content": "hello"}, "finish_reason": "stop"}
    return Said(200, json.dumps({"id": "1", "model": model, "choices": [message], "usage": usage}).encode())


def events(*data: Any) -> tuple[bytes, ...]:
    return tuple(
        b"data: " + (one if isinstance(one, bytes) else json.dumps(one).encode()) + b"\n\n" for one in data
    )


def chat_stream(model: str = "m-1", usage: bool = True, **more: Any) -> Said:
    words = [
        {"model": model, "choices": [{"index": 0, "delta": {"content": word}}]} for word in ("hel", "lo")
    ]
    last = {"model": model, "choices": [], "usage": {"prompt_tokens": 1000, "completion_tokens": 100}}
    chunks = events(*words, *([last] if usage else []), b"[DONE]")
    return Said(200, b"", EVENTS, chunks=chunks, **more)


@functools.cache
def _serve() -> None:
    serving = contextlib.ExitStack()
    serving.enter_context(forking.served())
    atexit.register(serving.close)


@contextlib.contextmanager
def running(tmp_path: Path, *, forks: bool = True, **settings: Any) -> Iterator[Gateway]:
    """A gateway, with prices for models named `m-...`. Without `forks` it is started as in any job."""
    if "prices" not in settings:
        settings["prices"] = tmp_path / "prices.toml"
        settings["prices"].write_text(PRICES)
    if forks:
        _serve()
    names = SimpleNamespace(**{**vars(subprocess), "Popen": forking.Popen})
    with mock.patch.object(client, "subprocess", names) if forks else contextlib.nullcontext():
        gateway = Gateway.start(GatewaySettings(**{"patience": 1.0, "grace": 0.05, **settings}))
    try:
        yield gateway
    finally:
        gateway.close()


@contextlib.contextmanager
def agent(gateway: Gateway, model: Model | Wire, trial: str = "a/s/1", **more: Any) -> Iterator[Agent]:
    """A route with an agent at its end."""
    terms = Terms(SpendingLimits(**more.pop("limits", {})), **more.pop("terms", {}))
    with open_route(gateway.address, trial, model.upstreams(**more), terms) as route:
        yield Agent(route)


def wait_until(condition: Callable[[], object], seconds: float = 10) -> None:
    """Wait for what another process does, without saying how quickly it has to."""
    event = threading.Event()
    for _ in range(int(seconds / 0.01)):
        if condition():
            return
        event.wait(0.01)
    raise AssertionError("it did not happen")


def memory(gateway: Gateway, of: str = "VmRSS") -> int:
    """Bytes of memory that its process has; of `VmHWM`: that it had at most."""
    status = Path(f"/proc/{gateway._process.pid}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith(of)) << 10
