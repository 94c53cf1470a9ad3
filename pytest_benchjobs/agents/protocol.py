"""What an agent is: data in, a command out."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Protocol

from ..model.agent import AgentSpec
from ..model.scenario import Scenario
from ..sandbox.protocol import File

PROBLEM_FILE = "/bench/problem.md"


@dataclasses.dataclass(frozen=True, slots=True)
class AgentCall:
    """One call of an agent: everything it may know."""

    scenario: Scenario
    spec: AgentSpec
    env: Mapping[str, str]
    """Variables the job passes to agents (`--bench-env`, the scenario's `agent_env`)."""
    timeout: float
    """Seconds until it is stopped."""
    problem_file: str = PROBLEM_FILE
    """Where in the sandbox the problem statement is, also in `$BENCH_PROBLEM_FILE`."""
    params: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Keys of `--bench-extra` and `--bench-matrix` that are for agents, also as JSON in `$BENCH_PARAMS`."""


@dataclasses.dataclass(frozen=True, slots=True)
class AgentCommand:
    """How to run it, once."""

    argv: tuple[str, ...]
    env: Mapping[str, str] = dataclasses.field(default_factory=dict)
    files: tuple[File, ...] = ()
    """Put in just before it starts."""
    user: str | None = None
    """Default: the scenario's `agent_user`."""


class Agent(Protocol):
    """A kind of agent. Give one to `pytest_benchjobs_agents` in a conftest.py or plugin."""

    @property
    def name(self) -> str:
        """What is written before the colon."""

    @property
    def needs_model(self) -> bool:
        """Whether `name` alone is an error."""

    @property
    def trusted(self) -> bool:
        """True only for what the benchmark's author wrote: its exit status is a note, its sandbox is not searched."""

    def prepare(self, call: AgentCall) -> AgentCommand | None:
        """The command that solves the scenario; None to do nothing.

        Raises:
            AgentSetupFailed: the scenario or the environment lacks what it needs.

        """
