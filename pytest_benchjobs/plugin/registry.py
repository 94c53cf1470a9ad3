"""What a pytest session knows: agents, scorers and sandboxes, of ours and of plugins; and its job, once it has one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from ..agents.protocol import Agent
    from ..sandbox.protocol import SandboxProvider
    from ..scoring.protocol import Scorer
    from .session import BenchSession

SESSION = pytest.StashKey["BenchSession"]()
_AGENTS = pytest.StashKey[dict[str, "Agent"]]()
_SCORERS = pytest.StashKey[dict[str, "Scorer"]]()


def begun(config: pytest.Config) -> BenchSession | None:
    """The job of this pytest session, if there is one."""
    return config.stash.get(SESSION, None)


def agents_of(config: pytest.Config) -> dict[str, Agent]:
    """Every agent by name: built in, of plugins, of conftest.py files."""
    if _AGENTS not in config.stash:
        from ..agents.builtin import builtin_agents

        agents = {agent.name: agent for agent in builtin_agents()}
        for added in config.hook.pytest_benchjobs_agents(config=config):
            agents.update({agent.name: agent for agent in added or ()})
        config.stash[_AGENTS] = agents
    return config.stash[_AGENTS]


def scorers_of(config: pytest.Config) -> dict[str, Scorer]:
    """Every kind of scorer by name."""
    if _SCORERS not in config.stash:
        from ..scoring.builtin import builtin_scorers

        scorers = dict(builtin_scorers())
        for added in config.hook.pytest_benchjobs_scorers(config=config):
            scorers.update(added or {})
        config.stash[_SCORERS] = scorers
    return config.stash[_SCORERS]


def provider_of(config: pytest.Config, name: str) -> SandboxProvider:
    """A provider of the sandboxes that `--bench-sandbox` names.

    Raises:
        pytest.UsageError: nobody provides them.
        InfrastructureError: the engine does not answer.
    """
    from ..sources import did_you_mean

    kinds: dict[str, type[SandboxProvider] | None] = {"docker": None}
    for added in config.hook.pytest_benchjobs_sandboxes(config=config):
        kinds.update(added or {})
    if name not in kinds:
        hint = did_you_mean(name, kinds).strip() or f"there are: {', '.join(sorted(kinds))}"
        raise pytest.UsageError(f"--bench-sandbox: there is no sandbox {name!r}; {hint}")
    make: Callable[..., SandboxProvider] | None = kinds[name]
    if make is None:
        from ..sandbox.docker import DockerProvider

        make = DockerProvider
    from ..model.owner import current_owner

    return make(current_owner())
