"""The latest states of all objects of a kind with some labels, of which a thread hears."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any, Protocol

from ...model.errors import InfrastructureError

Object = dict[str, Any]
LOOK = 0.2
"""Seconds between two checks while something is waited for."""
_AGAIN = 1.0


class Told(Protocol):
    """A cluster that tells of one kind of object."""

    def all(self) -> tuple[list[Object], str]:
        """Return all there are, and the version of that list. Raises InfrastructureError."""

    def changes(self, version: str) -> AbstractContextManager[Iterator[Object]]:
        """Yield what changes after a version, until the connection ends. Raises InfrastructureError."""

    def hang_up(self) -> None:
        """End what goes on, and let nothing more begin. Never raises."""


class Watch:
    """Begins with a list of all that are there, and raises the InfrastructureError that this raises.

    `key` says which object of several it is; `slim` returns as much of one as is kept.
    """

    def __init__(self, told: Told, key: Callable[[Object], str], slim: Callable[[Object], Any]) -> None:
        self._told = told
        self._key = key
        self._slim = slim
        self._lock = threading.Lock()
        self._states: dict[str, Any] = {}
        self._noted: dict[str, int] = {}
        """Versions of those of which the cluster has not told since they were made."""
        self._waiting: dict[str, list[threading.Event]] = {}
        self._closed = threading.Event()
        version = self._list()
        self._thread = threading.Thread(target=self._run, args=(version,), name="bench-watch", daemon=True)
        self._thread.start()

    def state(self, key: str) -> Any:
        """Return the latest state; None: it is gone."""
        return self._states.get(key)

    def states(self) -> list[Any]:
        """Return the latest states of all there are."""
        with self._lock:
            return list(self._states.values())

    def note(self, found: Object) -> None:
        """Take in what somebody learned of an object that was just made."""
        with self._lock:
            if (key := self._key(found)) not in self._states:
                self._states[key] = self._slim(found)
                self._noted[key] = int(found["metadata"]["resourceVersion"])

    def wait(
        self, key: str, until: Callable[[Any], bool], timeout: float, check: Callable[[], object]
    ) -> Any:
        """Return the first state that is as wanted. Raises TimeoutError: none was, within so many seconds."""
        deadline = time.monotonic() + timeout
        changed = threading.Event()
        with self._lock:
            self._waiting.setdefault(key, []).append(changed)
        try:
            while True:
                changed.clear()
                state = self.state(key)
                if until(state):
                    return state
                check()
                if (left := deadline - time.monotonic()) <= 0:
                    raise TimeoutError(f"not within {timeout:g} seconds")
                changed.wait(min(LOOK, left))
        finally:
            with self._lock:
                self._waiting[key].remove(changed)
                if not self._waiting[key]:
                    del self._waiting[key]

    def close(self) -> None:
        """Stop listening."""
        self._closed.set()
        self._told.hang_up()
        self._thread.join(timeout=2)

    def _run(self, version: str | None) -> None:
        while not self._closed.is_set():
            # What breaks here says that the cluster does not answer; whoever runs a trial finds that out for himself.
            with (
                contextlib.suppress(InfrastructureError, ValueError, LookupError),
                self._told.changes(self._list() if version is None else version) as changes,
            ):
                for change in changes:
                    if self._closed.is_set() or not self._hear(change):
                        break
            version = None
            self._closed.wait(_AGAIN)

    def _list(self) -> str:
        found, version = self._told.all()
        states = {self._key(one): self._slim(one) for one in found}
        with self._lock:
            # What was made after the list is not in it: the changes since then will tell of it.
            gone = {
                key for key in self._states.keys() - states.keys() if self._noted.get(key, 0) <= int(version)
            }
            for key in gone:
                del self._states[key]
            self._states.update(states)
            self._wake(gone | states.keys())
        return version

    def _hear(self, change: Object) -> bool:
        """Take in a change; False: it is none, and all have to be listed again."""
        found = change["object"]
        if change["type"] == "BOOKMARK":
            return True
        if change["type"] not in ("ADDED", "MODIFIED", "DELETED"):
            return False
        key = self._key(found)
        with self._lock:
            if change["type"] == "DELETED":
                self._states.pop(key, None)
            else:
                self._states[key] = self._slim(found)
            self._wake({key})
        return True

    def _wake(self, keys: set[str]) -> None:
        """Have those look again who wait for what the cluster has just told."""
        for key in keys:
            self._noted.pop(key, None)
        for key in keys & self._waiting.keys():
            for changed in self._waiting[key]:
                changed.set()
