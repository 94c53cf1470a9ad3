"""Agents from other places: agent files of a project, and installed Python packages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib import metadata
from pathlib import Path

from ..model.errors import InputError
from .builtin import RESERVED, builtin_agents
from .checking import agent_fault
from .described import SUFFIXES, DescribedAgent
from .protocol import Agent

GROUP = "benchjobs.agents"
"""Entry points of this group are an agent, or a callable without arguments that returns one."""


def all_agents(directories: Iterable[Path]) -> dict[str, Agent]:
    """All agents known without a conftest.py: built in, installed, and described in files of these directories.

    Of agents with the same name, the last one in that order counts.

    Raises:
        InputError: a file is wrong, or an entry point is not an agent.
    """
    built_in = {agent.name: agent for agent in builtin_agents()}
    return {**built_in, **_installed(), **_described_in(directories)}


def _described_in(directories: Iterable[Path]) -> Mapping[str, Agent]:
    found: dict[str, Agent] = {}
    files: dict[str, Path] = {}
    paths = (
        path for directory in directories for suffix in SUFFIXES for path in directory.glob(f"*{suffix}")
    )
    for path in sorted({path.resolve() for path in paths if path.is_file()}):
        agent = DescribedAgent.of_file(path)
        if agent.name in RESERVED:
            raise InputError(f"{agent.name!r} is the name of a built-in agent; choose another", path=path)
        if agent.name in files:
            raise InputError(
                f"describes {agent.name!r}, and so does {files[agent.name]}; remove one", path=path
            )
        found[agent.name], files[agent.name] = agent, path
    return found


def _installed() -> Mapping[str, Agent]:
    found: dict[str, Agent] = {}
    for point in metadata.entry_points(group=GROUP):
        blame = f"entry point {point.name} = {point.value} of {GROUP}"
        try:
            loaded = point.load()
            agent = loaded if agent_fault(loaded) is None or not callable(loaded) else loaded()
        except Exception as error:
            why = f"{type(error).__name__}: {str(error)[:300]}"
            raise InputError(f"{blame} cannot be loaded: {why}; fix or remove the package") from None
        if (fault := agent_fault(agent)) is not None:
            raise InputError(f"{blame} gives {fault}")
        found[agent.name] = agent
    return found
