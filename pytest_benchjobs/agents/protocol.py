"""Protocol of agents: data in, a command out."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from ..model.agent import AgentSpec
from ..model.ending import Ending
from ..model.endpoint import Endpoint
from ..model.scenario import Scenario
from ..sandbox.protocol import File, Mount

PROBLEM_FILE = "/bench/problem.md"
PROBLEM_VARIABLE = "BENCH_PROBLEM_FILE"
"""Variable with that path, for every agent; by it, commands of agents are told from others."""


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
    """Path of the problem statement in the sandbox, also in `$BENCH_PROBLEM_FILE`."""
    attempt: int = 1
    """Number of this one of several independent repeats."""
    params: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Keys of `--bench-extra` and `--bench-matrix` that are for agents, also as JSON in `$BENCH_PARAMS`."""


class Shell(Protocol):
    """Access of an agent that runs on the host to the sandbox."""

    def run(self, command: str, timeout: float) -> tuple[int | None, str]:
        """Run a shell command as the agent's user in the workdir: exit status (None: timed out), and its output."""

    def write(self, path: str, content: bytes) -> None:
        """Write a file; a relative path starts at the workdir."""

    def post(self, url: str, body: Mapping[str, Any]) -> tuple[int, Any]:
        """POST JSON to a URL of the gateway (`GATEWAY_URL`): status and JSON of the answer.

        Raises:
            ConnectionError: the answer broke off.
            TimeoutError: the agent's time is up, or it has to stop for another reason.
        """

    def log(self, line: str) -> None:
        """Add a line to the agent's log."""

    @property
    def stopped(self) -> bool:
        """True if it has to end: time is up, or the trial was cancelled."""


@dataclasses.dataclass(frozen=True, slots=True)
class AgentReading:
    """Facts from an agent's output. No score relies on any of it."""

    ending: Ending | None = None
    message: str | None = None
    """In a line, such as the last error."""
    steps: int = 0
    """Written to the trajectory."""


@dataclasses.dataclass(frozen=True, slots=True)
class AgentCommand:
    """One run of an agent: its command and all it needs.

    It is part of the signature of a trial: no random value, no clock, and of machines no path but mounts' sources.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str] = dataclasses.field(default_factory=dict)
    files: tuple[File, ...] = ()
    """Put in just before it starts."""
    user: str | None = None
    """Default: the scenario's `agent_user`."""
    identity: str = ""
    """Further text that decides its behaviour, beside the command: its version, the digest of its program.

    Without it, the source of `host` and of the agent's class is what decides.
    """
    version: str | None = None
    """Of the program that runs, for the result. It decides nothing: see `identity`."""
    mounts: tuple[Mount, ...] = ()
    """Mounts the sandbox sees read-only, such as the agent's program."""
    endpoints: tuple[Endpoint, ...] = ()
    """Models it needs. It reaches each at `GATEWAY_URL`, with `PLACEHOLDER_KEY`, and nothing else for it."""
    models: tuple[str, ...] = ()
    """Models it may call, as their endpoint names them: the one it is asked for first, then small ones it uses beside
    it; `*` stands for anything. None: only `AgentSpec.model`."""
    host: Callable[[Shell], int] | None = None
    """For an agent that runs on this machine instead of `argv`, in the thread of the trial: returns its exit status."""
    read: Callable[[Path, Path], AgentReading] | None = None
    """Reads the agent's log (first path) and writes its trajectory (second path). Never raises."""


class Agent(Protocol):
    """A kind of agent. Give one to `pytest_benchjobs_agents` in a conftest.py or plugin.

    One that also has `capabilities`, a frozenset of texts, skips scenarios which require others. Without it, or with
    None, nothing is known, and everything is assumed.

    One that also has `answers(params) -> bool`, and returns True, answers a question without a container: it does
    nothing, or its command is a `host` that runs no command and writes the one file `scenario.question.file`.
    """

    @property
    def name(self) -> str:
        """Name before the colon."""

    @property
    def needs_model(self) -> bool:
        """True if `name` alone is an error."""

    @property
    def trusted(self) -> bool:
        """True only for what the benchmark's author wrote: its exit status is a note, its sandbox is not searched."""

    def prepare(self, call: AgentCall) -> AgentCommand | None:
        """The command that solves the scenario; None to do nothing.

        Raises:
            AgentSetupFailed: the scenario or the environment lacks what it needs.
        """
