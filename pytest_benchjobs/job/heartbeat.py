"""The heartbeat of a running job: a thread that touches a file every few seconds and listens for requests to stop."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

from ..model.job import JobStatus
from ..store.liveness import BEAT_SECONDS, asked_to_cancel, beat

_POLL_SECONDS = 0.5


class Heartbeat:
    """Heartbeat thread, in the process that began the job. `reason` says why it stopped the job, if it did.

    It stops the job by a signal, but only until `disarm`, while the main thread handles one. `meanwhile` is called
    regularly in the thread.
    """

    def __init__(self, root: Path, timeout: float | None, meanwhile: Callable[[], None]) -> None:
        self.reason: JobStatus | None = None
        self._root = root
        self._meanwhile = meanwhile
        self._deadline = None if timeout is None else time.monotonic() + timeout
        self._stopped = threading.Event()
        self._disarmed = False
        self._lock = threading.Lock()
        beat(root)
        self._thread = threading.Thread(target=self._run, name="bench-heartbeat", daemon=True)
        self._thread.start()

    def disarm(self) -> None:
        """Continue the heartbeat, but ignore requests to stop: all trials have ended."""
        with self._lock:
            self._disarmed = True

    def stop(self) -> None:
        """End the thread."""
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        last = time.monotonic()
        while not self._stopped.wait(_POLL_SECONDS):
            now = time.monotonic()
            if now - last >= BEAT_SECONDS:
                beat(self._root)
                last = now
            self._meanwhile()
            if self.reason is not None or self._disarmed:
                continue
            if asked_to_cancel(self._root):
                self._end(JobStatus.CANCELLED)
            elif self._deadline is not None and now > self._deadline:
                self._end(JobStatus.TIMEOUT)

    def _end(self, reason: JobStatus) -> None:
        with self._lock:
            # Where another plugin runs the loop, SIGTERM has no handler and would kill pytest.
            if self._disarmed or signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
                return
            self.reason = reason
            # Our loops treat SIGTERM as Ctrl-C. Background processes of a shell ignore SIGINT.
            os.kill(os.getpid(), signal.SIGTERM)
