"""Agents as settings name them, and their default provider and model."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..model.agent import COMMAND, AgentSpec
from ..model.errors import InputError
from ..system.paths import with_home

if TYPE_CHECKING:
    from .types import WrittenAgent

WITHOUT_MODEL = frozenset({"oracle", "nop", "baseline", COMMAND})
"""Agents that take no model."""


def read_agent(written: str | WrittenAgent, directory: Path) -> AgentSpec:
    """Return the agent that a file or option names; a path is from `directory`. InputError: the text is no agent."""
    spec = _read(written)
    if spec.path is None:
        return spec
    # Not resolved: a link may change, and is followed when the agent is needed.
    return changed(spec, path=os.path.abspath(directory / with_home(spec.path)))  # noqa: PTH100


def _read(written: str | WrittenAgent) -> AgentSpec:
    if isinstance(written, str):
        return AgentSpec.parse(written)
    if written.agent == COMMAND and written.model:
        # Without its shell command it is not an agent.
        written = written.model_copy(update={"agent": f"{COMMAND}:{written.model}", "model": None})
    name = AgentSpec.parse(written.agent)
    parts = name.model_dump()
    for part in ("model", "provider", "base_url", "params"):
        value = getattr(written, part)
        if value and parts[part]:
            raise InputError(f"agent {written.agent!r} already has a {part}")
        parts[part] = value or parts[part]
    if not parts["base_url"] or parts["base_url"].startswith(("http://", "https://")):
        return AgentSpec.model_validate(parts)
    raise InputError(f"{parts['base_url']!r} is not a URL; write http://HOST or https://HOST")


def takes_model(agent: AgentSpec) -> bool:
    """Return whether the agent takes a model."""
    return agent.name not in WITHOUT_MODEL and agent.command is None


def with_defaults(
    agents: Iterable[AgentSpec], provider: str | None, model: str | None
) -> tuple[AgentSpec, ...]:
    """Return the agents; those that name no provider or model get these."""
    return tuple(
        agent
        if not takes_model(agent)
        else changed(agent, provider=agent.provider or provider, model=agent.model or model)
        for agent in agents
    )


def changed(agent: AgentSpec, **parts: Any) -> AgentSpec:
    """Return the agent with other parts. Not by `model_copy`, which would keep the label."""
    return AgentSpec.model_validate({**agent.model_dump(), **parts})
