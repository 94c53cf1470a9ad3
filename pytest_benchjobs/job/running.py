"""A running job: its bundle, its trials, its history, from the first trial to the end."""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Generic, TypeVar

from ..model.errors import BenchError, BudgetSpent, InfrastructureError
from ..model.job import Decisions, JobConfig, JobRecord, JobStatus
from ..model.quota import QUOTA_OF, OnQuota
from ..model.result import Failure, TrialResult
from ..model.usage import Usage
from ..store import ledger
from ..store.bundle import BundleWarning, JobBundle
from ..store.liveness import join_crew
from ..store.text import clean
from ..store.totals import added, most
from ..system.temporary import sweep
from . import models
from .end import NO_ROOM, Ending, end, in_order
from .heartbeat import Heartbeat
from .judge import judge
from .quotas import describe
from .recorder import Problems, Recorder
from .ticket import Ticket
from .trials import Supplies, Trials

if TYPE_CHECKING:
    from ..analysis.gate.job import Judged
    from ..analysis.sides import Side
    from ..gateway.client import Gateway
    from ..model.gate import RoundReport
    from ..report.ci import Host
    from .begin import Begun

_MOST = 1000
"""Most changed trials, and problems, stored in `job.json`."""
T = TypeVar("T", bound=Ticket)


class RunningJob(Generic[T]):
    """A job in one process.

    The process that began it (`begun` is given) writes history and reports, others only trials in the bundle.
    """

    def __init__(
        self,
        config: JobConfig,
        bundle: JobBundle,
        supplies: Supplies,
        begun: Begun | None = None,
        *,
        resumed: bool = False,
        rescore: str | None = None,
    ) -> None:
        self.config = config
        self.bundle = bundle
        self.gate = config.gate if begun is None else begun.record.config.gate
        """Rules that judge the job."""
        self.shard = config.shard if begun is None else begun.record.config.shard
        """The part of the job that this is, if it is one: it is judged when all are merged."""
        self.resumed = resumed
        self.unselected = 0 if begun is None else begun.unselected
        """Number of results whose trials are not selected now."""
        self.problems = Problems(() if begun is None else begun.recovered)
        self.trials = Trials[T](config, bundle, supplies, self.problems, resumed=resumed, rescore=rescore)
        self.recorder = None if begun is None else Recorder(begun.history, self.problems)
        self.gateway_address: str | None = None
        """Address of the job's gateway, if its agents need models."""
        self.rounds: list[RoundReport] = []
        """Reports of rounds of attempts so far."""
        self.results: list[TrialResult] = []
        """Results of all trials, once the job has ended."""
        self.ended: JobRecord | None = None
        """The record of the job, once it has ended; None if it cannot be read any more."""
        self.is_whole = False
        """True once the job has ended, all planned trials have run, and `job.json` says so."""
        self.judged: Judged | None = None
        """The verdict of the gates, once the job has ended; None: there are none."""
        self._begun = begun
        self._supplies = supplies
        self._heartbeat: Heartbeat | None = None
        self._gateway: Gateway | None = None
        self._kept = Decisions(unselected=self.unselected)
        """Decisions already in `job.json`."""
        self._spent_before = Usage()
        """Usage of the job before it was resumed."""

    def start(
        self, planned: Mapping[str, int], *, sandboxes: bool = True, models_for_scorers: bool = False
    ) -> None:
        """Start what the job needs, in the process that began it.

        Args:
            planned: Number of trials by agent.
            sandboxes: True if a trial is known to need a sandbox.
            models_for_scorers: True if a scorer asks a model.

        Raises:
            InputError: the prices or the recorded traffic cannot be read.
        """
        assert self._begun is not None  # noqa: S101  it writes the history
        root, supplies = self.bundle.root, self._supplies
        self.trials.events.planned(dict(planned))
        self._heartbeat = Heartbeat(root, self.config.job_timeout, self._keep_up)
        spent = most(self.bundle.read().spent, self._begun.spent)
        self._spent_before = most(spent, ledger.noted(root))
        if models_for_scorers or models.needed(self.config, supplies.agents, supplies.secrets):
            try:
                self._gateway = models.start_gateway(
                    self.config,
                    supplies.secrets,
                    self._spent_before,
                    self.bundle.layout.spent,
                    self.bundle.layout.quotas,
                )
                self.gateway_address = self._gateway.address
            except InfrastructureError as error:
                self.trials.cannot_run(error)
        self.trials.open(self.gateway_address, sandboxes=sandboxes)
        sweep()
        self.trials.sweep()

    def join(self, gateway: str | None, engine_problem: Failure | None, *, sandboxes: bool = True) -> None:
        """Join, as a worker, a job that another process began; see `start`."""
        self.gateway_address = gateway
        join_crew(self.bundle.root)  # held until the process ends: an abandoned trial may still write
        self.trials.engine_problem = engine_problem
        self.trials.open(gateway, sandboxes=sandboxes)

    @property
    def baseline(self) -> Side | None:
        """Results that the job is judged against, if there are any."""
        resolved = None if self._begun is None else self._begun.baseline
        return None if resolved is None else resolved.side

    def missing(self, tickets: Sequence[T]) -> int:
        """Count the trials without a result from before a resume."""
        if not self.resumed:
            return len(tickets)
        return sum(self.bundle.find(ticket.trial()) is None for ticket in tickets)

    def record(self, result: TrialResult) -> None:
        """Queue a result for the history, in the process that writes it."""
        if self.recorder is not None:
            self.recorder.record(result)

    def disarm(self) -> None:
        """Ignore requests to stop: all trials have ended."""
        if self._heartbeat is not None:
            self._heartbeat.disarm()

    def finish(self, planned: int, stopped: str | None, host: Host | None) -> None:
        """End the job: remove unfinished trials, write totals and reports. Never raises.

        `planned` is the number of selected trials; `stopped` says why not all of them ran, if the caller knows; `host`
        is the CI system that will read the reports. Close the trials first.
        """
        begun, recorder = self._begun, self.recorder
        if begun is None or recorder is None:
            return
        if self._heartbeat is not None:
            self._heartbeat.stop()
        with self.problems.noting("gateway"):
            self._stop_gateway()
        recorder.save()
        self.bundle.sweep()
        self.results = self._all_results(recorder)
        planned += self.unselected
        status, message = self._status(planned - len(self.results), stopped)
        if message is not None:
            self.problems.lines.append(f"job {status.value}: {message}")
        now = datetime.datetime.now(datetime.UTC)
        spent = added(self._spent_before, recorder.spent)
        ended = end(
            self.bundle,
            begun.history,
            Ending(status, message, now, planned, spent, tuple(self.rounds), self._decisions(stopped)),
            results=self.results,
            saved=recorder.saved,
            gate=lambda record, results: judge(record, results, begun.baseline),
            host=host,
            noting=self.problems.noting,
        )
        self.ended, self.judged = ended.record, ended.judged
        self.is_whole = ended.is_written and status is JobStatus.COMPLETED
        with self.problems.noting("history"):
            begun.history.close()
        begun.release()

    def _status(self, missing: int, stopped: str | None) -> tuple[JobStatus, str | None]:
        """Decide the status of the job, given the number of missing trials, and its message."""
        job, failures = self.bundle.id, [result.failure for result in self.results if result.failure]
        cut = any(failure.class_ == BudgetSpent.code for failure in failures)
        if self.trials.spent is not None and (missing > 0 or cut):
            is_quota = self.trials.spent.startswith(QUOTA_OF)
            then = "when it is back" if is_quota else "and a higher limit"
            return JobStatus.BUDGET, f"{self.trials.spent}; finish it with `benchjobs resume {job}` {then}"
        quotas = [*self.trials.quotas.used_up().values()]
        is_paused = bool(quotas) and stopped is None and self.config.on_quota is OnQuota.PAUSE
        if missing <= 0 and not (is_paused and cut):
            return JobStatus.COMPLETED, None  # also if pytest stopped after the last trial
        no_room = (failure.message for failure in failures if failure.class_ in NO_ROOM)
        full = self.trials.full or next(no_room, None)
        if full is not None:
            return JobStatus.CANCELLED, (
                f"{missing} trials did not run: {clean(full, 500)}; then finish it with `benchjobs resume {job}`"
            )
        stopped_by = None if self._heartbeat is None else self._heartbeat.reason
        if stopped_by is JobStatus.TIMEOUT:
            held = "".join(f"; {describe(quota)}" for quota in quotas)
            return stopped_by, f"it exceeded the job timeout of {self.config.job_timeout:g} s{held}"
        if stopped_by is JobStatus.CANCELLED:
            return stopped_by, "stopped by `benchjobs cancel`"
        if is_paused:
            why = clean("; ".join(map(describe, quotas)), 1000)
            return JobStatus.PAUSED, f"{why}; finish it with `benchjobs resume {job}` when it is back"
        return JobStatus.CANCELLED, stopped or f"{missing} trials did not run"

    def _keep_up(self) -> None:
        """Write queued results. Called in the heartbeat thread; if an error ended it, `cancel` would have no effect."""
        with self.problems.noting("record of the running job"):
            if self.recorder is not None:
                self.recorder.catch_up()
            decisions = self._decisions()
            if decisions != self._kept:
                self._kept = decisions
                with contextlib.suppress(BenchError):  # written or reported at the end instead
                    self.bundle.write(self.bundle.read().model_copy(update={"decisions": decisions}))

    def _decisions(self, stopped: str | None = None) -> Decisions:
        """Return the job's decisions so far."""
        trials, fates = self.trials, self.trials.fates
        stopped = trials.spent or trials.full or stopped
        settled: dict[str, dict[str, str]] = {}
        for (benchmark, agent), why in dict(fates.decided).items():
            settled.setdefault(clean(benchmark), {})[clean(agent)] = clean(why, 500)
        begun = 0 if self._begun is None else len(self._begun.recovered)
        return Decisions(
            unselected=self.unselected,
            stopped=None if stopped is None else clean(stopped, 500),
            settled=settled,
            changed={clean(name): parts for name, parts in [*dict(fates.changed).items()][:_MOST]},
            problems=tuple(clean(line, 2000) for line in self.problems.lines[begun:][:_MOST]),
            engine_problem=trials.engine_problem,
            quotas=tuple(
                quota.model_copy(update={"message": clean(quota.message, 500)})
                for quota in trials.quotas.used_up().values()
            ),
        )

    def _all_results(self, recorder: Recorder) -> list[TrialResult]:
        """Return the results in the bundle and those that could not be stored, in the order of the job's agents."""
        warnings: list[BundleWarning] = []
        found = self.bundle.outlines(self.config, warnings, self.trials.taken)
        self.problems.lines += [str(warning) for warning in warnings]
        unwritable = dict(recorder.unwritable)
        for result in found:
            unwritable.pop(result.node_id, None)
        return in_order([*found, *unwritable.values()], self.config)

    def _stop_gateway(self) -> None:
        gateway, self._gateway = self._gateway, None
        if gateway is not None:
            try:
                if (why := models.why_stopped(gateway)) is not None:
                    self.trials.note_spent(why)
            finally:
                gateway.close()
