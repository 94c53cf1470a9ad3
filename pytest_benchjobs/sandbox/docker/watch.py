"""Watching what happens to containers behind our back: out-of-memory kills, and deaths.

One connection and one thread for a whole process, however many sandboxes it has.
"""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections import Counter

from ...model.errors import InfrastructureError
from .engine import LABEL, Engine
from .library import ERRORS
from .processes import SIGNAL

_EVENTS = ("oom", "kill", "die", "exec")
"""The last is of Podman: a command was started."""
_TO_FIRST_PROCESS = str(int(signal.Signals[f"SIG{SIGNAL}"]))
_RECONNECT = 1.0
_SKEW = 3600.0
"""Seconds that the engine's clock may be behind ours."""


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
        """Return how often `event` (`oom`, `kill`, `die` or `exec`) happened to the container so far."""
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
