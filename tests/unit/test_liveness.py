"""Signs of life: who holds a job, who still writes to it, and how long ago it was heard of."""

from __future__ import annotations

import errno
import fcntl
import math
import os
import time
from pathlib import Path

import pytest

from pytest_benchjobs.model.owner import current_owner
from pytest_benchjobs.store import liveness
from pytest_benchjobs.store.layout import JobLayout

from .records import OWNER, record


def _open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.fixture
def no_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    def flock(descriptor: int, how: int) -> None:
        raise OSError(errno.ENOLCK, "none")

    monkeypatch.setattr(fcntl, "flock", flock)


def test_a_job_has_one_holder_at_a_time(tmp_path: Path) -> None:
    first = liveness.hold(tmp_path)
    assert first is not None
    before = _open_files()
    assert liveness.hold(tmp_path) is None
    assert _open_files() == before
    os.close(first)
    second = liveness.hold(tmp_path)
    assert second is not None
    assert not os.get_inheritable(second)
    os.close(second)


def test_while_a_worker_writes_nobody_holds_its_job(tmp_path: Path) -> None:
    JobLayout(tmp_path).flight.mkdir()
    crew = [liveness.join_crew(tmp_path) for _ in range(2)]
    for worker in crew:
        assert worker is not None
        before = _open_files()
        assert liveness.hold(tmp_path) is None
        assert _open_files() == before
        os.close(worker)
    held = liveness.hold(tmp_path)
    assert held is not None
    os.close(held)


@pytest.mark.usefixtures("no_locks")
def test_without_locks_everybody_holds_a_job_and_nobody_is_its_crew(tmp_path: Path) -> None:
    JobLayout(tmp_path).flight.mkdir()
    before = _open_files()
    assert liveness.join_crew(tmp_path) is None
    assert _open_files() == before
    held = [liveness.hold(tmp_path) for _ in range(2)]
    assert None not in held
    for descriptor in held:
        os.close(descriptor or -1)


def test_locks_of_a_crew_that_cannot_be_had_count_as_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flock = fcntl.flock
    JobLayout(tmp_path).flight.mkdir()
    crew = liveness.join_crew(tmp_path)
    assert crew is not None

    def lock_only(descriptor: int, how: int) -> None:
        if Path(f"/proc/self/fd/{descriptor}").readlink() == JobLayout(tmp_path).crew:
            raise OSError(errno.ENOLCK, "none")
        flock(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", lock_only)
    held = liveness.hold(tmp_path)
    assert held is not None
    os.close(held)
    os.close(crew)


def test_a_directory_that_is_gone_has_no_crew(tmp_path: Path) -> None:
    assert liveness.join_crew(tmp_path / "gone") is None


def test_the_latest_sign_is_the_heartbeat_then_the_record_and_else_none(tmp_path: Path) -> None:
    layout = JobLayout(tmp_path)
    assert liveness.last_beat(tmp_path) == math.inf
    assert not liveness.has_beaten(tmp_path)
    now = time.time()
    layout.record.write_text("{}")
    os.utime(layout.record, (now - 500, now - 500))
    assert 500 <= liveness.last_beat(tmp_path) < 560
    liveness.beat(tmp_path)
    assert liveness.has_beaten(tmp_path)
    assert liveness.last_beat(tmp_path) < 60
    os.utime(layout.heartbeat, (now + 900, now + 900))
    assert liveness.last_beat(tmp_path) == 0  # of a clock ahead of ours
    liveness.clear_heartbeat(tmp_path)
    assert not liveness.has_beaten(tmp_path)
    liveness.clear_heartbeat(tmp_path)
    liveness.beat(tmp_path / "gone")


def test_a_job_of_another_machine_is_dead_when_it_was_silent_for_long(tmp_path: Path) -> None:
    theirs = record(tmp_path, owner=OWNER.model_copy(update={"host": "elsewhere"}))
    layout = JobLayout(tmp_path)
    liveness.beat(tmp_path)
    assert not liveness.is_dead(tmp_path, theirs)
    then = time.time() - 30
    os.utime(layout.heartbeat, (then, then))
    assert not liveness.is_dead(tmp_path, theirs)
    assert liveness.is_dead(tmp_path, theirs, 20)
    assert not liveness.is_dead(tmp_path, theirs, 200)
    then = time.time() - liveness.STALE_SECONDS - 1
    os.utime(layout.heartbeat, (then, then))
    assert liveness.is_dead(tmp_path, theirs)


def test_a_job_of_this_machine_is_dead_when_its_process_is_whatever_it_said(tmp_path: Path) -> None:
    ours = current_owner()
    then = time.time() - 10 * liveness.STALE_SECONDS
    liveness.beat(tmp_path)
    os.utime(JobLayout(tmp_path).heartbeat, (then, then))
    assert not liveness.is_dead(tmp_path, record(tmp_path, owner=ours))
    liveness.beat(tmp_path)
    gone = OWNER.model_copy(update={"host": ours.host})
    assert liveness.is_dead(tmp_path, record(tmp_path, owner=gone))


def test_whoever_asks_a_job_to_stop_may_ask_twice(tmp_path: Path) -> None:
    assert not liveness.asked_to_cancel(tmp_path)
    for _ in range(2):
        liveness.ask_to_cancel(tmp_path)
        assert liveness.asked_to_cancel(tmp_path)
    with pytest.raises(OSError):
        liveness.ask_to_cancel(tmp_path / "gone")
