"""A command of this machine, run as a sandbox runs one: for sandboxes that are no containers."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO

from .command_timeout import Drained, wait_fairly, wait_for_output
from .protocol import ExecResult, Sink, Stopping

_CHUNK = 65536
_LAST_WORDS = 1.0


class LocalCommand:
    """A process that leads a group of its own, and was started just now; what it prints is in pipes."""

    def __init__(self, process: subprocess.Popen[bytes], sink: Sink, stdout: Sink | None) -> None:
        self._started = time.monotonic()
        self.pid = process.pid
        """Of the process, and of its group."""
        self._process = process
        self._sink = sink
        self._stdout = stdout
        self._pipes = selectors.PollSelector()  # `select` has no use for descriptors over 1023
        for pipe in filter(None, (process.stdout, process.stderr)):
            self._pipes.register(pipe, selectors.EVENT_READ)

    @classmethod
    def start(
        cls,
        argv: Sequence[str],
        directory: Path,
        env: Mapping[str, str],
        sink: Sink,
        stdout: Sink | None = None,
        *,
        stdin: int | IO[bytes] = subprocess.DEVNULL,
        stderr: IO[bytes] | None = None,
    ) -> LocalCommand:
        """Start one; `stderr` is the file of its errors, if `sink` is not to take them. An `OSError`, if that fails."""
        process = subprocess.Popen(
            argv,
            cwd=directory,
            env=env,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=stderr or (subprocess.PIPE if stdout else subprocess.STDOUT),
            # Ctrl-C is for us, which end it.
            start_new_session=True,
        )
        return cls(process, sink, stdout)

    def run(self, timeout: float, silent: float | None, stopping: Stopping | None) -> ExecResult:
        """To its end, whatever that takes: unlike in a real sandbox it is killed when its time is up."""
        try:
            why = wait_fairly(self._wait, self._started + timeout, silent, stopping)
        finally:
            status = self._process.poll()
            if status is None:
                send(self.pid, signal.SIGKILL)
                self._process.wait()
            self._wait(time.monotonic() + _LAST_WORDS)
            for pipe in filter(None, (self._process.stdout, self._process.stderr)):
                pipe.close()
        return ExecResult(
            128 - status if status is not None and status < 0 else status,
            timed_out=why is not Drained.ENDED,
            seconds=time.monotonic() - self._started,
            stopped=why is Drained.ASKED,
            silent=why is Drained.SILENT,
        )

    def run_checked(self, deadline: float, check: Callable[[], object]) -> ExecResult:
        """To its end or `deadline` (monotonic time), with all that it has started; what `check` raises ends it, too."""

        def stopped() -> bool:
            check()
            return False

        try:
            left = deadline - time.monotonic()
            return self.run(left, None, Stopping(stopped, lambda _: None, graces=()))
        finally:
            # It may be a chain of processes, of which the first is gone while the others work on.
            send(self.pid, signal.SIGKILL)

    def _wait(
        self, deadline: float, silent: float | None = None, requested: Callable[[], bool] | None = None
    ) -> Drained:
        why = wait_for_output(self._take, deadline, silent, requested)
        # One that ended in time may be looked at only after it, where the machine is busy.
        has_ended = not self._pipes.get_map() and self._process.poll() is not None
        return Drained.ENDED if has_ended else why

    def _take(self, seconds: float) -> bool | None:
        if not self._pipes.get_map():
            try:
                self._process.wait(seconds)
            except subprocess.TimeoutExpired:
                return False
            return None
        ready = self._pipes.select(seconds)
        for key, _ in ready:
            if chunk := os.read(key.fd, _CHUNK):
                self._sink(chunk)
                if self._stdout is not None and key.fileobj is self._process.stdout:
                    self._stdout(chunk)
            else:
                self._pipes.unregister(key.fileobj)
        return bool(ready)


class LocalDoor:
    """Does here what the door does in a container. Listens on a port of its own, for there is only one loopback.

    It is an `OSError` if nobody takes the listening socket at `path`.
    """

    def __init__(self, path: Path) -> None:
        with contextlib.ExitStack() as stack:
            self._gateway = stack.enter_context(socket.socket(socket.AF_UNIX))
            self._gateway.connect(str(path))
            self._listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
            self.port: int = self._listener.getsockname()[1]
            self.close = stack.pop_all().close

    def hand_over(self, pid: int) -> None:
        """Give the listening socket away, with the process id of the agent."""
        socket.send_fds(self._gateway, [pid.to_bytes(4, "little")], [self._listener.fileno()])


def send(group: int, number: signal.Signals) -> None:
    """Send a signal to a process group of this machine. Never raises."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)
