"""A job that does what a test tells it to, as seen by those who watch it."""

from __future__ import annotations

import datetime
import shutil
from pathlib import Path
from typing import Any

from pytest_benchjobs.model.agent import AgentSpec
from pytest_benchjobs.model.job import JobConfig, JobRecord, JobStatus
from pytest_benchjobs.model.owner import current_owner
from pytest_benchjobs.model.result import Failure, Outcome, Trial, TrialResult
from pytest_benchjobs.store.bundle import JobBundle
from pytest_benchjobs.store.events import EventLog
from pytest_benchjobs.store.history import History
from pytest_benchjobs.store.totals import totals

from .records import JOB, record, result, trial

AGENTS = ("oracle", "nop")
_FAILURES = {Outcome.FAILED: "below_threshold", Outcome.ERROR: "engine_lost", Outcome.CANCELLED: "cancelled"}


class WatchedJob:
    """A job of this process, of so many trials for each of two agents."""

    def __init__(self, directory: Path, trials: int = 2, *, begun: bool = True, **changes: Any) -> None:
        values: dict[str, Any] = {
            "created_at": datetime.datetime.now(datetime.UTC),
            "owner": current_owner(),
            "planned": trials * len(AGENTS) if begun else None,
            "status": JobStatus.RUNNING if begun else JobStatus.INITIALIZING,
            "config": JobConfig(
                directory=directory, agents=tuple(map(AgentSpec.parse, AGENTS)), concurrency=4
            ),
        }
        self.directory = directory
        self.record: JobRecord = record(directory, **{**values, **changes})
        self.bundle = JobBundle.create(directory, self.record)
        self.results: list[TrialResult] = []
        self._save()
        if begun:
            self.events = EventLog(self.bundle.root)
            self.events.planned(dict.fromkeys(AGENTS, trials))

    def fly(self, scenario: str, agent: str = "oracle", phase: str = "agent") -> Trial:
        """A trial is in a phase."""
        found = trial(scenario, agent)
        self.events.phase(found, phase)
        return found

    def land(
        self,
        scenario: str,
        agent: str = "oracle",
        outcome: Outcome = Outcome.PASSED,
        *,
        told: bool = True,
        **changes: Any,
    ) -> None:
        """A trial has ended; `told` to those who watch."""
        class_ = _FAILURES.get(outcome)
        values: dict[str, Any] = {
            "outcome": outcome,
            "score": {Outcome.PASSED: 1.0, Outcome.FAILED: 0.25}.get(outcome),
            "failure": class_ and Failure(class_=class_, message="so it was"),
        }
        ended = result(trial(scenario, agent), **{**values, **changes})
        self.results.append(self.bundle.begin(trial(scenario, agent)).commit(ended))
        if told:
            self.events.ended(self.results[-1], now=True)

    def end(self, status: JobStatus = JobStatus.COMPLETED, message: str | None = None) -> None:
        """The job has ended: its events go, its results are in the history."""
        shutil.rmtree(self.bundle.layout.flight, ignore_errors=True)
        self.change(
            status=status,
            message=message,
            finished_at=datetime.datetime.now(datetime.UTC),
            totals=totals(self.results),
        )

    def change(self, **changes: Any) -> None:
        """The job is another one now, in its bundle and then in the history."""
        self.record = self.record.model_copy(update=changes)
        self.bundle.write(self.record)
        self._save()

    def _save(self) -> None:
        with History.of(self.directory) as history:
            history.save_job(self.record)
            history.save_trials(self.results)
            history.save_job(self.record)


__all__ = ["AGENTS", "JOB", "WatchedJob"]
