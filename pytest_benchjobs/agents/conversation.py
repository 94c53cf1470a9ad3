"""The work of the agent `model`: a conversation with a tool until it is done, or separate questions."""

from __future__ import annotations

import json
from typing import Any, NoReturn

from ..store.text import clean, one_line
from ..system.cutting import beginning_of
from .completion import JSON, TOOL, Answer, Call, Ended, Options, Task, ask, log
from .protocol import Shell
from .reading.values import at, parsed

VERSION = "1"
"""Version of its prompts and rules, part of the signature."""
OUTPUT_LIMIT = 16_000
"""The most characters of a command's output that the model sees."""
HISTORY_LIMIT = 400_000
"""The most characters of a conversation. Beyond that, the oldest turns are dropped."""
_COMMAND_LIMIT = 100_000

SYSTEM = """\
You solve a task on a Linux machine, by yourself: nobody answers questions. You have one tool, shell, which runs a
command and gives you its output and exit status. Each command starts in the working directory, in a new shell. Work
until the task is done, check your result, then answer with a short summary and without calling a tool."""


def work(task: Task, shell: Shell) -> int:
    """Solve a task. Returns an exit status: 0 when the model said that it is done.

    Raises InfrastructureError: the sandbox or the gateway is lost.
    """
    log(shell, "begin", version=VERSION, model=task.model)
    try:
        if task.options.tools:
            _converse(task, shell)
        else:
            _answer(task, shell)
    except Ended as end:
        said = {"message": one_line(end.message, 1000), "status": end.status}
        log(shell, "end", reason=end.reason, **{name: value for name, value in said.items() if value})
        return 0 if end.reason in ("done", "gave_up", "refused") else 1


def _converse(task: Task, shell: Shell) -> NoReturn:
    beginning, turns = _begin(task, shell)
    for number in range(1, task.options.max_turns + 1):
        turns = _recent(turns, beginning)
        messages = [*beginning, *(message for turn in turns for message in turn)]
        answer = ask(task, shell, messages, number)
        if not answer.calls:
            turns.append([_said(answer)])
            _remember(task, shell, answer, beginning=beginning, turns=turns)
            raise _finished(answer)
        turn = [_said(answer)]
        for call in answer.calls:
            output = _run(call, shell, task.options)
            log(shell, "result", id=call.id, output=output)
            turn.append({"role": "tool", "tool_call_id": call.id, "content": output})
        turns.append(turn)
    raise Ended("turn_limit", f"it reached its limit of {task.options.max_turns} turns")


def _begin(task: Task, shell: Shell) -> tuple[list[JSON], list[list[JSON]]]:
    """Return the messages at the beginning, which are always sent, and those of earlier turns with the new message."""
    memory = task.memory or {}
    question: JSON = {"role": "user", "content": task.problem}
    if "beginning" in memory:
        log(shell, "user", text=task.problem)
        return memory["beginning"], [*memory["turns"], [question]]
    beginning: list[JSON] = [{"role": "system", "content": SYSTEM}, question]
    for message in beginning:
        log(shell, message["role"], text=message["content"])
    return beginning, []


def _remember(task: Task, shell: Shell, answer: Answer, **memory: list[Any]) -> None:
    """Give the reply of a turn, and keep its messages for the next one."""
    if task.memory is not None:
        shell.reply(answer.reply)
        task.memory.update(memory)


def _answer(task: Task, shell: Shell) -> NoReturn:
    """Ask each question separately, and write the replies, also if some are missing."""
    answers: list[Answer] = []
    try:
        for number, question in enumerate(task.questions or (task.problem,), start=1):
            log(shell, "user", text=question)
            messages = [*(task.memory or {}).get("messages", ()), {"role": "user", "content": question}]
            answers.append(ask(task, shell, messages, number))
            _remember(task, shell, answers[-1], messages=[*messages, _said(answers[-1])])
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


def _run(call: Call, shell: Shell, options: Options) -> str:
    """Result of a call, for the model."""
    command = at(parsed(call.arguments), "command")
    if call.name != TOOL:
        return f"error: there is no tool {beginning_of(call.name, 100)!r}, only {TOOL}"
    if not isinstance(command, str):
        return 'error: the arguments have to be JSON such as {"command": "ls"}'
    command = command.encode("utf-8", "replace").decode()
    if "\0" in command or len(command.encode()) > _COMMAND_LIMIT:
        return f"error: a command is at most {_COMMAND_LIMIT} bytes of text; write large files in pieces"
    if shell.stopped:
        raise Ended("stopped", "the time limit was reached")
    status, output = shell.run(command, options.command_timeout)
    shown = clean(output, OUTPUT_LIMIT)
    if status is None:
        return f"{shown}\n[it did not end within {options.command_timeout:g} s and was killed]".lstrip()
    return f"{shown}\n[exit status {status}]".lstrip() if status or not shown else shown


def _said(answer: Answer) -> JSON:
    """An answer in the form in which it is sent back to the model."""
    calls = [
        {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
        for call in answer.calls
    ]
    return {"role": "assistant", "content": answer.text or None, "tool_calls": calls}


def _recent(turns: list[list[JSON]], beginning: list[JSON]) -> list[list[JSON]]:
    """The last turns, as many as fit together with the beginning, and at least one."""
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
