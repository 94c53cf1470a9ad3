"""The job behind a pytest session: its bundle, its services, its history."""

from __future__ import annotations

import contextlib
import datetime
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ..cancellation import Cancellation
from ..model.errors import BenchError, InfrastructureError
from ..model.job import JobRecord, JobStatus
from ..model.owner import current_owner
from ..model.result import Failure, Outcome, Trial, TrialResult
from ..runner import Flight, Tokens
from ..store.bundle import JobBundle, new_job_id
from ..store.history import FILE, History
from ..store.recover import recover
from ..store.reproducibility import reproducibility
from ..store.text import clean
from ..store.totals import totals
from ..trial import Services, run_trial
from .asked import asked as read
from .registry import SESSION, agents_of, provider_of, sandbox_of, scorers_of

if TYPE_CHECKING:
    from ..sandbox.protocol import SandboxProvider
    from .items import TrialItem

_WAKE_SECONDS = 0.2
_SAVE_SECONDS = 0.5
"""How far the history may be behind. What a killed process has not saved is in the bundle, and recovered from there."""
_FLIGHT = ".flight"
"""Directory in a job's bundle for what its processes tell each other."""


def session_of(config: pytest.Config) -> BenchSession:
    """The job of this pytest session; begun if nobody has."""
    if SESSION not in config.stash:
        BenchSession.begin(config)
    return config.stash[SESSION]


class BenchSession:
    """A job as one process sees it. The process that began it writes history and reports, the others only bundles."""

    def __init__(self, config: pytest.Config, bundle: JobBundle, history: History | None) -> None:
        asked = read(config)
        self.config = config
        self.job = asked.job
        self.bundle = bundle
        self.history = history
        self.engine_problem: Failure | None = None
        self.troubles: list[str] = []
        """Lines for the user: what went wrong with the job itself."""
        self.results: list[TrialResult] = []
        """All of them, once the job has ended."""
        self.before: Callable[[Trial], None] = lambda _: None
        """Called in the thread of a trial before it starts."""
        self._homeless: list[TrialResult] = []
        self._unsaved: list[TrialResult] = []
        self._last_save = 0.0
        self._saved: set[str] = set()
        self._provider: SandboxProvider | None = None
        self._services: Services | None = None
        config.stash[SESSION] = self

    @classmethod
    def begin(cls, config: pytest.Config, planned: int | None = None) -> BenchSession:
        """Begin a job: recover what died, make a bundle, see that the engine answers.

        Raises:
            pytest.UsageError: there is no such sandbox; the results directory refuses, or belongs to a newer version.
        """
        asked = read(config)
        sandbox_of(config, asked.job.sandbox)  # before a directory is made for a job that cannot be
        now = datetime.datetime.now(datetime.UTC)
        arguments = ["pytest", *map(str, config.invocation_params.args)]
        record = JobRecord(
            id=new_job_id(now),
            name=asked.job.name,
            status=JobStatus.RUNNING,
            created_at=now,
            owner=current_owner(),
            config=asked.job,
            planned=planned,
            reproducibility=reproducibility(arguments, config.rootpath),
        )
        directory = asked.job.directory
        try:
            directory.mkdir(parents=True, exist_ok=True)
            history = History(directory / FILE)
            recovered = recover(directory, history, _write_reports)
            bundle = JobBundle.create(directory, record)
            history.save_job(record)
        except (BenchError, OSError) as error:
            raise pytest.UsageError(f"no job can be kept in {directory}: {error}") from None
        session = cls(config, bundle, history)
        session.troubles += recovered
        session._open()
        if session._provider is not None and session.engine_problem is None:
            with session._noting("clean-up of earlier jobs"):
                session._provider.sweep()
        return session

    @classmethod
    def join(cls, config: pytest.Config, job: str, engine_problem: str | None) -> BenchSession:
        """Take part, as a worker, in a job that another process began."""
        session = cls(config, JobBundle.open(read(config).job.directory, job), None)
        if engine_problem is not None:
            session.engine_problem = Failure.model_validate_json(engine_problem)
        session._open()
        return session

    @property
    def flight_directory(self) -> Path:
        """Where the processes of this job tell each other what they do."""
        return self.bundle.root / _FLIGHT

    def flight(self) -> Flight[TrialItem]:
        """A flight that shares the job's concurrency with all others."""
        return Flight(self.fly, Tokens(self.flight_directory / "tokens", self.job.concurrency))

    def fly(self, item: TrialItem, cancellation: Cancellation) -> TrialResult:
        """Run the trial of an item. Never raises."""
        started = datetime.datetime.now(datetime.UTC)
        trial: Trial | None = None
        try:
            trial = item.trial()
            if self.engine_problem is not None:
                return self._without_engine(trial, started, self.engine_problem)
            self.before(trial)
            assert self._services is not None  # noqa: S101  made by `open`, which comes before any trial
            return run_trial(trial, self._services, cancellation)
        except Exception as error:
            why = Failure(
                class_=getattr(error, "code", "internal"),
                message=clean(f"{error or type(error).__name__}", 2000),
            )
            return self._homeless_result(item, trial, started, why)

    def fly_now(self, item: TrialItem) -> TrialResult:
        """Run a trial here and now, under a token like any other."""
        flight = self.flight()
        try:
            flight.submit(item)
            return next_landed(flight)[1]
        finally:
            flight.cancel()
            flight.close()

    def record(self, result: TrialResult) -> None:
        """Put a result into the history."""
        if not result.path:
            self._homeless.append(result)
        self._unsaved.append(result)
        if time.monotonic() - self._last_save > _SAVE_SECONDS:
            self._save()

    def _save(self) -> None:
        """Write what has come in since the last time, in one transaction: a commit costs more than a row."""
        unsaved, self._unsaved = self._unsaved, []
        self._last_save = time.monotonic()
        if self.history is not None:
            with self._noting("history"):
                self.history.save_trials(unsaved)
                self._saved.update(result.node_id for result in unsaved)

    def finish(self, planned: int, interrupted: bool) -> None:
        """End the job: remove what is unfinished, sum up, write reports. Never raises."""
        self.close()
        if self.history is None:
            return
        self._save()
        self.bundle.sweep()
        shutil.rmtree(self.flight_directory, ignore_errors=True)
        warnings: list[object] = []
        self.results = [*self.bundle.results(warnings), *self._homeless]  # type: ignore[arg-type]
        order = {agent: place for place, agent in enumerate(self.job.agents)}
        self.results.sort(key=lambda result: order.get(result.agent, len(order)))
        self.troubles += [str(warning) for warning in warnings]
        unfinished = interrupted or len(self.results) < planned
        with self._noting("results"):
            record = self.bundle.read().model_copy(
                update={
                    "status": JobStatus.CANCELLED if unfinished else JobStatus.COMPLETED,
                    "finished_at": datetime.datetime.now(datetime.UTC),
                    "planned": planned,
                    "totals": totals(self.results),
                }
            )
            self.bundle.write(record)
            self.history.save_trials(result for result in self.results if result.node_id not in self._saved)
            self.history.save_job(record)
            _write_reports(self.bundle, record, self.results)
        with self._noting("history"):
            self.history.close()

    def close(self) -> None:
        """Let go of the engine, and of everything this process still has there."""
        if self._provider is not None:
            with self._noting("engine"):
                self._provider.close()
            self._provider = None

    def lost(self, trial: Trial, why: Failure) -> TrialResult:
        """The result of a trial whose process died; of one that had ended before that, what it had written."""
        result = self.bundle.find(trial)
        if result is not None:
            return result
        return self.bundle.begin(trial).commit(self._error(trial, datetime.datetime.now(datetime.UTC), why))

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
        )

    def _without_engine(self, trial: Trial, started: datetime.datetime, why: Failure) -> TrialResult:
        directory = self.bundle.begin(trial)
        return directory.commit(self._error(trial, started, why))

    def _error(self, trial: Trial, started: datetime.datetime, why: Failure) -> TrialResult:
        scenario = trial.scenario
        now = datetime.datetime.now(datetime.UTC)
        return TrialResult(
            job=self.bundle.id,
            node_id=trial.node_id,
            benchmark=scenario.benchmark,
            benchmark_version=scenario.benchmark_version,
            scenario=scenario.id,
            agent=trial.agent,
            attempt=trial.attempt,
            outcome=Outcome.ERROR,
            threshold=self.job.threshold if scenario.threshold is None else scenario.threshold,
            failure=why,
            started_at=started,
            finished_at=now,
            seconds=(now - started).total_seconds(),
        )

    def _homeless_result(
        self, item: TrialItem, trial: Trial | None, started: datetime.datetime, why: Failure
    ) -> TrialResult:
        """The result of a trial that cannot even be written down: its scenario is gone, or there is no place."""
        if trial is not None:
            return self._error(trial, started, why)
        now = datetime.datetime.now(datetime.UTC)
        return TrialResult(
            job=self.bundle.id,
            node_id=item.nodeid,
            benchmark=Path(item.source.path).name,
            scenario=item.ref.id,
            agent=item.agent,
            attempt=item.attempt,
            outcome=Outcome.ERROR,
            threshold=self.job.threshold,
            failure=why.model_copy(update={"class_": "input" if why.class_ == "internal" else why.class_}),
            started_at=started,
            finished_at=now,
            seconds=(now - started).total_seconds(),
        )

    @contextlib.contextmanager
    def _noting(self, what: str) -> Iterator[None]:
        """Whatever goes wrong inside is a line in the summary: trials that have ended must not be lost to it."""
        try:
            yield
        except Exception as error:
            line = f"{what}: {clean(str(error) or type(error).__name__, 500)}"
            if line not in self.troubles:
                self.troubles.append(line)


def _write_reports(
    bundle: JobBundle, record: JobRecord, results: Sequence[TrialResult] | None = None
) -> None:
    """Write the reports of a job; of one that was recovered, on what its bundle holds."""
    from ..report import write_reports

    write_reports(bundle, record, list(bundle.results()) if results is None else results)


def next_landed(flight: Flight[TrialItem]) -> tuple[TrialItem, TrialResult]:
    """Wait for a trial to land.

    Wakes up now and then: a signal that arrives just before the main thread blocks would be noticed only afterwards.
    """
    while True:
        landed = flight.next(timeout=_WAKE_SECONDS)
        if landed is not None:
            return landed


def wait_until_landed(flight: Flight[TrialItem], seconds: float) -> bool:
    """After `cancel`: give what runs time to clean up. Whether all of it has."""
    deadline = time.monotonic() + seconds
    while flight.outstanding and time.monotonic() < deadline:
        flight.next(timeout=0.1)
    return not flight.outstanding
