"""The HTTP of a fake API server: paths and verbs, watches as chunks, commands over websockets."""

from __future__ import annotations

import base64
import contextlib
import functools
import hashlib
import http.server
import json
import re
import socket
import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import wsproto.connection
import wsproto.utilities
from wsproto.events import BytesMessage, CloseConnection, Event, Ping

from .fake_node import Command, Node
from .fake_store import KINDS, Kind, Object, Refused, details_of, matches

if TYPE_CHECKING:
    from .fake_cluster import FakeCluster

USER = "benchjobs"
VERSION = {"major": "1", "minor": "20", "gitVersion": "v1.20.2", "platform": "linux/amd64"}
_PATH = re.compile(
    r"/apis?/(?P<version>v1|[^/]+/[^/]+)(?:/namespaces/(?P<namespace>[^/]+))?/(?P<plural>[a-z]+)"
    r"(?:/(?P<name>[^/]+))?(?:/(?P<sub>[a-z]+))?"
)
_VERBS = {"POST": "create", "PATCH": "patch", "DELETE": "delete"}


class Server(http.server.ThreadingHTTPServer):
    """Listens for a cluster, and knows its connections."""

    daemon_threads = True
    request_queue_size = 256

    def __init__(self, port: int, cluster: FakeCluster) -> None:
        self.cluster = cluster
        self.open: dict[socket.socket, bool] = {}
        """Connection -> whether it is a stream."""
        super().__init__(("127.0.0.1", port), Handler)
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()

    def handle_error(self, request: object, client_address: object) -> None:
        """A connection that was broken is no error."""

    def cut(self, *, streams: bool = False) -> int:
        """Break all connections, or those that are streams; return how many."""
        cut = [connection for connection, streaming in list(self.open.items()) if streaming or not streams]
        for connection in cut:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        return len(cut)

    def end(self) -> None:
        """Listen no more, and break all connections."""
        self.shutdown()
        self.server_close()
        self.cut()


class Handler(http.server.BaseHTTPRequestHandler):
    """One connection of a client."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: Server

    def setup(self) -> None:
        super().setup()
        self.cluster = self.server.cluster
        self.server.open[self.connection] = False

    def finish(self) -> None:
        self.server.open.pop(self.connection, None)
        with contextlib.suppress(OSError):
            super().finish()

    def log_message(self, *_: object) -> None:
        """Quiet."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("do_"):
            return self._any
        raise AttributeError(name)

    def _any(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        url = urlsplit(self.path)
        self.query = parse_qs(url.query, keep_blank_values=True)
        code, words = self.cluster.scripted()
        if code:
            return self._answer(code, words)
        try:
            answer = self._route(url.path, json.loads(body) if body else {})
        except Refused as refused:
            # A kubelet's own words come as they are.
            answer = refused.code, refused.status if refused.status["reason"] else str(refused)
        except ValueError:
            answer = 400, Refused(400, "BadRequest", "the object provided is unrecognized").status
        if words is None:
            self.connection.shutdown(socket.SHUT_RDWR)
        elif answer is not None:
            self._answer(*answer)
        return None

    def _answer(self, code: int, obj: object) -> None:
        text = obj if isinstance(obj, str) else json.dumps(obj)
        kind = "text/plain; charset=utf-8" if isinstance(obj, str) else "application/json"
        again = {"Retry-After": "1"} if code == 429 else {}
        self._head(code, {"Content-Type": kind, "Content-Length": str(len(text.encode())), **again})
        self.wfile.write(text.encode())

    def _head(self, code: int, headers: dict[str, str]) -> None:
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def _route(self, path: str, body: Object) -> tuple[int, object] | None:
        if (found := discovery().get(path.rstrip("/"))) is not None:
            return 200, found
        match = _PATH.fullmatch(path)
        kind = KINDS.get(match["plural"]) if match else None
        if (
            match is None
            or kind is None
            or match["version"] != kind.version
            or match["sub"] not in (None, "exec")
            or (match["namespace"] and not kind.namespaced)
        ):
            raise Refused(404, "NotFound", "the server could not find the requested resource")
        namespace, name, sub = match["namespace"] or "", match["name"], match["sub"]
        watch = self.query.get("watch", ["0"])[0] in ("1", "true")
        verb = _VERBS.get(self.command) or ("watch" if watch else "get" if name else "list")
        resource = f"{kind.plural}/{sub}" if sub else kind.plural
        self.cluster.requests.append((verb, resource))
        if self.cluster.is_forbidden(verb, resource):
            raise _no_right(kind, namespace, name, verb, resource)
        if sub == "exec":
            return self._exec(namespace, name)
        if verb == "watch":
            return self._watch(kind, namespace)
        return self._list(kind, namespace) if verb == "list" else self._one(kind, namespace, name, body)

    def _one(self, kind: Kind, namespace: str, name: str, body: Object) -> tuple[int, object]:
        cluster = self.cluster
        if self.command == "POST":
            return 201, cluster.create(kind, namespace, body)
        if self.command == "GET":
            return 200, cluster.store.get(kind, namespace, name)
        if self.command == "DELETE":
            if "gracePeriodSeconds" in self.query:
                body["gracePeriodSeconds"] = int(self.query["gracePeriodSeconds"][0])
            return 200, cluster.delete(kind, cluster.store.get(kind, namespace, name), body)
        return 200, cluster.patch(kind, namespace, name, body)

    def _list(self, kind: Kind, namespace: str) -> tuple[int, object]:
        store = self.cluster.store
        with store.changed:
            items, version = store.list(kind, namespace, *self._selectors()), str(store.version)
        for item in items:
            # Items of a list do not say what they are.
            del item["kind"], item["apiVersion"]
        about = {
            "kind": f"{kind.name}List",
            "apiVersion": kind.version,
            "metadata": {"resourceVersion": version},
        }
        return 200, {**about, "items": items}

    def _selectors(self) -> tuple[str, str]:
        return self.query.get("labelSelector", [""])[0], self.query.get("fieldSelector", [""])[0]

    def _watch(self, kind: Kind, namespace: str) -> None:
        self.server.open[self.connection] = True
        self._head(200, {"Content-Type": "application/json", "Transfer-Encoding": "chunked"})
        for event, obj in self._changes(kind, namespace):
            data = json.dumps({"type": event, "object": obj}).encode() + b"\n"
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.write(b"0\r\n\r\n")
        self.server.open[self.connection] = False

    def _changes(self, kind: Kind, namespace: str) -> Iterator[tuple[str, Object]]:
        store, selectors = self.cluster.store, self._selectors()
        seen = int(self.query.get("resourceVersion", ["0"])[0] or 0)
        end = time.monotonic() + float(self.query.get("timeoutSeconds", ["3600"])[0])
        if seen == 0:
            with store.changed:
                present, seen = store.list(kind, namespace, *selectors), store.version
            yield from (("ADDED", obj) for obj in present)
        while not self.cluster.closing.is_set() and (left := end - time.monotonic()) > 0 and self._is_open():
            with store.changed:
                if seen < store.oldest:
                    yield (
                        "ERROR",
                        Refused(410, "Expired", f"too old resource version: {seen} ({store.oldest})").status,
                    )
                    return
                if store.version <= seen:
                    store.changed.wait(min(1.0, left))
                changes, seen = store.since(seen), max(seen, store.version)
            yield from (
                (event, obj)
                for _, event, changed, obj in changes
                if changed is kind and matches(obj, namespace, *selectors)
            )

    def _is_open(self) -> bool:
        with contextlib.suppress(BlockingIOError):
            return self.connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) != b""
        return True

    def _exec(self, namespace: str, name: str) -> None:
        offered = [part.strip() for part in self.headers.get("Sec-WebSocket-Protocol", "").split(",")]
        protocol = next((one for one in self.cluster.protocols if one in offered), None)
        begin, node = self.cluster.command(namespace, name, self.query)
        if self.headers.get("Upgrade", "").lower() != "websocket":
            raise Refused(400, "BadRequest", "Upgrade request required")
        if protocol is None:
            raise Refused(403, "", "")
        command = begin()
        self.server.open[self.connection] = self.close_connection = True
        accept = hashlib.sha1(
            (self.headers["Sec-WebSocket-Key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()
        )
        upgrade = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Protocol": protocol}
        self._head(101, upgrade | {"Sec-WebSocket-Accept": base64.b64encode(accept.digest()).decode()})
        websocket = _WebSocket(self.rfile, self.connection)
        out = threading.Thread(target=_pass_out, args=(command, node, websocket), daemon=True)
        out.start()
        try:
            for data in websocket.messages():
                node.reachable.wait()
                _pass_in(command, data, half_close=protocol.startswith("v5"))
        finally:
            # The command runs on, with nothing more to read.
            command.end_input()
            out.join()
            command.close()


def _pass_in(command: Command, data: bytes, *, half_close: bool) -> None:
    channel, rest = data[:1], data[1:]
    if channel == b"\x00":
        command.write(rest)
    elif channel == b"\xff" and half_close and rest == b"\x00":
        command.end_input()


def _pass_out(command: Command, node: Node, websocket: _WebSocket) -> None:
    """Pass on what a command prints, and how it ended."""
    with contextlib.suppress(OSError, wsproto.utilities.ProtocolError):
        websocket.send(BytesMessage(b"\x01"))
        for channel, data in command.output():
            node.reachable.wait()
            websocket.send(BytesMessage(bytes([channel]) + data))
        code = command.exit_status()
        node.reachable.wait()
        status: Object = {"metadata": {}, "status": "Failure" if code else "Success"}
        if code:
            words = f"command terminated with non-zero exit code: Error executing in Docker Container: {code}"
            causes = {"causes": [{"reason": "ExitCode", "message": str(code)}]}
            status |= {"message": words, "reason": "NonZeroExitCode", "details": causes}
        websocket.send(BytesMessage(b"\x03" + json.dumps(status).encode()))
        websocket.close()


class _WebSocket:
    """The server's side of a websocket."""

    def __init__(self, stream: Any, connection: socket.socket) -> None:
        self._stream, self._connection = stream, connection
        self._framing = wsproto.connection.Connection(wsproto.ConnectionType.SERVER)
        self._lock = threading.Lock()

    def send(self, event: Event) -> None:
        with self._lock:
            self._connection.sendall(self._framing.send(event))

    def close(self) -> None:
        """End it in good order."""
        self.send(CloseConnection(1000))
        self._connection.shutdown(socket.SHUT_RDWR)

    def messages(self) -> Iterator[bytes]:
        """What the client sends, until it closes or is gone."""
        whole = b""
        with contextlib.suppress(OSError, ValueError, wsproto.utilities.ProtocolError):
            while data := self._stream.read1(1 << 16):
                with self._lock:
                    self._framing.receive_data(data)
                for event in self._framing.events():
                    if isinstance(event, CloseConnection | Ping):
                        self.send(event.response())
                    if isinstance(event, CloseConnection):
                        return
                    if isinstance(event, BytesMessage):
                        whole += event.data
                        if event.message_finished:
                            yield whole
                            whole = b""


def _no_right(kind: Kind, namespace: str, name: str | None, verb: str, resource: str) -> Refused:
    which = f" {json.dumps(name)}" if name else ""
    what = f'{kind.qualified}{which} is forbidden: User "{USER}" cannot {verb}'
    where = f'in the namespace "{namespace}"' if kind.namespaced else "at the cluster scope"
    words = f'{what} resource "{resource}" in API group "{kind.group}" {where}'
    return Refused(403, "Forbidden", words, **details_of(kind, name or ""))


@functools.cache
def discovery() -> dict[str, Object | str]:
    """Path -> what tells a client about the API."""
    groups: list[Object] = []
    found: dict[str, Object | str] = {
        "/version": VERSION,
        "/readyz": "ok",
        "/api": {"kind": "APIVersions", "versions": ["v1"]},
        "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups},
    }
    verbs = ["create", "delete", "get", "list", "patch", "watch"]
    for version in sorted({kind.version for kind in KINDS.values()}):
        resources = [
            {"name": kind.plural, "namespaced": kind.namespaced, "kind": kind.name, "verbs": verbs}
            for kind in KINDS.values()
            if kind.version == version
        ]
        about = {"kind": "APIResourceList", "groupVersion": version, "resources": resources}
        group, _, number = version.rpartition("/")
        found[f"/{'apis' if group else 'api'}/{version}"] = about
        if group:
            known = {"groupVersion": version, "version": number}
            groups.append({"name": group, "versions": [known], "preferredVersion": known})
    return found
