"""The job behind a pytest session: its bundle, its services, its history."""

from __future__ import annotations

import contextlib
import datetime
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import TYPE_CHECKING

import pytest

from ..agents.capabilities import incompatibility
from ..job.end import NO_ROOM, Ending, end, settle
from ..job.heartbeat import Heartbeat
from ..job.judge import judge
from ..job.reuse import Reuse
from ..model.errors import BudgetSpent, DiskFull, InfrastructureError, InputError
from ..model.job import JobRecord, JobStatus
from ..model.result import Failure, Outcome, Trial, TrialResult
from ..model.usage import Usage
from ..store import ledger
from ..store.bundle import BundleWarning, JobBundle
from ..store.events import EventLog
from ..store.files import check_room
from ..store.history import History
from ..store.liveness import join_crew
from ..store.text import clean
from ..store.totals import added, most, spent_by
from ..system.temporary import sweep
from ..trial.cancellation import Cancellation
from ..trial.draft import Clock, Draft
from ..trial.flight import Flight, Tokens
from ..trial.prepare import Services, prepare
from . import models, rounds
from .asked import asked as read
from .beginning import Begun, begin
from .interrupts import interrupts_of
from .items import Ticket, TrialItem
from .registry import agents_of, provider_of, scorers_of
from .selection import INCOMPATIBLE
from .state import state_of

if TYPE_CHECKING:
    from ..analysis.job_gate import Judged
    from ..analysis.sides import Side
    from ..gateway.client import Gateway
    from ..model.gate import RoundReport
    from ..sandbox.protocol import SandboxProvider

_WAKE_SECONDS = 0.2
_SAVE_SECONDS = 0.5
"""How far the history may be behind. What a killed process has not saved is in the bundle, and recovered from there."""
_SPACING = 4
"""Where saving takes long, as when another process keeps the history, at most a fifth of the time goes into it."""
_REAL = (Outcome.PASSED, Outcome.FAILED)


def begun(config: pytest.Config) -> BenchSession | None:
    """The job of this pytest session, if there is one."""
    job: BenchSession | None = state_of(config).job
    return job


def session_of(config: pytest.Config) -> BenchSession:
    """The job of this pytest session; begun if nobody has."""
    return begun(config) or BenchSession.begin(config, {})


class BenchSession:
    """A job as one process sees it. The process that began it writes history and reports, the others only bundles."""

    def __init__(self, config: pytest.Config, bundle: JobBundle, begun: Begun | None) -> None:
        asked = read(config)
        self.config = config
        self.job = asked.job
        self.gate = begun.gate if begun else asked.job.gate
        """What the job is judged by."""
        self.bundle = bundle
        self.history: History | None = begun.history if begun else None
        self.engine_problem: Failure | None = None
        self.troubles: list[str] = list(begun.recovered) if begun else []
        """Lines for the user: what went wrong with the job itself."""
        self.results: list[TrialResult] = []
        """All of them, once the job has ended."""
        self.rounds: tuple[RoundReport, ...] = ()
        """What rounds of attempts showed so far."""
        self.decided: dict[tuple[str, str], str] = {}
        """Benchmark and agent -> why no further attempt of it is run."""
        self.ended: JobRecord | None = None
        """What is kept of the job, once it has ended; None also where that cannot be read any more."""
        self.judged: Judged | None = None
        """What the gates say of the job, once it has ended; None: there are none."""
        self.before: Callable[[TrialItem, Trial], None] = lambda _item, _trial: None
        """Called in the thread of a trial before it starts."""
        self.resumed = asked.resume is not None
        self.besides = begun.besides if begun else 0
        """Results the job has of trials that are not selected now."""
        self.changed: dict[str, str] = {}
        """Trials that had ended before the job was taken up again, and the parts of their signature that changed."""
        self._begun = begun
        self._heartbeat: Heartbeat | None = None
        self._events = EventLog(bundle.root)
        self._reuse: Reuse | None = None
        self._taken: dict[str, TrialResult] = {}
        """Results of earlier jobs that this process has put into the bundle, by path."""
        self._homeless: list[TrialResult] = []
        self._unsaved: list[TrialResult] = []
        self._next_save = 0.0
        self._saving = threading.Lock()
        self._flown: set[str] = set()
        self._why: dict[str, str] = {}
        """Trials that no earlier result can stand in for, and why."""
        self._saved: dict[str, datetime.datetime] = {}
        """Trials that are in the history, and when the result that is there had ended."""
        self._spent_before = Usage()
        """By this job, before it was taken up again."""
        self._spent_now = Usage()
        self._gateway: Gateway | None = None
        self.gateway_address: str | None = None
        """Of the job's gateway, where its agents need models."""
        self.spent: str | None = None
        """Why no more may be spent, once that is so."""
        self.full: str | None = None
        """Why no more results can be kept, once that is so."""
        self._provider: SandboxProvider | None = None
        self._services: Services | None = None
        state_of(config).job = self

    @classmethod
    def begin(
        cls, config: pytest.Config, planned: Mapping[str, int], chosen: Collection[str] = ()
    ) -> BenchSession:
        """Begin a job, or take one up again: recover what died, have a bundle, see that the engine answers.

        `planned` is how many trials there are, by label of the agent; for a job that is taken up again, `chosen` is
        their node ids.

        Raises:
            pytest.UsageError: there is no such sandbox or job; the results directory refuses, or belongs to a newer
                version; somebody else runs the job.
        """
        rounds.check(config)
        models.check_prices(config)
        if models.needed(config):
            models.make_ready(config)
        with interrupts_of(config).held():
            begun = begin(config, sum(planned.values()), chosen)
            session = cls(config, begun.bundle, begun)
        session._events.planned(dict(planned))
        session._heartbeat = Heartbeat(begun.bundle.root, session.job.job_timeout, session._catch_up)
        spent = most(begun.bundle.read().spent, spent_by(begun.bundle.results()))
        session._spent_before = most(spent, ledger.noted(begun.bundle.root))
        session._start_gateway()
        session._open()
        sweep()
        if session._provider is not None and session.engine_problem is None:
            with session._noting("clean-up of earlier jobs"):
                session._provider.sweep()
        return session

    @classmethod
    def join(
        cls, config: pytest.Config, job: str, engine_problem: str | None, gateway: str | None
    ) -> BenchSession:
        """Take part, as a worker, in a job that another process began."""
        session = cls(config, JobBundle.open(read(config).job.directory, job), None)
        session.gateway_address = gateway
        join_crew(
            session.bundle.root
        )  # until the process ends: even a trial that nobody waits for may still write
        if engine_problem is not None:
            session.engine_problem = Failure.model_validate_json(engine_problem)
        session._open()
        return session

    @property
    def before_side(self) -> Side | None:
        """What the job is judged by, if there is anything."""
        baseline = self._begun.baseline if self._begun is not None else None
        return None if baseline is None else baseline.side

    def flight(self) -> Flight[Ticket]:
        """A flight that shares the job's concurrency with all others."""
        return Flight(self.fly, Tokens(self.bundle.layout.tokens, self.job.concurrency))

    def submit(self, flight: Flight[Ticket], ticket: Ticket) -> None:
        """Have a trial run, unless its result is known: that lands at once.

        Looked up in the caller's thread. Among the threads of trials it would take three times as long: at every
        system call they and pytest wait for each other's turn at the interpreter.
        """
        known = self._known(ticket)
        if known is None:
            flight.submit(ticket)
        else:
            flight.land(ticket, known)

    def _known(self, ticket: Ticket) -> TrialResult | None:
        """The result a trial has before it runs: of this very job, or of an earlier one. Never raises."""
        item, attempt = ticket
        # A worker that died may have left results of a group of attempts.
        if not (self._reuse or self.resumed or item.attempts > 1):
            return None
        try:
            trial = item.trial(attempt)
            if trial.node_id in self._flown:
                return None  # a plugin runs failures again
            result = self._ended_before(item, trial)
            if result is None and self._services is not None and self._unwanted(item, trial) is None:
                result = self._taken_over(trial, self._services)
        except Exception:  # the trial will say it, as an error of its own
            return None
        if result is not None:
            self._flown.add(trial.node_id)
            self._events.ended(result, now=False)
        return result

    def fly(self, ticket: Ticket, cancellation: Cancellation) -> TrialResult:
        """Run a trial of an item. Never raises."""
        item, attempt = ticket
        clock = Clock()
        trial: Trial | None = None
        try:
            trial = item.trial(attempt)
            self._flown.add(trial.node_id)
            unwanted = self._unwanted(item, trial)
            if unwanted is not None:
                result = self._committed(trial, unwanted, Outcome.SKIPPED, clock)
            elif self.engine_problem is not None:
                result = self._committed(trial, self.engine_problem, clock=clock)
            elif (why := self._no_more()) is not None:
                return self._draft(trial, clock).result(Outcome.CANCELLED, failure=why)
            else:
                self.before(item, trial)
                result = self._result(trial, cancellation)
        except Exception as error:
            why = Failure(
                class_=getattr(error, "code", "internal"),
                message=clean(f"{error or type(error).__name__}", 2000),
            )
            result = self._unwritable(item, attempt, trial, clock, why)
        if self.full is None and result.failure is not None and result.failure.class_ in NO_ROOM:
            self.full = result.failure.message
        self._taken.pop(result.path, None)  # where a plugin runs a test again, this is in its place now
        self._events.ended(result, now=result.reused is None)
        return result

    def _no_more(self) -> Failure | None:
        """Why no further trial is run, if the budget is spent or there is no room for a result."""
        if self.spent is not None:
            return Failure(class_=BudgetSpent.code, message=f"not run: {self.spent}")
        try:
            self._check_room()
        except DiskFull as error:
            self.full = self.full or str(error)
            return Failure(class_=DiskFull.code, message=clean(f"not run: {self.full}", 2000))
        return None

    def _check_room(self) -> None:
        """Make sure that what an agent does now can be kept.

        Raises:
            DiskFull: it cannot, or could not a moment ago: then nothing more is paid for.

        """
        if self.full is not None:
            raise DiskFull(self.full)
        check_room(self.bundle.root)

    def _unwanted(self, item: TrialItem, trial: Trial) -> Failure | None:
        """Why a trial is not to run: a mark says so, or its agent or the sandboxes lack what the scenario requires."""
        if (why := item.unwanted()) is not None:
            return Failure(class_="marked", message=clean(why, 2000))
        asked, scenario = read(self.config), trial.scenario
        if (why := self.decided.get((scenario.benchmark, trial.agent.label))) is not None and not item.fresh:
            return Failure(class_="decided", message=clean(why, 2000))
        if asked.rescore is not None:
            return None  # its agent has worked already
        here, provider = self.job.of(scenario.benchmark), self._provider
        lacks = None if provider is None else provider.incompatible(scenario, here)
        if lacks is None and not here.strict_capabilities:  # which make it an error, as preparing it says
            agent = agents_of(self.config).get(trial.agent.name)
            lacks = None if agent is None else incompatibility(scenario, agent)
        return None if lacks is None else Failure(class_=INCOMPATIBLE, message=clean(lacks, 2000))

    def _ended_before(self, item: TrialItem, trial: Trial) -> TrialResult | None:
        """The result a trial of this very job has: of the time before it was resumed, or from a worker that died."""
        if not self.resumed and item.attempts == 1:
            return None
        result = self.bundle.find(trial)
        if result is None or result.outcome not in _REAL:
            return None
        self._note_change(trial, result)
        if result.known != trial.known:
            # What is known now counts; what was known then is a line in a file that has changed since.
            result = result.model_copy(update={"known": trial.known})
            with self._noting("known failures"):
                self.bundle.restate(trial, result)
        return result

    def _note_change(self, trial: Trial, result: TrialResult) -> None:
        """Note what decides the result of a trial and is no longer as it was. It was paid for, so it stays."""
        if self._services is None or result.signature is None or result.rescored is not None:
            return
        with contextlib.suppress(Exception):  # whatever an agent raises, the result is there and was paid for
            before = result.signature.parts
            now = prepare(trial, self._services).parts
            if changed := [name for name, digest in now.items() if before.get(name) != digest]:
                self.changed[trial.node_id] = ", ".join(changed)

    def _result(self, trial: Trial, cancellation: Cancellation) -> TrialResult:
        services = self._services
        assert services is not None  # noqa: S101  made by `open`, which comes before any trial
        origin = read(self.config).rescore
        if origin is not None:
            return self._rescored(trial, services, cancellation, origin)
        # With it comes the gateway: nobody needs that for what has a result already.
        from ..trial.run import run_trial

        return run_trial(trial, services, cancellation, ran_because=self._why.pop(trial.node_id, None))

    def _taken_over(self, trial: Trial, services: Services) -> TrialResult | None:
        """The result of an earlier job, if there is one to reuse; else why there is none is noted."""
        if self._reuse is None or read(self.config).rescore is not None:
            return None
        self._why[trial.node_id] = "nobody knows what decides its result"
        prepared = prepare(trial, services)
        environment = trial.scenario.environment
        key = services.provider.identify(environment, self.job.image_map, self.job.build_args)
        decision = self._reuse.decide(trial, prepared.parts, key)
        if decision.result is None:
            self._why[trial.node_id] = decision.why
            return None
        result = self.bundle.put(trial, decision.result)
        self._taken[result.path] = result
        return result

    def _rescored(
        self, trial: Trial, services: Services, cancellation: Cancellation, job: str
    ) -> TrialResult:
        original = JobBundle.open(self.job.directory, job).find(trial)
        if original is not None and original.kept is not None:
            from ..trial.run import run_trial

            return run_trial(trial, services, cancellation, original=original)
        why = Failure(
            class_="not_kept",
            message=f"nothing of it was kept in job {job}, so it cannot be graded anew; keep trials with --bench-keep",
        )
        return self._committed(trial, why, Outcome.SKIPPED)

    def fly_now(self, item: TrialItem) -> None:
        """Run all trials of an item here and now, as our own loop would: what is known is not run again."""
        flight = self.flight()
        try:
            for ticket in item.tickets():
                self.submit(flight, ticket)
            while not item.land(next_landed(flight)[1], self.job.attempt_policy):
                pass
        finally:
            flight.cancel()
            flight.close()

    def record(self, result: TrialResult) -> None:
        """Put a result into the history. One of a trial that was not run is none."""
        if result.outcome is Outcome.CANCELLED:
            return
        if result.usage.calls is not None:
            self._spent_now = added(self._spent_now, spent_by([result]))
        if not result.path:
            self._homeless.append(result)
        self._unsaved.append(result)
        if time.monotonic() >= self._next_save:
            self._save()

    def _catch_up(self) -> None:
        """Write what came in so shortly after the last time that it was left, with nothing behind it that would."""
        behind = self._unsaved or (self.history is not None and self.history.behind)
        if behind and time.monotonic() >= self._next_save:
            self._save()

    def _save(self) -> None:
        """Write what has come in since the last time, in one transaction: a commit costs more than a row."""
        with self._saving:
            unsaved, self._unsaved = self._unsaved, []
            began = time.monotonic()
            if self.history is not None:
                with self._noting("history"):
                    self.history.save_trials(unsaved)
                    self._saved.update((result.node_id, result.finished_at) for result in unsaved)
            now = time.monotonic()
            self._next_save = now + max(_SAVE_SECONDS, _SPACING * (now - began))

    def deafen(self) -> None:
        """Let nobody stop what has ended."""
        if self._heartbeat is not None:
            self._heartbeat.disarm()

    def finish(self, planned: int, stopped: str | None) -> None:
        """End the job: remove what is unfinished, sum up, write reports. Never raises.

        `planned` is how many trials were selected; `stopped` says why not everything was run, where pytest knows.
        """
        interrupts = interrupts_of(self.config)
        interrupts.take()
        interrupts.closing()
        with contextlib.suppress(
            KeyboardInterrupt
        ):  # somebody cannot wait: what is left is removed by others
            self.close()
        if self.history is not None and self._begun is not None:
            with interrupts.deaf():
                self._finish(self.history, self._begun, planned + self.besides, stopped)

    def _finish(self, history: History, begun: Begun, planned: int, stopped: str | None) -> None:
        from .ci import host_of  # with it come reports, which no trial waits for

        if self._heartbeat is not None:
            self._heartbeat.stop()
        with self._noting("gateway"):
            self._stop_gateway()
        self._save()
        self.bundle.sweep()
        self.results = self._all_results()
        status, message = settle(
            self.bundle.id,
            planned,
            self.results,
            spent=self.spent,
            full=self.full,
            stopped_by=None if self._heartbeat is None else self._heartbeat.reason,
            stopped=stopped,
            timeout=self.job.job_timeout,
        )
        if status is not JobStatus.COMPLETED and message is not None:
            self.troubles.append(f"job {status.value}: {message}")
        now = datetime.datetime.now(datetime.UTC)
        spent = added(self._spent_before, self._spent_now)
        ended = end(
            self.bundle,
            history,
            Ending(status, message, now, planned, spent, self.rounds),
            results=self.results,
            saved=self._saved,
            gate=lambda record, results: judge(record, results, begun.baseline),
            host=host_of(self.config),
            noting=self._noting,
        )
        self.ended, self.judged = ended.record, ended.judged
        with self._noting("history"):
            history.close()
        begun.release()

    def _all_results(self) -> list[TrialResult]:
        """The results in the bundle, and those for which there was no place; in the order of the job's agents."""
        warnings: list[BundleWarning] = []
        found = self.bundle.outlines(self.job, warnings, self._taken)
        self.troubles += [str(warning) for warning in warnings]
        homeless = {result.node_id: result for result in self._homeless}
        for result in found:
            homeless.pop(result.node_id, None)
        order = {agent.label: place for place, agent in enumerate(self.job.agents)}
        return sorted(
            [*found, *homeless.values()], key=lambda result: order.get(result.agent.label, len(order))
        )

    def close(self) -> None:
        """Let go of the engine, and of everything this process still has there."""
        if self._reuse is not None:
            self._reuse.close()
            self._reuse = None
        if self._provider is not None:
            with self._noting("engine"):
                self._provider.close()
            self._provider = None
        self._events.close()

    def lost(self, trial: Trial, why: Failure) -> TrialResult:
        """The result of a trial whose process died; of one that had ended before that, what it had written."""
        result = self.bundle.find(trial)
        if result is None:
            result = self._committed(trial, why)
        self._events.ended(result, now=True)
        return result

    def _open(self) -> None:
        """Have everything trials need, before their threads ask for it."""
        if self.engine_problem is not None:
            return
        try:
            self._provider = provider_of(self.config, self.job.sandbox)
            self._provider.check()
        except InfrastructureError as error:
            self.engine_problem = Failure(class_=error.code, message=clean(str(error), 2000), phase="start")
            return
        self._services = Services(
            config=self.job,
            bundle=self.bundle,
            provider=self._provider,
            agents=agents_of(self.config),
            scorers=scorers_of(self.config),
            secrets=read(self.config).secrets,
            on_phase=self._events.phase,
            models=None if self.gateway_address is None else models.models(self.config, self.gateway_address),
            on_spent=self._note_spent,
            check_room=self._check_room,
        )
        if self.job.reuse:
            self._reuse = Reuse(self.job.directory, self.bundle.id, self.job)

    def _start_gateway(self) -> None:
        """Start what stands between agents and their models, if any agent of the job may have one."""
        if models.needed(self.config):
            try:
                self._gateway = models.start_gateway(
                    self.config, self._spent_before, self.bundle.layout.spent
                )
            except InputError as error:
                raise pytest.UsageError(str(error)) from None
            self.gateway_address = self._gateway.address

    def _note_spent(self, why: str) -> None:
        self.spent = self.spent or clean(why, 500)

    def _stop_gateway(self) -> None:
        gateway, self._gateway = self._gateway, None
        if gateway is not None:
            try:
                if (why := models.why_stopped(gateway)) is not None:
                    self._note_spent(why)
            finally:
                gateway.close()

    def _committed(
        self, trial: Trial, why: Failure, outcome: Outcome = Outcome.ERROR, clock: Clock | None = None
    ) -> TrialResult:
        return self.bundle.begin(trial).commit(self._draft(trial, clock).result(outcome, failure=why))

    def _draft(self, trial: Trial, clock: Clock | None = None) -> Draft:
        return Draft.of(trial, self.bundle.id, self.job.of(trial.scenario.benchmark), clock)

    def _unwritable(
        self, item: TrialItem, attempt: int, trial: Trial | None, clock: Clock, why: Failure
    ) -> TrialResult:
        """The result of a trial that cannot even be written down: its scenario is gone, or there is no place."""
        if trial is not None:
            return self._draft(trial, clock).result(Outcome.ERROR, failure=why)
        draft = Draft(
            job=self.bundle.id,
            node_id=item.trial_id(attempt),
            benchmark=item.source.benchmark,
            scenario=item.ref.id,
            agent=item.agent,
            attempt=attempt,
            threshold=self.job.of(item.source.benchmark).threshold,
            known=item.known,
            clock=clock,
        )
        class_ = "input" if why.class_ == "internal" else why.class_
        return draft.result(Outcome.ERROR, failure=why.model_copy(update={"class_": class_}))

    @contextlib.contextmanager
    def _noting(self, what: str) -> Iterator[None]:
        """Whatever goes wrong inside is a line in the summary: trials that have ended must not be lost to it."""
        try:
            yield
        except Exception as error:
            line = f"{what}: {clean(str(error) or type(error).__name__, 500)}"
            if line not in self.troubles:
                self.troubles.append(line)


def next_landed(flight: Flight[Ticket]) -> tuple[Ticket, TrialResult]:
    """Wait for a trial to land.

    Wakes up now and then: a signal that arrives just before the main thread blocks would be noticed only afterwards.
    """
    while True:
        landed = flight.next(timeout=_WAKE_SECONDS)
        if landed is not None:
            return landed


@contextlib.contextmanager
def ended_in_the_end(bench: BenchSession, flight: Flight[Ticket], seconds: float) -> Iterator[None]:
    """Whatever happens inside (`-x`, Ctrl-C, SIGTERM): what is in flight ends and cleans up, and is not reported.

    A second Ctrl-C gets us out of the wait; closing the engine then removes what is left by force.
    """
    try:
        yield
    finally:
        flight.cancel()
        try:
            deadline = time.monotonic() + seconds
            while flight.outstanding and time.monotonic() < deadline:
                flight.next(timeout=0.1)
        finally:
            bench.close()
            flight.close()
