"""HTTP over a unix socket for the client library, with one pool of connections for a whole engine.

The library's own keeps a pool per URL, and every container has URLs of its own: it never uses a connection twice, and
keeps the last ones open for nothing. It also leaves a socket that does not connect to the garbage collector, and
Python then warns in the middle of somebody's test.
"""

from __future__ import annotations

import contextlib
import socket
import weakref
from typing import Any

import urllib3.connection
import urllib3.connectionpool
from docker.transport import UnixHTTPAdapter

from .reaper import open_unix


class _Connection(urllib3.connection.HTTPConnection):
    def __init__(self, path: str, timeout: float, opened: weakref.WeakSet[socket.socket]) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path, self._opened = path, opened

    def connect(self) -> None:
        self.sock = open_unix(self._path, self.timeout)
        self._opened.add(self.sock)


class _Pool(urllib3.connectionpool.HTTPConnectionPool):
    def __init__(self, path: str, timeout: float, size: int) -> None:
        super().__init__("localhost", timeout=timeout, maxsize=size)
        self._path, self._connect_timeout = path, timeout
        self.opened: weakref.WeakSet[socket.socket] = weakref.WeakSet()

    def _new_conn(self) -> _Connection:
        return _Connection(self._path, self._connect_timeout, self.opened)


class UnixAdapter(UnixHTTPAdapter):
    """For `mount` on a client: reaches the engine at `path`, keeping up to `size` idle connections. Seconds."""

    def __init__(self, path: str, timeout: int, size: int) -> None:
        super().__init__(f"http+unix://{path}", timeout)
        self._pool = _Pool(path, timeout, size)

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
