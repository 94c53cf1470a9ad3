"""Fate of a trial: it runs, has a result already, or is skipped. Decided here for runs and for plans."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ..agents.capabilities import incompatibility
from ..model.result import INCOMPATIBLE, Failure, Outcome
from ..sandbox.memory import NO_IMAGE
from ..sandbox.protocol import ImageRequest
from ..store.text import clean
from ..trial.answering import is_question
from ..trial.prepare import Prepared, Services, prepare

if TYPE_CHECKING:
    from ..agents.protocol import Agent
    from ..model.job import JobConfig
    from ..model.result import Trial, TrialResult
    from ..model.scenario import Environment
    from ..store.bundle import JobBundle
    from .reuse import Reuse
    from .ticket import Ticket

_REAL = (Outcome.PASSED, Outcome.FAILED)


@dataclasses.dataclass(frozen=True, slots=True)
class Run:
    """The trial runs."""

    why: str | None = None
    """Reason why no earlier result is reused. None: reuse was not requested."""
    prepared: Prepared | None = None
    """The prepared trial, if the decision needed it."""
    image_key: str | None = None
    problem: str | None = None
    """Reason why the trial would end in an error, if one is known."""


@dataclasses.dataclass(frozen=True, slots=True)
class Take:
    """The trial has a result, of this job or of an earlier one."""

    result: TrialResult
    why: str | None = None
    """Origin of a reused result. None: the result is of this job."""
    image_key: str | None = None
    is_stale: bool = False
    """True if the trial's known-failure entry differs from the one in the bundle."""


@dataclasses.dataclass(frozen=True, slots=True)
class Skip:
    """The trial is not to run."""

    why: Failure


Fate = Run | Take | Skip


@dataclasses.dataclass(slots=True)
class Fates:
    """Decides the fate of the trials of one job."""

    job: JobConfig
    bundle: JobBundle
    agents: Mapping[str, Agent]
    resumed: bool = False
    rescored: bool = False
    decided: dict[tuple[str, str], str] = dataclasses.field(default_factory=dict)
    """Benchmark and agent -> why no further attempt of it runs."""
    changed: dict[str, str] = dataclasses.field(default_factory=dict)
    """Trials that ended before the job was resumed -> the parts of their signature that changed."""
    services: Services | None = None
    """Services to prepare trials with; without them, only checks that need no sandboxes are made."""
    reuse: Reuse | None = None

    def may_take(self, ticket: Ticket) -> bool:
        """Return whether a trial may already have a result. Cheap."""
        # A worker that died may have left results of a group of attempts.
        return self.resumed or self.reuse is not None or ticket.shares_verdict

    def decide(self, ticket: Ticket, trial: Trial) -> Fate:
        """Decide the fate of a trial."""
        own = self._own(ticket, trial)
        if own is not None:
            if own.known == trial.known:
                return Take(own)
            # The known-failure entry has changed since the trial ended.
            return Take(own.model_copy(update={"known": trial.known}), is_stale=True)
        skip = self.skip(ticket, trial)
        if skip is not None:
            return skip
        if self.reuse is None or self.services is None or ticket.is_driven:
            return Run()
        prepared: Prepared | None = None
        key: str | None = None
        try:
            prepared = prepare(trial, self.services)
            key = self.image_key(trial)
            result, why = self.reuse.decide(trial, prepared.parts, key)
        except Exception as error:  # the trial reports it as an error when it runs
            problem = clean(str(error) or type(error).__name__, 2000)
            return Run("its signature cannot be computed", prepared, key, problem)
        return Run(why, prepared, key) if result is None else Take(result, why, key)

    def skip(self, ticket: Ticket, trial: Trial) -> Skip | None:
        """Decide whether a trial is skipped: by a mark, by a decided round, or for a missing requirement."""
        return self.skip_unread(ticket) or self.skip_read(ticket, trial)

    def skip_unread(self, ticket: Ticket) -> Skip | None:
        """Decide whether a trial is skipped before its scenario is read. Evaluates marks: for the main thread."""
        if (why := ticket.unwanted()) is not None:
            return _skip("marked", why)
        return self._skip_decided(ticket)

    def _skip_decided(self, ticket: Ticket) -> Skip | None:
        if not self.decided:
            return None
        decided = self.decided.get((ticket.benchmark, ticket.agent.label))
        return None if decided is None or ticket.is_fresh else _skip("decided", decided)

    def skip_read(self, ticket: Ticket, trial: Trial) -> Skip | None:
        """Decide whether a trial is skipped when it is about to start, apart from its marks."""
        if (decided := self._skip_decided(ticket)) is not None:
            return decided
        if self.rescored:
            return None  # its agent ran in the earlier job
        is_question = self.services is not None and self.is_question(trial)
        lacks = self._lacks(trial, is_question=is_question)
        return None if lacks is None else _skip(INCOMPATIBLE, lacks)

    def environments(self, trial: Trial) -> tuple[Environment, ...]:
        """Return the environments whose images a trial needs, that of the agent first; none for a question."""
        return () if self.is_question(trial) else trial.scenario.environments

    def environments_ahead(self, trial: Trial) -> tuple[Environment, ...]:
        """Return the environments whose images a waiting trial will need; none where a requirement is missing."""
        found = self.environments(trial)
        return found if found and self._lacks(trial, is_question=False) is None else ()

    def _lacks(self, trial: Trial, *, is_question: bool) -> str | None:
        """Return why these sandboxes or this agent cannot run a scenario."""
        scenario, lacks = trial.scenario, None
        here = self.job.of(scenario.benchmark)
        if self.services is not None and not is_question:
            lacks = self.services.provider.incompatible(scenario, here)
        # Strict: an error, raised by preparing.
        if lacks is None and not here.strict_capabilities and not here.ignore_capabilities:
            agent = self.agents.get(trial.agent.name)
            lacks = None if agent is None else incompatibility(scenario, agent)
        return lacks

    def image_key(self, trial: Trial) -> str | None:
        """Return the identity of a trial's image; None: the image is not here."""
        assert self.services is not None  # noqa: S101  callers have sandboxes
        if self.is_question(trial):
            return NO_IMAGE.key
        provider = self.services.provider
        return provider.identify(ImageRequest.of(trial.scenario.environment, self.job))

    def is_question(self, trial: Trial) -> bool:
        """Return True if a trial needs no container."""
        services = self.services
        here = self.job.of(trial.scenario.benchmark)
        return services is not None and is_question(trial, here, services.agents, services.scorers)

    def _own(self, ticket: Ticket, trial: Trial) -> TrialResult | None:
        """Return the result that a trial already has in this job: from before a resume, or from a dead worker."""
        if not (self.resumed or ticket.shares_verdict):
            return None
        result = self.bundle.find(trial)
        if result is None or result.outcome not in _REAL:
            return None
        self._note_change(trial, result)
        return result

    def _note_change(self, trial: Trial, result: TrialResult) -> None:
        """Note the parts of a trial's signature that changed since its result. The result was paid for, so it stays."""
        if self.services is None or result.signature is None or result.rescored is not None:
            return
        with contextlib.suppress(Exception):  # whatever an agent raises, the result exists and was paid for
            before = result.signature.parts
            now = prepare(trial, self.services).parts
            if changed := [name for name, digest in now.items() if before.get(name) != digest]:
                self.changed[trial.node_id] = ", ".join(changed)


def _skip(class_: str, why: str) -> Skip:
    return Skip(Failure(class_=class_, message=clean(why, 2000)))
