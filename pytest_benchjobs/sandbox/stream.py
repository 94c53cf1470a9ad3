"""Output of a command, out of the engine's framed stream.

Every frame is a header of 8 bytes (stream, three zeros, length as big-endian 32 bits) and that many bytes of output.
"""

from __future__ import annotations

import socket
import time

from .protocol import Sink

_HEADER = 8
_STDOUT = 1
_CHUNK = 256 * 1024


class Demultiplexer:
    """Takes the stream in pieces of any size and hands the output on: all of it, and stdout once more. Keeps none."""

    def __init__(self, sink: Sink, stdout: Sink | None = None) -> None:
        self._sink = sink
        self._stdout = stdout
        self._header = bytearray()
        self._left = 0
        self._is_stdout = False

    @property
    def between_frames(self) -> bool:
        """Whether the stream may end here without anything missing."""
        return not self._left and not self._header

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
                if self._is_stdout and self._stdout is not None:
                    self._stdout(content)
                continue
            part = view[: _HEADER - len(self._header)]
            view = view[len(part) :]
            self._header += part
            if len(self._header) == _HEADER:
                self._is_stdout = self._header[0] == _STDOUT
                self._left = int.from_bytes(self._header[4:], "big")
                self._header.clear()


def drain(connection: socket.socket, output: Demultiplexer, deadline: float) -> bool:
    """Feed everything that comes to `output`. True at the end of the stream, False at the deadline (monotonic time)."""
    buffer = bytearray(_CHUNK)
    view = memoryview(buffer)
    while True:
        left = deadline - time.monotonic()
        if left <= 0:
            return False
        connection.settimeout(left)
        try:
            count = connection.recv_into(buffer)
        except TimeoutError:
            return False
        except ConnectionError:
            # Whoever asks the engine for the exit status next learns what happened.
            return True
        if not count:
            return True
        output.feed(view[:count])
