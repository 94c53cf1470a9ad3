"""Agents from other places: agent files of a project, and installed Python packages."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from ..model.errors import InputError
from ..system.installed import entry_points
from .builtin import RESERVED, builtin_agents
from .checking import agent_fault
from .described import SUFFIXES, DescribedAgent
from .protocol import Agent

GROUP = "benchjobs.agents"
"""Entry points of this group are an agent, or a callable without arguments that returns one."""


def all_agents(directories: Iterable[Path], broken: dict[str, InputError] | None = None) -> dict[str, Agent]:
    """All agents known without a conftest.py: built in, installed, and described in files of these directories.

    Of agents with the same name, the last one in that order counts.

    Args:
        directories: Those with agent files.
        broken: Gets the errors of wrong files by the names of their agents, which are left out then.

    Raises InputError: a file is wrong, and `broken` is not given, or an entry point is not an agent.
    """
    wrong: dict[str, InputError] = {}
    built_in = {agent.name: agent for agent in builtin_agents()}
    known = {**built_in, **_installed(), **_described_in(directories, wrong)}
    if broken is None and wrong:
        raise next(iter(wrong.values()))
    (broken if broken is not None else {}).update(wrong)
    return {name: agent for name, agent in known.items() if name not in wrong}


def _described_in(directories: Iterable[Path], wrong: dict[str, InputError]) -> Mapping[str, Agent]:
    found: dict[str, Agent] = {}
    files: dict[str, Path] = {}
    paths = (
        path for directory in directories for suffix in SUFFIXES for path in directory.glob(f"*{suffix}")
    )
    for path in sorted({path.resolve() for path in paths if path.is_file()}):
        try:
            agent = DescribedAgent.of_file(path)
        except InputError as error:
            wrong[_name_in(path)] = error
            continue
        if agent.name in RESERVED:
            why = f"{agent.name!r} is the name of a built-in agent; choose another"
            wrong[str(path)] = InputError(why, path=path)  # who names the other means that
            continue
        if agent.name in files:
            why = f"describes {agent.name!r}, and so does {files[agent.name]}; remove one"
            wrong[agent.name] = InputError(why, path=path)
        found[agent.name], files[agent.name] = agent, path
    return found


def _name_in(path: Path) -> str:
    """Return the name that a wrong file seems to give its agent, else that of the file."""
    with contextlib.suppress(OSError):
        if (
            found := re.search(
                rb"^[{ ]*[\"']?name[\"']?\s*[=:]\s*[\"']?([\w.+-]+)", path.read_bytes(), re.MULTILINE
            )
        ) is not None:
            return found[1].decode("ascii", "replace")
    return path.name.partition(".agent.")[0]


def _installed() -> Mapping[str, Agent]:
    found: dict[str, Agent] = {}
    for point in entry_points(GROUP):
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
