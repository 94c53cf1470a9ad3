"""A small process that outlives ours and removes what we have in an engine when we die without doing so.

It blocks on a pipe whose only writer is our process. The kernel closes the pipe when we end, however we end, and the
reaper then removes what is ours. It is told by a byte (`QUIT`) that nothing is left.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import threading
from collections.abc import Mapping, Sequence

QUIT = b"q"


class Reaper:
    """Our end of the pipe. `command` is run with this environment, and the other end as its standard input."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self._command = command
        self._environment = environment
        self._lock = threading.Lock()
        self._pipe: int | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, unless it runs already."""
        with self._lock:
            if self._process is not None:
                return
            reading, writing = os.pipe()
            try:
                self._process = subprocess.Popen(
                    self._command,
                    stdin=reading,
                    # A reader of our output must not wait for the end of the reaper.
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    cwd="/",
                    env=self._environment,
                    # Ctrl-C is for us, not for it.
                    start_new_session=True,
                )
            except BaseException:
                os.close(writing)
                raise
            finally:
                os.close(reading)
            self._pipe = writing

    def close(self, *, nothing_left: bool) -> None:
        """Send it home, or, when something is left, to work."""
        with self._lock:
            if self._pipe is None or self._process is None:
                return
            if nothing_left:
                with contextlib.suppress(OSError):
                    os.write(self._pipe, QUIT)
            os.close(self._pipe)
            self._pipe = None
            try:
                self._process.wait(timeout=2 if nothing_left else 0.01)
            except subprocess.TimeoutExpired:
                # It goes on without us, as it is meant to; there is nobody to wait for it.
                self._process.returncode = 0
            self._process = None
