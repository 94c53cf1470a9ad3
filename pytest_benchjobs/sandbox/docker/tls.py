"""Encrypted connections that one thread reads while others write. OpenSSL allows one call at a time on each."""

from __future__ import annotations

import select
import ssl
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


class SharedSocket(ssl.SSLSocket):
    """For `SSLContext.sslsocket_class`. As any other until it is `shared`."""

    _turn: threading.Lock | None = None
    _patience: float | None = None

    def settimeout(self, value: float | None) -> None:
        """Set how many seconds a call may take."""
        self._patience = value
        super().settimeout(value if self._turn is None else 0)

    def setblocking(self, flag: bool) -> None:
        """Wait for ever, or not at all."""
        self.settimeout(None if flag else 0)

    def share(self) -> None:
        """From now on calls of several threads take turns."""
        self._patience = self.gettimeout()
        self._turn = threading.Lock()
        super().settimeout(0)

    def read(self, *arguments: Any) -> Any:
        """Read, as all that reads does."""
        return self._in_turn(lambda: super(SharedSocket, self).read(*arguments))

    def send(self, data: Any, flags: int = 0) -> int:
        """Write, as all that writes does."""
        return self._in_turn(lambda: super(SharedSocket, self).send(data, flags))

    def _in_turn(self, call: Callable[[], T]) -> T:
        if self._turn is None:
            return call()
        deadline = None if self._patience is None else time.monotonic() + self._patience
        while True:
            poll = select.poll()
            try:
                with self._turn:
                    poll.register(self, select.POLLIN | select.POLLOUT)
                    return call()
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError) as wants:
                if self._patience == 0:
                    raise
                poll.modify(
                    self, select.POLLIN if isinstance(wants, ssl.SSLWantReadError) else select.POLLOUT
                )
            except (ValueError, ssl.SSLError) as error:  # another thread has shut it down, or it broke
                raise ConnectionAbortedError(str(error)) from error
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                raise TimeoutError("timed out")
            # Another thread may have taken what it waits for: it looks again, now and then.
            poll.poll(1000 if left is None else min(left, 1.0) * 1000)


def shared(connection: ssl.SSLSocket) -> ssl.SSLSocket:
    """Make calls of several threads on a connection take turns."""
    if isinstance(connection, SharedSocket):
        connection.share()
    return connection
