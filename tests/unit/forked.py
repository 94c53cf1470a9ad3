"""Gateways as forks of a process that has imported what they need.

Importing that takes a second, and most tests of the gateway are not about how it starts. A fork is to them what
`python -m pytest_benchjobs.gateway` is: a process with variables, descriptors and a session of its own.
"""

from __future__ import annotations

import atexit
import functools
import gc
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import IO, Any, NoReturn

_REQUEST = 1 << 16


class Process:
    """What `Gateway` asks of a process."""

    def __init__(self, pid: int, stdin: IO[bytes], ended: int) -> None:
        self.pid = pid
        self.stdin = stdin
        self._ended = ended

    def __del__(self) -> None:
        os.close(self._ended)

    def wait(self, timeout: float | None = None) -> None:
        """Until it has ended: nobody holds the other end of the pipe any more."""
        poll = select.poll()
        poll.register(self._ended, select.POLLIN)
        if not poll.poll(None if timeout is None else timeout * 1000):
            raise subprocess.TimeoutExpired("gateway", timeout or 0)

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)


@functools.cache
def _server() -> socket.socket:
    ours, theirs = socket.socketpair()
    with theirs:
        command = [sys.executable, "-P", __file__, str(theirs.fileno())]
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()], cwd="/")

    def close() -> None:
        ours.close()
        process.wait()

    atexit.register(close)
    return ours


def popen(
    command: Sequence[str],
    *,
    stderr: IO[bytes],
    pass_fds: Sequence[int],
    env: Mapping[str, str],
    **_same: object,
) -> Process:
    """In the place of `subprocess.Popen` where a gateway is started."""
    assert command[1:4] == ["-P", "-m", "pytest_benchjobs.gateway"]
    [control] = pass_fds
    stdin, write = os.pipe()
    ended, alive = os.pipe()
    try:
        request = json.dumps(dict(env)).encode()
        assert len(request) < _REQUEST
        socket.send_fds(_server(), [request], [stdin, stderr.fileno(), control, alive])
        pid = int(_server().recv(20))
    finally:
        os.close(stdin)
        os.close(alive)
    return Process(pid, os.fdopen(write, "wb"), ended)


def _become(environment: dict[str, str], descriptors: list[int], main: Any) -> NoReturn:
    stdin, stderr, control, _alive = descriptors
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()
    os.dup2(stdin, 0)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    os.dup2(stderr, 2)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["pytest_benchjobs.gateway", str(control)]
    main()
    sys.exit()


def _serve(descriptor: int) -> None:
    main = importlib.import_module("pytest_benchjobs.gateway.__main__").main
    gc.collect()
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # so none is left of those that have ended
    with socket.socket(fileno=descriptor) as asked:
        while True:
            request, descriptors, _, _ = socket.recv_fds(asked, _REQUEST, 4)
            if not request:
                return
            if not (pid := os.fork()):
                asked.close()
                _become(json.loads(request), descriptors, main)
            for one in descriptors:
                os.close(one)
            asked.send(str(pid).encode())


if __name__ == "__main__":
    _serve(int(sys.argv[1]))
