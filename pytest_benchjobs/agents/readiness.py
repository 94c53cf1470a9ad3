"""Checks before the first trial of a job: agents are fetched, and have their keys."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ..model.agent import AgentSpec
from ..model.environ import HOST
from ..model.errors import InfrastructureError, InputError
from .described import DescribedAgent
from .protocol import Agent
from .providers import PROVIDERS, missing_key


def ensure(
    agents: Mapping[str, Agent],
    specs: Iterable[AgentSpec],
    on_progress: Callable[[str], None],
    machine: Callable[[], str | None] = lambda: None,
) -> None:
    """Fetch the programs of these agents that this machine lacks. A second process waits for the first one.

    `machine` is that of the sandboxes, see `AgentCall`.

    Raises InfrastructureError: a program cannot be fetched; the message says what to do.
    """
    for spec in specs:
        agent = agents.get(spec.name)
        if not isinstance(agent, DescribedAgent):
            continue
        for package in agent.packages(spec.version, machine):
            from .fetch import fetch

            try:
                fetch(package, on_progress)
            except InputError as error:
                # The error is in the fetched archive, not in the user's input.
                raise InfrastructureError(f"{package} cannot be used: {error}") from None


def key_variables(agent: DescribedAgent) -> tuple[str, ...]:
    """Return the variables of which one is needed. Which one depends on the model."""
    description = agent.description
    providers = (description.provider,) if description.provider is not None else description.wires
    found = [PROVIDERS[name].key_variables for name in providers if name in PROVIDERS]
    return (*(variable for variables in found for variable in variables), *description.key_variables)


def missing_keys(
    agent: Agent,
    spec: AgentSpec,
    value_of: Callable[[str], str | None],
    params: Mapping[str, Any] | None = None,
) -> str | None:
    """Return what an agent lacks to reach its model, and the remedy; None if it lacks nothing.

    `value_of` returns the value of a variable, from wherever it is kept on this machine.

    Raises InputError: the provider of its model is unknown.
    """
    endpoints = getattr(agent, "endpoints", None)
    if endpoints is None:
        return None
    for endpoint in endpoints(spec, HOST, params or {}):
        if (why := missing_key(endpoint, value_of)) is not None:
            return f"agent {spec.label}: {why}"
    return None
