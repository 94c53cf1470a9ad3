"""Deadline and longest silence of a command, and its output out of the engine's framed stream.

Every frame is a header of 8 bytes (stream, three zeros, length as big-endian 32 bits) and that many bytes of output.
"""

from __future__ import annotations

import enum
import socket
import time
from collections.abc import Callable

from .protocol import Sink, Stopping

_HEADER = 8
_STDOUT = 1
_CHUNK = 256 * 1024
LOOK = 0.2
"""Seconds between two looks at what somebody else may ask for."""


class Drained(enum.Enum):
    """Reason why no more is read."""

    ENDED = enum.auto()
    """The stream did."""
    LATE = enum.auto()
    """The deadline has passed."""
    SILENT = enum.auto()
    """Nothing came for too long."""
    ASKED = enum.auto()
    """Somebody asked for it."""


class Demultiplexer:
    """Takes the stream in pieces of any size and hands it on: all output, and each stream once more. Keeps none."""

    def __init__(self, sink: Sink, stdout: Sink | None = None, stderr: Sink | None = None) -> None:
        self._sink = sink
        self._stdout = stdout
        self._stderr = stderr
        self._header = bytearray()
        self._left = 0
        self._is_stdout = False

    @property
    def is_within(self) -> bool:
        """True if a piece has begun and not ended."""
        return bool(self._left or self._header)

    def feed(self, data: bytes | bytearray | memoryview) -> None:
        """Take the next piece."""
        view = memoryview(data)
        while view:
            if self._left:
                part = view[: self._left]
                view = view[len(part) :]
                self._left -= len(part)
                content = bytes(part)
                self._sink(content)
                extra = self._stdout if self._is_stdout else self._stderr
                if extra is not None:
                    extra(content)
                continue
            part = view[: _HEADER - len(self._header)]
            view = view[len(part) :]
            self._header += part
            if len(self._header) == _HEADER:
                self._is_stdout = self._header[0] == _STDOUT
                self._left = int.from_bytes(self._header[4:], "big")
                self._header.clear()


def wait_fairly(
    wait: Callable[[float, float | None, Callable[[], bool] | None], Drained],
    deadline: float,
    silent: float | None,
    stopping: Stopping | None,
) -> Drained:
    """Wait for a command, for as much longer than its times allow as others have kept it waiting; then ask it to end.

    `wait` takes its deadline, the seconds that it may be silent, and what is looked at meanwhile. It may go on all the
    same.
    """
    requested, more = None if stopping is None else stopping.requested, 0.0
    while True:
        why = wait(deadline + more, None if silent is None else silent + more, requested)
        held = 0.0 if stopping is None else stopping.held()
        if why not in (Drained.LATE, Drained.SILENT) or held <= more:
            break
        more = max(held, more + LOOK)
    if why is not Drained.ENDED and stopping is not None:
        for name, grace in stopping.graces:
            stopping.signal(name)
            if wait(time.monotonic() + grace, None, None) is Drained.ENDED:
                break
    return why


def drain(
    connection: socket.socket,
    output: Demultiplexer,
    deadline: float,
    silent: float | None = None,
    requested: Callable[[], bool] | None = None,
) -> Drained:
    """Feed everything that comes to `output`; for the times see `wait_for_output`."""
    buffer = bytearray(_CHUNK)
    view = memoryview(buffer)

    def take(seconds: float) -> bool | None:
        connection.settimeout(seconds)
        try:
            count = connection.recv_into(buffer)
        except TimeoutError:
            return False
        except (ConnectionError, BlockingIOError):
            # The latter of one that is shared, where another thread shuts it down.
            # Whoever asks the engine for the exit status next learns what happened.
            count = 0
        output.feed(view[:count])
        return True if count else None

    return wait_for_output(take, deadline, silent, requested)


def wait_for_output(
    take: Callable[[float], bool | None],
    deadline: float,
    silent: float | None,
    requested: Callable[[], bool] | None,
) -> Drained:
    """Take output until its end, the deadline (monotonic time), `silent` seconds of silence, or `requested`.

    `take` waits for some seconds at most: True if output came, False if not, None at its end. `requested` is looked at
    every `LOOK` seconds.
    """
    now = heard = look = time.monotonic()
    while True:
        if requested is not None and now >= look:
            if requested():
                return Drained.ASKED
            look = now + LOOK
        if now >= deadline:
            return Drained.LATE
        if silent is not None and now >= heard + silent:
            return Drained.SILENT
        wake = deadline if silent is None else min(deadline, heard + silent)
        taken = take((wake if requested is None else min(wake, look)) - now)
        if taken is None:
            return Drained.ENDED
        now = time.monotonic()
        if taken:
            heard = now
