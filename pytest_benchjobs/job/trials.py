"""Trials of a job in one process: their supplies, and the way of each from ticket to result."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ..model.errors import (
    BudgetSpent,
    DiskFull,
    GatewayLost,
    InfrastructureError,
    InputError,
    QuotaReached,
)
from ..model.job import placed
from ..model.quota import OnQuota
from ..model.result import Failure, Outcome, Trial, TrialResult
from ..sandbox.late import LateProvider
from ..store.bundle import JobBundle
from ..store.events import EventLog
from ..store.files import check_room
from ..store.text import clean
from ..trial.answering import is_question
from ..trial.cancellation import Cancellation
from ..trial.draft import Clock, Draft
from ..trial.flight import Deferred, Flight, Tokens
from ..trial.prepare import Prepared, Services, prepare
from .ahead import Ahead
from .end import NO_ROOM
from .models import models_of
from .quotas import Quotas, accounts_of, describe
from .recorder import Problems
from .reuse import Reuse
from .ticket import Ticket
from .trial_fate import Fates, Run, Skip, Take

if TYPE_CHECKING:
    from ..agents.protocol import Agent
    from ..model.job import JobConfig
    from ..sandbox.protocol import ImageSupply
    from ..scoring.protocol import Scorer

_WAKE_SECONDS = 0.2
_PREPARED_SECONDS = 5.0
"""Seconds for which a prepared trial is cached."""
_NOT_RUN = "not run: "

T = TypeVar("T", bound=Ticket)


@dataclasses.dataclass(frozen=True, slots=True)
class _Cut:
    """A trial that a used-up quota cut short."""

    counted: Mapping[str, Any] | None
    """The gateway's count so far."""
    at: float
    """Time, by a monotonic clock."""


@dataclasses.dataclass(frozen=True, slots=True)
class Supplies:
    """Agents, scorers, sandboxes and secrets of this process."""

    agents: Mapping[str, Agent]
    scorers: Mapping[str, Scorer]
    provider: LateProvider
    """The one provider of sandboxes of this process, for the job: `Trials` close it."""
    secrets: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Variable for agents -> value."""

    def machine(self) -> str | None:
        """Return the machine of sandboxes, such as `x86_64`; None: no engine answers, as trials report."""
        with contextlib.suppress(InfrastructureError):
            return str(self.provider.machine())
        return None

    def check_runtime(self, job: JobConfig) -> None:
        """Check that the engine has the runtime of a job. One that does not answer is the trials' to report.

        Raises:
            InputError: it has not.
        """
        if job.runtime is None:
            return
        with contextlib.suppress(InfrastructureError):
            there = self.provider.runtimes()
            if job.runtime not in there:
                has = (
                    f"available: {', '.join(there)}" if there else f"sandbox {job.sandbox!r} has no runtimes"
                )
                raise InputError(f"--bench-runtime: there is no runtime {job.runtime!r}; {has}")


class Trials(Generic[T]):
    """Runs trials, or takes their existing results."""

    def __init__(
        self,
        job: JobConfig,
        bundle: JobBundle,
        supplies: Supplies,
        problems: Problems,
        *,
        resumed: bool,
        rescore: str | None,
    ) -> None:
        self.events = EventLog(bundle.root)
        self.fates = Fates(job, bundle, supplies.agents, resumed, rescored=rescore is not None)
        self.before: Callable[[T, Trial], None] = lambda _ticket, _trial: None
        """Called in the thread of a trial before it starts."""
        self.engine_problem: Failure | None = None
        self.spent: str | None = None
        """Reason why no more may be spent, once a limit of the job is reached."""
        self.full: str | None = None
        """Reason why no more results can be stored, once the storage is full."""
        self.taken: dict[str, TrialResult] = {}
        """Reused results that this process has put into the bundle, by path."""
        self._job = job
        self._bundle = bundle
        self._supplies = supplies
        self._problems = problems
        self._rescore = rescore
        self._provider: LateProvider | None = None
        self._services: Services | None = None
        self._ahead: Ahead[T] | None = None
        self._sandboxes = True
        """True if a trial is known to need a sandbox."""
        self._flown: set[str] = set()
        self._fates: dict[str, Run | Skip] = {}
        """Decided fates of waiting trials."""
        self._hindered: dict[str, Failure] = {}
        """Trials that cannot run, each with its own reason."""
        self.quotas = Quotas(bundle.layout, job.on_quota)
        self._preparations: dict[tuple[str, str], Prepared] = {}
        """One preparation for the accounts of an agent, by benchmark and label of the agent."""
        self._cut: dict[str, _Cut] = {}
        """Trials that a used-up quota cut short, by node id."""
        self._prepared: dict[str, tuple[float, Prepared]] = {}
        """Prepared trials, with the time; at most as many as may start at once."""

    def open(self, gateway: str | None, *, sandboxes: bool = True) -> None:
        """Open everything that trials need, before their threads use it.

        Args:
            gateway: Address of the gateway.
            sandboxes: True if a trial is known to need a sandbox. Else the engine is not contacted until one does.
        """
        self._provider = self._supplies.provider
        if sandboxes and self.engine_problem is None:
            try:
                self._provider.check()
            except InfrastructureError as error:
                self.cannot_run(error)
        secrets = self._supplies.secrets
        self._services = Services(
            config=self._job,
            bundle=self._bundle,
            provider=self._provider,
            agents=self._supplies.agents,
            scorers=self._supplies.scorers,
            secrets=secrets,
            on_phase=self.events.phase,
            models=None if gateway is None else models_of(self._job, secrets, gateway),
            on_spent=self.note_spent,
            on_cut=self._note_cut,
            check_room=self._check_room,
        )
        self.fates.services = self._services
        if self._rescore is None:
            self._ahead = Ahead(
                self._supply,
                lambda ticket: self.fates.environments_ahead(self._trial_of(ticket)),
                self._job.concurrency,
                limited=self._job.image_budget is not None,
            )
        self._sandboxes = sandboxes
        if self._job.reuse and self._rescore is None:
            self.fates.reuse = Reuse(self._job.directory, self._bundle.id, self._job)

    def _supply(self) -> ImageSupply | None:
        """Return the image supply; None where sandboxes need no images, or there is no engine."""
        if self._provider is None or self.engine_problem is not None:
            return None
        return self._provider.supply(self._bundle.id, self._job)

    def break_off(self) -> None:
        """Stop the prefetch of images."""
        if self._ahead is not None:
            self._ahead.stop()

    def cannot_run(self, error: InfrastructureError) -> None:
        """Run nothing: every trial gets this error, except questions if it is an error of the engine."""
        self.engine_problem = Failure(class_=error.code, message=clean(str(error), 2000), phase="start")

    def sweep(self) -> None:
        """Remove left-overs of earlier jobs from the engine."""
        if self._provider is not None and self.engine_problem is None:
            with self._problems.noting("clean-up of earlier jobs"):
                self._provider.sweep()

    def close(self) -> None:
        """Close the engine, and remove everything that this process still has there."""
        if self.fates.reuse is not None:
            self.fates.reuse.close()
            self.fates.reuse = None
        if self._ahead is not None:
            self._ahead.close()
            self._ahead = None
        if self._provider is not None:
            with self._problems.noting("engine"):
                self._provider.close()
            self._provider = None
        self.events.close()

    def flight(self) -> Flight[T]:
        """Return a flight that shares the job's concurrency with all others."""
        return Flight(self.fly, Tokens(self._bundle.layout.tokens, self._job.concurrency))

    def submit(self, flight: Flight[T], ticket: T) -> None:
        """Submit a trial. If it has a result already, that lands at once.

        The lookup is made in the caller's thread: in the threads of trials it would take three times as long, as they
        compete with pytest for the interpreter lock at every system call.
        """
        fate: Run | Skip | None = None
        # A rerun by a plugin never reuses an earlier result.
        if self.fates.may_take(ticket) and ticket.node_id not in self._flown:
            with contextlib.suppress(Exception):  # the trial reports it as its own error
                trial = self._trial_of(ticket)
                decided = self.fates.decide(ticket, trial)
                if isinstance(decided, Take):
                    flight.land(ticket, self._take(trial, decided))
                    return
                fate = decided
                self._keep(trial, fate)
        if fate is None and (fate := self.fates.skip_unread(ticket)) is not None:
            self._fates[ticket.node_id] = fate
        self._submit_ahead(ticket, runs=not isinstance(fate, Skip))
        flight.submit(ticket)

    def _trial_of(self, ticket: T) -> Trial:
        """Read the scenario of a trial, which is graded where the job wants it."""
        return placed(ticket.trial(), self._job)

    def refuse(self, flight: Flight[T], ticket: T, why: Failure, *, skips: bool) -> None:
        """Submit a trial that cannot run: its result is an error, or skipped, with the reason."""
        if skips:
            self._fates[ticket.node_id] = Skip(why)
        else:
            self._hindered[ticket.node_id] = why
        flight.submit(ticket)

    def _submit_ahead(self, ticket: T, *, runs: bool) -> None:
        """Prefetch the image of a trial, if it will run."""
        ahead = self._ahead
        if ahead is None or ahead.is_idle:
            return
        with self._problems.noting("images"):
            if self._sandboxes:
                ahead.open()
            ahead.submit(ticket, runs=runs)

    def _begin_ahead(self, ticket: T, trial: Trial) -> None:
        """Tell the prefetch that a trial begins. Errors are ignored, as the trial meets them too."""
        ahead = self._ahead
        if ahead is None or ahead.is_idle:
            return
        with self._problems.noting("images"):
            if environments := self.fates.environments(trial):
                ahead.open()
                ahead.begin(ticket, environments)

    def _keep(self, trial: Trial, fate: Run | Skip) -> None:
        """Cache the decision until the trial starts."""
        if isinstance(fate, Run) and fate.prepared is not None:
            if len(self._prepared) < self._job.concurrency:
                self._prepared[trial.node_id] = time.monotonic(), fate.prepared
            fate = dataclasses.replace(fate, prepared=None)
        self._fates[trial.node_id] = fate

    def _take(self, trial: Trial, fate: Take) -> TrialResult:
        result = fate.result
        if fate.why is not None:
            result = self._bundle.put(trial, result)
            self.taken[result.path] = result
        elif fate.is_stale:
            with self._problems.noting("known failures"):
                self._bundle.restate(trial, result)
        self._flown.add(trial.node_id)
        self.events.ended(result, now=False)
        return result

    def fly(self, ticket: T, cancellation: Cancellation) -> TrialResult | Deferred:
        """Run a trial, or defer it while a quota it needs is used up. Never raises."""
        flown = self._fly(ticket, cancellation)
        if self._ahead is not None and not isinstance(flown, Deferred):
            with self._problems.noting("images"):
                self._ahead.end(ticket)
        return flown

    def _fly(self, ticket: T, cancellation: Cancellation) -> TrialResult | Deferred:
        clock = Clock()
        trial: Trial | None = None
        try:
            trial = self._trial_of(ticket)
            self._flown.add(trial.node_id)
            at, prepared = self._prepared.pop(trial.node_id, (0.0, None))
            fate = self._fates.pop(trial.node_id, None) or self.fates.skip_read(ticket, trial) or Run()
            if isinstance(fate, Run) and time.monotonic() - at <= _PREPARED_SECONDS:
                fate = dataclasses.replace(fate, prepared=prepared)
            if isinstance(fate, Skip):
                result = self._committed(trial, fate.why, Outcome.SKIPPED, clock)
            elif (hindrance := self._hindered.pop(trial.node_id, None) or self._hindrance(trial)) is not None:
                result = self._committed(trial, hindrance, clock=clock)
            elif (why := self._no_more() or self._paused(trial)) is not None:
                return self._draft(trial, clock).result(Outcome.CANCELLED, failure=why)
            else:
                with self.quotas.turn(self._accounts_of(trial)) as wait:
                    if wait is None:
                        self.before(ticket, trial)
                        self._begin_ahead(ticket, trial)
                        result = self._run(trial, fate, cancellation)
                if wait is not None or self._waits(trial, result, cancellation):
                    self._keep(trial, fate)
                    if wait is None:
                        self.events.phase(trial, "quota")
                    return Deferred(wait or 0.0)
        except Exception as error:
            why = Failure(
                class_=getattr(error, "code", "internal"),
                message=clean(f"{error or type(error).__name__}", 2000),
            )
            result = self._unwritable(ticket, trial, clock, why)
        self.note_full(result)
        self.taken.pop(result.path, None)  # a rerun by a plugin replaces it
        self.events.ended(result, now=result.reused is None)
        return result

    def _hindrance(self, trial: Trial) -> Failure | None:
        """Return why a trial cannot run here. A question needs no engine."""
        problem, supplies = self.engine_problem, self._supplies
        if problem is None or problem.class_ == GatewayLost.code:
            return problem
        here = self._job.of(trial.scenario.benchmark)
        return None if is_question(trial, here, supplies.agents, supplies.scorers) else problem

    def _waits(self, trial: Trial, result: TrialResult, cancellation: Cancellation) -> bool:
        """Return whether a trial is to run again, because a used-up quota has cut it short."""
        if result.outcome is not Outcome.CANCELLED:
            self._cut.pop(trial.node_id, None)
        is_cut = trial.node_id in self._cut and not cancellation.requested
        return is_cut and self.quotas.on_quota is OnQuota.WAIT

    def _accounts_of(self, trial: Trial) -> frozenset[str]:
        """Return the accounts that a trial uses. They are looked up only once a quota is used up."""
        services = self._services
        if not self.quotas.used_up() or services is None or self._rescore is not None:
            return frozenset()
        key = trial.scenario.benchmark, trial.agent.label
        try:
            if key not in self._preparations:
                self._preparations[key] = prepare(trial, services)
            return accounts_of(trial, self._preparations[key], services)
        except Exception:  # the trial meets the error too, and reports it
            return frozenset()

    def _paused(self, trial: Trial) -> Failure | None:
        """Return why a trial does not run, with `--bench-on-quota pause`."""
        quotas = () if self.quotas.on_quota is not OnQuota.PAUSE else self.quotas.of(self._accounts_of(trial))
        for quota in quotas:
            return Failure(class_=QuotaReached.code, message=clean(f"{_NOT_RUN}{describe(quota)}", 2000))
        return None

    def _note_cut(self, trial: Trial, counted: Mapping[str, Any] | None) -> bool:
        """Note a trial that a used-up quota cut short; return whether it is to run again."""
        is_held = bool(self.quotas.of(self._accounts_of(trial)))
        if is_held:
            self._cut[trial.node_id] = _Cut(counted, time.monotonic())
        return is_held

    def _run(self, trial: Trial, fate: Run, cancellation: Cancellation) -> TrialResult:
        services = self._services
        assert services is not None  # noqa: S101  made by `open`, which comes before any trial
        # Imports the gateway, which reused results do not need.
        from ..trial.run import run_trial

        if self._rescore is None:
            cut = self._cut.get(trial.node_id)
            return run_trial(
                trial,
                services,
                cancellation,
                ran_because=fate.why,
                prepared=fate.prepared,
                counted=None if cut is None else cut.counted,
                notes=() if cut is None else (_about_cut(cut),),
            )
        original = JobBundle.open(self._job.directory, self._rescore).find(trial)
        if original is None or original.kept is None:
            why = f"nothing of it was kept in job {self._rescore}, so it cannot be graded again; "
            why += "keep trials with --bench-keep"
        elif original.agent_end is not None and original.agent_end.lived_on:
            why = "it was graded beside processes that the agent had left running, and those are not kept; run it again"
        else:
            return run_trial(trial, services, cancellation, original=original)
        return self._committed(trial, Failure(class_="not_kept", message=why), Outcome.SKIPPED)

    def lost(self, trial: Trial, why: Failure) -> TrialResult:
        """Return the result of a trial whose process died: the stored one if it had ended, else an error."""
        result = self._bundle.find(trial)
        if result is None:
            result = self._committed(trial, why)
        self.events.ended(result, now=True)
        return result

    def note_spent(self, why: str) -> None:
        """Run no more trials: a limit of the whole job is reached."""
        self.spent = self.spent or clean(why, 500)

    def note_full(self, result: TrialResult) -> None:
        """Run no more trials if the disk was full for this one, in this process or in a worker."""
        if self.full is None and result.failure is not None and result.failure.class_ in NO_ROOM:
            self.full = result.failure.message.removeprefix(_NOT_RUN)

    def _no_more(self) -> Failure | None:
        """Return why no further trial runs, if the budget is spent or the disk is full."""
        if self.spent is not None:
            return Failure(class_=BudgetSpent.code, message=f"{_NOT_RUN}{self.spent}")
        try:
            self._check_room()
        except DiskFull as error:
            self.full = self.full or str(error)
            return Failure(class_=DiskFull.code, message=clean(f"{_NOT_RUN}{self.full}", 2000))
        return None

    def _check_room(self) -> None:
        """Check that a result can be stored before an agent runs.

        Raises:
            DiskFull: it cannot, or could not a moment ago, so nothing more is spent.
        """
        if self.full is not None:
            raise DiskFull(self.full)
        check_room(self._bundle.root)

    def _committed(
        self, trial: Trial, why: Failure, outcome: Outcome = Outcome.ERROR, clock: Clock | None = None
    ) -> TrialResult:
        return self._bundle.begin(trial).commit(self._draft(trial, clock).result(outcome, failure=why))

    def _draft(self, trial: Trial, clock: Clock | None = None) -> Draft:
        return Draft.of(trial, self._bundle.id, self._job.of(trial.scenario.benchmark), clock or Clock())

    def _unwritable(self, ticket: T, trial: Trial | None, clock: Clock, why: Failure) -> TrialResult:
        """Return the result of a trial that cannot be stored: its scenario is gone, or the disk is full."""
        if trial is not None:
            return self._draft(trial, clock).result(Outcome.ERROR, failure=why)
        draft = Draft(
            clock,
            job=self._bundle.id,
            node_id=ticket.node_id,
            benchmark=ticket.benchmark,
            scenario=ticket.scenario,
            agent=ticket.agent,
            attempt=ticket.attempt,
            threshold=self._job.of(ticket.benchmark).threshold,
            confidential=ticket.confidential,
            known=ticket.known,
        )
        class_ = "input" if why.class_ == "internal" else why.class_
        return draft.result(Outcome.ERROR, failure=why.model_copy(update={"class_": class_}))


def _about_cut(cut: _Cut) -> str:
    return f"began anew {time.monotonic() - cut.at:.0f} s after a used-up quota had cut it short"


def next_landed(flight: Flight[T], meanwhile: Callable[[], None] = lambda: None) -> tuple[T, TrialResult]:
    """Wait for a trial to land. `meanwhile` is called several times a second.

    Wakes up regularly: a signal just before the main thread blocks would be noticed only after the wait.
    """
    while True:
        landed = flight.next(timeout=_WAKE_SECONDS)
        if landed is not None:
            return landed
        meanwhile()
