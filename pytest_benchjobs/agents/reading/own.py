"""Our own agent `model`: events that `agents.completion.log` writes."""

from __future__ import annotations

import json
from typing import BinaryIO

from ...model.ending import Ending
from ...store.calls import LoggedCall
from .calls import LoggedSteps, Steps
from .reader import Event, Reader, Said, failed
from .trajectory import Metrics, Trajectory
from .values import count_at, items_at, text_at

_REASONS = {
    "done": Ending.SUCCESS,
    "gave_up": Ending.GAVE_UP,
    "refused": Ending.REFUSED,
    "turn_limit": Ending.TURN_LIMIT,
    "stopped": Ending.TIMED_OUT,
    "endpoint_down": Ending.ENDPOINT_DOWN,
}


class Own(Reader):
    """Reads events of type `begin`, `system`, `user`, `answer`, `result`, `chat` and `end`."""

    def __init__(self, trajectory: Trajectory, calls: BinaryIO | None = None, after: int = 0) -> None:
        """`calls`: those that its log does not tell, `after` those of earlier turns; `logged` of an event: up to it."""
        super().__init__(trajectory)
        self._steps = Steps(trajectory)
        self._logged = None if calls is None else LoggedSteps(self._steps, calls, after)

    def end(self) -> Said | None:
        """Ending and message; None when the final event is missing."""
        if self._logged is not None:
            self._logged.add()
        return super().end()

    def event(self, event: Event) -> None:
        """Read one event."""
        kind = event["type"]
        if self._logged is not None:
            self._logged.add(count_at(event, "logged") or 0)
        if kind == "begin":
            self._trajectory.about(version=text_at(event, "version"), model=text_at(event, "model"))
        elif kind in ("system", "user"):
            self._trajectory.say(
                "user" if kind == "user" else "system", text_at(event, "text"), separator="\n"
            )
        elif kind == "answer":
            self._answer(event)
        elif kind == "result":
            self._trajectory.result(text_at(event, "id"), text_at(event, "output"))
        elif kind == "chat":
            tokens = (count_at(event, "answer", "usage", "prompt_tokens"),
                      count_at(event, "answer", "usage", "completion_tokens"), None)  # fmt: skip
            answer = json.dumps(event.get("answer")).encode()
            self._steps.add(LoggedCall("chat", count_at(event, "status") or 0, tokens=tokens, answer=answer))
        elif kind == "end":
            self._end(event)

    def _answer(self, event: Event) -> None:
        key = f"answer-{count_at(event, 'turn')}"
        self._trajectory.think(text_at(event, "reasoning"), key=key)
        self._trajectory.say("agent", text_at(event, "text"), key=key)
        for call in items_at(event, "calls"):
            self._trajectory.call(text_at(call, "id"), text_at(call, "name"), call.get("arguments"), key=key)
        step = Metrics(
            prompt_tokens=count_at(event, "usage", "prompt_tokens"),
            completion_tokens=count_at(event, "usage", "completion_tokens"),
            cached_tokens=count_at(event, "usage", "cached_tokens"),
        )
        if step != Metrics():
            self._trajectory.measured(step)

    def _end(self, event: Event) -> None:
        message = text_at(event, "message") or None
        reason = text_at(event, "reason")
        if reason == "error":
            self._said = failed(message or "its call of the model failed", count_at(event, "status"))
        elif reason in _REASONS:
            self._said = _REASONS[reason], message
