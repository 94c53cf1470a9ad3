"""Goose: `goose run --output-format stream-json`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...model.ending import Ending
from ...system.cutting import beginning_of
from .reader import Event, Reader, Said, failed
from .trajectory import FinalMetrics
from .values import at, count_at, items_at, money_at, text_at, text_of

_ERRORS = ("Ran into this error:", "Network error:")
_TURN_LIMIT = "I've reached the maximum number of actions"
_ADVICE = ("Please retry if you think", "Please resend your message")
_BEGINNING = 2000


class Goose(Reader):
    """Reads events of type `message`, `error` and `complete`. It reports most errors as messages of the assistant."""

    _key = _error = ""
    _words = ""
    """Beginning of the last message, unless the model wrote it."""
    _complete = False

    def event(self, event: Event) -> None:
        """Read one event."""
        kind = event["type"]
        if kind == "message":
            self._message(event.get("message"))
        elif kind == "error":
            self._error = text_at(event, "error")
        elif kind == "complete":
            self._complete = True
            self._trajectory.totals = FinalMetrics(
                total_prompt_tokens=count_at(event, "input_tokens"),
                total_completion_tokens=count_at(event, "output_tokens"),
                total_cached_tokens=count_at(event, "cache_read_input_tokens"),
                total_cost_usd=money_at(event, "cost_usd"),
            )

    def end(self) -> Said | None:
        """Ending and message."""
        words = self._words.lstrip()
        error = self._error or (words if words.startswith(_ERRORS) else "")
        if error:
            for advice in _ADVICE:
                error = error.partition(advice)[0]
            return failed(error.strip())
        if not self._complete:
            return None
        return (Ending.TURN_LIMIT, words) if words.startswith(_TURN_LIMIT) else (Ending.SUCCESS, None)

    def _message(self, message: Any) -> None:
        about = at(message, "metadata")
        if at(about, "userVisible") is False and at(about, "agentVisible") is False:
            return
        from_user = text_at(message, "role") == "user"
        key = text_at(message, "id")[:100]
        for part in items_at(message, "content"):
            kind = part.get("type")
            if kind == "toolRequest":
                call = at(part, "toolCall", "value")
                self._trajectory.call(
                    text_at(part, "id"), text_at(call, "name"), at(call, "arguments"), key=key
                )
            elif kind == "toolResponse":
                self._trajectory.result(text_at(part, "id"), _result(part))
            elif kind in ("thinking", "reasoning"):
                self._trajectory.think(text_at(part, "thinking") or text_at(part, "text"), key=key)
            elif kind == "error":
                self._error = text_at(part, "message")
                self._trajectory.say("system", self._error, separator="\n")
            elif from_user:
                self._trajectory.say("user", text_of(part), key=key, separator="\n")
            else:
                self._add_words(text_of(part), key, by_model=at(about, "inference") is not None)

    def _add_words(self, text: str, key: str, *, by_model: bool) -> None:
        self._trajectory.say("agent", text, key=key)
        if by_model:
            # The model may write about errors.
            self._key = self._words = ""
            return
        if key != self._key:
            self._key, self._words = key, ""
        self._words = beginning_of(self._words + text, _BEGINNING)


def _result(part: Mapping[str, Any]) -> str:
    value = at(part, "toolResult", "value")
    content = "\n".join(text_of(item) for item in items_at(value, "content"))
    return content or text_at(part, "toolResult", "error")
