"""Protocol of agents: data in, a command out."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from ..model.agent import AgentSpec
from ..model.ending import Ending
from ..model.endpoint import Endpoint
from ..model.result import Failure, Outcome, ScorerResult
from ..model.scenario import Scenario
from ..sandbox.protocol import File, Mount

PROBLEM_FILE = "/bench/problem.md"
MCP_VARIABLE = "BENCH_MCP_SERVERS"
"""Variable with the scenario's MCP servers as JSON, for every agent of a scenario with any."""
SKILLS_VARIABLE = "BENCH_SKILLS_DIR"
"""Variable with the directory that has the scenario's skills, likewise."""
PROBLEM_VARIABLE = "BENCH_PROBLEM_FILE"
"""Variable with that path, for every agent. It distinguishes commands of agents from others."""


@dataclasses.dataclass(frozen=True, slots=True)
class Exchange:
    """One turn of a conversation."""

    message: str
    reply: str


@dataclasses.dataclass(slots=True)
class Conversation:
    """A conversation of several turns with one agent, in one trial."""

    exchanges: list[Exchange] = dataclasses.field(default_factory=list)
    """The turns so far. None: this is the first."""
    memory: dict[str, Any] = dataclasses.field(default_factory=dict)
    """For an agent that works from this machine: what it wants to know in its next turn."""


@dataclasses.dataclass(frozen=True, slots=True)
class AgentCall:
    """One call of an agent, with everything the agent may know."""

    scenario: Scenario
    spec: AgentSpec
    env: Mapping[str, str]
    """Variables the job passes to agents (`--bench-env`, the scenario's `agent_env`)."""
    timeout: float
    """Seconds until it is stopped."""
    problem_file: str = PROBLEM_FILE
    """Path of the problem statement in the sandbox, also in `$BENCH_PROBLEM_FILE`."""
    attempt: int = 1
    """Number of this attempt, of several independent repeats."""
    params: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Keys of `--bench-extra` and `--bench-matrix` for agents, also as JSON in `$BENCH_PARAMS`."""
    conversation: Conversation | None = None
    """The conversation that this call is a turn of. None: the scenario is one task, or the steps have nothing to do
    with each other."""
    machine: Callable[[], str | None] = lambda: None
    """Asks the sandboxes for their `uname -m`. None: it is that of this machine, or no engine answers."""


class Shell(Protocol):
    """Access to the sandbox for an agent that runs on this machine."""

    def run(self, command: str, timeout: float) -> tuple[int | None, str]:
        """Run a shell command as the agent's user in the workdir; returns exit status (None: timed out) and output."""

    def write(self, path: str, content: bytes) -> None:
        """Write a file; a relative path starts at the workdir."""

    def post(self, url: str, body: Mapping[str, Any]) -> tuple[int, Any]:
        """POST JSON to a URL of the gateway (`GATEWAY_URL`): status and JSON of the answer.

        Raises ConnectionError: the answer broke off; TimeoutError: the agent's time is up, or it has to stop for
        another reason.
        """

    def log(self, line: str) -> None:
        """Add a line to the agent's log."""

    def reply(self, text: str) -> None:
        """Give the agent's reply, where a conversation is graded by it. The last one counts."""

    @property
    def stopped(self) -> bool:
        """True if the agent must end: its time is up, or the trial was cancelled."""


class DrivenShell(Shell, Protocol):
    """Access to the sandbox for the driver of an agent from outside: a test function, a script, a person."""

    def run(
        self,
        command: str,
        timeout: float,
        *,
        user: str | None = None,
        env: Mapping[str, str] | None = None,
        workdir: str | None = None,
    ) -> tuple[int | None, str]:
        """Run a shell command; by default as the agent's user, in the workdir."""

    def write(self, path: str, content: bytes, mode: int | None = None) -> None:
        """Write a file; a relative path starts at the workdir."""

    def read(self, path: str, limit: int) -> bytes | None:
        """Read a regular file, None if there is none. More than `limit` bytes is a ValueError."""

    def snapshot(self, name: str) -> str:
        """Keep the file system as it is now; returns the reference of what is kept."""

    def pause(self) -> None:
        """Stop the clock of the agent's timeout: a person looks at it."""

    def resume(self) -> None:
        """Let the clock of the agent's timeout run again."""

    @property
    def workdir(self) -> str:
        """Absolute path that commands run in."""

    @property
    def container(self) -> str:
        """Id of the sandbox, as its engine names it."""

    @property
    def gateway(self) -> Path | None:
        """Socket of this machine at which the trial's gateway answers HTTP; None: it calls no model."""

    @property
    def calls(self) -> Path | None:
        """File to which the gateway writes the calls of models, but those by `post`; None: it calls no model."""

    @property
    def scores(self) -> tuple[float, ...]:
        """Scores of earlier turns."""


@dataclasses.dataclass(frozen=True, slots=True)
class TrialScore:
    """The score of a trial whose sandbox is still there."""

    outcome: Outcome | None
    """None: the agent has another turn."""
    score: float | None
    """None: an error, or no score yet."""
    scorers: tuple[ScorerResult, ...] = ()
    """Results of the scorers; none if the scenario is confidential."""
    failure: Failure | None = None
    """Reason for not passing."""

    @property
    def passed(self) -> bool:
        """True if the trial passes."""
        return self.outcome is Outcome.PASSED

    @property
    def final(self) -> bool:
        """False if the scenario gives feedback, and the agent has another turn."""
        return self.outcome is not None


@dataclasses.dataclass(frozen=True, slots=True)
class AgentReading:
    """Facts from an agent's output. No score depends on them."""

    ending: Ending | None = None
    message: str | None = None
    """One line, such as the last error."""
    steps: int = 0
    """Steps written to the trajectory."""
    reply: str | None = None
    """The last message of the agent. None: unknown; what it printed is its reply then."""


@dataclasses.dataclass(frozen=True, slots=True)
class AgentCommand:
    """One run of an agent: its command and all it needs.

    It is part of the signature of a trial, so it has no random values, no times, and no paths of the machine but the
    sources of mounts.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str] = dataclasses.field(default_factory=dict)
    files: tuple[File, ...] = ()
    """Files copied in just before it starts."""
    user: str | None = None
    """Default: the scenario's `agent_user`."""
    identity: str = ""
    """Further text that decides its behaviour, beside the command: its version, the digest of its program.

    Without it, the source code of `host` and of the agent's class is used.
    """
    version: str | None = None
    """Version of the program, for the result. It is not part of the signature: see `identity`."""
    mounts: tuple[Mount, ...] = ()
    """Mounts the sandbox sees read-only, such as the agent's program."""
    endpoints: tuple[Endpoint, ...] = ()
    """Endpoints it needs. It reaches each at `GATEWAY_URL`, with `PLACEHOLDER_KEY`, and in no other way."""
    models: tuple[str, ...] = ()
    """Models it may call, as their endpoint names them: its own first, then small ones; `*` stands for anything. None:
    only `AgentSpec.model`."""
    host: Callable[[DrivenShell], int] | None = None
    """Function to run on this machine instead of `argv`, in the thread of the trial; returns an exit status."""
    hold: Callable[[DrivenShell, TrialScore], None] | None = None
    """Function to run once the work is scored, before the sandbox is removed. Its `host` is driven from outside, so
    nothing is tried again after it began."""
    patience: float = 0.0
    """Further seconds for which the sandbox lives, as a person may look at it."""
    skills: str | None = None
    """Directory in the sandbox that the scenario's skills are copied to, before it starts."""
    read: Callable[[Path, Path], AgentReading] | None = None
    """Reads the agent's log (first path) and writes its trajectory (second path). Never raises."""


class Agent(Protocol):
    """An agent. Register one with `pytest_benchjobs_agents` in a conftest.py or plugin.

    If it also has `capabilities`, a frozenset of texts, scenarios that require others are skipped. Without it, or with
    None, nothing is known, and all capabilities are assumed.

    If it also has `resumes`, which is True, it continues the conversation of `AgentCall.conversation` by itself, and
    its problem statement is the new message alone. Any other agent gets the conversation so far.

    If it also has `parameters`, a frozenset of the names of the parameters it reads, others are reported. Without it,
    or with None, it may read any.

    If it also has `answers(params) -> bool`, which returns True, it answers a question without a container: it does
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
        """True only for solutions of the benchmark's author: its exit status is noted, its sandbox is not searched."""

    def prepare(self, call: AgentCall) -> AgentCommand | None:
        """The command that solves the scenario; None to do nothing.

        Raises AgentSetupFailed: the scenario or the environment lacks what it needs.
        """
