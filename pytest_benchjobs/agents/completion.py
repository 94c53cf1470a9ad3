"""One call of a model by the agent `model`: the request, the answer, and the log of both."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import ConfigDict, Field

from ..model.base import Model, Seconds
from ..model.endpoint import GATEWAY_URL
from ..store.text import clean
from ..system.cutting import beginning_of
from .protocol import Shell
from .reading.values import at, bounded, count_at, error_at, items_at, parsed, spoken, text_at, text_of

TOOL = "shell"
CALL_LIMIT = 32
"""The most calls of an answer; more are left out."""
_LOGGED = 32_000
_TOOLS = [
    {
        "type": "function",
        "function": {
            "name": TOOL,
            "description": "Run a shell command and see its output.",
            "parameters": {
                "type": "object",
                "properties": {"command": {"type": "string", "description": "The command."}},
                "required": ["command"],
            },
        },
    }
]

JSON = dict[str, Any]


class Options(Model):
    """Parameters for this agent. Others are ignored."""

    model_config = ConfigDict(extra="ignore")

    temperature: Annotated[float, Field(ge=0)] | None = None
    top_p: Annotated[float, Field(ge=0, le=1)] | None = None
    seed: int | None = None
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    """The most tokens of an answer."""
    reasoning_effort: Annotated[str, Field(min_length=1)] | None = None
    stop: str | tuple[str, ...] | None = None
    tools: bool | None = None
    """Default: true, but false for a short answer."""
    max_turns: Annotated[int, Field(ge=1)] = 50
    command_timeout: Seconds = 300.0
    """The most seconds of a command."""
    answer_file: Annotated[str, Field(min_length=1)] = "answer.txt"
    """Relative to the workdir."""

    @property
    def forwarded(self) -> JSON:
        """Options that are passed on to the model."""
        names = {"temperature", "top_p", "seed", "max_tokens", "reasoning_effort", "stop"}
        return self.model_dump(mode="json", include=names, exclude_none=True)


@dataclasses.dataclass(frozen=True, slots=True)
class Task:
    """Task for a model: the problem and the options."""

    model: str
    problem: str
    options: Options
    questions: tuple[str, ...] = ()
    """Asked instead of the problem, each separately; the replies go into one file as a JSON array."""
    answer_file: str = ""
    memory: dict[str, Any] | None = None
    """Messages of earlier turns of a conversation, which this task is a turn of. None: it is no conversation."""


class Ended(Exception):
    """The conversation has ended. `reason` is one of those in `agents.reading.own`."""

    def __init__(self, reason: str, message: str = "", status: int | None = None) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.status = status


@dataclasses.dataclass(frozen=True, slots=True)
class Answer:
    """Answer of a model."""

    text: str
    calls: tuple[Call, ...]
    finish_reason: str
    reply: str
    """Text without reasoning, if that is part of the text."""


@dataclasses.dataclass(frozen=True, slots=True)
class Call:
    """A call of a tool, as the model wrote it."""

    id: str
    name: str
    arguments: str


def ask(task: Task, shell: Shell, messages: list[JSON], number: int) -> Answer:
    """Make one call of the model. Raises Ended: the agent was stopped, or there is no answer to continue with."""
    if shell.stopped:
        raise Ended("stopped", "the time limit was reached")
    body: JSON = {"model": task.model, "messages": messages, **task.options.forwarded}
    if task.options.tools:
        body["tools"] = _TOOLS
    try:
        status, said = shell.post(f"{GATEWAY_URL['openai']}/chat/completions", body)
    except TimeoutError as error:
        raise Ended("stopped", str(error)) from None
    except ConnectionError as error:
        raise Ended("endpoint_down", str(error)) from None
    if status != 200:
        raise Ended("error", f"the model's endpoint answered {status}: {_error(said)}", status)
    choice = next(items_at(said, "choices"), None)
    message = at(choice, "message")
    if not isinstance(message, Mapping):
        raise Ended("endpoint_down", f"the response is not a chat completion: {beginning_of(str(said), 300)}")
    answer = Answer(
        text=text_of(message.get("content")),
        calls=tuple(_calls(message, number)),
        finish_reason=text_at(choice, "finish_reason"),
        reply=spoken(message.get("content")),
    )
    log(
        shell,
        "answer",
        turn=number,
        text=answer.text,
        reasoning=text_at(message, "reasoning_content") or text_at(message, "reasoning"),
        calls=[
            {
                "id": call.id,
                "name": beginning_of(call.name, 200),
                "arguments": bounded(parsed(call.arguments), _LOGGED),
            }
            for call in answer.calls
        ],
        finish_reason=answer.finish_reason,
        usage=dict(_usage(said)),
    )
    return answer


def _calls(message: Mapping[str, Any], number: int) -> Iterator[Call]:
    for place, call in enumerate(items_at(message, "tool_calls"), start=1):
        if place > CALL_LIMIT:
            return
        arguments = at(call, "function", "arguments")
        yield Call(
            id=beginning_of(text_at(call, "id"), 200) or f"call-{number}-{place}",
            name=text_at(call, "function", "name"),
            # Some servers send it as an object instead of a text.
            arguments=arguments if isinstance(arguments, str) else json.dumps(arguments),
        )


def _usage(said: Any) -> Iterator[tuple[str, int]]:
    for name, path in (
        ("prompt_tokens", ("prompt_tokens",)),
        ("completion_tokens", ("completion_tokens",)),
        ("cached_tokens", ("prompt_tokens_details", "cached_tokens")),
    ):
        if (count := count_at(said, "usage", *path)) is not None:
            yield name, count


def _error(said: Any) -> str:
    return error_at(said) or beginning_of(said if isinstance(said, str) else json.dumps(said), 300)


def log(shell: Shell, kind: str, **fields: Any) -> None:
    """Add an event to the agent's log; long texts are cut."""
    cut = {name: clean(value, _LOGGED) if isinstance(value, str) else value for name, value in fields.items()}
    shell.log(json.dumps({"type": kind, **cut}))
