"""The heartbeat of a job: it beats, sees requests to stop and the end of the time, and stops the job once."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pytest_benchjobs.job import heartbeat as module
from pytest_benchjobs.job.heartbeat import Heartbeat
from pytest_benchjobs.model.job import JobStatus
from pytest_benchjobs.store.layout import JobLayout
from pytest_benchjobs.store.liveness import ask_to_cancel, has_beaten


@pytest.fixture
def killed(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Signals that are sent instead of being sent."""
    sent: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "kill", lambda pid, number: sent.append((pid, number)))
    monkeypatch.setattr(signal, "getsignal", lambda _: lambda *_: None)
    monkeypatch.setattr(module, "_POLL_SECONDS", 0.01)
    return sent


class Turns:
    """Counts the turns of a heartbeat."""

    def __init__(self) -> None:
        self.count = 0
        self._changed = threading.Condition()

    def __call__(self) -> None:
        with self._changed:
            self.count += 1
            self._changed.notify_all()

    def more(self, turns: int) -> None:
        with self._changed:
            wanted = self.count + turns
            assert self._changed.wait_for(lambda: self.count >= wanted, 20)


Begin = Callable[[float | None], tuple[Heartbeat, Turns]]


@pytest.fixture
def begin(tmp_path: Path, killed: list[tuple[int, int]]) -> Iterator[Begin]:
    begun: list[Heartbeat] = []

    def begin(timeout: float | None) -> tuple[Heartbeat, Turns]:
        turns = Turns()
        begun.append(Heartbeat(tmp_path, timeout, turns))
        return begun[-1], turns

    yield begin
    for one in begun:
        one.stop()


def test_it_beats_at_once_and_then_every_few_seconds(
    tmp_path: Path, begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, turns = begin(None)
    assert has_beaten(tmp_path)
    beat = JobLayout(tmp_path).heartbeat
    os.utime(beat, (1, 1))
    turns.more(3)
    assert beat.stat().st_mtime == 1
    monkeypatch.setattr(module, "BEAT_SECONDS", 0.02)
    turns.more(20)
    assert beat.stat().st_mtime > time.time() - 60


def test_a_request_to_stop_is_passed_on_once(
    tmp_path: Path, begin: Begin, killed: list[tuple[int, int]]
) -> None:
    heartbeat, turns = begin(None)
    turns.more(3)
    assert (heartbeat.reason, killed) == (None, [])
    ask_to_cancel(tmp_path)
    turns.more(5)
    assert heartbeat.reason is JobStatus.CANCELLED
    assert killed == [(os.getpid(), signal.SIGTERM)]


def test_a_job_is_stopped_at_the_end_of_its_time(begin: Begin, killed: list[tuple[int, int]]) -> None:
    heartbeat, turns = begin(600)
    turns.more(5)
    assert heartbeat.reason is None
    heartbeat, turns = begin(0.02)
    turns.more(10)
    assert heartbeat.reason is JobStatus.TIMEOUT
    assert len(killed) == 1


def test_what_has_ended_is_not_stopped_and_its_job_still_lives(
    tmp_path: Path, begin: Begin, killed: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BEAT_SECONDS", 0.0)
    heartbeat, turns = begin(600.0)
    heartbeat.disarm()
    heartbeat._deadline = 0.0
    ask_to_cancel(tmp_path)
    os.utime(JobLayout(tmp_path).heartbeat, (1, 1))
    turns.more(10)
    assert (heartbeat.reason, killed) == (None, [])
    assert JobLayout(tmp_path).heartbeat.stat().st_mtime > 1


def test_a_loop_that_takes_no_signal_is_not_killed(
    begin: Begin, killed: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(signal, "getsignal", lambda _: signal.SIG_DFL)
    heartbeat, turns = begin(0.0)
    turns.more(5)
    assert (heartbeat.reason, killed) == (None, [])
    monkeypatch.setattr(signal, "getsignal", lambda _: lambda *_: None)
    turns.more(5)
    assert heartbeat.reason is JobStatus.TIMEOUT


def test_it_ends_when_it_is_told_to(begin: Begin) -> None:
    heartbeat, turns = begin(None)
    heartbeat.stop()
    before = turns.count
    time.sleep(0.1)  # it would have looked again
    assert turns.count == before
