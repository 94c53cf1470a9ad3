"""A job that is looked at from outside: whether it has begun, goes on, has ended or died, and what it printed."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest

from pytest_benchjobs.job import follow
from pytest_benchjobs.job.follow import Following
from pytest_benchjobs.model.job import JobRecord, JobStatus
from pytest_benchjobs.model.result import Outcome
from pytest_benchjobs.store.history import History

from .clocks import Clock
from .watched import JOB, WatchedJob


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(follow, "time", made)
    return made


@pytest.fixture
def job(tmp_path: Path) -> WatchedJob:
    return WatchedJob(tmp_path)


def test_a_job_has_begun_once_a_trial_flies_or_has_ended(job: WatchedJob) -> None:
    following = Following(job.directory, JOB)
    following.look()
    assert not following.began
    job.fly("one")
    following.look()
    assert following.began
    job.land("one")
    assert [(each.event.scenario, each.number) for each in following.look()] == [("one", 1)]
    assert following.began
    assert not following.live.flying


def test_each_look_has_what_is_new_and_the_last_one_what_had_no_event(job: WatchedJob, clock: Clock) -> None:
    following = Following(job.directory, JOB)
    job.land("one")
    job.land("one", "nop")
    assert [each.number for each in following.look()] == [1, 2]
    assert following.look() == []
    job.land("two", told=False)
    job.land("two", "nop", told=False)
    job.end()
    assert sorted((each.event.scenario, each.number) for each in following.look()) == [("two", 3), ("two", 4)]
    assert (following.over, following.died) == (True, False)
    assert following.look() == []
    assert clock.pauses == []


def test_as_many_trials_are_planned_as_the_record_says(job: WatchedJob) -> None:
    following = Following(job.directory, JOB)
    following.look()
    assert following.live.all.planned == 4
    job.change(planned=3)
    following.look()
    assert following.live.all.planned == 3


@pytest.fixture
def dead(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """One element: whether the process of the job is dead."""
    found = [True]
    monkeypatch.setattr(follow, "is_dead", lambda *_: found[0])
    return found


def test_a_process_that_stays_dead_for_a_second_has_died(
    job: WatchedJob, clock: Clock, dead: list[bool]
) -> None:
    following = Following(job.directory, JOB)
    for at, is_dead, over in ((0, True, False), (0.9, True, False), (1, False, False), (1.5, True, False),
                              (2.4, True, False), (2.5, True, True)):  # fmt: skip
        clock.now, dead[0] = 100 + at, is_dead
        following.look()
        assert (following.died, following.over) == (over, over), at


def test_a_process_that_ended_its_job_at_the_last_moment_has_not_died(
    job: WatchedJob, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    following = Following(job.directory, JOB)
    job.land("one", told=False)
    monkeypatch.setattr(follow, "_GRACE_SECONDS", 0.0)

    def ends(root: Path, record: JobRecord) -> bool:
        job.end()
        return True

    monkeypatch.setattr(follow, "is_dead", ends)
    assert [each.event.scenario for each in following.look()] == ["one"]
    assert (following.died, following.over) == (False, True)


def test_the_history_is_waited_for_while_it_lags_behind_but_not_for_ever(
    job: WatchedJob, clock: Clock
) -> None:
    job.land("one", told=False)
    job.land("two", outcome=Outcome.FAILED, told=False)
    job.bundle.write(job.record.model_copy(update={"status": JobStatus.COMPLETED}))
    following = Following(job.directory, JOB)

    def catch_up() -> None:
        if len(clock.pauses) == 3:
            with History.of(job.directory) as history:
                ended = job.record.model_copy(update={"finished_at": datetime.datetime.now(datetime.UTC)})
                history.save_trials(job.results)
                history.save_job(ended)

    clock.meanwhile = catch_up
    assert len(following.look()) == 2
    assert len(clock.pauses) == 3
    assert following.unsolved() == 1


def test_a_history_that_never_ends_the_job_has_what_it_has(job: WatchedJob, clock: Clock) -> None:
    job.bundle.write(job.record.model_copy(update={"status": JobStatus.COMPLETED}))
    began = clock.now
    assert Following(job.directory, JOB).look() == []
    assert 5 <= clock.now - began < 5.2


def test_scenarios_that_passed_or_were_skipped_are_solved(job: WatchedJob) -> None:
    job.land("one")
    job.land("one", "nop", Outcome.SKIPPED)
    job.land("two", outcome=Outcome.ERROR)
    job.land("two", "nop", Outcome.FAILED)
    job.end()
    assert Following(job.directory, JOB).unsolved() == 2


def test_the_end_of_the_log_is_shown_without_what_is_empty_or_harmful(job: WatchedJob) -> None:
    following = Following(job.directory, JOB)
    assert (following.log_file, following.log(2)) == (None, ())
    log = job.bundle.layout.log
    log.write_bytes(b"one\n\n\x1b[31mtwo\xff\n   \nthree\n")
    assert following.log_file == log
    assert following.log(2) == ("two\ufffd", "three")
    assert following.log(9) == ("one", "two\ufffd", "three")
    log.write_bytes(b"first\n" + b"x" * (16_384 - 6) + b"\nlast\n")
    assert [len(line) for line in following.log(9)] == [500, 4]
    log.write_bytes(b"first\n" + b"\n" * (16_384 - 6))
    assert following.log(9) == ("first",)
    log.write_bytes(b"first\n" + b"\n" * (16_384 - 5))
    assert following.log(9) == ("irst",)
