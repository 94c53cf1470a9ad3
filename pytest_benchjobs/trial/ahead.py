"""What a trial will need is made ahead, in a thread of its own."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from ..sandbox.protocol import Sandbox
from .cancellation import Cancellation, Cancelled

_T = TypeVar("_T")
_LOOK = 0.1


class Ahead(Generic[_T]):
    """Makes the next sandbox, at most one at a time.

    `make` tells of each phase, and of the sandbox once it is started; both may raise. `remove` takes what nobody took.
    """

    def __init__(
        self,
        make: Callable[[Callable[[str], None], Callable[[Sandbox], None]], _T],
        remove: Callable[[_T], None],
        cancellation: Cancellation,
    ) -> None:
        self._maker = make
        self._remove = remove
        self._cancellation = cancellation
        self._thread: threading.Thread | None = None
        self._started: Sandbox | None = None
        self._made: _T | None = None
        self._closed = False

    def begin(self) -> None:
        """Make one, unless there is one."""
        if self._thread is None and not self._closed:
            self._thread = threading.Thread(target=self._make, name="bench-ahead", daemon=True)
            self._thread.start()

    def take(self) -> _T | None:
        """Return the one that was begun, once it is made; None: there is none, or it could not be made."""
        while self._thread is not None and self._thread.is_alive():
            self._cancellation.check()
            self._thread.join(_LOOK)
        self._thread = self._started = None
        made, self._made = self._made, None
        return made

    def close(self) -> None:
        """Make no more, and remove what was made for nothing."""
        self._closed = True
        if self._thread is not None:
            if self._started is not None:
                self._started.kill()
            self._thread.join()
        if self._made is not None:
            self._remove(self._made)

    def _make(self) -> None:
        # Whatever goes wrong does so again where the sandbox is needed, and is told there.
        with contextlib.suppress(Exception):
            self._made = self._maker(self._check, self._start)

    def _start(self, sandbox: Sandbox) -> None:
        self._started = sandbox
        self._check("start")

    def _check(self, phase: str) -> None:  # noqa: ARG002
        if self._closed or self._cancellation.requested:
            raise Cancelled
