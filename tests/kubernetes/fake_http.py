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

from .fake_node import Command, Node
from .fake_store import KINDS, Kind, Object, Refused, matches

if TYPE_CHECKING:
    from .fake_cluster import FakeCluster

USER = "benchjobs"
VERSION = {"major": "1", "minor": "20", "gitVersion": "v1.20.2", "platform": "linux/amd64"}
_PATH = re.compile(
    r"/apis?/(?P<version>v1|[^/]+/[^/]+)(?:/namespaces/(?P<namespace>[^/]+))?/(?P<plural>[a-z]+)"
    r"(?:/(?P<name>[^/]+))?(?:/(?P<sub>[a-z]+))?"
)
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch"}
_BINARY, _CLOSE, _PING, _PONG = 2, 8, 9, 10


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
        if match is None or kind is None or match["version"] != kind.version:
            raise Refused(404, "NotFound", "the server could not find the requested resource")
        namespace, name, sub = match["namespace"] or "", match["name"], match["sub"]
        watch = self.query.get("watch", ["0"])[0] in ("1", "true")
        verb = _VERBS.get(self.command) or {
            "GET": "watch" if watch else "get" if name else "list",
            "DELETE": "delete" if name else "deletecollection",
        }.get(self.command, self.command)
        resource = f"{kind.plural}/{sub}" if sub else kind.plural
        self.cluster.requests.append((verb, resource))
        if self.cluster.is_forbidden(verb, resource):
            raise _no_right(kind, namespace, name, verb, resource)
        if sub == "exec":
            return self._exec(namespace, name)
        if sub:
            return self.cluster.subresource(namespace, name, sub)
        if verb == "watch":
            return self._watch(kind, namespace)
        return (
            self._list(kind, namespace, body)
            if verb in ("list", "deletecollection")
            else self._one(kind, namespace, name, body)
        )

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
        # A strategic merge differs only in lists of objects.
        if "merge-patch" not in self.headers.get("Content-Type", ""):
            raise Refused(415, "UnsupportedMediaType", "415: Unsupported Media Type")
        return 200, cluster.patch(kind, namespace, name, body)

    def _list(self, kind: Kind, namespace: str, body: Object) -> tuple[int, object]:
        store = self.cluster.store
        with store.changed:
            items, version = store.list(kind, namespace, *self._selectors()), str(store.version)
        for item in items:
            if self.command == "DELETE":
                with contextlib.suppress(Refused):
                    self.cluster.delete(kind, item, body)
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
    elif channel == b"\x04":
        size = json.loads(rest)
        command.resize(size["Width"], size["Height"])
    elif channel == b"\xff" and half_close and rest == b"\x00":
        command.end_input()


def _pass_out(command: Command, node: Node, websocket: _WebSocket) -> None:
    """Pass on what a command prints, and how it ended."""
    with contextlib.suppress(OSError):
        websocket.send(b"\x01")
        for channel, data in command.output():
            node.reachable.wait()
            websocket.send(bytes([channel]) + data)
        code = command.exit_status()
        node.reachable.wait()
        status: Object = {"metadata": {}, "status": "Success"}
        if code:
            message = (
                f"command terminated with non-zero exit code: Error executing in Docker Container: {code}"
            )
            causes = {"causes": [{"reason": "ExitCode", "message": str(code)}]}
            status |= {
                "status": "Failure",
                "message": message,
                "reason": "NonZeroExitCode",
                "details": causes,
            }
        websocket.send(b"\x03" + json.dumps(status).encode())
        websocket.close()


class _WebSocket:
    """The server's side of a websocket (RFC 6455), without extensions."""

    def __init__(self, stream: Any, connection: socket.socket) -> None:
        self._stream, self._connection = stream, connection
        self._lock = threading.Lock()

    def send(self, data: bytes, opcode: int = _BINARY) -> None:
        size, long = len(data), len(data) >= 1 << 16
        head = bytes([size]) if size < 126 else bytes([126 + long]) + size.to_bytes(8 if long else 2, "big")
        with self._lock:
            self._connection.sendall(bytes([0x80 | opcode]) + head + data)

    def close(self) -> None:
        """End it in good order."""
        self.send((1000).to_bytes(2, "big"), _CLOSE)
        self._connection.shutdown(socket.SHUT_RDWR)

    def messages(self) -> Iterator[bytes]:
        """What the client sends, until it closes or is gone."""
        whole = b""
        with contextlib.suppress(OSError, ValueError):
            while len(head := self._stream.read(2)) == 2:
                size = head[1] & 0x7F
                if size > 125:
                    size = int.from_bytes(self._stream.read(2 if size == 126 else 8), "big")
                mask, data = self._stream.read(4), self._stream.read(size)
                masks = (mask * (size // 4 + 1))[:size]
                data = (int.from_bytes(data, "big") ^ int.from_bytes(masks, "big")).to_bytes(size, "big")
                opcode = head[0] & 0x0F
                if opcode == _CLOSE:
                    return self.send(data[:2], _CLOSE)
                if opcode == _PING:
                    self.send(data, _PONG)
                if opcode <= _BINARY:
                    whole += data
                    if head[0] & 0x80:
                        yield whole
                        whole = b""
        return None


def _no_right(kind: Kind, namespace: str, name: str | None, verb: str, resource: str) -> Refused:
    what = (
        f'{kind.qualified}{f" {json.dumps(name)}" if name else ""} is forbidden: User "{USER}" cannot {verb}'
    )
    where = f'in the namespace "{namespace}"' if kind.namespaced else "at the cluster scope"
    details = {
        **({"name": name} if name else {}),
        **({"group": kind.group} if kind.group else {}),
        "kind": kind.plural,
    }
    return Refused(
        403, "Forbidden", f'{what} resource "{resource}" in API group "{kind.group}" {where}', **details
    )


@functools.cache
def discovery() -> dict[str, Object | str]:
    """Path -> what tells a client about the API."""
    groups = []
    found: dict[str, Object | str] = {
        "/version": VERSION,
        "/readyz": "ok",
        "/api": {"kind": "APIVersions", "versions": ["v1"]},
        "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups},
    }
    verbs = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
    for version in sorted({kind.version for kind in KINDS.values()}):
        resources = [
            {
                "name": kind.plural,
                "singularName": "",
                "namespaced": kind.namespaced,
                "kind": kind.name,
                "verbs": verbs,
            }
            for kind in KINDS.values()
            if kind.version == version
        ]
        group, _, number = version.rpartition("/")
        found[f"/{'apis' if group else 'api'}/{version}"] = {
            "kind": "APIResourceList",
            "groupVersion": version,
            "resources": resources,
        }
        if group:
            known = {"groupVersion": version, "version": number}
            groups.append({"name": group, "versions": [known], "preferredVersion": known})
    return found
