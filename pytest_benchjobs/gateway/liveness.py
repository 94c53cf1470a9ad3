"""Liveness of an endpoint: known from calls of other trials, else from a small call of the gateway's own.

So a failure of one trial's calls is distinguished from an endpoint that fails all.
"""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import Awaitable, Callable

from .client import Upstream
from .wires import Call

_FRESH = 5.0
"""Seconds for which the result of the gateway's own call holds."""
_Name = tuple[str, str | None, str]


@dataclasses.dataclass(frozen=True, slots=True)
class Line:
    """A way to a model: an endpoint, a key, the model, and how it is called."""

    target: Upstream
    call: Call
    model: str

    @property
    def name(self) -> _Name:
        """The same for all calls that should fare alike."""
        return self.target.endpoint.base_url, self.target.key, self.model


class Liveness:
    """The last answers of all endpoints, by the numbers of the trials that got them."""

    def __init__(self) -> None:
        self._answers: dict[_Name, list[tuple[int, float]]] = {}
        self._own: dict[_Name, tuple[float, asyncio.Task[bool]]] = {}

    def note_answered(self, line: Line, trial: int) -> None:
        """Note a complete answer to a call of a trial."""
        others = (one for one in self._answers.get(line.name, ()) if one[0] != trial)
        # Those of two trials suffice: one of them is another than whoever wants to know.
        self._answers[line.name] = [(trial, time.monotonic()), *others][:2]

    async def answers(self, line: Line, trial: int, since: float, ask: Callable[[], Awaitable[bool]]) -> bool:
        """Return True if the endpoint has answered another trial since a time, or answers `ask`, the gateway's own.

        Trials that want to know it at about the same time share one call.
        """
        if any(who != trial and at > since for who, at in self._answers.get(line.name, ())):
            return True
        began, task = self._own.get(line.name, (0.0, None))
        if task is None or (task.done() and began < max(since, time.monotonic() - _FRESH)):
            task = asyncio.ensure_future(ask())
            self._own[line.name] = time.monotonic(), task
        return await asyncio.shield(task)
