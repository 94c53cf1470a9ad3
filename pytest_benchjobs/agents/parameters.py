"""Parameters that no agent of a job reads: most often a typing error, or an option for another agent."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from ..model.agent import AgentSpec
from .protocol import Agent
from .providers import KEY_PARAMETER

_OF_ENDPOINTS = ("_base_url", KEY_PARAMETER)
"""Ends of the names of parameters about endpoints, which judges read as well."""


def unread(
    params: Iterable[str], specs: Collection[AgentSpec], agents: Mapping[str, Agent]
) -> tuple[str, ...]:
    """Return the names of parameters that no agent reads, as far as agents say what they read.

    `params` are those of all agents; each of `specs` may have more of its own.
    """
    own = {name for spec in specs for name in spec.params}
    every = frozenset(params)
    return tuple(
        sorted(
            name
            for name in every | own
            if not name.endswith(_OF_ENDPOINTS)
            and not any(
                _reads(agents.get(spec.name), name) for spec in specs if name in every or name in spec.params
            )
        )
    )


def _reads(agent: Agent | None, name: str) -> bool:
    known = getattr(agent, "parameters", None)
    return known is None or name in known
