"""Registry of a pytest session: its agents, scorers and sandboxes, built in and from plugins.

Functions raise pytest.UsageError: for a name that is unknown or taken, and for what a file or a hook has wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

from ..model.errors import InputError
from ..sources.callables import kind_of
from .job_settings import settings_of
from .options import ini, usage_error
from .state import state_of

if TYPE_CHECKING:
    from ..agents.protocol import Agent
    from ..model.job import Owner
    from ..sandbox.protocol import SandboxProvider
    from ..scoring.protocol import Scorer
    from ..sources.protocol import Source


def agents_of(config: pytest.Config) -> dict[str, Agent]:
    """Return every agent by name: built in, installed, described in files, from plugins and conftest.py, given by path.

    Raises pytest.UsageError: a path is missing, or a hook returned an invalid value.
    """
    state = state_of(config)
    if state.agents is None:
        from ..agents.catalogue import all_agents
        from ..agents.given import given_agents

        root, paths = config.rootpath, ini(config, "bench_paths")
        here = config.invocation_params.dir
        places = (root, here, *(place / path for place in dict.fromkeys((root, here)) for path in paths))
        try:
            agents = all_agents(places, state.broken_agents)
            for added in config.hook.pytest_benchjobs_agents(config=config):
                agents.update(_agents(added))
            agents.update(given_agents(settings_of(config).job.agents))
        except InputError as error:
            raise usage_error(str(error)) from None
        state.agents = agents
    return state.agents


def scorers_of(config: pytest.Config) -> dict[str, Scorer]:
    """Return every type of scorer by name."""
    state = state_of(config)
    if state.scorers is None:
        from ..scoring.builtin import builtin_scorers
        from ..scoring.registering import installed_scorers

        try:
            scorers = {**builtin_scorers(), **installed_scorers(), **_marked(config)}
        except InputError as error:
            raise usage_error(str(error)) from None
        for added in config.hook.pytest_benchjobs_scorers(config=config):
            scorers.update(_scorers(added))
        state.scorers = scorers
    return state.scorers


def add_scorers(config: pytest.Config, sources: Sequence[Source]) -> None:
    """Make functions that benchmarks in Python have as scorers known. InputError: a name is taken."""
    for source in sources:
        if getattr(source, "scorers", None):
            from ..scoring.registering import add_scorers_of

            add_scorers_of(source, scorers_of(config))


def sandbox_of(config: pytest.Config) -> Callable[[Owner], SandboxProvider]:
    """Return what makes the provider of the session's job. InputError: there is none, or it has no such setting."""
    from ..job.provider import provider_of
    from ..sandbox.providers import builtin_providers

    kinds = dict(builtin_providers())
    for added in config.hook.pytest_benchjobs_sandboxes(config=config):
        kinds.update(named("pytest_benchjobs_sandboxes", added, callable, "classes"))
    return provider_of(settings_of(config).job, kinds)


def named(hook: str, added: object, fits: Callable[[object], bool], what: str) -> Mapping[str, Any]:
    """Validate a mapping of names to `what` that a hook returned; empty for None."""
    if added is None:
        return {}
    if not isinstance(added, Mapping):
        raise usage_error(f"hook {hook} returned {kind_of(added)}; return a dict of names to {what}, or None")
    for name, value in added.items():
        if not isinstance(name, str) or not fits(value):
            raise usage_error(
                f"hook {hook} returned a dict with {kind_of(name)}: {kind_of(value)}; return names to {what}"
            )
    return added


def is_path(value: object) -> bool:
    """Return whether a hook's value is a path."""
    return isinstance(value, str | Path)


def _marked(config: pytest.Config) -> Mapping[str, Scorer]:
    """Return the functions marked with `scorer` in every conftest.py and plugin."""
    from ..scoring.registering import marked_scorers

    found: dict[str, Scorer] = {}
    for module in config.pluginmanager.get_plugins():
        if not isinstance(module, ModuleType):
            continue
        for name, function in marked_scorers(module).items():
            if found.setdefault(name, function) is not function:
                where = sorted({found[name].__module__, function.__module__})
                raise InputError(f"@scorer({name!r}): two functions have this name, in {' and '.join(where)}")
    return found


def _scorers(added: object) -> Mapping[str, Any]:
    from ..scoring.registering import scorer_fault

    hook = "pytest_benchjobs_scorers"
    scorers = named(hook, added, lambda _: True, "functions")
    for name, scorer in scorers.items():
        if (fault := scorer_fault(scorer)) is not None:
            raise usage_error(f"hook {hook} returned a dict with {name!r}: {fault}")
    return scorers


def _agents(added: object) -> dict[str, Agent]:
    from ..agents.checking import agent_fault

    hook = "hook pytest_benchjobs_agents"
    if added is None:
        return {}
    if not isinstance(added, Iterable) or isinstance(added, str | bytes | Mapping):
        raise usage_error(f"{hook} returned {kind_of(added)}; return a list of agents, or None")
    agents: dict[str, Agent] = {}
    for agent in added:
        if (fault := agent_fault(agent)) is not None:
            raise usage_error(f"{hook} returned a list with {fault}")
        agents[agent.name] = agent
    return agents
