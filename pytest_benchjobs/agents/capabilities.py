"""Capabilities of agents, and requirements of scenarios."""

from __future__ import annotations

from collections.abc import Iterable

from pydantic import TypeAdapter, ValidationError

from ..model.base import Capability
from ..model.errors import AgentLacks, InputError
from ..model.scenario import Scenario
from .protocol import Agent

CODE = ("code.read", "code.write", "code.edit", "code.search", "code.shell")
"""Work on the files of a repository, by tools or by commands of a shell."""
MCP_SERVERS, SKILLS = "mcp-servers", "skills"
"""Capabilities of agents that are handed the scenario's MCP servers and skills."""
_CAPABILITIES: TypeAdapter[frozenset[str]] = TypeAdapter(frozenset[Capability])


def capabilities_of(agent: Agent) -> frozenset[str] | None:
    """The capabilities that an agent declares; None: it declares none.

    Raises InputError: they are not a set of capabilities.
    """
    said = getattr(agent, "capabilities", None)
    if said is None:
        return None
    try:
        if isinstance(said, Iterable) and not isinstance(said, str):
            return _CAPABILITIES.validate_python(frozenset(said), strict=True)
    except (ValidationError, TypeError):
        pass
    raise InputError(
        f"agent {agent.name!r}: `capabilities` must be a set of lower-case strings such as 'vision'; without it, every "
        "capability is assumed"
    )


def check_handed(scenario: Scenario, agent: Agent) -> None:
    """Check that an agent takes what the scenario hands it: MCP servers, skills.

    One that declares no capabilities is assumed to; reference solutions need nothing.

    Raises AgentLacks: it does not.
    """
    environment = scenario.environment
    handed = {MCP_SERVERS: bool(environment.mcp_servers), SKILLS: environment.skills_dir is not None}
    has = None if agent.trusted or not any(handed.values()) else capabilities_of(agent)
    if has is None:
        return
    words = {MCP_SERVERS: "MCP servers", SKILLS: "skills"}
    missing = [words[name] for name, given in handed.items() if given and name not in has]
    if missing:
        raise AgentLacks(
            f"the scenario has {' and '.join(missing)} for its agent, and {agent.name} takes none; use another agent, "
            "or leave the scenario out"
        )


def incompatibility(scenario: Scenario, agent: Agent) -> str | None:
    """Reason why a scenario cannot run with an agent; None if nothing is known to be missing."""
    required = scenario.requires.capabilities
    has = capabilities_of(agent) if required else None
    if has is None:
        return None
    missing = [f"no {name}" for name in dict.fromkeys(required) if name not in has]
    return f"incompatible: {agent.name} has {' and '.join(missing)}" if missing else None
