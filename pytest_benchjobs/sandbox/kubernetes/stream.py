"""The streams of one command in a Pod: the channels of `v4.channel.k8s.io` and `v5.channel.k8s.io` over a websocket.

Of the HTTP client's own sessions each would be four threads, and two threads at once would call OpenSSL.
"""

from __future__ import annotations

import contextlib
import json
import select
import socket
import ssl
import threading
import time
from collections import deque
from typing import Any

import httpcore2
import httpx2
import wsproto.connection
from wsproto.events import BytesMessage, CloseConnection, Ping, Pong

from .link import StreamEnded as ConnectionEnded
from .reaching import keep_alive, socket_of

PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
STDIN, STDOUT, STDERR, _STATUS = range(4)
_PIECE = 1 << 16
_LOOK = 1.0
_KILLED = "137"
_NOT_THERE = (httpcore2.ReadError, httpcore2.ReadTimeout)
_WAITS = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class StreamEnded(ConnectionEnded):
    """The streams have ended, or broke: it says nothing of whether the command did well, or ended at all.

    `status` is the cluster's own word on how it ended (a `Status` of the API), if that came.
    """

    def __init__(self, message: str, status: dict[str, Any] | None) -> None:
        causes = ((status or {}).get("details") or {}).get("causes") or ()
        killed = any(one.get("reason") == "ExitCode" and one.get("message") == _KILLED for one in causes)
        super().__init__(message, killed=killed)
        self.status = status


class Stream:
    """Any threads may `send` and `close`, one `receive`s."""

    def __init__(self, answer: httpx2.Response) -> None:
        self.protocol = answer.headers.get("sec-websocket-protocol", "")
        """One of `PROTOCOLS`."""
        self._answer = answer
        self._socket = socket_of(answer)
        self._framing = wsproto.connection.Connection(wsproto.ConnectionType.CLIENT)
        self._sending = threading.RLock()
        self._turn = threading.Lock()
        self._closed = False
        self._channel: int | None = None
        """Of the message that is coming in."""
        self._told = bytearray()
        self._arrived: deque[tuple[int, bytes]] = deque()
        self._end: str | None = None
        with contextlib.suppress(OSError):
            keep_alive(self._socket)
        # What came together with the head is in the client's own hands.
        with contextlib.suppress(*_NOT_THERE):
            self._take(answer.extensions["network_stream"].read(_PIECE, timeout=0))
        self._socket.setblocking(False)

    def send(self, data: bytes) -> None:
        """Write to the standard input of the command. Raises StreamEnded."""
        for start in range(0, len(data), _PIECE):
            self._send(BytesMessage(bytes((STDIN,)) + data[start : start + _PIECE]))

    def receive(self, timeout: float) -> tuple[int, bytes] | None:
        """Return a channel (`STDOUT` or `STDERR`) and what came over it; None: nothing within `timeout` seconds.

        Raises StreamEnded: nothing more will come.
        """
        deadline = time.monotonic() + timeout
        while not self._arrived:
            if self._end is not None:
                raise StreamEnded(self._end, self.status)
            try:
                self._take(self._recv())
            except _WAITS:
                left = deadline - time.monotonic()
                if left <= 0:
                    if self.status is None:
                        return None
                    self._end = "the command has ended"
                else:
                    self._wait(select.POLLIN, left)
            except OSError as error:
                self._end = f"the connection with a command in the Pod broke: {error}"
        return self._arrived.popleft()

    @property
    def status(self) -> dict[str, Any] | None:
        """The cluster's word on how the command ended, if it has come."""
        with contextlib.suppress(ValueError):
            status = json.loads(self._told)
            return status if isinstance(status, dict) else None
        return None

    def close(self) -> None:
        """Let go of the connection: whoever sends or receives gets a StreamEnded. Never raises."""
        with self._turn:
            if self._closed:
                return
            self._closed = True
            with contextlib.suppress(OSError, httpx2.HTTPError, httpx2.StreamError):
                self._socket.shutdown(socket.SHUT_RDWR)
            with contextlib.suppress(OSError, httpx2.HTTPError, httpx2.StreamError):
                self._answer.close()

    def _take(self, data: bytes) -> None:
        if not data:
            self._end = "the connection with a command in the Pod was cut"
            return
        self._framing.receive_data(data)
        for event in self._framing.events():
            match event:
                case BytesMessage():
                    self._hear(bytes(event.data), last=event.message_finished)
                case Ping() if self._sending.acquire(blocking=False):
                    # Who is about to send may wait for what only this thread reads.
                    try:
                        self._send(Pong(event.payload))
                    finally:
                        self._sending.release()
                case CloseConnection():
                    self._end = (
                        f"the connection with a command in the Pod was closed ({event.code} {event.reason})"
                    )

    def _hear(self, data: bytes, *, last: bool) -> None:
        if self._channel is None and data:
            self._channel, data = data[0], data[1:]
        if self._channel == _STATUS:
            self._told += data
        elif data and self._channel is not None:
            self._arrived.append((self._channel, data))
        if last:
            self._channel = None

    def _send(self, event: BytesMessage | Pong) -> None:
        with self._sending:
            try:
                view = memoryview(self._framing.send(event))
                while view:
                    try:
                        with self._turn:
                            self._check()
                            sent = self._socket.send(view)
                        view = view[sent:]
                    except _WAITS:
                        self._wait(select.POLLOUT, _LOOK)
            except (OSError, wsproto.utilities.LocalProtocolError) as error:
                raise StreamEnded(
                    f"the connection with a command in the Pod broke: {error}", self.status
                ) from error

    def _recv(self) -> bytes:
        with self._turn:
            self._check()
            return self._socket.recv(_PIECE)

    def _check(self) -> None:
        if self._closed:
            raise ConnectionAbortedError("it was closed here")

    def _wait(self, what: int, seconds: float) -> None:
        """Wait for the connection; not longer than a moment, as another thread may have read what it waits for."""
        with contextlib.suppress(OSError, ValueError):
            poll = select.poll()
            poll.register(self._socket, what)
            poll.poll(min(seconds, _LOOK) * 1000)
