"""Checks of agents written in Python, when they are registered, and of what `prepare` returns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..model.errors import AgentSetupFailed, InputError
from ..sandbox.protocol import File, Mount
from ..sources.callables import call_fault
from .capabilities import capabilities_of
from .protocol import Agent, AgentCommand

_ABOUT = "an agent is an object with `name`, `needs_model`, `trusted` and `prepare(call)`"
_NAME_LIMIT = 200


def agent_fault(found: object) -> str | None:
    """Describe why an object is not an agent, and what it lacks; None if it is one."""
    if isinstance(found, type):
        return f"the class {found.__name__}; give an object of it: {found.__name__}()"
    name = getattr(found, "name", None)
    kind = type(found).__name__
    if not callable(getattr(found, "prepare", None)):
        return f"a value of type {kind}, which has no method `prepare`; {_ABOUT}"
    if not isinstance(name, str) or not name or len(name) > _NAME_LIMIT:
        return f"a value of type {kind}, whose `name` is not a text; {_ABOUT}"
    for attribute, meaning in (("needs_model", "True if NAME alone, without a model, is an error"),
                               ("trusted", "True only for reference solutions")):  # fmt: skip
        if not isinstance(getattr(found, attribute, None), bool):
            has = "is not True or False" if hasattr(found, attribute) else "is missing"
            return f"the agent {name!r}, whose attribute `{attribute}` {has}: {meaning}; {_ABOUT}"
    if (fault := call_fault(found.prepare, "call")) is not None:  # type: ignore[attr-defined]
        return f"the agent {name!r}, whose `prepare` {fault}; write `def prepare(self, call)`"
    try:
        capabilities_of(found)  # type: ignore[arg-type]
    except InputError as error:
        return str(error)
    return None


def checked_command(found: object, agent: Agent) -> AgentCommand | None:
    """Return the result of an agent's `prepare`, after checking that it is a command or None.

    Raises AgentSetupFailed: it is not a command, or a command whose parts have other types.
    """
    if found is None:
        return None
    if not isinstance(found, AgentCommand):
        raise AgentSetupFailed(
            f"agent {agent.name!r}: prepare returned a value of type {type(found).__name__}; "
            "return AgentCommand(argv=(...)), or None to do nothing"
        )
    fault = _command_fault(found)
    if fault is not None:
        raise AgentSetupFailed(f"agent {agent.name!r}: prepare returned an AgentCommand whose {fault}")
    return found


def _command_fault(command: AgentCommand) -> str | None:
    argv: object = command.argv
    if isinstance(argv, str):
        words = argv.split()[:2]
        return (
            f"argv is one text; give a tuple of words, such as {(*words, '...')!r}, "
            "or ('/bin/sh', '-c', '...') for a shell command"
        )
    if not _is_list_of(argv, str):
        return "argv is not a tuple of texts"
    if not argv and command.host is None:
        return "argv is empty; return None to do nothing"
    env: object = command.env
    if not isinstance(env, Mapping) or not _is_list_of([*env, *env.values()], str):
        return "env is not a mapping of texts to texts"
    if not _is_list_of(command.files, File):
        return "files are not a tuple of File"
    if not _is_list_of(command.mounts, Mount):
        return "mounts are not a tuple of Mount"
    if not isinstance(command.identity, str):
        return "identity is not a text"
    return None


def _is_list_of(values: object, kind: type) -> bool:
    return (
        isinstance(values, Iterable)
        and not isinstance(values, str)
        and all(isinstance(one, kind) for one in values)
    )
