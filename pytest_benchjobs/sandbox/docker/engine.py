"""Connecting with the Docker Engine, and calling it.

Its client library takes a tenth of a second to import, which is most of what asking the engine a few questions costs.
So it is imported when there is more to do than to ask: a session in which all results are reused never needs it.
"""

from __future__ import annotations

import contextlib
import functools
import http.client
import json
import os
import socket
import ssl
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote, urlencode, urlsplit

from ...model.errors import EngineError, EngineLost, EngineUnavailable, InfrastructureError
from .address import DEFAULT_HOST, NoAddress, Tunnel, address
from .answers import QUESTION, Kind, call_of, kind_of
from .calling import Caller, Found, Refusal, caller, is_json, on_behalf_of, persist
from .dialects import Dialect, dialect_of
from .reaper import ask_unix, message, open_unix
from .tls import shared

if TYPE_CHECKING:
    from .library import Client

T = TypeVar("T")

LABEL = "benchjobs."
ROOT_USER = "0"
"""Root, by its number: an image without /etc/passwd has no names."""

# It speaks of architectures as Go does.
_MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}
_CALL_TIMEOUT = 120
_PEEK_TIMEOUT = 30
_NOT_FOUND = 404
_WORDS_LIMIT = 64 * 1024
_TAKEN_OVER = (101, 200)
"""Statuses of an answer after which the connection is the stream of a command."""
_KEEPALIVE = (("TCP_KEEPIDLE", 15), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 4))


_Hijacked = tuple[int, bytes, socket.socket]
"""Status, what came with the head or else the words of a refusal, and the connection, which a refusal closes."""


class Engine:
    """One engine. Connects at the first use; thread-safe."""

    def __init__(self) -> None:
        self._trouble: NoAddress | None = None
        self._tunnel: Tunnel | None = None
        self.variables: Mapping[str, str] = {"DOCKER_HOST": DEFAULT_HOST}
        """Variables that name it, as Docker's own client takes them."""
        try:
            self.variables = address()
            if self.variables["DOCKER_HOST"].startswith("ssh:"):
                self._tunnel = Tunnel(self.variables["DOCKER_HOST"])
        except NoAddress as error:
            self._trouble = error
        self.host = self.variables["DOCKER_HOST"]
        self._client: Client | None = None
        self._tls: ssl.SSLContext | None = None
        self._lock = threading.Lock()
        self.answered = False
        """True once it has answered anything in this process: from then on it is waited for."""

    def environment(self) -> Mapping[str, str]:
        """Return variables by which programs here reach it. Raises EngineUnavailable: nothing leads to it."""
        if self._tunnel is None:
            return self.variables
        try:
            return {**self.variables, "DOCKER_HOST": f"unix://{self._path()}"}
        except NoAddress as error:
            raise EngineUnavailable(str(error)) from error

    @property
    def client(self) -> Client:
        """The connected client. Raises EngineUnavailable: no answer."""
        with self._lock:
            if self._client is None:
                self._client = self._connect()
            return self._client

    @contextlib.contextmanager
    def apart(self) -> Iterator[Client]:
        """Connect a client for one long call, which is broken off at the end if it still goes on in another thread.

        Raises EngineUnavailable: nobody answers.
        """
        client = self._connect()
        try:
            yield client
        finally:
            for adapter in client.adapters.values():
                # Only ours can; over TCP the engine learns of it when this process ends.
                if (hang_up := getattr(adapter, "hang_up", None)) is not None:
                    hang_up()
            client.close()

    @property
    def local(self) -> bool:
        """True if it sees the files of this machine, as far as its address tells."""
        return self.host.startswith("unix:")

    @property
    def _has_socket(self) -> bool:
        """True if it is reached through a socket of this machine."""
        return self.local or self.host.startswith("ssh:")

    @property
    def encrypted(self) -> bool:
        """True if connections are wrapped in TLS, and cannot be closed one way. Known once it is connected."""
        return self._tls is not None

    def close(self) -> None:
        """Close all connections."""
        with self._lock:
            if self._client is not None:
                self._client.close()
                self._client = None
            if self._tunnel is not None:
                self._tunnel.close()

    def check(self) -> None:
        """Make sure it answers now. Raises EngineUnavailable: it does not, and what to do about it."""
        self.get("/version")

    @functools.cached_property
    def version(self) -> Mapping[str, Any]:
        """What it says of its programs."""
        return dict(self.get("/version"))

    @functools.cached_property
    def dialect(self) -> Dialect:
        """Its ways with the API."""
        return dialect_of(self.version)

    @functools.cached_property
    def machine(self) -> str:
        """What its machine calls itself, such as `x86_64`."""
        found = str(self.version["Arch"])
        return _MACHINES.get(found, found)

    def get(self, path: str, **query: object) -> Any:
        """Return the answer to a GET, read as JSON; None where it says twice that it knows no such thing.

        Raises EngineUnavailable: nobody answers.
        """
        written = {
            key: value if isinstance(value, str) else json.dumps(value) for key, value in query.items()
        }
        where = f"{quote(path, safe='/:')}?{urlencode(written)}"
        if not self._has_socket:
            _ = self.client
        answer = persist(self, QUESTION, "", lambda: self._ask(where), _problem)
        if isinstance(answer, Found):
            raise AssertionError("unreachable")
        status, body = answer
        return None if status == _NOT_FOUND else json.loads(body)

    def peek(self, path: str) -> tuple[int, bytes] | None:
        """Return status and body of a GET; None: no answer."""
        try:
            return self._ask(path, _PEEK_TIMEOUT)
        except OSError:
            return None

    def post(self, path: str, body: Mapping[str, Any], timeout: float, **query: Any) -> Any:
        """Return the answer to a POST, read as JSON. For calls with a timeout (seconds) of their own, in `guard`."""
        client = self.client
        url = f"{client.base_url}/v{client.api_version}{path}"
        answer = client.post(url, params=query, json=dict(body), timeout=timeout)
        if not answer.ok:
            raise EngineError(f"the Docker Engine refused ({answer.status_code}: {message(answer.content)})")
        return answer.json() if answer.content else {}

    @contextlib.contextmanager
    def guard(self, who: Caller | None = None) -> Iterator[None]:
        """Make calls for somebody, and turn the client's exceptions into ours."""
        with on_behalf_of(who):
            try:
                yield
            except InfrastructureError:
                raise
            except Exception as error:
                from . import library

                if not isinstance(error, library.ERRORS):
                    raise
                if (said := library.said_by(error)) is not None:
                    status, words = said
                    raise EngineError(f"the Docker Engine refused ({status}: {words.strip()})") from error
                raise EngineLost(f"the Docker Engine at {self.host} went away: {error}") from error

    def hijack(self, path: str, body: Mapping[str, Any]) -> tuple[socket.socket, bytes]:
        """POST and take the connection over; returns it with the bytes that have come already.

        The client library loses output that comes together with the response's head.
        """
        payload = json.dumps(body).encode()
        head = (
            f"POST /v{self.client.api_version}{path} HTTP/1.1\r\nHost: docker\r\nContent-Type: application/json\r\n"
            f"Connection: Upgrade\r\nUpgrade: tcp\r\nContent-Length: {len(payload)}\r\n\r\n"
        )
        known = call_of("POST", path)
        assert known is not None  # noqa: S101  commands and containers alone are attached to
        answer = persist(self, *known, lambda: self._hijack(head.encode() + payload), _broken)
        if isinstance(answer, Found):
            raise AssertionError("unreachable")
        _, first, connection = answer
        return connection, first

    def _hijack(self, request: bytes) -> _Hijacked:
        with contextlib.ExitStack() as undo:
            connection = undo.enter_context(self._open())
            caller().hold(connection)
            connection.sendall(request)
            with _as_broken():
                answer = http.client.HTTPResponse(connection, method="POST")
                answer.begin()
                if answer.status not in _TAKEN_OVER:
                    return answer.status, answer.read(_WORDS_LIMIT), connection
            connection.setblocking(False)
            first = b""
            with contextlib.suppress(ssl.SSLWantReadError):
                first = answer.fp.peek()
            connection.settimeout(_CALL_TIMEOUT)
            undo.pop_all()
        return answer.status, first, connection

    def _ask(self, path: str, timeout: float = _CALL_TIMEOUT) -> tuple[int, bytes]:
        """Return status and body of a GET that is made once. Raises OSError: no answer."""
        if not self._has_socket:
            if self._client is None:
                raise ConnectionError("not connected")
            return self._client.ask(path, timeout)
        with _as_broken():
            return ask_unix(self._path(), "GET", path, timeout, caller().hold)

    def _open(self) -> socket.socket:
        if self._has_socket:
            return open_unix(self._path(), _CALL_TIMEOUT)
        parts = urlsplit(self.host)
        port = parts.port or (2376 if self._tls else 2375)
        connection = socket.create_connection((parts.hostname or "localhost", port), _CALL_TIMEOUT)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in _KEEPALIVE:
            if hasattr(socket, option):
                connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
        if self._tls is None:
            return connection
        return shared(self._tls.wrap_socket(connection, server_hostname=parts.hostname))

    def _connect(self) -> Client:
        if urlsplit(self.host).scheme not in ("unix", "ssh", "tcp", "http", "https"):
            raise EngineUnavailable(
                f"DOCKER_HOST={self.host} is not supported; use a unix://, ssh:// or tcp:// address"
            )
        from . import library

        try:
            path, version = (self._path, self._api_version) if self._has_socket else (None, "auto")
            client, tls = library.connect(self, self.environment(), path, version, _CALL_TIMEOUT)
            self._tls = None if self._has_socket else tls
        except (*library.ERRORS, OSError) as error:
            raise self.unavailable() from error
        return client

    @functools.cached_property
    def _api_version(self) -> str:
        return str(self.get("/version")["ApiVersion"])

    def _path(self) -> str:
        """Return the path of the socket through which it is reached."""
        if self._trouble is not None:
            raise self._trouble
        return self.host.removeprefix("unix://") if self._tunnel is None else self._tunnel.path()

    def unavailable(self) -> EngineUnavailable:
        """Return the error for an engine that has not answered so far."""
        if self._has_socket:
            try:
                path = self._path()
            except NoAddress as error:
                return EngineUnavailable(str(error))
            if Path(path).exists() and not os.access(path, os.W_OK):
                return EngineUnavailable(
                    f"the Docker Engine at {self.host} refuses this user: add it to the group `docker` "
                    "(sudo usermod -aG docker $USER) and log in again"
                )
        named = os.environ.get("DOCKER_HOST")
        cure = "start it there, or correct" if named else "start it (sudo systemctl start docker) or set"
        return EngineUnavailable(f"no Docker Engine answers at {self.host}: {cure} DOCKER_HOST")


def _problem(answer: tuple[int, bytes]) -> Refusal | None:
    status, body = answer
    if status != http.client.OK:
        return Refusal(kind_of(status), status, message(body))
    return None if is_json(body) else Refusal(Kind.CUT, None, "half an answer")


def _broken(answer: _Hijacked) -> Refusal | None:
    status, words, _ = answer
    return None if status in _TAKEN_OVER else Refusal(kind_of(status), status, message(words))


@contextlib.contextmanager
def _as_broken() -> Iterator[None]:
    """Raise what is wrong with an answer as a ConnectionError."""
    try:
        yield
    except http.client.HTTPException as error:
        raise ConnectionError(str(error) or type(error).__name__) from error
