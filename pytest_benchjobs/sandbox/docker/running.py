"""One command that runs in a container: its output, its end, and how it is asked to end."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable

from ..protocol import Sink, Stopping
from ..stream import LOOK, Demultiplexer, Drained, drain

_EXIT_POLL = (0.005, 0.5)

Inspect = Callable[[], tuple[int, int] | None]
"""Exit status and process id of the command; None while it runs."""


class Running:
    """A command whose output comes over `connection`. The end of that is not believed until `inspect` confirms it.

    Whoever sets `killed` wants no more of it: `wait` then ends soon, and says nothing.
    """

    def __init__(
        self,
        connection: socket.socket,
        inspect: Inspect,
        killed: threading.Event,
        sink: Sink,
        stdout: Sink | None = None,
    ) -> None:
        self.status: tuple[int, int] | None = None
        """Exit status and process id, once it has ended."""
        self._connection = connection
        self._inspect = inspect
        self._killed = killed
        self._sink = sink
        self._output = Demultiplexer(self._hear, stdout)
        self._heard = time.monotonic()
        self._streaming = True

    def feed(self, data: bytes) -> None:
        """Take output that has come already."""
        self._output.feed(data)

    def wait(
        self, deadline: float, silent: float | None = None, asked: Callable[[], bool] | None = None
    ) -> Drained:
        """Take output until the command ends, the deadline passes, it is silent for too long, or somebody asks."""
        if self._streaming:
            why = drain(self._connection, self._output, deadline, silent, asked)
            if why is not Drained.ENDED:
                return why
            self._streaming = False
        return self._wait_for_status(deadline, silent, asked)

    def stop(self, stopping: Stopping) -> None:
        """Ask it to end, more and more firmly, and take what it prints meanwhile. It may go on all the same."""
        for name, grace in stopping.graces:
            stopping.signal(name)
            if self.wait(time.monotonic() + grace) is Drained.ENDED:
                return

    def _wait_for_status(
        self, deadline: float, silent: float | None, asked: Callable[[], bool] | None
    ) -> Drained:
        """The end of the stream alone says nothing: the engine may have died, or the command closed its output."""
        # One that closed its output has no way to break its silence.
        quiet = deadline if silent is None else min(deadline, self._heard + silent)
        pause, longest = _EXIT_POLL
        if asked is not None:
            longest = LOOK
        while not self._killed.is_set():
            self.status = self._inspect()
            if self.status is not None:
                break
            if time.monotonic() >= quiet:
                return Drained.LATE if quiet == deadline else Drained.SILENT
            if asked is not None and asked():
                return Drained.ASKED
            time.sleep(pause)
            pause = min(2 * pause, longest)
        return Drained.ENDED

    def _hear(self, data: bytes) -> None:
        self._heard = time.monotonic()
        self._sink(data)
