"""The context of one try of a trial, which its steps share."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from ..model.result import FailureClass, Trial, TrialResult
from ..model.scenario import Environment, Network, NetworkAccess, Scenario, Step
from ..sandbox.protocol import Sandbox
from ..store.layout import TrialLayout
from ..store.text import clean, one_line
from ..store.trials import TrialDirectory
from ..system.cutting import know_secrets
from ..system.redact import Redactor
from .ahead import Ahead
from .answering import is_question, was_question
from .cancellation import Cancellation
from .draft import Clock, Findings
from .ending import Ended
from .limits import Limits
from .phases import Phases
from .prepare import Prepared, Services
from .progress import Progress
from .secrets import env_file_secrets, secrets_of, together

_RETRIES_SHOWN = 3


class TrialContext:
    """One try of a trial: its subject, its findings, and its secrets.

    `original` is the result of a kept trial that is graded again; None: an agent runs. `before` is the previous try of
    the trial, which began with `clock`; `counted` is the gateway's count of a run that a used-up quota cut short.
    """

    def __init__(
        self,
        trial: Trial,
        services: Services,
        cancellation: Cancellation,
        directory: TrialDirectory,
        clock: Clock,
        original: TrialResult | None = None,
        before: TrialContext | None = None,
        counted: Mapping[str, Any] | None = None,
    ) -> None:
        self.trial = trial
        self.scenario = trial.scenario
        """The scenario; of a trial of several steps, the one of the current step alone."""
        self.services = services
        self.cancellation = cancellation
        self.directory = directory
        self.layout = directory.layout
        self.original = original
        self.limits = Limits(trial.scenario, services.config.of(trial.scenario.benchmark))
        self.config = self.limits.config
        self.phases = Phases(clock, cancellation, functools.partial(services.on_phase, trial))
        self.findings = Findings() if original is None else Findings.graded_anew(original)
        self.counted = counted
        """The gateway's count so far: limits and usage are those of all tries together."""
        if before is not None:
            self.findings.usage, self.findings.models = before.findings.usage, before.findings.models
            self.findings.grading_usage = before.findings.grading_usage
            self.findings.engine_retries = before.findings.engine_retries
            self.counted = before.counted
        self.secrets: Mapping[str, str] = {}
        self.redactor = Redactor({})
        # Keys of models may come back in an answer. Nothing in a sandbox gets them.
        keys = {} if services.models is None else services.models.known_keys
        self.keep_secret(secrets_of(trial.scenario, self.config, services.secrets), keys, env_file_secrets())
        self.is_question = (
            is_question(trial, self.config, services.agents, services.scorers)
            if original is None
            else was_question(original)
        )
        """True if the trial needs no container."""
        self.probed: dict[str, object] = {}
        """Name of a scorer -> what it is to know of the container, from before an agent was in it."""
        self.environment: Environment = trial.scenario.environment
        """Environment of the sandbox in use."""
        self.access: NetworkAccess = self.environment.access
        """Network of the sandbox in use."""
        self.ahead: Ahead[Any] | None = None
        """What makes sandboxes for grading ahead."""
        self.suspects_agent = False
        """True if the agent may be the cause when scorers or the engine break."""
        self.tells_usage = False
        """True if usage is read from the agent's report, because no gateway counts it."""
        self.ended: Ended | None = None
        """Processes and programs found at the end of the agent, once it has ended."""
        self.is_ended = False
        """True once the step that ends the agent is complete, including restarted services."""
        self.spoiled: tuple[FailureClass, str] | None = None
        """Reason why what the agent left cannot be graded."""
        self.turn = 1
        """Number of the agent's turn, where the scenario gives feedback or has several steps."""
        self.progress = Progress()
        """Progress through the steps of the scenario."""
        self.prepared: Prepared | None = None
        """The prepared trial, if it was prepared before this try."""
        self.retryable = False
        """True if another try may succeed."""
        self.is_spent = False
        """True once an agent that may cost something has begun."""
        self.output_was_lost: bool = before is not None and before.output_was_lost
        """True if the connection with the agent broke in an earlier try: the next time the agent is who closes it."""
        self.starts_over = False
        """True if another try costs nothing that was paid for."""
        self.is_cut = False
        """True if a used-up quota cut it short, so that it runs again later."""
        self.is_driven = False
        """True once an agent that is driven from outside has begun."""

    @property
    def params(self) -> dict[str, Any]:
        """Parameters of the job and of this agent in the matrix."""
        return {**self.config.params, **self.trial.agent.params}

    @property
    def has_another_turn(self) -> bool:
        """True if the agent gets another turn in its sandbox if this one does not pass."""
        feedback = self.scenario.feedback
        may = self.original is None and self.suspects_agent  # `oracle` and `nop` would do the same again
        return feedback is not None and may and self.turn < feedback.turns

    @property
    def goes_on(self) -> bool:
        """True if the agent may go on in its sandbox after this turn or step is graded."""
        return self.has_another_turn or self.has_another_step

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
        """Make `scenario` the one that is worked on, with its files in `layout`."""
        self.scenario, self.layout = scenario, layout
        self.limits = Limits(scenario, self.config)

    def begin_turn(self) -> None:
        """Reset the findings about the agent's turn for the next one. Usage, notes and scores of turns stay."""
        self.turn += 1
        self.findings.score = None
        self.findings.scorers.clear()
        self.findings.metrics.clear()
        self.findings.artifacts.clear()
        self.is_ended = False
        self.spoiled = None

    def keep_secret(self, *tables: Mapping[str, str]) -> None:
        """Also redact these values wherever anything is written."""
        self.secrets = together(self.secrets, *tables)
        self.redactor = Redactor(self.secrets)
        know_secrets(self.secrets.values())

    def note(self, text: str, error: Exception | None = None) -> None:
        """Add a note to the result, with the message of an error."""
        self.findings.notes.append(text if error is None else f"{text}: {clean(one_line(str(error), 300))}")

    def note_sandbox(self, sandbox: Sandbox) -> None:
        """Take over the notes of a sandbox, each once, and the calls of the engine that were made again for it."""
        self.findings.notes += (note for note in sandbox.notes if note not in self.findings.notes)
        again: tuple[str, ...] = getattr(sandbox, "engine_retries", ())
        if again:
            self.findings.engine_retries += len(again)
            shown = "; ".join(clean(one_line(line, 150)) for line in again[:_RETRIES_SHOWN])
            more = f"; and {len(again) - _RETRIES_SHOWN} more" if len(again) > _RETRIES_SHOWN else ""
            self.note(f"the engine was called again {len(again)} times: {shown}{more}")

    def switch_network(
        self, sandbox: Sandbox, network: Network | None, allowed_hosts: tuple[str, ...] | None
    ) -> None:
        """Give a sandbox the network that a step requests, else that of the scenario."""
        wanted = self.scenario.access_of(network, allowed_hosts, self.environment)
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
        self.findings.notes += (f"{whose}: {line}" for line in lines)
        return lines

    def drop_kept(self) -> None:
        """Remove the kept file systems of this trial, if this trial kept them."""
        if self.original is not None or self.is_question:
            return
        findings = self.findings
        kept = dict.fromkeys([*(step.kept for step in findings.steps), findings.kept])
        for reference in kept:
            if reference is not None:
                self.services.provider.forget_kept(reference)
        findings.kept = None
        findings.steps = [step.model_copy(update={"kept": None}) for step in findings.steps]
