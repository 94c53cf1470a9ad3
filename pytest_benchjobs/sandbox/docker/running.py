"""One command that runs in a container: its output, its end, and how it is asked to end."""

from __future__ import annotations

import contextlib
import functools
import socket
import threading
import time
from collections.abc import Callable
from typing import Protocol

from ...system.cutting import HeadSink
from ..command_timeout import LOOK, Demultiplexer, Drained, drain
from ..program import PROGRAM
from ..protocol import ExecResult, Sink

NOT_STARTED = (125, 126, 127, 128)
"""A command that could not be started ends with one of these and without ever having had a process."""
_EXIT_POLL = (0.005, 0.5)
_EARLY = 2.0
"""Seconds: the engine may take some of them to tell that a command ended whose output has, or the other way round."""
_HEAD = 2000

Inspect = Callable[[], tuple[int, int] | None]
"""Exit status and process id of the command; None while it runs."""
Death = Callable[[], tuple[int, int] | None]
"""Exit status and process id of a command whose container has ended; None while that runs."""


class Held:
    """Holds back the first output of a command, until it is known to be the command's own.

    What the engine says of a command that it cannot start comes the same way.
    """

    def __init__(self, sink: Sink, stdout: Sink | None) -> None:
        self._sink, self._stdout = sink, stdout
        self._pieces: list[tuple[Sink, bytes]] | None = []
        self._head = HeadSink(_HEAD)
        self.stdout_sink = None if stdout is None else functools.partial(self._pass_on, stdout)

    @property
    def text(self) -> str:
        """The beginning of the output."""
        return self._head.text()

    def sink(self, data: bytes) -> None:
        """Take a piece of output. The engine says all that it has to say in the first one."""
        if self._pieces and self._head.raw():
            self.release()
        self._head(data)
        self._pass_on(self._sink, data)

    def _pass_on(self, sink: Sink, data: bytes) -> None:
        if self._pieces is None:
            sink(data)
        else:
            self._pieces.append((sink, data))

    def release(self) -> None:
        """Pass everything on, now and from now on."""
        pieces, self._pieces = self._pieces, None
        for sink, data in pieces or ():
            sink(data)


class Running:
    """A command whose output comes over `connection`. The end of that is not believed until `inspect` confirms it.

    Whoever sets `killed` wants no more of it: `wait` then ends soon, and says nothing. Where the end of a container
    overtakes that of its commands, the engine never ends their output: `death` tells.
    """

    def __init__(
        self,
        connection: socket.socket,
        inspect: Inspect,
        killed: threading.Event,
        sink: Sink,
        stdout: Sink | None = None,
        death: Death = lambda: None,
    ) -> None:
        self.status: tuple[int, int] | None = None
        """Exit status and process id, once it has ended."""
        self._connection = connection
        self._inspect = inspect
        self._killed = killed
        self._death = death
        self._died: tuple[float, tuple[int, int]] | None = None
        """When the container was seen to have ended, and how the command has with it."""
        self._sink = sink
        self._output = Demultiplexer(self._hear, stdout)
        self._heard = time.monotonic()
        self._streaming = True
        self.cut = False
        """True if the output ended within a piece of it."""
        self.early = False
        """True if the output ended well before the command: it has closed it, or the connection broke."""

    def feed(self, data: bytes) -> None:
        """Take output that has come already."""
        self._output.feed(data)

    def wait(
        self, deadline: float, silent: float | None = None, requested: Callable[[], bool] | None = None
    ) -> Drained:
        """Take output until the command ends, the deadline passes, it is silent for too long, or somebody asks."""
        if self._streaming:
            asked = requested or (lambda: False)
            why = drain(
                self._connection,
                self._output,
                deadline,
                silent,
                lambda: asked() or self._outlives_container(),
            )
            if why is not Drained.ENDED:
                if self._died is None or not self._outlives_container():
                    return why
                self.status = self._died[1]
                return Drained.ENDED
            self._streaming = False
            self.cut = self._output.is_within
        return self._wait_for_status(deadline, silent, requested)

    def write(self, data: bytes) -> None:
        """Write all of this to its standard input, for as long as the other side lives."""
        view = memoryview(data)
        while view:
            # The timeout of the connection is its reader's.
            with contextlib.suppress(TimeoutError, BlockingIOError):
                view = view[self._connection.send(view) :]

    def _outlives_container(self) -> bool:
        """Return True if the output should have ended with the container by now."""
        if self._died is None and (status := self._death()) is not None:
            self._died = time.monotonic(), status
        return self._died is not None and time.monotonic() > self._died[0] + _EARLY

    def _wait_for_status(
        self, deadline: float, silent: float | None, requested: Callable[[], bool] | None
    ) -> Drained:
        """The end of the stream alone says nothing: the engine may have died, or the command closed its output."""
        # One that closed its output has no way to break its silence.
        quiet = deadline if silent is None else min(deadline, self._heard + silent)
        pause, longest = _EXIT_POLL
        ended = time.monotonic()
        if requested is not None:
            longest = LOOK
        while not self._killed.is_set():
            self.status = self._inspect()
            if self.status is not None:
                break
            self.early = time.monotonic() > ended + _EARLY
            if time.monotonic() >= quiet:
                return Drained.LATE if quiet == deadline else Drained.SILENT
            if requested is not None and requested():
                return Drained.ASKED
            time.sleep(pause)
            pause = min(2 * pause, longest)
        return Drained.ENDED

    def _hear(self, data: bytes) -> None:
        self._heard = time.monotonic()
        self._sink(data)


class Executes(Protocol):
    """A container that runs commands."""

    @property
    def exec(self) -> Callable[..., ExecResult]:
        """As that of a sandbox or service."""


def run_program(container: Executes, *arguments: str, timeout: float) -> tuple[int | None, bytes]:
    """Run our program as root; returns its exit status, None if its time (seconds) was up, and its output."""
    output = bytearray()
    ended = container.exec(
        (PROGRAM, *arguments),
        timeout=timeout,
        sink=lambda _: None,
        stdout=output.extend,
        user="root",
        workdir="/",
    )
    return ended.exit_status, bytes(output)
