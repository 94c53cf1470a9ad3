"""Watching what happens to containers behind our back: out-of-memory kills, deaths, and disks that fill up.

One connection and two threads for a whole process, however many sandboxes it has.
"""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable

from ...model.errors import BenchError, InfrastructureError
from . import first
from .engine import LABEL, Engine
from .library import ERRORS

_EVENTS = ("oom", "kill", "die")
_TO_FIRST_PROCESS = str(int(signal.Signals[f"SIG{first.SIGNAL}"]))
_RECONNECT = 1.0
_SKEW = 3600.0
"""Seconds that the engine's clock may be behind ours."""
_POLL = 2.0
_MEASURE_TIMEOUT = 120
# The engine walks the whole file system of a container to measure it; that must stay a small share of its work.
_POLL_SHARE = 10.0


class Events:
    """Counts what the engine reports of the containers of one owner."""

    def __init__(self, engine: Engine, owner: str) -> None:
        self._engine = engine
        self._owner = owner
        self._counts: Counter[tuple[str, str]] = Counter()
        self._changed = threading.Condition()
        self._since: float | None = None
        self._began = time.time()
        self._closed = False
        self._stream: object = None
        self._stream = self._open()
        self._thread = threading.Thread(target=self._watch, name="bench-events", daemon=True)
        self._thread.start()

    def count(self, container: str, event: str) -> int:
        """Return how often `event` (`oom`, `kill` or `die`) happened to the container so far."""
        return self._counts[container, event]

    def wait(self, container: str, event: str, above: int, seconds: float) -> int:
        """`count`, after waiting at most `seconds` for it to exceed `above`: events come a little late."""
        with self._changed:
            self._changed.wait_for(lambda: self._counts[container, event] > above, seconds)
            return self._counts[container, event]

    def forget(self, container: str) -> None:
        """The container is gone."""
        with self._changed:
            for event in _EVENTS:
                self._counts.pop((container, event), None)

    def close(self) -> None:
        """Stop listening."""
        self._closed = True
        if self._stream is not None:
            with contextlib.suppress(Exception):
                self._stream.close()  # type: ignore[attr-defined]
        self._thread.join(timeout=2)

    def _open(self) -> object:
        filters = {"type": "container", "event": list(_EVENTS), "label": f"{LABEL}owner={self._owner}"}
        with self._engine.guard():
            return self._engine.client.events(
                since=self._since,  # type: ignore[call-overload]
                filters=filters,
                decode=True,
            )

    def _watch(self) -> None:
        while not self._closed:
            # Whatever breaks here says that the engine is gone; whoever runs a trial finds that out for itself.
            with contextlib.suppress(InfrastructureError, *ERRORS, OSError, ValueError, AttributeError):
                if self._stream is None:
                    self._stream = self._open()
                for event in self._stream:  # type: ignore[attr-defined]
                    self._note(event)
            self._stream = None
            # There was none so far: all there are of this owner.
            self._since = self._since or self._began - _SKEW
            if not self._closed:
                time.sleep(_RECONNECT)

    def _note(self, event: dict[str, object]) -> None:
        actor = event.get("Actor")
        if not isinstance(actor, dict):
            return
        nanoseconds = event.get("timeNano")
        if isinstance(nanoseconds, int):
            self._since = (nanoseconds + 1) / 1e9
        attributes = actor.get("Attributes")
        if isinstance(attributes, dict) and attributes.get("signal") == _TO_FIRST_PROCESS:
            # The engine calls every signal a kill.
            return
        with self._changed:
            self._counts[str(actor.get("ID")), str(event.get("Action"))] += 1
            self._changed.notify_all()


class StorageGuard:
    """Measures what sandboxes with a storage limit have written, and says when one is over it.

    The engine can enforce such a limit itself only on xfs with project quotas, which nearly nobody has.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._watched: dict[str, tuple[int, Callable[[], None]]] = {}
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
            if self._thread is None:
                self._thread = threading.Thread(target=self._watch, name="bench-storage", daemon=True)
                self._thread.start()

    def discard(self, container: str) -> None:
        """Measure it no more."""
        with self._lock:
            self._watched.pop(container, None)

    def close(self) -> None:
        """Stop."""
        self._closed = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join(timeout=2)

    def _watch(self) -> None:
        pause = _POLL
        while not self._wake.wait(pause):
            started = time.monotonic()
            with self._lock:
                watched = list(self._watched.items())
            for container, (limit, exceeded) in watched:
                if self._closed:
                    return
                if self._written(container) > limit:
                    self.discard(container)
                    # Whoever grades it finds out what could not be ended. The others are to be measured all the same.
                    with contextlib.suppress(BenchError):
                        exceeded()
            pause = max(_POLL, _POLL_SHARE * (time.monotonic() - started))

    def _written(self, container: str) -> int:
        client = self._engine.client
        try:
            # `size` is no parameter of the library's inspect_container.
            url = f"{client.base_url}/v{client.api_version}/containers/{container}/json"
            answer = client.get(url, params={"size": "1"}, timeout=_MEASURE_TIMEOUT)
            return int(answer.json().get("SizeRw") or 0)
        except (InfrastructureError, *ERRORS, OSError, ValueError):
            return 0
