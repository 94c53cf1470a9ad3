"""Codex: `codex exec --json`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ...model.ending import Ending
from .reader import Event, Reader, Said, failed
from .trajectory import FinalMetrics, Trajectory
from .values import count_at, items_at, money_at, parsed, text_at, text_of

_UNFINISHED = 500


class Codex(Reader):
    """Reads events of threads, turns and items. An item is reported when it begins, and again when it is complete."""

    def __init__(self, trajectory: Trajectory) -> None:
        super().__init__(trajectory)
        self._begun: dict[str, Mapping[str, Any]] = {}
        self._error = ""

    def event(self, event: Event) -> None:
        """Read one event."""
        kind = event["type"]
        item = event.get("item")
        if kind == "item.started" and isinstance(item, dict) and len(self._begun) < _UNFINISHED:
            self._begun[text_at(item, "id")[:100]] = item
        elif kind == "item.completed" and isinstance(item, dict):
            self._begun.pop(text_at(item, "id")[:100], None)
            self._item(item, complete=True)
        elif kind == "turn.completed":
            usage = event.get("usage")
            self._trajectory.totals = FinalMetrics(
                total_prompt_tokens=count_at(usage, "input_tokens"),
                total_completion_tokens=count_at(usage, "output_tokens"),
                total_cached_tokens=count_at(usage, "cached_input_tokens"),
                total_cost_usd=money_at(usage, "cost_usd"),
            )
            self._said = Ending.SUCCESS, None
        elif kind == "turn.failed":
            self._said = failed(
                _readable(text_at(event, "error", "message")) or self._error or "its turn failed"
            )
        elif kind == "error":
            self._error = _readable(text_at(event, "message"))
            # An answer may still come, or the same error again as `turn.failed`.
            self._said = None

    def end(self) -> Said | None:
        """Ending and message."""
        for item in self._begun.values():
            self._item(item, complete=False)
        if self._said is None and self._error:
            return Ending.NO_LAST_WORD, f"it ended without its final event; its last error: {self._error}"
        return self._said

    def _item(self, item: Mapping[str, Any], *, complete: bool) -> None:
        kind = text_at(item, "type")
        shown = _CALLS.get(kind)
        if kind == "agent_message":
            self._trajectory.say("agent", text_at(item, "text"), separator="\n")
        elif kind == "reasoning":
            self._trajectory.think(text_at(item, "text"))
        elif kind == "error":
            self._trajectory.say("system", text_at(item, "message"), separator="\n")
        elif shown is not None:
            name, arguments, result = shown(item)
            identity = text_at(item, "id")
            self._trajectory.call(identity, name, arguments)
            if complete:
                self._trajectory.result(identity, result)


_Shown = tuple[str, dict[str, Any], str]


def _command(item: Mapping[str, Any]) -> _Shown:
    output = text_at(item, "aggregated_output")
    status = item.get("exit_code")
    if isinstance(status, int) and status:
        output += f"\n[exit status {status}]"
    return "shell", {"command": item.get("command")}, output


def _mcp(item: Mapping[str, Any]) -> _Shown:
    name = ".".join(filter(None, (text_at(item, "server"), text_at(item, "tool")))) or "tool"
    arguments = item.get("arguments")
    result = text_at(item, "error", "message") or "\n".join(
        text_of(part) for part in items_at(item, "result", "content")
    )
    return name, arguments if isinstance(arguments, dict) else {"input": arguments}, result


_CALLS: dict[str, Callable[[Mapping[str, Any]], _Shown]] = {
    "command_execution": _command,
    "file_change": lambda item: ("apply_patch", {"changes": item.get("changes")}, text_at(item, "status")),
    "mcp_tool_call": _mcp,
    "web_search": lambda item: ("web_search", {"query": item.get("query")}, text_at(item, "status")),
    "todo_list": lambda item: ("update_plan", {"items": item.get("items")}, ""),
}


def _readable(message: str) -> str:
    """A message that may be the body of an answer."""
    return text_at(parsed(message), "error", "message") or message
