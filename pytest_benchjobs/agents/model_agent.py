"""`model`: an agent of our own around any model with an OpenAI-compatible endpoint, so that a bare model is measured.

    tools: true     a loop over Chat Completions with one tool, `shell`; it ends when an answer calls no tool
    tools: false    one question; the text of the answer goes to the file `answer_file`

A scenario that wants a short answer is such a question, or several, unless `tools: true` is asked for; there is no
container then, and `answer_file` is the scenario's.

It runs on this machine, in the thread of its trial. Only the commands run in the sandbox, a fresh shell each. It tries
nothing twice: that is the gateway's affair. Its log is for `agents.reading.own`.
"""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, NoReturn

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ..model.agent import AgentSpec
from ..model.base import Seconds
from ..model.endpoint import GATEWAY_URL, Endpoint
from ..model.environ import HOST
from ..model.errors import AgentSetupFailed
from ..store.text import clean, one_line
from .protocol import AgentCall, AgentCommand, Shell
from .providers import ModelTarget, target_of
from .reading import reader_of
from .reading.values import at, bounded, count_at, items_at, spoken, text_at, text_of

VERSION = "1"
"""Of what it says to a model: another one makes another signature."""
TOOL = "shell"
OUTPUT_LIMIT = 16_000
"""Characters of a command's output that the model sees."""
HISTORY_LIMIT = 400_000
"""Characters of a conversation. When there are more, the oldest turns go."""
CALL_LIMIT = 32
"""Calls of an answer; more are left out."""
_COMMAND_LIMIT = 100_000
_LOGGED = 32_000

SYSTEM = """\
You solve a task on a Linux machine, by yourself: nobody answers questions. You have one tool, shell, which runs a
command and gives you its output and exit status. Each command starts in the working directory, in a new shell. Work
until the task is done, check your result, then answer with a short summary and without calling a tool."""
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


class Options(BaseModel):
    """Parameters that are for this agent. Others are not looked at."""

    model_config = ConfigDict(frozen=True, allow_inf_nan=False, defer_build=True)

    temperature: Annotated[float, Field(ge=0)] | None = None
    top_p: Annotated[float, Field(ge=0, le=1)] | None = None
    seed: int | None = None
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    """Of an answer."""
    reasoning_effort: Annotated[str, Field(min_length=1)] | None = None
    stop: str | tuple[str, ...] | None = None
    tools: bool | None = None
    """Default: true, but false for a question."""
    max_turns: Annotated[int, Field(ge=1)] = 50
    command_timeout: Seconds = 300.0
    """Seconds a command may take."""
    answer_file: Annotated[str, Field(min_length=1)] = "answer.txt"
    """Relative to the workdir."""

    @property
    def forwarded(self) -> JSON:
        """Options that go to the model as they are."""
        names = {"temperature", "top_p", "seed", "max_tokens", "reasoning_effort", "stop"}
        return self.model_dump(mode="json", include=names, exclude_none=True)


@dataclasses.dataclass(frozen=True, slots=True)
class ModelAgent:
    """Asks a model, and runs what it says."""

    name: str = "model"
    needs_model: bool = True
    trusted: bool = False
    capabilities: frozenset[str] = frozenset({"shell"})

    def endpoints(
        self, spec: AgentSpec, environ: Mapping[str, str], params: Mapping[str, Any]
    ) -> tuple[Endpoint, ...]:
        """The one it needs.

        Raises:
            InputError: the provider of the model is unknown.
        """
        return (_target(spec, environ, params).endpoint,)

    def answers(self, params: Mapping[str, Any]) -> bool:
        """True unless it is to have tools, which are in a container."""
        try:
            return _options(params).tools is not True
        except AgentSetupFailed:  # as `prepare` will say
            return False

    def prepare(self, call: AgentCall) -> AgentCommand | None:
        """The conversation, as a function that runs here.

        Raises:
            AgentSetupFailed: a parameter is wrong.
            InputError: the provider of the model is unknown.
        """
        target = _target(call.spec, HOST, call.params)
        task = _task(target.model, call)
        return AgentCommand(
            argv=(),
            endpoints=(target.endpoint,),
            models=(target.model,),
            identity=f"model/{VERSION}",
            version=VERSION,
            host=functools.partial(work, task),
            read=reader_of("model", version=VERSION, model=target.model),
        )


def _target(spec: AgentSpec, environ: Mapping[str, str], params: Mapping[str, Any]) -> ModelTarget:
    return target_of(spec, ("openai",), None, environ, params)


@dataclasses.dataclass(frozen=True, slots=True)
class Task:
    """Task for a model: the problem and the options."""

    model: str
    problem: str
    options: Options
    questions: tuple[str, ...] = ()
    """Asked instead of the problem, each by itself; replies go into one file as a JSON array."""
    answer_file: str = ""


def _task(model: str, call: AgentCall) -> Task:
    scenario, options = call.scenario, _options(call.params)
    answer = scenario.question
    tools = answer is None if options.tools is None else options.tools
    return Task(
        model,
        scenario.problem_statement,
        options.model_copy(update={"tools": tools}),
        () if answer is None else answer.questions,
        options.answer_file if answer is None else answer.file,
    )


class Ended(Exception):
    """The conversation is over. `reason` is one of those in `agents.reading.own`."""

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
    """Text without reasoning, where that is part of the text."""


@dataclasses.dataclass(frozen=True, slots=True)
class Call:
    """A call of a tool, as the model wrote it."""

    id: str
    name: str
    arguments: str


def work(task: Task, shell: Shell) -> int:
    """Solve a task. Returns an exit status: 0 when the model said that it is done.

    Raises:
        InfrastructureError: the sandbox or the gateway is lost.
    """
    _log(shell, "begin", version=VERSION, model=task.model)
    try:
        if task.options.tools:
            _converse(task, shell)
        else:
            _answer(task, shell)
    except Ended as end:
        said = {"message": one_line(end.message, 1000), "status": end.status}
        _log(shell, "end", reason=end.reason, **{name: value for name, value in said.items() if value})
        return 0 if end.reason in ("done", "gave_up", "refused") else 1


def _converse(task: Task, shell: Shell) -> NoReturn:
    beginning: list[JSON] = [
        {"role": "system", "content": SYSTEM},
        {"role": "user", "content": task.problem},
    ]
    for message in beginning:
        _log(shell, message["role"], text=message["content"])
    turns: list[list[JSON]] = []
    for number in range(1, task.options.max_turns + 1):
        turns = _recent(turns, beginning)
        messages = [*beginning, *(message for turn in turns for message in turn)]
        answer = _ask(task, shell, messages, number)
        if not answer.calls:
            raise _finished(answer)
        turn = [_said(answer)]
        for call in answer.calls:
            output = _run(call, shell, task.options)
            _log(shell, "result", id=call.id, output=output)
            turn.append({"role": "tool", "tool_call_id": call.id, "content": output})
        turns.append(turn)
    raise Ended("turn_limit", f"it reached its limit of {task.options.max_turns} turns")


def _answer(task: Task, shell: Shell) -> NoReturn:
    """Ask each question by itself, and write down the replies, also if not all of them come."""
    answers: list[Answer] = []
    try:
        for number, question in enumerate(task.questions or (task.problem,), start=1):
            _log(shell, "user", text=question)
            answers.append(_ask(task, shell, [{"role": "user", "content": question}], number))
    finally:
        replies = [answer.reply for answer in answers]
        text = json.dumps(replies) if task.questions else "".join(replies)
        if replies:
            shell.write(task.answer_file, text.encode("utf-8", "replace"))
    broken_off = (answer for answer in answers if answer.finish_reason in ("length", "content_filter"))
    raise _finished(next(broken_off, answers[-1]))


def _finished(answer: Answer) -> Ended:
    if answer.finish_reason == "length":
        return Ended("gave_up", "an answer was cut off at its limit of tokens")
    if answer.finish_reason == "content_filter":
        return Ended("refused", "an answer was held back by a filter")
    return Ended("done")


def _ask(task: Task, shell: Shell, messages: list[JSON], number: int) -> Answer:
    """One call of the model.

    Raises:
        Ended: it was told to stop, or there is no answer to go on with.
    """
    if shell.stopped:
        raise Ended("stopped", "its time was up")
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
        raise Ended("endpoint_down", f"what came is no chat completion: {str(said)[:300]}")
    answer = Answer(
        text=text_of(message.get("content")),
        calls=tuple(_calls(message, number)),
        finish_reason=text_at(choice, "finish_reason"),
        reply=spoken(message.get("content")),
    )
    _log(
        shell,
        "answer",
        turn=number,
        text=answer.text,
        reasoning=text_at(message, "reasoning_content") or text_at(message, "reasoning"),
        calls=[
            {"id": call.id, "name": call.name[:200], "arguments": bounded(_arguments(call), _LOGGED)}
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
            id=text_at(call, "id")[:200] or f"call-{number}-{place}",
            name=text_at(call, "function", "name"),
            # Some servers have it as the object itself.
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


def _run(call: Call, shell: Shell, options: Options) -> str:
    """Result of a call, as the model gets it."""
    command = at(_arguments(call), "command")
    if call.name != TOOL:
        return f"error: there is no tool {call.name[:100]!r}, only {TOOL}"
    if not isinstance(command, str):
        return 'error: the arguments have to be JSON such as {"command": "ls"}'
    command = command.encode("utf-8", "replace").decode()
    if "\0" in command or len(command.encode()) > _COMMAND_LIMIT:
        return f"error: a command is at most {_COMMAND_LIMIT} bytes of text; write large files in pieces"
    if shell.stopped:
        raise Ended("stopped", "its time was up")
    status, output = shell.run(command, options.command_timeout)
    shown = clean(output, OUTPUT_LIMIT)
    if status is None:
        return f"{shown}\n[it did not end within {options.command_timeout:g} s and was killed]".lstrip()
    return f"{shown}\n[exit status {status}]".lstrip() if status or not shown else shown


def _arguments(call: Call) -> Any:
    try:
        return json.loads(call.arguments)
    except (ValueError, RecursionError):
        return call.arguments


def _said(answer: Answer) -> JSON:
    """An answer, as it is sent back to the model."""
    calls = [
        {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
        for call in answer.calls
    ]
    return {"role": "assistant", "content": answer.text or None, "tool_calls": calls}


def _recent(turns: list[list[JSON]], beginning: list[JSON]) -> list[list[JSON]]:
    """The last turns, as many as fit beside the beginning, and at least one."""
    room = HISTORY_LIMIT - _size(beginning)
    kept = len(turns)
    for turn in reversed(turns):
        room -= _size(turn)
        if room < 0:
            break
        kept -= 1
    return turns[min(kept, max(len(turns) - 1, 0)) :]


def _size(messages: list[JSON]) -> int:
    return sum(
        len(message.get("content") or "")
        + sum(len(call["function"]["arguments"]) for call in message.get("tool_calls", ()))
        for message in messages
    )


def _options(params: Mapping[str, Any]) -> Options:
    try:
        return Options.model_validate(dict(params))
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"][:1])
        raise AgentSetupFailed(
            f"model: parameter {place}: {first['msg']}, not {str(params.get(place))[:100]!r}"
        ) from None


def _error(said: Any) -> str:
    message = text_at(said, "error", "message") or text_at(said, "message") or text_at(said, "error")
    return message or (said if isinstance(said, str) else json.dumps(said))[:300]


def _log(shell: Shell, kind: str, **fields: Any) -> None:
    cut = {name: clean(value, _LOGGED) if isinstance(value, str) else value for name, value in fields.items()}
    shell.log(json.dumps({"type": kind, **cut}))
