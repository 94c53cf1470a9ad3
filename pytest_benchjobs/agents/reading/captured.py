"""A captured run: events that `agents.captured` hands on, of any shape."""

from __future__ import annotations

import json
from typing import Any

from ...model.ending import Ending
from .reader import Event, Reader
from .values import at, text_at, text_of

_TEXTS = ("text", "content", "message", "response", "output", "decision", "reason")
_NAMES = ("name", "tool", "tool_name", "function")
_ARGUMENTS = ("args", "arguments", "input", "parameters")
_RESULTS = ("result", "output", "observation", "error")


class CapturedRun(Reader):
    """Reads events of type `event` and `end`."""

    _count = 0

    def event(self, event: Event) -> None:
        """Read one event."""
        if event["type"] == "end":
            self._said = Ending.SUCCESS, None
            return
        found = at(event, "event")
        kind = text_at(found, "kind")
        self._count += 1
        key = f"event-{self._count}"
        if kind == "tool":
            name = _first(found, _NAMES)
            named = name if isinstance(name, str) else "tool"
            arguments = _first(found, _ARGUMENTS)
            self._trajectory.call(key, named, {} if arguments is None else arguments, key=key)
            if (result := _first(found, _RESULTS)) is not None:
                self._trajectory.result(key, text_of(result) or json.dumps(result, ensure_ascii=False))
            return
        text = text_of(_first(found, _TEXTS))
        self._trajectory.think(text_at(found, "reasoning"), key=key)
        self._trajectory.say("agent", text if kind == "llm" else f"{kind}: {text}", key=key, separator="\n")


def _first(found: Any, names: tuple[str, ...]) -> Any:
    return next((value for name in names if (value := at(found, name)) is not None), None)
