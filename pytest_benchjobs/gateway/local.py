"""Address of a trial's gateway on this machine, for HTTP clients of the trial's driver.

The gateway itself answers at a socket that only this user may open. Clients want a URL, and a port of the loopback is
open to every process of the machine, also to agents in sandboxes that share its network. So each request has to carry a
key that is made for the trial, and only the request goes on, without it.
"""

from __future__ import annotations

import contextlib
import hmac
import http.client
import http.server
import secrets
import socket
import threading
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

from ..model.endpoint import GATEWAY_URL, Wire

_LARGEST = 64 << 20
"""Most bytes of a request."""
_PIECE = 1 << 16
_CALL_SECONDS = 3600.0
_KEYS = ("authorization", "x-api-key", "x-goog-api-key", "api-key")
_OF_A_HOP = frozenset(
    {
        "connection",
        "keep-alive",
        "transfer-encoding",
        "content-length",
        "host",
        "te",
        "upgrade",
        "expect",
        *_KEYS,
    }
)


class LocalAddress:
    """Server on a port of the loopback that passes requests with the right key on to a trial's gateway."""

    def __init__(self, gateway: Path) -> None:
        self.key = f"benchjobs-{secrets.token_urlsafe(24)}"
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _handler(gateway, self.key))
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, name="bench-address", daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def url(self, wire: Wire) -> str:
        """Return the base URL of the protocol `wire`."""
        return f"http://127.0.0.1:{self._server.server_port}{urlsplit(GATEWAY_URL[wire]).path}"

    def close(self) -> None:
        """Close the port."""
        self._server.shutdown()
        self._server.server_close()


class _GatewayConnection(http.client.HTTPConnection):
    """Connection to the socket of a gateway."""

    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=_CALL_SECONDS)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(_CALL_SECONDS)
        self.sock.connect(str(self._path))


def _handler(gateway: Path, key: str) -> type[http.server.BaseHTTPRequestHandler]:
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._pass_on()

        def do_POST(self) -> None:
            self._pass_on()

        def log_message(self, *_: object) -> None:
            """Say nothing: the gateway has the log."""

        def _pass_on(self) -> None:
            self.close_connection = True
            if not self._has_key():
                self._refuse(401, "the key of this trial is missing or wrong; use that of `trial.api_key`")
                return
            body = self._body()
            if body is None:
                self._refuse(413, "the request has no length, or is too large")
                return
            with contextlib.closing(_GatewayConnection(gateway)) as connection:
                headers = {
                    name: value for name, value in self.headers.items() if name.lower() not in _OF_A_HOP
                }
                try:
                    connection.request(self.command, self.path, body, headers)
                    answer = connection.getresponse()
                except (OSError, http.client.HTTPException):
                    self._refuse(
                        502, "the trial's gateway does not answer: its agent has ended, or it was stopped"
                    )
                    return
                self._return(answer)

        def _has_key(self) -> bool:
            said = [self.headers.get(name, "") for name in _KEYS]
            said[0] = said[0].removeprefix("Bearer ").strip()
            return any(hmac.compare_digest(one.encode("utf-8", "replace"), key.encode()) for one in said)

        def _body(self) -> bytes | None:
            if self.command == "GET":
                return b""
            length = self.headers.get("content-length", "")
            if not length.isdecimal() or len(length) > 12 or int(length) > _LARGEST:
                return None
            return self.rfile.read(int(length))

        def _return(self, answer: http.client.HTTPResponse) -> None:
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in _OF_A_HOP and name.lower() not in ("server", "date"):
                    self.send_header(name, value)
            self.send_header("Connection", "close")
            if answer.length is not None:
                self.send_header("Content-Length", str(answer.length))
            self.end_headers()
            # A broken answer reaches the client as a broken answer.
            with contextlib.suppress(OSError, http.client.HTTPException):
                while piece := answer.read1(_PIECE):
                    self.wfile.write(piece)
                    self.wfile.flush()

        def _refuse(self, status: int, why: str) -> None:
            content = f'{{"error": {{"message": "{why}", "type": "benchjobs"}}}}'.encode()
            with contextlib.suppress(OSError):
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.send_header("Connection", "close")
                self.end_headers()
                self.wfile.write(content)

    return Handler
