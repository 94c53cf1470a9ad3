"""A command of this machine, run as a sandbox runs one: for sandboxes that are no containers."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO

from .protocol import ExecResult, Sink, Stopping
from .stream import LOOK, Drained, wait_fairly

_CHUNK = 65536
_LAST_WORDS = 1.0


class HostSandbox:
    """The part of a sandbox that looks for no processes, and whose programs are this machine's."""

    def processes(self) -> tuple[str, ...]:
        """None: it does not look."""
        return ()

    def adopt_processes(self) -> tuple[str, ...]:
        """None: it does not look."""
        return ()

    def tampered(self) -> tuple[str, ...]:
        """None: programs are this machine's, which nothing in it can change."""
        return ()

    def limit_hit(self) -> str | None:
        """No limit ends anything."""
        return None


class LocalCommand:
    """A process that leads a group of its own, and was started just now; what it prints is in pipes."""

    def __init__(self, process: subprocess.Popen[bytes], sink: Sink, stdout: Sink | None) -> None:
        self._started = time.monotonic()
        self.pid = process.pid
        """Of the process, and of its group."""
        self._process = process
        self._sink = sink
        self._stdout = stdout
        self._pipes = [pipe for pipe in (self._process.stdout, self._process.stderr) if pipe is not None]

    @classmethod
    def start(
        cls, argv: Sequence[str], directory: Path, env: Mapping[str, str], sink: Sink, stdout: Sink | None
    ) -> LocalCommand:
        """Start one, with its standard input closed.

        Raises:
            OSError: it cannot be started.
        """
        process = subprocess.Popen(
            argv,
            cwd=directory,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE if stdout else subprocess.STDOUT,
            start_new_session=True,
        )
        return cls(process, sink, stdout)

    def run(self, timeout: float, silent: float | None, stopping: Stopping | None) -> ExecResult:
        """To its end, whatever that takes: unlike in a real sandbox it is killed when its time is up."""
        asked = None if stopping is None else stopping.asked
        why = wait_fairly(
            lambda seconds, quiet: self._wait(self._started + seconds, quiet, asked),
            timeout,
            silent,
            stopping,
        )
        if why is not Drained.ENDED and stopping is not None:
            for name, grace in stopping.graces:
                stopping.signal(name)
                if self._wait(time.monotonic() + grace) is Drained.ENDED:
                    break
        status = self._process.poll()
        if status is None:
            send(self.pid, signal.SIGKILL)
            self._process.wait()
        self._wait(time.monotonic() + _LAST_WORDS)
        for pipe in self._pipes:
            pipe.close()
        return ExecResult(
            128 - status if status is not None and status < 0 else status,
            timed_out=why is not Drained.ENDED,
            seconds=time.monotonic() - self._started,
            stopped=why is Drained.ASKED,
            silent=why is Drained.SILENT,
        )

    def _wait(
        self, deadline: float, silent: float | None = None, asked: Callable[[], bool] | None = None
    ) -> Drained:
        now = heard = time.monotonic()
        while self._pipes or self._process.poll() is None:
            if asked is not None and asked():
                return Drained.ASKED
            if now >= deadline:
                return Drained.LATE
            if silent is not None and now >= heard + silent:
                return Drained.SILENT
            wake = min(deadline, now + LOOK, deadline if silent is None else heard + silent)
            if not self._pipes:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._process.wait(wake - now)
            ready = self._ready(wake - now) if self._pipes else ()
            for pipe in ready:
                self._read(pipe)
            now = time.monotonic()
            if ready:
                heard = now
        return Drained.ENDED

    def _ready(self, seconds: float) -> list[IO[bytes]]:
        """Pipes with something in them, or that are closed."""
        poll = select.poll()  # not `select`, which has no use for descriptors over 1023
        for pipe in self._pipes:
            poll.register(pipe, select.POLLIN)
        found = {descriptor for descriptor, _ in poll.poll(max(0, seconds) * 1000)}
        return [pipe for pipe in self._pipes if pipe.fileno() in found]

    def _read(self, pipe: IO[bytes]) -> None:
        chunk = os.read(pipe.fileno(), _CHUNK)
        if not chunk:
            pipe.close()
            self._pipes.remove(pipe)
            return
        self._sink(chunk)
        if self._stdout is not None and pipe is self._process.stdout:
            self._stdout(chunk)


class LocalDoor:
    """Does here what the door does in a container. Listens on a port of its own, for there is only one loopback.

    Raises:
        OSError: nobody takes the listening socket at `path`.
    """

    def __init__(self, path: Path) -> None:
        self._gateway = socket.socket(socket.AF_UNIX)
        try:
            self._gateway.connect(str(path))
            self._listener = socket.create_server(("127.0.0.1", 0))
        except BaseException:
            self._gateway.close()
            raise
        self.port: int = self._listener.getsockname()[1]

    def hand_over(self, pid: int) -> None:
        """Give the listening socket away, with the process id of the agent."""
        socket.send_fds(self._gateway, [pid.to_bytes(4, "little")], [self._listener.fileno()])

    def close(self) -> None:
        """Keep nothing of it."""
        self._listener.close()
        self._gateway.close()


def send(group: int, number: signal.Signals) -> None:
    """Send a signal to a process group of this machine. Never raises."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)
