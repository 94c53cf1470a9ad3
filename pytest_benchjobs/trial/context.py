"""The context of one try of a trial, which its steps share."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..gateway.client import Route, RouteReport
from ..model.result import AgentEnd, FailureClass, ScorerResult, Trial, TrialResult
from ..model.scenario import Environment, Network, NetworkAccess, Scenario, ScorerSpec, Step
from ..sandbox.protocol import Sandbox
from ..scoring.needs import Needs, needs_of
from ..store.files import remove_tree
from ..store.layout import TrialLayout
from ..store.text import clean, one_line
from ..store.trials import TrialDirectory
from ..system.cutting import know_secrets
from ..system.redact import Redactor
from .answering import KEPT, is_question
from .cancellation import Cancellation
from .connection import usage_notes
from .draft import Clock, Findings, Phases
from .end_agent import Ended
from .limits import Limits
from .prepare import Prepared, Services
from .secrets import env_file_secrets, redact_files, secrets_of, together

if TYPE_CHECKING:
    from .sandboxes import Ahead

_RETRIES_SHOWN = 3


@dataclasses.dataclass(slots=True)
class Progress:
    """The step that a trial is at, and what is known of the earlier ones."""

    number: int = 0
    """Number of the step, counted from 0."""
    started: float = 0.0
    """Start of the step, in seconds since the trial began."""
    said: str | None = None
    """Reply that the agent gave in this step, as it is known before the agent's end is judged."""
    reply: str | None = None
    """Reply to grade. None: the agent did not run, or did not end by itself."""
    scorers: list[ScorerResult] = dataclasses.field(default_factory=list)
    """Results of the scorers of all ended steps."""
    ends: list[tuple[str, AgentEnd, Limits]] = dataclasses.field(default_factory=list)
    """Name, end of the agent, and limits of each ended step."""


@dataclasses.dataclass(eq=False)
class TrialContext:
    """One try of a trial: its subject, its findings, and its secrets.

    `before` is the previous try of the trial, which began with `clock`.
    """

    trial: Trial
    services: Services
    cancellation: Cancellation
    directory: TrialDirectory
    clock: dataclasses.InitVar[Clock]
    original: TrialResult | None = None
    """Result of a kept trial that is graded again; None: an agent runs."""
    before: dataclasses.InitVar[TrialContext | None] = None
    counted: Mapping[str, Any] | None = None
    """The gateway's count so far, also of a run that a used-up quota cut short: limits and usage are of all tries."""
    prepared: Prepared | None = None
    """The prepared trial, if it was prepared before this try."""

    secrets: Mapping[str, str] = dataclasses.field(default_factory=dict)
    probed: dict[str, object] = dataclasses.field(default_factory=dict)
    """Name of a scorer -> what it is to know of the container, from before an agent was in it."""
    progress: Progress = dataclasses.field(default_factory=Progress)
    """Progress through the steps of the scenario."""
    route: Route | None = None
    """Route of the agent to its models, open while it runs, if it needs one."""
    calls: Path | None = None
    """File of its calls there, where its steps are made from them."""
    calls_read: int = 0
    """Number of them in earlier turns."""
    ahead: Ahead | None = None
    """Maker of sandboxes for grading, ahead of their use."""
    turn: int = 1
    """Number of the agent's turn, where the scenario gives feedback or has several steps."""
    ended: Ended | None = None
    """Processes and programs found at the end of the agent, once it has ended."""
    is_ended: bool = False
    """True once the step that ends the agent is complete, including restarted services."""
    spoiled: tuple[FailureClass, str] | None = None
    """Reason why what the agent left cannot be graded."""
    suspects_agent: bool = False
    """True if the agent may be the cause when scorers or the engine break."""
    tells_usage: bool = False
    """True if usage is read from the agent's report, because no gateway counts it."""
    is_spent: bool = False
    """True once an agent that may cost something has begun."""
    is_driven: bool = False
    """True once an agent that is driven from outside has begun."""
    output_was_lost: bool = False
    """True if the connection with the agent broke in an earlier try: the next time the agent is who closes it."""

    def __post_init__(self, clock: Clock, before: TrialContext | None) -> None:
        trial, services, original = self.trial, self.services, self.original
        self.config = services.config.of(trial.scenario.benchmark)
        self.narrow(trial.scenario, self.directory.layout)
        self.environment: Environment = trial.scenario.environment
        """Environment of the sandbox in use."""
        self.access: NetworkAccess = self.environment.access()
        """Network of the sandbox in use."""
        self.phases = Phases(clock, self.cancellation, functools.partial(services.on_phase, trial))
        self.findings: Findings = Findings.begun(original, None if before is None else before.findings)
        if before is not None:
            self.counted, self.output_was_lost = before.counted, before.output_was_lost
        # Keys of models may come back in an answer. Nothing in a sandbox gets them.
        keys = {} if services.models is None else services.models.known_keys
        self.keep_secret(secrets_of(trial.scenario, self.config, services.secrets), keys, env_file_secrets())
        self.is_question = (
            is_question(trial, self.config, services.agents, services.scorers)
            if original is None
            else original.kept == KEPT
        )
        """True if the trial needs no container."""

    @property
    def params(self) -> dict[str, Any]:
        """Parameters of the job and of this agent in the matrix."""
        return {**self.config.params, **self.trial.agent.params}

    def needs(self, spec: ScorerSpec) -> Needs:
        """Return what the type of a scorer needs."""
        return needs_of(spec.type, self.services.scorers)

    @property
    def has_another_step(self) -> bool:
        """True if another step may follow the current one in the same sandbox."""
        return self.original is None and self.progress.number + 1 < len(self.trial.scenario.steps)

    @property
    def current_step(self) -> Step:
        """The step that the trial is at. Only for scenarios of several steps."""
        return self.trial.scenario.steps[self.progress.number]

    @property
    def is_conversation(self) -> bool:
        """True if the agent continues its conversation in this step, and its reply is graded."""
        return bool(self.trial.scenario.steps) and self.current_step.continues

    def narrow(self, scenario: Scenario, layout: TrialLayout) -> None:
        """Make `scenario` the one that is worked on, such as that of one step alone, with its files in `layout`."""
        self.scenario, self.layout = scenario, layout
        self.limits = Limits(scenario, self.config)

    def begin_turn(self, number: int) -> None:
        """Begin a turn of the agent, counted from 1, without findings of the one before."""
        findings = self.findings
        self.turn, self.is_ended, findings.score = number, False, None
        findings.scorers, findings.metrics, findings.artifacts = (), (), ()

    def keep_secret(self, *tables: Mapping[str, str]) -> None:
        """Also redact these values wherever anything is written."""
        self.secrets = together(self.secrets, *tables)
        self.redactor = Redactor(self.secrets)
        know_secrets(self.secrets.values())

    def redact_output(self) -> None:
        """Redact the files of this try, which may have secrets from the sandbox. Remove those that cannot be."""
        if not self.secrets:
            return
        findings, redactor = self.findings, Redactor(self.secrets, patterns=())
        for directory in (self.layout.artifacts, self.layout.scorers):
            try:
                moved = redact_files(directory, redactor, self.redactor)
                kept = tuple(moved.get(name, name) for name in findings.artifacts)
            except OSError as error:
                remove_tree(directory)
                kept, why = (), f"so it was removed: {error.strerror}"
                self.note(f"{directory.name} could not be cleared of secrets, {why}")
            if directory == self.layout.artifacts:
                findings.artifacts = kept

    def note(self, text: str, error: Exception | None = None) -> None:
        """Add a note to the result, with the message of an error."""
        self.findings.notes += (text if error is None else f"{text}: {clean(one_line(str(error), 300))}",)

    def note_once(self, notes: Iterable[str]) -> None:
        """Add those notes that the result does not have."""
        self.findings.notes += tuple(note for note in notes if note not in self.findings.notes)

    def note_sandbox(self, sandbox: Sandbox) -> None:
        """Take over the notes of a sandbox, each once, and the calls of the engine that were made again for it."""
        self.note_once(sandbox.notes)
        again: tuple[str, ...] = getattr(sandbox, "engine_retries", ())
        if again:
            self.findings.engine_retries += len(again)
            shown = "; ".join(clean(one_line(line, 150)) for line in again[:_RETRIES_SHOWN])
            more = f"; and {len(again) - _RETRIES_SHOWN} more" if len(again) > _RETRIES_SHOWN else ""
            self.note(f"the engine was called again {len(again)} times: {shown}{more}")

    def note_report(self, report: RouteReport, whose: str = "") -> None:
        """Add notes about the calls of a route, and stop the job where these reached a limit of it."""
        self.findings.notes += tuple(f"{whose}{note}" for note in usage_notes(report))
        if report.job_stopped is not None:
            self.services.on_spent(report.job_message or "a limit of the job was reached")

    def switch_network(
        self, sandbox: Sandbox, network: Network | None, allowed_hosts: tuple[str, ...] | None
    ) -> None:
        """Give a sandbox the network that a step requests, else that of the scenario."""
        wanted = self.environment.access(network, allowed_hosts)
        if wanted != self.access:
            sandbox.set_network(wanted.network, wanted.allowed_hosts)
            self.access = wanted

    def note_refused(
        self, sandbox: Sandbox, whose: str, access: NetworkAccess | None = None
    ) -> tuple[str, ...]:
        """Add notes about connections that the allowlist did not permit, and return them without `whose`."""
        if (access or self.access).network != "allowlist":
            return ()
        lines = tuple(clean(one_line(line, 500)) for line in sandbox.refused())
        self.findings.notes += tuple(f"{whose}: {line}" for line in lines)
        return lines

    def drop_kept(self) -> None:
        """Remove the kept file systems of this trial, if this trial kept them."""
        if self.original is not None or self.is_question:
            return
        findings = self.findings
        for reference in dict.fromkeys([*(step.kept for step in findings.steps), findings.kept]):
            if reference is not None:
                self.services.provider.forget_kept(reference)
        findings.kept = None
        findings.steps = tuple(step.model_copy(update={"kept": None}) for step in findings.steps)
