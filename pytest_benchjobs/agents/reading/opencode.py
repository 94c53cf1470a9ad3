"""OpenCode: `opencode run --format json`."""

from __future__ import annotations

from ...model.ending import Ending
from .lines import Event
from .reader import Said, failed
from .trajectory import FinalMetrics, Metrics, Trajectory
from .values import added, count_at, money_at, text_at


class OpenCode:
    """Reads events of type `text`, `reasoning`, `tool_use`, `step_finish` and `error`. It has no summary at its end."""

    def __init__(self, trajectory: Trajectory) -> None:
        self._trajectory = trajectory
        self._said: Said | None = None
        self._cost: float | None = None

    def event(self, event: Event) -> None:
        """One more event."""
        kind, part = event["type"], event.get("part")
        key = text_at(part, "messageID")[:100]
        if kind == "text":
            self._trajectory.say("agent", text_at(part, "text"), key=key, separator="\n")
        elif kind == "reasoning":
            self._trajectory.think(text_at(part, "text"), key=key)
        elif kind == "tool_use":
            identity, state = (
                text_at(part, "callID"),
                (part or {}).get("state") if isinstance(part, dict) else None,
            )
            arguments = state.get("input") if isinstance(state, dict) else None
            self._trajectory.call(identity, text_at(part, "tool"), arguments, key=key)
            if text_at(state, "status") in ("completed", "error"):
                self._trajectory.result(identity, text_at(state, "output") or text_at(state, "error"))
        elif kind == "step_finish":
            self._finish(event, text_at(part, "reason"))
        elif kind == "error":
            message = text_at(event, "error", "data", "message") or text_at(event, "error", "name")
            self._said = failed(message, count_at(event, "error", "data", "statusCode"))

    def end(self) -> Said | None:
        """Ending and message."""
        return self._said

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
        )
        self._trajectory.measured(step)
        totals = self._trajectory.totals
        # A price of 0 is what it says of models it knows no price of.
        if (cost := money_at(part, "cost")) is not None and (cost or self._cost):
            self._cost = (self._cost or 0.0) + cost
        self._trajectory.totals = FinalMetrics(
            total_prompt_tokens=added(totals.total_prompt_tokens, step.prompt_tokens),
            total_completion_tokens=added(totals.total_completion_tokens, step.completion_tokens),
            total_cached_tokens=added(totals.total_cached_tokens, step.cached_tokens),
            total_cost_usd=self._cost,
        )
        if reason == "stop":
            self._said = Ending.SUCCESS, None
        elif reason == "content-filter":
            self._said = Ending.REFUSED, "the model would not do it"
        elif reason == "length":
            self._said = Ending.GAVE_UP, f"its last answer ended for the reason {reason!r}"
        else:
            self._said = None  # more has to come
