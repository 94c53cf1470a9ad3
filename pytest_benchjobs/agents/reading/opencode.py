"""OpenCode: `opencode run --format json`."""

from __future__ import annotations

from ...model.ending import Ending
from .reader import Event, Reader, failed
from .trajectory import Metrics
from .values import added, at, count_at, money_at, text_at


class OpenCode(Reader):
    """Reads events of type `text`, `reasoning`, `tool_use`, `step_finish` and `error`. It prints no summary."""

    def event(self, event: Event) -> None:
        """Read one event."""
        kind, part = event["type"], event.get("part")
        key = text_at(part, "messageID")[:100]
        if kind == "text":
            self._trajectory.say("agent", text_at(part, "text"), key=key, separator="\n")
        elif kind == "reasoning":
            self._trajectory.think(text_at(part, "text"), key=key)
        elif kind == "tool_use":
            identity, state = text_at(part, "callID"), at(part, "state")
            self._trajectory.call(identity, text_at(part, "tool"), at(state, "input"), key=key)
            if text_at(state, "status") in ("completed", "error"):
                self._trajectory.result(identity, text_at(state, "output") or text_at(state, "error"))
        elif kind == "step_finish":
            self._finish(event, text_at(part, "reason"))
        elif kind == "error":
            message = text_at(event, "error", "data", "message") or text_at(event, "error", "name")
            self._said = failed(message, count_at(event, "error", "data", "statusCode"))

    def _finish(self, event: Event, reason: str) -> None:
        part = event.get("part")
        cached = count_at(part, "tokens", "cache", "read")
        step = Metrics(
            prompt_tokens=added(
                count_at(part, "tokens", "input"), cached, count_at(part, "tokens", "cache", "write")
            ),
            completion_tokens=added(
                count_at(part, "tokens", "output"), count_at(part, "tokens", "reasoning")
            ),
            cached_tokens=cached,
            cost_usd=money_at(part, "cost") or None,  # 0 stands for a price that it does not know
        )
        self._trajectory.measured(step)
        if reason == "stop":
            self._said = Ending.SUCCESS, None
        elif reason == "content-filter":
            self._said = Ending.REFUSED, "the model refused"
        elif reason == "length":
            self._said = Ending.GAVE_UP, f"its last answer ended for the reason {reason!r}"
        else:
            self._said = None  # not the final event
