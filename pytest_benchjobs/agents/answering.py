"""Agents that answer a question without a container, for scenarios that want only a short answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .protocol import DrivenShell, Shell


def can_answer(agent: object, params: Mapping[str, Any]) -> bool:
    """Return True if an agent, with these parameters, answers a question without a container."""
    answers = getattr(agent, "answers", None)
    return callable(answers) and bool(answers(params))


def write_answer(file: str, text: str, shell: Shell) -> int:
    """Write an answer that is known in advance. Returns an exit status, as `AgentCommand.host` does."""
    shell.write(file, text.encode("utf-8", "replace"))
    return 0


def give_reply(
    script: str | None, reply: str, env: Mapping[str, str], timeout: float, shell: DrivenShell
) -> int:
    """Give a reply that is known in advance, after a shell script. Returns an exit status, that of the script."""
    status: int | None = 0
    if script is not None:
        status, output = shell.run(script, timeout, env=env)
        shell.log(output)
    shell.log(reply)
    shell.reply(reply)
    return 1 if status is None else status
