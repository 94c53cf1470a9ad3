"""A server that answers as the API of a cluster does: each call with what a test has written down for it."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import wsproto.connection
import yaml
from wsproto.events import BytesMessage, CloseConnection, Message

Object = dict[str, Any]
PODS = "/api/v1/namespaces/trials/pods"


@dataclasses.dataclass
class Answer:
    """One answer; `cut`: the connection is closed instead."""

    body: Any = dataclasses.field(default_factory=dict)
    status: int = 200
    headers: dict[str, str] = dataclasses.field(default_factory=dict)
    cut: bool = False


@dataclasses.dataclass
class Call:
    method: str
    path: str
    query: dict[str, list[str]]
    headers: dict[str, str]
    body: Any


Reply = Answer | Callable[["_Handler"], None]


class Scripted:
    """`answers`: replies in turn, of which the last one stays."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.answers: dict[tuple[str, str], list[Reply]] = {}
        self.calls: list[Call] = []
        self._tls = tls
        self._lock = threading.Lock()
        self._server: ThreadingHTTPServer | None = None
        self._open: set[socket.socket] = set()
        self.port = 0
        self.start()

    def start(self) -> None:
        """Listen, at the same port as before."""
        handler = type("Handler", (_Handler,), {"script": self})
        self._server = _Server(("127.0.0.1", self.port), handler)
        self.port = self._server.server_address[1]
        if self._tls is not None:
            self._server.socket = self._tls.wrap_socket(self._server.socket, server_side=True)
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def stop(self) -> None:
        """As a server that is killed."""
        assert self._server is not None
        self._server.shutdown()
        self._server.server_close()
        for connection in list(self._open):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def say(self, method: str, path: str, *replies: Reply) -> None:
        self.answers[method, path] = list(replies)

    def made(self, method: str) -> list[Call]:
        return [call for call in self.calls if call.method == method]

    def kubeconfig(self, path: Path, user: Object | None = None, cluster: Object | None = None) -> str:
        scheme = "http" if self._tls is None else "https"
        # Reading the certificates of this machine takes longer than most tests.
        insecure = {} if self._tls else {"insecure-skip-tls-verify": True}
        server = {"server": f"{scheme}://127.0.0.1:{self.port}", **insecure, **(cluster or {})}
        path.write_text(
            yaml.safe_dump(
                {
                    "current-context": "here",
                    "contexts": [
                        {"name": "here", "context": {"cluster": "c", "user": "u", "namespace": "trials"}},
                        {"name": "there", "context": {"cluster": "c", "user": "u", "namespace": "others"}},
                    ],
                    "clusters": [{"name": "c", "cluster": server}],
                    "users": [{"name": "u", "user": {"token": "s3cr3t"} if user is None else user}],
                }
            ),
            "utf-8",
        )
        return str(path)

    def _reply(self, method: str, path: str) -> Reply:
        with self._lock:
            waiting = self.answers.get((method, path), [refusal(404, "NotFound", f"{path} not found")])
            return waiting.pop(0) if len(waiting) > 1 else waiting[0]


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: object, client_address: object) -> None:
        pass


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    script: Scripted

    def setup(self) -> None:
        super().setup()
        self.script._open.add(self.connection)

    def finish(self) -> None:
        self.script._open.discard(self.connection)
        super().finish()

    def _answer(self) -> None:
        parts = urlsplit(self.path)
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.call = Call(
            self.command,
            parts.path,
            parse_qs(parts.query),
            {name.lower(): value for name, value in self.headers.items()},
            json.loads(body) if body else None,
        )
        self.script.calls.append(self.call)
        reply = self.script._reply(self.command, parts.path)
        if not isinstance(reply, Answer):
            reply(self)
            self.close_connection = True
            return
        if reply.cut:
            self.close_connection = True
            return
        content = reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
        self.send_response(reply.status)
        for name, value in {**reply.headers, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = do_PATCH = do_DELETE = _answer  # noqa: N815

    def log_message(self, *args: object) -> None:
        pass


def refusal(status: int, reason: str, message: str, **headers: str) -> Answer:
    body = {"kind": "Status", "status": "Failure", "code": status, "reason": reason, "message": message}
    return Answer(body, status, headers)


def pod(name: str, uid: str, phase: str = "Pending", **metadata: Any) -> Object:
    return {
        "kind": "Pod",
        "metadata": {"name": name, "uid": uid, "resourceVersion": "5", "managedFields": [{}], **metadata},
        "spec": {"nodeName": "node1", "containers": [{"name": "main"}]},
        "status": {"phase": phase},
    }


def some(*items: Object, version: str = "7", more: str = "") -> Answer:
    """A list."""
    return Answer({"metadata": {"resourceVersion": version, "continue": more}, "items": list(items)})


def changes(*events: Object | float, stay: threading.Event | None = None) -> Callable[[_Handler], None]:
    """A watch, with pauses; ends after the last one, or when `stay` is set."""

    def reply(handler: _Handler) -> None:
        handler.send_response(200)
        handler.send_header("Connection", "close")
        handler.end_headers()
        for event in events:
            if isinstance(event, float):
                time.sleep(event)
            else:
                handler.wfile.write(json.dumps(event, ensure_ascii=False).encode() + b"\n")
        if stay is not None:
            stay.wait(30)

    return reply


class Session:
    """The far end of a command: `pieces` of what is sent to it, and ways to answer."""

    def __init__(self, handler: _Handler) -> None:
        self.connection = handler.connection
        self.framing = wsproto.connection.Connection(wsproto.ConnectionType.SERVER)

    def pieces(self) -> Iterator[bytes]:
        """Yield messages, channel and all, until the other side is gone."""
        message = b""
        while data := self.connection.recv(1 << 16):
            self.framing.receive_data(data)
            for event in self.framing.events():
                if isinstance(event, CloseConnection):
                    return
                if isinstance(event, Message):
                    message += bytes(event.data)
                    if event.message_finished:
                        yield message
                        message = b""

    def send(self, *events: wsproto.events.Event) -> None:
        self.connection.sendall(b"".join(self.framing.send(event) for event in events))

    def say(self, channel: int, data: bytes) -> None:
        self.send(BytesMessage(bytes((channel,)) + data))

    def close(self) -> None:
        self.send(CloseConnection(1000))


def command(
    act: Callable[[Session], None], protocol: str = "v4.channel.k8s.io", early: bytes = b""
) -> Callable[[_Handler], None]:
    """A command that is started; `early`: frames that come together with the head."""

    def reply(handler: _Handler) -> None:
        head = (
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Protocol: {protocol}\r\n\r\n"
        )
        handler.connection.sendall(head.encode() + early)
        with contextlib.suppress(OSError):
            act(Session(handler))

    return reply
