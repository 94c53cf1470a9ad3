"""What a trial will need is made ahead, in a thread of its own."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from .cancellation import Cancellation

_T = TypeVar("_T")
_LOOK = 0.1


class Ahead(Generic[_T]):
    """Makes the next sandbox, one at a time. `make` gets what stops it alone; `remove`, what nobody took."""

    def __init__(
        self, make: Callable[[Cancellation], _T], remove: Callable[[_T], None], cancellation: Cancellation
    ) -> None:
        self._make = make
        self._remove = remove
        self._cancellation = cancellation
        self._own = Cancellation()
        self._thread: threading.Thread | None = None
        self._made: _T | None = None

    def begin(self) -> None:
        """Make one, unless there is one."""
        if self._thread is None and not self._own.requested:
            self._thread = threading.Thread(target=self._run, name="bench-ahead", daemon=True)
            self._thread.start()

    def take(self) -> _T | None:
        """Return the one that was begun, once it is made; None: there is none, or it could not be made."""
        while self._thread is not None and self._thread.is_alive():
            self._cancellation.check()
            self._thread.join(_LOOK)
        self._thread = None
        made, self._made = self._made, None
        return made

    def close(self) -> None:
        """Make no more, and remove what was made for nothing."""
        self._own.request()
        if self._thread is not None:
            self._thread.join()
        if self._made is not None:
            self._remove(self._made)

    def _run(self) -> None:
        # Whatever goes wrong does so again where the sandbox is needed, and is told there.
        with contextlib.suppress(Exception):
            self._made = self._make(self._own)
