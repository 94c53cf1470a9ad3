"""Disk usage of containers with a storage limit, by blocks on the disk.

An engine can enforce such a limit itself only on xfs with project quotas, which nearly nobody has.
"""

from __future__ import annotations

import contextlib
import datetime
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator

from ...model.errors import BenchError
from .compose.service import ServiceContainer
from .engine import Engine
from .library import ERRORS
from .running import run_program

_POLL = 2.0
# The engine walks all that a container has written to measure it; that must stay a small share of its work.
_POLL_SHARE = 10.0
_PATIENCE = 120.0
_NUMBER = 8
"""Bytes of the number that our program prints."""
_MOST_IN_VAIN = 3
"""Measurements by blocks that may fail before the sizes of files are believed: what runs meanwhile may disturb them."""
_LONGEST_WAIT = 15.0
"""Seconds that who lists processes waits for a measurement, which an agent may have stopped."""


class StorageGuard:
    """Says when containers have written more than they may. Our program, which measures blocks, is in them."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._watched: dict[str, tuple[int, Callable[[], None]]] = {}
        self._measuring: dict[str, threading.Lock] = {}
        self._in_vain: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None
        self._closed = False

    def add(self, container: str, limit: int, exceeded: Callable[[], None]) -> None:
        """Call `exceeded` once, from the guard's thread, when `container` has written more than `limit` bytes.

        Our own errors that it raises are nobody's.
        """
        with self._lock:
            self._watched[container] = (limit, exceeded)
            self._measuring[container] = threading.Lock()
            if self._thread is None:
                self._thread = threading.Thread(target=self._watch, name="bench-storage", daemon=True)
                self._thread.start()

    def discard(self, container: str) -> None:
        """Measure it no more."""
        with self._lock:
            for known in (self._watched, self._measuring, self._in_vain):
                known.pop(container, None)

    @contextlib.contextmanager
    def unmeasured(self, container: str) -> Iterator[None]:
        """Meanwhile, do not measure a container: our program would be taken for what an agent has left running."""
        lock = self._measuring.get(container)
        taken = lock is not None and lock.acquire(timeout=_LONGEST_WAIT)
        try:
            yield
        finally:
            if lock is not None and taken:
                lock.release()

    def close(self) -> None:
        """Stop."""
        self._closed = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join(timeout=2)

    def is_over(self, container: str, limit: int) -> bool:
        """Measure a container now, and return True if it has written more than `limit` bytes."""
        exact = blocks(self._engine, container)
        return (self.size(container) if exact is None else exact) > limit

    def size(self, container: str) -> int:
        """Return the sizes of all files that a container has written, holes and all."""
        return int((self._engine.get(f"/containers/{container}/json", size=True) or {}).get("SizeRw") or 0)

    def _watch(self) -> None:
        pause = _POLL
        while not self._wake.wait(pause):
            started = time.monotonic()
            with self._lock:
                watched = list(self._watched.items())
            for container, (limit, exceeded) in watched:
                if self._closed:
                    return
                # Grading finds a container that could not be stopped. The others are still measured.
                with contextlib.suppress(BenchError, *ERRORS, OSError, ValueError):
                    if self._is_surely_over(container, limit):
                        self.discard(container)
                        exceeded()
            pause = max(_POLL, _POLL_SHARE * (time.monotonic() - started))

    def _is_surely_over(self, container: str, limit: int) -> bool:
        # Measuring disturbs what runs: what a file took beyond its size is found out at the end.
        if self.size(container) <= limit:
            return False
        with contextlib.suppress(BenchError, *ERRORS, OSError), self.unmeasured(container):
            if (exact := blocks(self._engine, container)) is not None:
                return exact > limit
        self._in_vain[container] += 1
        return self._in_vain[container] > _MOST_IN_VAIN


def nanoseconds(time: str) -> int:
    """Return a time as the engine writes it in nanoseconds, or a little less."""
    return int(datetime.datetime.fromisoformat(time).timestamp() * 1e6) * 1000


def blocks(engine: Engine, container: str) -> int | None:
    """Return the bytes on the disk of files that changed since its creation; None: they cannot be measured."""
    about = engine.get(f"/containers/{container}/json") or {}
    # The driver vfs copies all of an image into a container that has been created.
    copied = (about.get("GraphDriver") or {}).get("Name") == "vfs"
    since = str(about["State"]["StartedAt"] if copied else about.get("Created"))
    status, output = run_program(
        ServiceContainer(engine, container, "/"), "measure", str(nanoseconds(since)), timeout=_PATIENCE
    )
    return int.from_bytes(output, "little") if status == 0 and len(output) == _NUMBER else None
