"""Many trials in flight: tokens shared by processes, every result exactly once, nothing left behind."""

from __future__ import annotations

import collections
import contextlib
import errno
import fcntl
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_benchjobs.model.result import TrialResult
from pytest_benchjobs.trial import flight as flight_module
from pytest_benchjobs.trial.cancellation import Cancellation, Cancelled
from pytest_benchjobs.trial.flight import Deferred, Flight, Tokens
from tests.support import set_clock, until

from .records import result, trial

WAIT = 20.0
OURS = ("bench-dispatch", "bench-trial", "bench-interrupt")


def _threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name in OURS]


def _result(number: int) -> TrialResult:
    return result(trial(scenario=f"s{number}"))


class Runs:
    """A `run` whose trials last until they are told to end, and which counts how many go on at once."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.let_go = threading.Event()
        self.now = self.most = 0
        self.started: list[int] = []
        self.cancelled: list[int] = []

    def __call__(self, number: int, cancellation: Cancellation) -> TrialResult:
        with self.lock:
            self.now += 1
            self.most = max(self.most, self.now)
            self.started.append(number)
        while not self.let_go.wait(0.005):
            if cancellation.requested:
                self.cancelled.append(number)
                break
        with self.lock:
            self.now -= 1
        return _result(number)


@pytest.fixture
def runs() -> Runs:
    return Runs()


@pytest.fixture
def flight(runs: Runs, tmp_path: Path) -> Iterator[Flight[int]]:
    flight = Flight(runs, Tokens(tmp_path / "tokens", 3))
    yield flight
    flight.cancel()
    flight.close()
    until(lambda: not _threads())


def test_each_trial_lands_exactly_once_and_never_more_run_than_there_are_tokens(
    flight: Flight[int], runs: Runs
) -> None:
    for number in range(40):
        flight.submit(number)
    until(lambda: len(runs.started) == 3)
    runs.let_go.set()
    landed = [flight.next(WAIT) for _ in range(40)]
    assert sorted(one[0] for one in landed if one) == list(range(40))
    assert all(one is not None and one[1].scenario == f"s{one[0]}" for one in landed)
    assert runs.most <= 3
    assert flight.next(0) is None
    assert flight.outstanding == 0


def test_cancelling_withdraws_what_waits_and_stops_what_runs(flight: Flight[int], runs: Runs) -> None:
    for number in range(10):
        flight.submit(number)
    until(lambda: len(runs.started) == 3)
    flight.cancel()
    landed = {one[0] for one in (flight.next(WAIT) for _ in range(3)) if one}
    assert landed == set(runs.started) == set(runs.cancelled)
    assert flight.outstanding == 0
    assert flight.next(0.05) is None


def test_what_was_withdrawn_never_starts(flight: Flight[int], runs: Runs) -> None:
    for number in range(10):
        flight.submit(number)
    until(lambda: len(runs.started) == 3)
    assert sorted([*flight.withdraw(), *runs.started]) == list(range(10))
    runs.let_go.set()
    assert len([flight.next(WAIT) for _ in range(3)]) == 3
    assert flight.next(0.05) is None
    assert len(runs.started) == 3


def test_instant_trials_that_pytest_lags_behind_run_one_after_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_clock(monkeypatch, flight_module, lambda: 1000.0)  # no load makes a trial take long
    ran = collections.Counter[int]()

    def run(number: int, _cancellation: Cancellation) -> TrialResult:
        time.sleep(0.001)  # other threads have every chance to begin
        ran[threading.get_ident()] += 1
        return _result(number)

    flight = Flight(run, Tokens(tmp_path / "tokens", 8))
    for number in range(200):
        flight.submit(number)
    until(lambda: ran.total() == 200)
    flight.close()

    assert ran.most_common(1)[0][1] > 150


def test_a_long_trial_that_follows_instant_ones_keeps_no_other_waiting(tmp_path: Path, runs: Runs) -> None:
    def run(number: int, cancellation: Cancellation) -> TrialResult:
        return _result(number) if number < 5 else runs(number, cancellation)

    flight = Flight(run, Tokens(tmp_path / "tokens", 4))
    for number in range(9):
        flight.submit(number)
    until(lambda: runs.now == 4)  # and the results of the instant ones wait to be read
    runs.let_go.set()
    flight.close()


def test_a_deferred_trial_gives_its_token_back_and_runs_later(tmp_path: Path) -> None:
    ran: list[int] = []

    def run(number: int, _: Cancellation) -> TrialResult | Deferred:
        ran.append(number)
        return Deferred(0.2) if number == 0 and ran.count(0) < 3 else _result(number)

    flight = Flight[int](run, Tokens(tmp_path, 1))
    for number in range(3):
        flight.submit(number)
    landed = [one[0] for one in (flight.next(WAIT) for _ in range(3)) if one is not None]
    assert landed == [1, 2, 0]
    assert ran == [0, 1, 2, 0, 0]
    assert flight.outstanding == 0
    flight.close()


def test_deferred_trials_are_withdrawn_like_waiting_ones(tmp_path: Path, runs: Runs) -> None:
    def run(number: int, cancellation: Cancellation) -> TrialResult | Deferred:
        if number == 0:
            return Deferred(600.0)
        runs(number, cancellation)
        return Deferred(600.0)

    flight = Flight[int](run, Tokens(tmp_path, 2))
    flight.submit(0)
    flight.submit(1)
    until(lambda: runs.started == [1])
    assert flight.outstanding == 2
    flight.cancel()
    until(lambda: flight.outstanding == 0)
    assert flight.next(timeout=0.05) is None
    flight.close()


@pytest.mark.parametrize("error", [MemoryError(), SystemExit(1), RuntimeError("bug")])
def test_a_run_that_raises_gives_its_token_back_and_is_heard_of(tmp_path: Path, error: BaseException) -> None:
    def run(number: int, cancellation: Cancellation) -> TrialResult:
        if number == 0:
            raise error
        return _result(number)

    with contextlib.closing(Flight(run, Tokens(tmp_path / "tokens", 1))) as flight:
        flight.submit(0)
        flight.submit(1)
        with pytest.raises(type(error)):
            flight.next(WAIT)
        landed = flight.next(WAIT)
        assert landed is not None
        assert landed[0] == 1
        assert flight.outstanding == 0


def test_a_machine_that_gives_no_more_threads_for_a_while_delays_trials_and_loses_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, refusals = threading.Thread.start, iter([True, True, False])

    def start(thread: threading.Thread) -> None:
        if thread.name == "bench-trial" and next(refusals, False):
            raise RuntimeError("can't start new thread")
        real(thread)

    monkeypatch.setattr(threading.Thread, "start", start)
    flight = Flight(lambda number, cancellation: _result(number), Tokens(tmp_path / "tokens", 2))
    with contextlib.closing(flight):
        for number in range(3):
            flight.submit(number)
        landed = [flight.next(WAIT) for _ in range(3)]
        assert sorted(one[0] for one in landed if one) == [0, 1, 2]
        assert flight.outstanding == 0


# Tokens

HOLD = textwrap.dedent("""
    import sys, time
    from pathlib import Path
    from pytest_benchjobs.trial.flight import Tokens
    tokens = Tokens(Path(sys.argv[1]), int(sys.argv[2]))
    held = []
    while (token := tokens.take()) is not None:
        held.append(token)
    print(len(held), flush=True)
    time.sleep(60)  # it is killed
""")

SHARE = textwrap.dedent("""
    import os, random, sys, time
    from pathlib import Path
    from pytest_benchjobs.trial.flight import Tokens
    directory, limit, rounds = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    tokens = Tokens(directory / "tokens", limit)
    for _ in range(rounds):
        while (token := tokens.take()) is None:
            time.sleep(0.001)  # between two looks
        mark = directory / "inside" / f"{os.getpid()}"
        mark.touch()
        print(len(list((directory / "inside").iterdir())), flush=True)
        time.sleep(random.random() / 200)  # so that others come meanwhile
        mark.unlink()
        tokens.give_back(token)
""")


def _start(script: str, *args: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", script, *map(str, args)], stdout=subprocess.PIPE, text=True
    )


def test_processes_together_never_hold_more_tokens_than_there_are(tmp_path: Path) -> None:
    (tmp_path / "inside").mkdir()
    processes = [_start(SHARE, tmp_path, 2, 25) for _ in range(4)]
    seen = [int(line) for process in processes for line in process.communicate(timeout=60)[0].split()]
    assert len(seen) == 100
    assert max(seen) <= 2


def test_tokens_of_a_killed_process_are_free(tmp_path: Path) -> None:
    process = _start(HOLD, tmp_path, 2)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "2\n"
        tokens = Tokens(tmp_path, 2)
        assert tokens.take() is None
    finally:
        process.send_signal(signal.SIGKILL)
        process.communicate()
    taken = [tokens.take(), tokens.take()]
    assert sorted(token for token in taken if token is not None) == [0, 1]
    assert tokens.take() is None
    for token in (0, 1):
        tokens.give_back(token)


def test_a_token_that_was_given_back_is_free_even_if_a_child_inherited_it(tmp_path: Path) -> None:
    tokens = Tokens(tmp_path, 1)
    token = tokens.take()
    assert token is not None
    inherited = os.dup(next(fd for fd in tokens._held.values() if fd is not None))
    try:
        tokens.give_back(token)
        other = Tokens(tmp_path, 1)
        taken = other.take()
        assert taken is not None
        other.give_back(taken)
    finally:
        os.close(inherited)


@pytest.mark.parametrize("refused", [errno.ENOLCK, errno.EOPNOTSUPP])
def test_a_file_system_without_locks_keeps_the_limit_in_each_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: int
) -> None:
    def refuse(*args: object) -> None:
        raise OSError(refused, "no locks")

    monkeypatch.setattr(fcntl, "flock", refuse)
    tokens = Tokens(tmp_path, 2)
    assert [tokens.take(), tokens.take(), tokens.take()] == [0, 1, None]
    tokens.give_back(1)
    assert tokens.take() == 1


def test_a_directory_that_is_gone_does_not_stop_the_job(tmp_path: Path) -> None:
    tokens = Tokens(tmp_path / "tokens", 1)
    (tmp_path / "tokens").rmdir()
    assert [tokens.take(), tokens.take()] == [0, None]
    tokens.give_back(0)


def test_a_process_out_of_descriptors_waits_while_it_holds_a_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokens = Tokens(tmp_path, 3)
    assert tokens.take() == 0

    def scarce(*args: object) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(os, "open", scarce)
    assert tokens.take() is None
    tokens.give_back(0)
    assert tokens.take() is not None


# Cancellation


def test_what_a_trial_is_blocked_in_is_interrupted_once_it_is_asked_to_stop() -> None:
    cancellation, interrupted = Cancellation(), threading.Event()
    with cancellation.interrupting(interrupted.set):
        cancellation.check()
        cancellation.request()
        assert interrupted.wait(WAIT)
    with pytest.raises(Cancelled):
        cancellation.check()
    assert cancellation.wait(60)


def test_what_is_entered_after_the_request_is_interrupted_at_once() -> None:
    cancellation, interrupts = Cancellation(), []
    cancellation.request()
    with cancellation.interrupting(lambda: interrupts.append(1)):
        assert interrupts == [1]


def test_what_has_been_left_is_not_interrupted() -> None:
    cancellation, interrupts = Cancellation(), []
    with cancellation.interrupting(lambda: interrupts.append(1)):
        pass
    cancellation.request()
    until(lambda: "bench-interrupt" not in _threads())
    assert interrupts == []


def test_an_interrupt_comes_even_when_there_is_no_thread_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    cancellation, interrupts = Cancellation(), []
    monkeypatch.setattr(threading.Thread, "start", refuse)
    with cancellation.interrupting(lambda: interrupts.append(1)):
        cancellation.request()
    assert interrupts == [1]
