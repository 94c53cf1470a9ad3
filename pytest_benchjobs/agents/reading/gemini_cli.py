"""Gemini CLI: `--output-format stream-json`."""

from __future__ import annotations

from ...model.ending import Ending
from .reader import Event, Reader, failed
from .trajectory import FinalMetrics
from .values import count_at, text_at, text_of


class GeminiCli(Reader):
    """Reads events of type `init`, `message`, `tool_use`, `tool_result`, `error` and `result`."""

    _error = ""

    def event(self, event: Event) -> None:
        """Read one event."""
        kind = event["type"]
        if kind == "init":
            self._trajectory.about(model=text_at(event, "model"))
        elif kind == "message":
            source = text_at(event, "role")
            separator = "" if event.get("delta") is True else "\n"
            text = text_of(event.get("content"))
            self._trajectory.say("user" if source == "user" else "agent", text, separator=separator)
        elif kind == "tool_use":
            self._trajectory.call(
                text_at(event, "tool_id"), text_at(event, "tool_name"), event.get("parameters")
            )
        elif kind == "tool_result":
            output = text_of(event.get("output")) or text_at(event, "error", "message")
            self._trajectory.result(text_at(event, "tool_id"), output)
        elif kind == "error":
            self._error = text_at(event, "message")
            self._trajectory.say("system", self._error, separator="\n")
        elif kind == "result":
            self._result(event)

    def _result(self, event: Event) -> None:
        stats = event.get("stats")
        sent, total = count_at(stats, "input_tokens"), count_at(stats, "total_tokens")
        # Its output tokens do not include thoughts.
        back = total - sent if sent is not None and total is not None and total >= sent else None
        self._trajectory.totals = FinalMetrics(
            total_prompt_tokens=sent,
            total_completion_tokens=back,
            total_cached_tokens=count_at(stats, "cached"),
        )
        message = text_at(event, "error", "message") or self._error
        if event.get("status") == "success":
            # It stops by itself when it seems to repeat itself, and reports success.
            stopped = self._error.startswith("Loop detected")
            self._said = (Ending.GAVE_UP, self._error) if stopped else (Ending.SUCCESS, None)
        elif text_at(event, "error", "type") == "FatalTurnLimitedError":
            self._said = Ending.TURN_LIMIT, message
        else:
            self._said = failed(message or "its result is an error")
