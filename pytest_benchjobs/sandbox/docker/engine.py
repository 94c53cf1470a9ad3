"""Connecting with the Docker Engine, and telling what its refusals mean.

Its client library takes a tenth of a second to import, which is most of what asking the engine a few questions costs.
So it is imported when there is more to do than to ask: a session in which all results are reused never needs it.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import socket
import ssl
import threading
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode, urlsplit

from ...model.errors import (
    ContainerLost,
    DiskFull,
    EngineError,
    EngineLost,
    EngineUnavailable,
    InfrastructureError,
)
from .reaper import ask_unix, open_unix

if TYPE_CHECKING:
    import docker

DEFAULT_HOST = "unix:///var/run/docker.sock"
LABEL = "benchjobs."

_CALL_TIMEOUT = 120
_NOT_FOUND = 404
_HEAD_LIMIT = 64 * 1024
_KEEPALIVE = (("TCP_KEEPIDLE", 15), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 4))


class Engine:
    """One engine. Connects at the first use; thread-safe."""

    def __init__(self) -> None:
        self.host = os.environ.get("DOCKER_HOST") or DEFAULT_HOST
        self._client: docker.APIClient | None = None
        self._tls: ssl.SSLContext | None = None
        self._lock = threading.Lock()

    @property
    def client(self) -> docker.APIClient:
        """The connected client.

        Raises:
            EngineUnavailable: nobody answers.
        """
        with self._lock:
            if self._client is None:
                self._client = self._connect()
            return self._client

    @contextlib.contextmanager
    def apart(self) -> Iterator[docker.APIClient]:
        """Connect a client for one long call, which is broken off at the end if it still goes on in another thread.

        Raises:
            EngineUnavailable: nobody answers.
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
        return urlsplit(self.host).scheme == "unix"

    @property
    def encrypted(self) -> bool:
        """True if connections are wrapped in TLS. Known once it is connected."""
        return self._tls is not None

    def close(self) -> None:
        """Close all connections."""
        with self._lock:
            if self._client is not None:
                self._client.close()
                self._client = None

    def check(self) -> None:
        """Make sure it answers now.

        Raises:
            EngineUnavailable: it does not, and what to do about it.
        """
        self.get("/version")

    def get(self, path: str, **query: object) -> Any:
        """Return the answer to a GET, read as JSON; None where it knows no such thing.

        Raises:
            EngineUnavailable: nobody answers.
            InfrastructureError: it refuses.
        """
        written = {
            key: value if isinstance(value, str) else json.dumps(value) for key, value in query.items()
        }
        where = f"{quote(path, safe='/:')}?{urlencode(written)}"
        if self.local:
            status, body = self._ask(where)
        else:
            with self.guard(running=False):
                answer = self.client.get(f"{self.client.base_url}{where}", timeout=_CALL_TIMEOUT)
                status, body = answer.status_code, answer.content
        if status == _NOT_FOUND:
            return None
        if status != http.client.OK:
            raise refusal(status, message(body))
        try:
            return json.loads(body)
        except ValueError as error:
            raise self._unavailable(error) from error

    def post(self, path: str, body: Mapping[str, Any], timeout: float, **query: str) -> Any:
        """Return the answer to a POST, read as JSON. For calls with a timeout of their own. Seconds.

        Raises:
            InfrastructureError: it refuses.
            library.ERRORS: it is gone. Call inside `guard`.
        """
        client = self.client
        url = f"{client.base_url}/v{client.api_version}{path}"
        answer = client.post(url, params=query, json=dict(body), timeout=timeout)
        if not answer.ok:
            raise refusal(answer.status_code, message(answer.content))
        return answer.json() if answer.content else {}

    @contextlib.contextmanager
    def guard(self, *, running: bool = True) -> Iterator[None]:
        """Turn the client's exceptions into ours. `running`: the engine was there a moment ago, so it is lost."""
        try:
            yield
        except InfrastructureError:
            raise
        except Exception as error:
            from . import library

            if not isinstance(error, library.ERRORS):
                raise
            if (said := library.said_by(error)) is not None:
                raise refusal(*said) from error
            if running:
                raise EngineLost(f"the Docker Engine at {self.host} went away: {_reason(error)}") from error
            raise self._unavailable(error) from error

    def hijack(self, path: str, body: Mapping[str, Any]) -> tuple[socket.socket, bytes]:
        """POST and take the connection over; returns it with the bytes that have come already.

        The client library reads the response's head through a buffer and then the socket below it, so output that
        comes together with the head is lost. Hence our own few lines.

        Raises:
            InfrastructureError: the engine refuses, or is gone.
        """
        payload = json.dumps(body).encode()
        head = (
            f"POST /v{self.client.api_version}{path} HTTP/1.1\r\nHost: docker\r\nContent-Type: application/json\r\n"
            f"Connection: Upgrade\r\nUpgrade: tcp\r\nContent-Length: {len(payload)}\r\n\r\n"
        )
        try:
            connection = self._open()
            try:
                connection.sendall(head.encode() + payload)
                status, rest = _read_head(connection)
                if status not in (101, 200):
                    while len(rest) < _HEAD_LIMIT and (more := connection.recv(4096)):
                        rest += more
                    raise refusal(status, message(rest))
            except BaseException:
                connection.close()
                raise
        except OSError as error:
            raise EngineLost(f"the Docker Engine at {self.host} went away: {error}") from error
        return connection, rest

    def _ask(self, path: str) -> tuple[int, bytes]:
        """A GET over a unix socket: status and body."""
        try:
            return ask_unix(self._socket_path, "GET", path, _CALL_TIMEOUT)
        except (OSError, http.client.HTTPException) as error:
            raise self._unavailable(error) from error

    def _open(self) -> socket.socket:
        parts = urlsplit(self.host)
        if parts.scheme == "unix":
            return open_unix(self._socket_path, _CALL_TIMEOUT)
        port = parts.port or (2376 if self._tls else 2375)
        connection = socket.create_connection((parts.hostname or "localhost", port), _CALL_TIMEOUT)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in _KEEPALIVE:
            if hasattr(socket, option):
                connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
        return self._tls.wrap_socket(connection, server_hostname=parts.hostname) if self._tls else connection

    def _connect(self) -> docker.APIClient:
        scheme = urlsplit(self.host).scheme
        if scheme not in ("unix", "tcp", "http", "https"):
            raise EngineUnavailable(
                f"DOCKER_HOST={self.host} is not supported; use a unix:// or tcp:// address"
            )
        from . import library

        try:
            # The library forgets to close a socket that does not connect, and Python then warns.
            if scheme == "unix":
                self._open().close()
            client, self._tls = library.connect(
                self._socket_path if scheme == "unix" else None, _CALL_TIMEOUT
            )
        except (*library.ERRORS, OSError) as error:
            raise self._unavailable(error) from error
        return client

    @property
    def _socket_path(self) -> str:
        return self.host.removeprefix("unix://")

    def _unavailable(self, error: BaseException) -> EngineUnavailable:
        text = str(error)
        if "Permission denied" in text:
            return EngineUnavailable(
                f"the Docker Engine at {self.host} refuses this user: add it to the group `docker` "
                "(sudo usermod -aG docker $USER) and log in again"
            )
        return EngineUnavailable(
            f"no Docker Engine answers at {self.host}: start it (sudo systemctl start docker) or set DOCKER_HOST"
        )


def refusal(status: int | None, text: str) -> InfrastructureError:
    """The class of error for what the engine answered."""
    text = text.strip()
    low = text.lower()
    if disk_is_full(text):
        return DiskFull(f"the Docker Engine's disk is full: {text}")
    if status in (404, 409) and (
        "no such container" in low
        or "is not running" in low
        or "marked for removal" in low
        or "is restarting" in low
        or ("removal of container" in low and "in progress" in low)
    ):
        return ContainerLost(f"the container was killed or removed by something else: {text}")
    return EngineError(f"the Docker Engine refused ({status}): {text}")


def disk_is_full(text: str) -> bool:
    """Return True if the engine refuses because there is no room."""
    low = text.lower()
    return "no space left on device" in low or "disk quota exceeded" in low


def _read_head(connection: socket.socket) -> tuple[int, bytes]:
    data = b""
    while b"\r\n\r\n" not in data:
        more = connection.recv(4096)
        if not more or len(data) > _HEAD_LIMIT:
            raise ConnectionError("the connection ended before an answer")
        data += more
    head, _, rest = data.partition(b"\r\n\r\n")
    try:
        return int(head.split(None, 2)[1]), rest
    except (IndexError, ValueError):
        raise ConnectionError(f"not an HTTP answer: {head[:80]!r}") from None


def message(body: bytes) -> str:
    """The engine's own words in the body of a refusal, which may be chunked."""
    text = body.decode("utf-8", "replace")
    with contextlib.suppress(ValueError, TypeError, KeyError):
        return str(json.loads(text[text.index("{") : text.rindex("}") + 1])["message"])
    return text[:500]


def _reason(error: BaseException) -> str:
    """The innermost cause, which is the one that tells something."""
    while (cause := error.__cause__ or error.__context__) is not None:
        error = cause
    return str(error) or type(error).__name__
