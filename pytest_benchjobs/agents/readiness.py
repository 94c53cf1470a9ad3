"""Checks before the first trial of a job: agents are here, and they have keys."""

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
    agents: Mapping[str, Agent], specs: Iterable[AgentSpec], on_progress: Callable[[str], None]
) -> None:
    """Fetch what these agents need and this machine has not. Whoever asks second waits for whoever asked first.

    Raises:
        InfrastructureError: something cannot be fetched; it says what to do.
    """
    for spec in specs:
        agent = agents.get(spec.name)
        if not isinstance(agent, DescribedAgent):
            continue
        for package in agent.packages(spec.version):
            from .fetch import fetch

            try:
                fetch(package, on_progress)
            except InputError as error:
                # Not what the user gave, but what came.
                raise InfrastructureError(f"{package} cannot be used: {error}") from None


def key_variables(agent: DescribedAgent) -> tuple[str, ...]:
    """Return the variables of which one is needed, whatever its model; which of them, only the model tells."""
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
    """Return what an agent lacks before it can reach its model, and what to do about it; None when it lacks nothing.

    `value_of` gives the value of a variable, wherever on this machine it is kept.

    Raises:
        InputError: the provider of its model is unknown.
    """
    endpoints = getattr(agent, "endpoints", None)
    if endpoints is None:
        return None
    for endpoint in endpoints(spec, HOST, params or {}):
        if (why := missing_key(endpoint, value_of)) is not None:
            return f"agent {spec.label}: {why}"
    return None
