"""The engine's client library: a connected client, and what its exceptions say.

Over a unix socket it has one pool of connections for a whole engine. The library's own keeps a pool per URL, and every
container has URLs of its own: it never uses a connection twice, and keeps the last ones open for nothing. It also
leaves a socket that does not connect to the garbage collector, and Python then warns in the middle of somebody's test.
"""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import weakref
from typing import Any

import docker
import docker.errors
import docker.utils
import requests
import urllib3.connection
import urllib3.connectionpool
import urllib3.exceptions
from docker.transport import UnixHTTPAdapter

from .reaper import open_unix

_IDLE_CONNECTIONS = 32

BROKEN = (requests.RequestException, urllib3.exceptions.HTTPError, json.JSONDecodeError)
"""Exceptions of a connection that breaks, through all the layers below."""
ERRORS = (*BROKEN, docker.errors.DockerException)
"""Everything it raises of its own."""


def connect(path: str | None, timeout: int) -> tuple[docker.APIClient, ssl.SSLContext | None]:
    """A client of the engine that the environment names, and how its connections are encrypted. Seconds.

    `path` is that of its unix socket, if it has one.

    Raises:
        ERRORS, OSError: it does not answer, or its certificates cannot be read.
    """
    options = docker.utils.kwargs_from_env()
    # version="auto" is one call; it is the first sign of life.
    client = docker.APIClient(**options, version="auto", timeout=timeout)
    if path is not None:
        client.close()
        client.mount("http+docker://", UnixAdapter(path, timeout))
    # Proxies, .netrc and REQUESTS_CA_BUNDLE are for the web, and override the engine's own certificates.
    client.trust_env = False
    tls = options.get("tls")
    if not tls:
        return client, None
    context = ssl.create_default_context(cafile=tls.ca_cert)
    context.check_hostname = bool(tls.verify)
    if not tls.verify:
        context.verify_mode = ssl.CERT_NONE
    if tls.cert:
        context.load_cert_chain(*tls.cert)
    return client, context


def said_by(error: Exception) -> tuple[int | None, str] | None:
    """The status and the words with which the engine refused; None where it said nothing."""
    if not isinstance(error, docker.errors.APIError):
        return None
    return error.status_code, error.explanation or str(error)


class _Connection(urllib3.connection.HTTPConnection):
    def __init__(self, path: str, timeout: float, opened: weakref.WeakSet[socket.socket]) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path, self._opened = path, opened

    def connect(self) -> None:
        self.sock = open_unix(self._path, self.timeout)
        self._opened.add(self.sock)


class _Pool(urllib3.connectionpool.HTTPConnectionPool):
    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout, maxsize=_IDLE_CONNECTIONS)
        self._path, self._connect_timeout = path, timeout
        self.opened: weakref.WeakSet[socket.socket] = weakref.WeakSet()

    def _new_conn(self) -> _Connection:
        return _Connection(self._path, self._connect_timeout, self.opened)


class UnixAdapter(UnixHTTPAdapter):
    """For `mount` on a client: reaches the engine at `path`. Seconds."""

    def __init__(self, path: str, timeout: int) -> None:
        super().__init__(f"http+unix://{path}", timeout)
        self._pool = _Pool(path, timeout)

    def get_connection(self, url: Any, proxies: Any = None) -> Any:  # noqa: ARG002  the base names them
        """The one pool, whatever the URL."""
        return self._pool

    def hang_up(self) -> None:
        """Break off every call that is going on, in whatever thread; each fails there at once."""
        for connection in list(self._pool.opened):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close idle connections."""
        super().close()
        self._pool.close()
