"""A job of another process is asked to stop, and waited for; where nobody is left to ask, it is ended here."""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from typing import Any

import pytest

from pytest_benchjobs.job.cancel import cancel, finish
from pytest_benchjobs.model.job import JobStatus
from pytest_benchjobs.model.owner import current_owner
from pytest_benchjobs.store.history import History
from pytest_benchjobs.store.liveness import asked_to_cancel, hold

from .clocks import Clock
from .records import OWNER
from .watched import WatchedJob

module = importlib.import_module("pytest_benchjobs.job.cancel")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(module, "time", made)
    monkeypatch.setattr(module, "_POLL", 1.0)
    return made


def test_who_runs_the_job_is_asked_and_waited_for(tmp_path: Path, clock: Clock) -> None:
    job = WatchedJob(tmp_path)
    asked: list[bool] = []

    def step() -> None:
        asked.append(asked_to_cancel(job.bundle.root))
        if len(asked) == 2:  # it begins, and forgets what was said before
            job.bundle.layout.cancel.unlink()
        if len(asked) == 4:
            job.bundle.write(job.record.model_copy(update={"status": JobStatus.CANCELLED}))

    clock.meanwhile = step
    assert cancel(tmp_path, job.bundle, 60).status is JobStatus.CANCELLED
    assert asked == [True] * 4
    assert len(clock.pauses) == 4
    assert not job.bundle.layout.flight.exists()


def test_a_job_may_end_while_it_is_asked_to(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = WatchedJob(tmp_path)

    def end(_: Path) -> None:
        job.bundle.write(job.record.model_copy(update={"status": JobStatus.CANCELLED}))
        raise FileNotFoundError

    monkeypatch.setattr(module, "ask_to_cancel", end)
    assert cancel(tmp_path, job.bundle, 60).status is JobStatus.CANCELLED


def test_a_job_that_has_ended_is_not_touched(tmp_path: Path, clock: Clock) -> None:
    job = WatchedJob(tmp_path)
    job.bundle.write(job.record.model_copy(update={"status": JobStatus.COMPLETED}))
    assert job.bundle.layout.flight.exists()
    assert cancel(tmp_path, job.bundle, 60).status is JobStatus.COMPLETED
    assert (clock.pauses, job.bundle.layout.flight.exists()) == ([], True)


@pytest.mark.parametrize(
    ("begun", "timeout", "pauses"),
    [(True, 0, 0), (True, 3, 3), (True, 40, 40), (False, 3, 30), (False, 40, 40)],
)
def test_one_that_does_not_end_is_waited_for_as_long_as_it_says_and_longer_while_it_begins(
    tmp_path: Path, clock: Clock, begun: bool, timeout: float, pauses: int
) -> None:
    job = WatchedJob(tmp_path, begun=begun)
    assert not cancel(tmp_path, job.bundle, timeout).status.ended
    assert len(clock.pauses) == pauses
    assert asked_to_cancel(job.bundle.root)


def test_a_job_whose_process_is_dead_is_ended_here_as_soon_as_its_workers_are_gone(
    tmp_path: Path, clock: Clock
) -> None:
    job = WatchedJob(tmp_path, owner=OWNER.model_copy(update={"host": current_owner().host}))
    lock = hold(job.bundle.root)
    assert lock is not None

    clock.meanwhile = lambda: os.close(lock) if len(clock.pauses) == 2 else None
    found = cancel(tmp_path, job.bundle, 60)
    assert (found.status, len(clock.pauses)) == (JobStatus.CANCELLED, 2)
    assert not asked_to_cancel(job.bundle.root)


def _ended(directory: Path, *, index: bool) -> WatchedJob:
    job = WatchedJob(directory)
    job.land("one", told=False)
    if index:
        job.end()
    else:
        ended = {"status": JobStatus.COMPLETED, "finished_at": job.record.created_at}
        job.bundle.write(job.record.model_copy(update=ended))
    return job


def _status(directory: Path, job: WatchedJob) -> Any:
    with History.of(directory) as history:
        found = history.job(job.record.id)
    assert found is not None
    return found.status


@pytest.mark.parametrize("index", [True, False])
def test_an_end_that_was_killed_in_the_middle_is_finished_once(
    tmp_path: Path, index: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = _ended(tmp_path, index=index)
    junit = job.bundle.layout.junit
    junit.write_text("of an earlier state")
    finish(tmp_path, job.bundle)
    assert _status(tmp_path, job) is JobStatus.COMPLETED
    # Where the history has the end, the report is of it.
    assert (junit.read_text() == "of an earlier state") is index
    assert not job.bundle.layout.flight.exists()
    monkeypatch.setattr(module, "end", lambda *_: pytest.fail("there is nothing to finish"))
    finish(tmp_path, job.bundle)


def test_an_end_that_another_process_is_at_is_left_to_it(tmp_path: Path) -> None:
    job = _ended(tmp_path, index=False)
    lock = hold(job.bundle.root)
    assert lock is not None
    try:
        finish(tmp_path, job.bundle)
        assert _status(tmp_path, job) is JobStatus.RUNNING
    finally:
        os.close(lock)
    finish(tmp_path, job.bundle)
    assert _status(tmp_path, job) is JobStatus.COMPLETED
