"""Trajectory of an agent: `trajectory.jsonl`, in the format ATIF (Agent Trajectory Interchange Format).

    {"schema_version": "ATIF-v1.7", "agent": {...}}          first line
    {"step_id": 1, "source": "user", "message": "..."}       a line for each step
    {"step_id": 2, "source": "agent", "message": "...", "tool_calls": [...], "observation": {...}, "metrics": {...}}
    {"final_metrics": {...}, "notes": "..."}                 last line

The first line, its `steps` and the last line together are an ATIF document. It has no times and no random ids, so the
same replies give the same file. Every text is plain and every size bounded, whatever an agent prints.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, BinaryIO, Literal

from pydantic import ConfigDict, RootModel

from ...model.base import Model
from ...model.ending import Ending
from ...store.text import clean, one_line
from ...system.cutting import beginning_of, margin
from .values import Count, Money, added, bounded

STEP_LIMIT = 20_000
BYTE_LIMIT = 16 << 20
"""The most bytes of a trajectory, without its first and last line."""
TEXT_LIMIT = 32_000
"""The most characters of a message, of the arguments of a call and of a result."""
CALL_LIMIT = 200
"""The most calls in a step, and the most results."""
_OPEN_CALLS = 2_000

Source = Literal["system", "user", "agent"]


class ToolCall(Model):
    """A call of a tool."""

    tool_call_id: str
    """Numbered by benchjobs."""
    function_name: str
    arguments: dict[str, Any]


class Result(Model):
    """Result of a call."""

    source_call_id: str | None = None
    """None: the call is not in this step."""
    content: str


class Observation(Model):
    """Results of a step's calls."""

    results: tuple[Result, ...]


class Metrics(Model):
    """Tokens of a step, as the agent counts them. Input is everything that was sent."""

    prompt_tokens: Count | None = None
    completion_tokens: Count | None = None
    cached_tokens: Count | None = None
    cost_usd: Money | None = None


class Step(Model):
    """One step of the agent: a message, reasoning, or calls with their results."""

    step_id: int
    source: Source
    message: str
    reasoning_content: str | None = None
    tool_calls: tuple[ToolCall, ...] | None = None
    observation: Observation | None = None
    metrics: Metrics | None = None


class AgentAbout(Model):
    """The agent of a trajectory."""

    name: str
    version: str = "unknown"
    model_name: str | None = None


class Header(Model):
    """The first line."""

    schema_version: Literal["ATIF-v1.7"] = "ATIF-v1.7"
    agent: AgentAbout


class FinalMetrics(Model):
    """Totals by the agent's own count. What the gateway counted is in `result.json`."""

    total_prompt_tokens: Count | None = None
    total_completion_tokens: Count | None = None
    total_cached_tokens: Count | None = None
    total_cost_usd: Money | None = None
    total_steps: int | None = None


class Footer(Model):
    """The last line."""

    final_metrics: FinalMetrics
    notes: str
    """Ending of the agent, and a list of omissions."""


class TrajectoryLine(RootModel[Header | Step | Footer]):
    """A line of `trajectory.jsonl`."""

    model_config = ConfigDict(json_schema_extra={"type": "object"})


class _Text:
    """A text that comes in pieces, of which only the part that can be shown is kept."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._size = 0
        self._rest = ""
        """The following text, as far as it may end a secret."""

    def add(self, piece: str) -> None:
        """Add a piece."""
        # Twice the limit, since cleaning may shorten it. The last piece is kept whole, so that `clean` knows how much
        # is missing.
        if piece and self._size < 2 * TEXT_LIMIT:
            self._pieces.append(piece)
            self._size += len(piece)
        else:
            self._rest += piece[: margin() - len(self._rest)]

    def __bool__(self) -> bool:
        return bool(self._pieces)

    def text(self) -> str:
        """The whole text."""
        return clean(beginning_of("".join([*self._pieces, self._rest]), self._size), TEXT_LIMIT)


class _Open:
    """The step in progress."""

    def __init__(self, source: Source, key: str | None) -> None:
        self.source = source
        self.key = key
        self.message = _Text()
        self.reasoning = _Text()
        self.calls: list[ToolCall] = []
        self.results: list[Result] = []
        self.metrics: Metrics | None = None

    def step(self, number: int) -> Step:
        return Step(
            step_id=number,
            source=self.source,
            message=self.message.text(),
            reasoning_content=self.reasoning.text() or None,
            tool_calls=tuple(self.calls) or None,
            observation=Observation(results=tuple(self.results)) if self.results else None,
            metrics=self.metrics,
        )


class Trajectory:
    """Writes a trajectory while the agent's output is read. At most one step is in memory.

    Raises OSError: from every method that writes.
    """

    def __init__(
        self, file: BinaryIO, agent: str, version: str | None = None, model: str | None = None
    ) -> None:
        self.steps = 0
        """Steps written so far."""
        self.left_out = 0
        """Steps left out because of a limit."""
        self.totals = FinalMetrics()
        """Totals reported by the agent."""
        self.last_message = ""
        """The last message of the agent, once the trajectory is finished."""
        self._file = file
        self._agent = AgentAbout(name=agent, version=version or "unknown", model_name=model)
        self._begun = False
        self._bytes = 0
        self._open: _Open | None = None
        self._numbers: OrderedDict[str, str] = OrderedDict()
        self._calls = 0

    def about(self, *, version: str = "", model: str = "") -> None:
        """Set the agent's version and model for the first line, if that is not written yet."""
        update = {"version": one_line(version, 100), "model_name": one_line(model, 200)}
        known = {name: value for name, value in update.items() if value}
        self._agent = self._agent.model_copy(update=known)

    def say(self, source: Source, text: str, *, key: str | None = None, separator: str = "") -> None:
        """Add a message. It continues the open step of that source and `key`; without keys, one without a result."""
        if text:
            step = self._step(source, key)
            if step.message:
                step.message.add(separator)
            step.message.add(text)

    def think(self, text: str, *, key: str | None = None) -> None:
        """Add reasoning that the agent shows."""
        if text:
            self._step("agent", key).reasoning.add(text)

    def call(self, identity: str, name: str, arguments: object, *, key: str | None = None) -> None:
        """Add a call of a tool. `identity` is the agent's own id of the call."""
        step = self._step("agent", key)
        self._calls += 1
        number = f"call-{self._calls}"
        self._numbers[identity[:200]] = number
        if len(self._numbers) > _OPEN_CALLS:
            self._numbers.popitem(last=False)
        if len(step.calls) < CALL_LIMIT:
            given = bounded(arguments, TEXT_LIMIT)
            step.calls.append(
                ToolCall(
                    tool_call_id=number,
                    function_name=one_line(name, 200),
                    arguments=given if isinstance(given, dict) else {"input": given},
                )
            )

    def result(self, identity: str, content: str) -> None:
        """Add the result of a call."""
        number = self._numbers.pop(identity[:200], None)
        step = self._open
        if step is None or step.source != "agent":
            step = self._step("agent", None)
        if len(step.results) < CALL_LIMIT:
            here = any(call.tool_call_id == number for call in step.calls)
            step.results.append(
                Result(source_call_id=number if here else None, content=clean(content, TEXT_LIMIT))
            )

    def measured(self, metrics: Metrics) -> None:
        """Set the usage of the agent's last step, and add it to the totals."""
        if self._open is not None and self._open.source == "agent":
            self._open.metrics = metrics
        totals = self.totals
        update: dict[str, float | None] = {
            "total_prompt_tokens": added(totals.total_prompt_tokens, metrics.prompt_tokens),
            "total_completion_tokens": added(totals.total_completion_tokens, metrics.completion_tokens),
            "total_cached_tokens": added(totals.total_cached_tokens, metrics.cached_tokens),
        }
        if metrics.cost_usd is not None:
            update["total_cost_usd"] = (totals.total_cost_usd or 0.0) + metrics.cost_usd
        self.totals = totals.model_copy(update=update)

    def finish(self, ending: Ending | None, message: str | None) -> int:
        """Write the open step and the last line. Returns the number of steps."""
        self._close_step()
        notes = f"ended: {ending or 'unknown'}" + (f": {message}" if message else "")
        if self.left_out:
            notes += f"\n{self.left_out} more steps are left out"
        totals = self.totals.model_copy(update={"total_steps": self.steps})
        self._begin()
        self._write(Footer(final_metrics=totals, notes=clean(notes, 4000)))
        return self.steps

    def _step(self, source: Source, key: str | None) -> _Open:
        """Return the step to add to: the open one, or a new one."""
        step = self._open
        if step is not None and step.source == source:
            goes_on = step.key == key if key is not None or step.key is not None else not step.results
            if goes_on:
                return step
        self._close_step()
        self._open = _Open(source, key)
        return self._open

    def _close_step(self) -> None:
        step, self._open = self._open, None
        if step is None:
            return
        if step.source == "agent" and step.message:
            self.last_message = step.message.text()
        if self.steps >= STEP_LIMIT or self._bytes >= BYTE_LIMIT or self.left_out:
            self.left_out += 1
            return
        self._begin()
        line = _line(step.step(self.steps + 1))
        if self._bytes + len(line) > BYTE_LIMIT:
            self.left_out += 1
            return
        self.steps += 1
        self._bytes += len(line)
        self._file.write(line)

    def _begin(self) -> None:
        if not self._begun:
            self._begun = True
            self._write(Header(agent=self._agent))

    def _write(self, model: Model) -> None:
        self._file.write(_line(model))


def _line(model: Model) -> bytes:
    return model.model_dump_json(exclude_none=True).encode() + b"\n"
