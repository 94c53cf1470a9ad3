"""Claude Code: `--output-format stream-json`."""

from __future__ import annotations

from typing import Any

from ...model.ending import Ending
from .reader import Event, Reader, failed
from .trajectory import FinalMetrics
from .values import added, at, count_at, items_at, money_at, text_at, text_of


class ClaudeCode(Reader):
    """Reads events of type `system`, `assistant`, `user` and `result`. Only the last reports usage."""

    def event(self, event: Event) -> None:
        """Read one event."""
        kind = event["type"]
        if kind == "system" and event.get("subtype") == "init":
            self._trajectory.about(
                version=text_at(event, "claude_code_version"), model=text_at(event, "model")
            )
        elif kind == "assistant":
            self._assistant(event)
        elif kind == "user":
            self._user(at(event, "message", "content"))
        elif kind == "result":
            self._result(event)

    def _assistant(self, event: Event) -> None:
        key = text_at(event, "message", "id")[:100]
        for block in items_at(event, "message", "content"):
            kind = block.get("type")
            if kind == "tool_use":
                self._trajectory.call(
                    text_at(block, "id"), text_at(block, "name"), block.get("input"), key=key
                )
            elif kind == "thinking":
                self._trajectory.think(text_at(block, "thinking"), key=key)
            else:
                self._trajectory.say("agent", text_of(block), key=key, separator="\n")

    def _user(self, content: Any) -> None:
        if isinstance(content, str):
            self._trajectory.say("user", content, separator="\n")
        for block in items_at({"content": content}, "content"):
            if block.get("type") == "tool_result":
                self._trajectory.result(text_at(block, "tool_use_id"), text_of(block.get("content")))
            else:
                self._trajectory.say("user", text_of(block), separator="\n")

    def _result(self, event: Event) -> None:
        usage = event.get("usage")
        cached = count_at(usage, "cache_read_input_tokens")
        self._trajectory.totals = FinalMetrics(
            total_prompt_tokens=added(
                count_at(usage, "input_tokens"), cached, count_at(usage, "cache_creation_input_tokens")
            ),
            total_completion_tokens=count_at(usage, "output_tokens"),
            total_cached_tokens=cached,
            total_cost_usd=money_at(event, "total_cost_usd"),
        )
        subtype, why = text_at(event, "subtype"), text_at(event, "terminal_reason")
        message = text_at(event, "result") or "; ".join(_texts(event.get("errors"))) or subtype
        if subtype == "error_max_turns" or why == "max_turns":
            self._said = Ending.TURN_LIMIT, message
        elif subtype == "error_max_budget_usd":
            self._said = Ending.BUDGET, message
        elif event.get("is_error") is False and subtype == "success":
            refused = text_at(event, "stop_reason") == "refusal"
            self._said = (Ending.REFUSED, "the model refused") if refused else (Ending.SUCCESS, None)
        else:
            about = " ".join(
                filter(None, (message, text_at(event, "api_error"), text_at(event, "api_error_type")))
            )
            ending, _ = failed(about, count_at(event, "api_error_status"))
            self._said = ending, message


def _texts(value: Any) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []
