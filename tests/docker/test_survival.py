"""What is left after the worst: no container, no half-written result, and everything that had finished."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import time
from functools import partial
from pathlib import Path

import pytest

from tests.support import IMAGE, PATIENCE, containers, in_flight, jobs, results, run, start, until

pytestmark = [pytest.mark.docker, pytest.mark.slow, pytest.mark.daily]

TRIALS = 12


def _manifest(directory: Path) -> None:
    scenarios = "".join(
        f"""
  - id: t{number:02}
    problem_statement: Write ok.
    reference: sleep 0.{number % 5}; echo ok > out.txt
    scorers: [{{name: ok, type: command, command: grep -q ok out.txt}}]"""
        for number in range(TRIALS)
    )
    (directory / "survival.bench.yaml").write_text(
        f"benchmark: survival\ndefaults: {{image: '{IMAGE}', workdir: /app, network: none}}\nscenarios:{scenarios}\n"
    )


def _until_no_container(directory: Path) -> None:
    until(lambda: not containers(*jobs(directory)), what="containers are left")


def _in_history(directory: Path) -> set[tuple[str, str]]:
    path = directory / "reports" / "history.sqlite"
    if not path.exists():
        return set()
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as database:
        return set(database.execute("select job, node_id from trials"))


def _assert_nothing_is_left_or_lost(directory: Path) -> None:
    bundle = {(result["job"], result["node_id"]) for result in results(directory)}
    # The next start tidies up; running nothing at all is enough of a start.
    done = run(directory, "survival.bench.yaml", "--bench-scenario", "t00")
    assert done.returncode == 0, done.stdout
    _until_no_container(directory)
    assert not list(directory.glob("reports/jobs/*/**/.tmp-*"))
    assert bundle <= _in_history(directory)
    with sqlite3.connect(directory / "reports" / "history.sqlite") as database:
        assert database.execute("select count(*) from jobs where status = 'running'").fetchone() == (0,)


OFTEN = pytest.mark.parametrize("times", [2, pytest.param(6, marks=pytest.mark.extended)])


@OFTEN
def test_killing_the_main_process_at_random_moments(tmp_path: Path, times: int) -> None:
    _manifest(tmp_path)
    moments = random.Random(7)
    for number in range(times):
        before = jobs(tmp_path)
        process = start(tmp_path, "survival.bench.yaml", "--bench-concurrency", "4", "-p", "no:cacheprovider")
        if number:  # the first time it dies on its way to its first trial
            until(partial(in_flight, tmp_path, *before))
        time.sleep(moments.uniform(0.5, 2.0))  # at no moment that anything waits for
        process.kill()
        process.communicate()
    _assert_nothing_is_left_or_lost(tmp_path)


@OFTEN
@pytest.mark.extended
def test_killing_a_worker_at_random_moments(tmp_path: Path, times: int) -> None:
    _manifest(tmp_path)
    moments = random.Random(11)
    killed = 0
    for _ in range(times):
        before = jobs(tmp_path)
        process = start(tmp_path, "survival.bench.yaml", "-n", "2", "--bench-concurrency", "4")
        # A worker that dies while xdist makes it ready ends the session, and we have no part in that.
        until(partial(in_flight, tmp_path, *before))
        time.sleep(moments.uniform(0, 1.2))  # at no moment that anything waits for
        # execnet starts its workers with this line of Python.
        workers = subprocess.run(
            ["pgrep", "-P", str(process.pid), "-f", r"exec\(eval\(sys.stdin.readline"],
            capture_output=True, text=True, check=False,
        ).stdout.split()  # fmt: skip
        if workers and process.poll() is None:
            os.kill(int(moments.choice(workers)), signal.SIGKILL)
            killed += 1
        output, _ = process.communicate(timeout=PATIENCE)
        assert "INTERNALERROR" not in output, output
        (job,) = jobs(tmp_path) - before
        found = [result for result in results(tmp_path) if result["job"] == job]
        assert len({result["node_id"] for result in found}) == TRIALS, output
    assert killed >= times // 2, "the moments of this test miss the workers"
    _assert_nothing_is_left_or_lost(tmp_path)


@pytest.mark.parametrize("workers", ["0", "2"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_polite_request_to_stop_leaves_nothing(
    tmp_path: Path, workers: str, number: signal.Signals
) -> None:
    _manifest(tmp_path)
    process = start(tmp_path, "survival.bench.yaml", "-n", workers, "--bench-concurrency", "4")
    until(lambda: results(tmp_path))
    process.send_signal(number)
    output, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 2, output
    assert "INTERNALERROR" not in output
    _until_no_container(tmp_path)
    assert not list(tmp_path.glob("reports/jobs/*/**/.tmp-*"))
    kept = {(result["job"], result["node_id"]) for result in results(tmp_path)}
    assert kept == _in_history(tmp_path), output


@pytest.mark.extended
def test_asking_twice_is_quicker_and_as_clean(tmp_path: Path) -> None:
    _manifest(tmp_path)
    process = start(tmp_path, "survival.bench.yaml", "--bench-concurrency", "6")
    until(lambda: containers(*jobs(tmp_path)))
    process.send_signal(signal.SIGINT)
    time.sleep(0.1)  # two signals at once are one
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 2, output
    _until_no_container(tmp_path)


@pytest.mark.extended
def test_a_job_that_is_alive_is_left_alone_by_the_next_start(tmp_path: Path) -> None:
    alive, other = tmp_path / "alive", tmp_path / "other"
    for directory in (alive, other):
        directory.mkdir()
        _manifest(directory)
    process = start(alive, "survival.bench.yaml", "--bench-concurrency", "2")
    until(lambda: containers(*jobs(alive)))
    assert run(other, "survival.bench.yaml", "--bench-scenario", "t00").returncode == 0
    output, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, output
    assert len(results(alive)) == TRIALS
