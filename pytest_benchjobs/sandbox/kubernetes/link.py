"""The link with the first process of a Pod: a stream of bytes each way, which outlives the connections that carry it.

A connection is a command, `attach` of our program, over whose streams the first process is reached (`program/link.c`).
Where it breaks another one goes on, and each side sends again what the other had not taken. So an API server that is
restarted costs a command nothing but time.
"""

from __future__ import annotations

import contextlib
import secrets
import struct
import threading
import time
from collections.abc import Callable, Iterator
from typing import Protocol

from ...model.errors import (
    ContainerLost,
    EngineError,
    EngineLost,
    EngineUnavailable,
    EnvironmentFailed,
    OutputLost,
)

_HELLO = b"bench-link\0"
_GREETING = struct.Struct("<16sQ")
_ANSWER = struct.Struct(f"<{len(_HELLO)}sQ")
_PACKET = struct.Struct("<IQ")
_WINDOW = 1 << 18
"""Bytes that may be on their way to the Pod, as in link.c."""
_PIECE = 1 << 15
_TELL = 1 << 17
"""Bytes that are taken before the other side is told so."""
_LOOK = 0.5
_PING = 5.0
"""Seconds of silence after which the other side is asked whether it is there."""
_SILENCE = 20.0
"""Seconds of silence after which a connection is given up."""
_OUTAGE = 120.0
"""Seconds to wait for a cluster by which nothing can be reached."""
_UNKNOWN = 30.0
"""Seconds in which a Pod may be called gone that is there: a new kubelet has to hear of its Pods first."""
_PAUSES = (0.1, 0.3, 1.0)
_NOTED = 1000
_NOTICED = 1.0
"""Seconds without a connection from which on that is told: what ends all in a Pod ends connections, for a moment."""


class StreamEnded(OutputLost):
    """A connection has ended, which says nothing of why.

    `killed`: it was killed in the Pod, by the cluster's word.
    """

    def __init__(self, message: str, *, killed: bool = False) -> None:
        super().__init__(message)
        self.killed = killed


class KilledInside(EnvironmentFailed):
    """What connects with a Pod is killed in it, over and over, as only its root can, or its limit of memory."""


class Connection(Protocol):
    """One command in a Pod with its streams."""

    def send(self, data: bytes) -> None:
        """Write to its standard input. Raises StreamEnded."""

    def receive(self, timeout: float) -> bytes:
        """Return what it printed next; nothing if nothing came for so many seconds. Raises StreamEnded."""

    def close(self) -> None:
        """Let go of it. Never raises."""


class Link:
    """A stream each way: any thread may `write`, one thread `run`s it.

    `connect` makes a connection. `check` raises where there is nothing left to connect with; what it raises ends it.
    """

    def __init__(self, connect: Callable[[], Connection], check: Callable[[], object]) -> None:
        self._connect = connect
        self._check = check
        self._secret = secrets.token_bytes(16)
        self._state = threading.Condition()
        self._sending = threading.Lock()
        self._connection: Connection | None = None
        self._waiting = bytearray()
        """What the other side has not taken, of which `_on_the_way` bytes were sent."""
        self._on_the_way = 0
        self._taken_there = 0
        self._taken = 0
        self._told = 0
        self._rest = bytearray()
        self._heard = 0.0
        self._lost = 0.0
        self._lost_since: float | None = None
        self._closed = threading.Event()
        self.kills_all = False
        """True while whoever uses it has all killed in the Pod, its connections as well, which says nothing then."""
        self.again: list[str] = []
        """Why each connection ended after which there was none for a while."""
        self._broken: tuple[float, str] | None = None
        """Since when there is none, and why."""

    @property
    def lost(self) -> float:
        """Seconds so far in which the Pod could not be heard, through no doing of what runs in it."""
        since = self._lost_since
        return self._lost + (0.0 if since is None else time.monotonic() - since)

    def write(self, data: bytes) -> None:
        """Write to the Pod; waits while too much is on its way. An `OSError`, where the link was closed."""
        view = memoryview(data)
        while view:
            with self._state:
                while len(self._waiting) >= _WINDOW and not self._closed.is_set():
                    self._state.wait(_LOOK)
                if self._closed.is_set():
                    raise BrokenPipeError("the link is closed")
                part = view[: _WINDOW - len(self._waiting)]
                self._waiting += part
                view = view[len(part) :]
            self._push()

    def run(self, take: Callable[[bytes], object]) -> None:
        """Hand on what comes from the Pod until the link is closed; in between, raise what `check` or `take` raises.

        Raises EngineLost: the Pod is there, and cannot be reached for longer than we wait; KilledInside: the same, for
        what it does itself; ContainerLost: its node does not know it.
        """
        tries, killed, self._heard = 0, 0, time.monotonic()
        called_gone: float | None = None
        try:
            while not self._closed.is_set():
                before = self._heard
                try:
                    with contextlib.closing(self._opened()) as connection:
                        self._hear(connection, take)
                except (StreamEnded, EngineUnavailable, EngineLost, EngineError, ContainerLost) as error:
                    if self._closed.is_set():
                        return
                    self._check()
                    tries, killed = (tries + 1, killed) if self._heard == before else (0, 0)
                    was_killed = isinstance(error, StreamEnded) and error.killed
                    is_ours = was_killed and self.kills_all
                    if was_killed:
                        killed += not is_ours
                    else:
                        self._lost_since = self._lost_since or self._heard
                    is_gone = isinstance(error, ContainerLost)
                    called_gone = (called_gone or time.monotonic()) if is_gone else None
                    if called_gone is not None and time.monotonic() > called_gone + _UNKNOWN:
                        raise
                    if time.monotonic() > self._heard + _OUTAGE:
                        why = f"the Pod could not be reached for {_OUTAGE:g} seconds: {error}"
                        if killed > max(1, tries / 2):
                            raise KilledInside(f"{why}; what connects with it was killed inside") from error
                        raise EngineLost(why) from error
                    if self._broken is None and not is_ours:
                        # One that is alive answers when it is asked.
                        since = min(time.monotonic(), self._heard + 2 * _PING)
                        self._broken = since, str(error)
                    self._closed.wait(_PAUSES[min(tries, len(_PAUSES) - 1)])
        finally:
            self.close()

    def close(self) -> None:
        """End it. Never raises."""
        self._closed.set()
        with self._state:
            connection, self._connection = self._connection, None
            self._state.notify_all()
        if connection is not None:
            connection.close()

    def _opened(self) -> Connection:
        """Make a connection, on which both sides go on where they were."""
        connection = self._connect()
        try:
            with contextlib.suppress(StreamEnded):  # what is received says why
                connection.send(_GREETING.pack(self._secret, self._taken))
            give_up, answer = time.monotonic() + _SILENCE, b""
            while len(answer) < _ANSWER.size:
                if time.monotonic() > give_up:
                    raise StreamEnded("the first process of the Pod does not answer")
                answer += connection.receive(_LOOK)
            hello, there = _ANSWER.unpack_from(answer)
            with self._state:
                if hello != _HELLO or not 0 <= there - self._taken_there <= len(self._waiting):
                    raise StreamEnded("what answers in the Pod is not its first process")
                self._take_back(there)
                self._on_the_way, self._told = 0, self._taken
                self._connection, self._rest = connection, bytearray(answer[_ANSWER.size :])
            self._heard = time.monotonic()
            if (since := self._lost_since) is not None:
                self._lost, self._lost_since = self._lost + self._heard - since, None
            self._note_outage()
            self._push()
        except BaseException:
            connection.close()
            raise
        return connection

    def _note_outage(self) -> None:
        broken, self._broken = self._broken, None
        if broken is not None and self._heard > broken[0] + _NOTICED and len(self.again) < _NOTED:
            self.again.append(broken[1])

    def _hear(self, connection: Connection, take: Callable[[bytes], object]) -> None:
        asked = heard = time.monotonic()
        while not self._closed.is_set():
            for content in self._packets():
                take(content)
                self._taken += len(content)
            now = time.monotonic()
            if self._taken - self._told >= _TELL or now > max(asked, heard) + _PING:
                asked = now
                self._push(ask=True)
            if piece := connection.receive(_LOOK):
                self._rest += piece
                # What takes it may take its time: silence is counted while we listen.
                self._heard = heard = time.monotonic()
            elif now > heard + _SILENCE:
                raise StreamEnded("a connection with the Pod fell silent")

    def _packets(self) -> Iterator[bytes]:
        """Yield the contents of whole packets that came, and what has come of one."""
        while len(self._rest) >= _PACKET.size:
            size, taken = _PACKET.unpack_from(self._rest)
            if len(self._rest) < _PACKET.size + size:
                return
            content = bytes(self._rest[_PACKET.size : _PACKET.size + size])
            del self._rest[: _PACKET.size + size]
            with self._state:
                if not 0 <= taken - self._taken_there <= self._on_the_way or size > _PIECE:
                    raise EnvironmentFailed("the first process of the Pod says something that it cannot say")
                self._on_the_way -= taken - self._taken_there
                self._take_back(taken)
            yield content

    def _take_back(self, there: int) -> None:
        del self._waiting[: there - self._taken_there]
        self._taken_there = there
        self._state.notify_all()

    def _push(self, *, ask: bool = False) -> None:
        """Send what was not sent; `ask`: an empty packet, too, which tells what was taken, and is answered."""
        with self._sending:
            while True:
                with self._state:
                    connection, told = self._connection, self._taken
                    piece = bytes(self._waiting[self._on_the_way : self._on_the_way + _PIECE])
                    if connection is None or not (piece or ask):
                        return
                    self._on_the_way += len(piece)
                    self._told = told
                ask = ask and bool(piece)
                try:
                    connection.send(_PACKET.pack(len(piece), told) + piece)
                except StreamEnded:
                    return  # whoever listens learns it, too
