"""`benchjobs cancel` stops a job from any other process, and `benchjobs recover` closes one that nobody runs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import jsonschema
import pytest

from pytest_benchjobs.model.job import JobStatus
from pytest_benchjobs.report.documents import schema_of
from pytest_benchjobs.store.bundle import JobBundle
from pytest_benchjobs.store.reader import HistoryReader
from tests.support import RESULTS, paths, until

from .conftest import PATIENCE, Bench

pytestmark = pytest.mark.usefixtures("own_temporary_files")


@pytest.fixture
def slow(bench: Bench) -> Iterator[Bench]:
    """Two trials that end at once, then four that would not end before the test does."""
    stay = bench.path / "stay"
    stay.touch()
    waits = {"reference": f"while test -e {stay}; do sleep 0.2; done"}
    bench.manifest({f"t{number}": {} if number < 2 else waits for number in range(6)}, "slow.bench.yaml")
    yield bench
    # Nobody ends what ran in a fake sandbox whose session was killed.
    stay.unlink()


@contextmanager
def running(bench: Bench) -> Iterator[subprocess.Popen[str]]:
    """The job, once its two quick trials have ended."""
    options = ("-p", "no:cacheprovider", "-q", "--bench-job-name", "slow job", "--bench-concurrency", "3")
    with bench.start(*options) as process:
        try:
            until(lambda: process.poll() is not None or len(paths(bench.path, RESULTS)) >= 2)
            assert process.poll() is None
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)


def job(bench: Bench) -> dict[str, Any]:
    (path,) = (bench.path / "reports" / "jobs").glob("*/job.json")
    return json.loads(path.read_text())  # type: ignore[no-any-return]


def test_a_running_job_is_stopped_and_keeps_what_had_ended(slow: Bench) -> None:
    with running(slow) as process:
        done = slow.benchjobs("cancel", "slow job")
        record = job(slow)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout == (
            f"job {record['id']} (slow job): cancelled\n2 of 6 trials ended: 2 passed\n"
            f"run the rest with `benchjobs resume {record['id']}`\n"
        )
        assert (record["status"], record["totals"]["passed"]) == ("cancelled", 2)
        assert process.wait(PATIENCE) == 2
    root = slow.path / "reports" / "jobs" / record["id"]
    assert not (root / ".flight").exists()
    assert sorted(path.parent.parent.name for path in root.glob("trials/*/*/*/result.json")) == ["t0", "t1"]


def test_nobody_has_to_wait_for_the_end(slow: Bench) -> None:
    with running(slow) as process:
        done = slow.benchjobs("cancel", "last", "--no-wait", "-o", "json")
        assert done.returncode == 0
        document = json.loads(done.stdout)
        jsonschema.validate(document, schema_of("cancel"))
        assert document["changed"] is True
        assert process.wait(PATIENCE) == 2
    assert job(slow)["status"] == "cancelled"


def test_a_job_that_does_not_answer_is_named_with_its_process(slow: Bench) -> None:
    with running(slow) as process:
        os.kill(process.pid, signal.SIGSTOP)
        done = slow.benchjobs("cancel", "last", "--timeout", "0.5")
        assert done.returncode == 1
        assert f"process {process.pid} of " in done.stderr
        assert job(slow)["status"] == "running"
        os.kill(process.pid, signal.SIGCONT)
        assert process.wait(PATIENCE) == 2
    assert job(slow)["status"] == "cancelled"


def test_a_job_whose_process_died_is_closed_as_cancelled(slow: Bench) -> None:
    with running(slow) as process:
        process.kill()
        process.wait(PATIENCE)
        done = slow.benchjobs("cancel", "last", "-o", "yaml")
    record = job(slow)
    assert (done.returncode, done.stderr) == (0, "")
    assert (record["status"], record["message"]) == ("cancelled", "cancelled after its process had died")
    assert "status: cancelled\nchanged: true\n" in done.stdout
    assert (slow.path / "reports" / "jobs" / record["id"] / "junit.xml").exists()
    listed = slow.benchjobs("list", "--all", "-o", "json")
    assert [found["status"] for found in json.loads(listed.stdout)["jobs"]] == ["cancelled"]


def test_a_job_that_had_ended_stays_as_it_is(bench: Bench) -> None:
    bench.manifest({"one": "echo score=1"})
    bench.run()
    before = job(bench)
    done = bench.benchjobs("cancel", before["id"][:-2])
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (
        f"job {before['id']} had already ended: completed\n1 of 1 trials ended: 1 passed\n"
    )
    assert job(bench) == before
    unknown = bench.benchjobs("cancel", "nope")
    assert (unknown.returncode, unknown.stdout) == (2, "")
    assert unknown.stderr.startswith("benchjobs: there is no job 'nope'")


def test_recover_closes_what_died_and_leaves_what_lives(slow: Bench) -> None:
    with running(slow) as process:
        alive = slow.benchjobs("recover", "--stale-seconds", "0")
        assert alive.stdout == "recovered 0 jobs\n"
        process.kill()
        process.wait(PATIENCE)
        done = slow.benchjobs("recover", "-o", "json")
    assert (done.returncode, done.stderr) == (0, "")
    document = json.loads(done.stdout)
    jsonschema.validate(document, schema_of("recover"))
    (recovered,) = document["recovered"]
    record = job(slow)
    assert recovered["job"] == record["id"]
    assert "kept 2 of 6 trials" in recovered["message"]
    assert record["status"] == "failed"
    junit = slow.path / "reports" / "jobs" / record["id"] / "junit.xml"
    junit.unlink()
    # To write what is missing of one that had ended is not to recover it.
    again = slow.benchjobs("recover")
    assert (again.returncode, again.stdout.splitlines()[-1]) == (0, "recovered 0 jobs")
    assert junit.exists()


def test_where_no_job_ever_ran_there_is_nothing_to_recover(bench: Bench) -> None:
    done = bench.benchjobs("recover")
    assert (done.returncode, done.stdout, done.stderr) == (0, "recovered 0 jobs\n", "")
    assert not (bench.path / "reports").exists()


def test_a_job_that_was_cancelled_by_halves_is_cancelled_altogether(slow: Bench) -> None:
    (slow.path / "stay").unlink()
    slow.run("slow.bench.yaml", "-q")
    (slow.path / "stay").touch()
    bundle = JobBundle.open(slow.path / "reports", slow.bundle().name)
    cancelled = bundle.read().model_copy(update={"status": JobStatus.CANCELLED, "message": "as asked"})
    bundle.write(cancelled)  # and here whoever wrote it died
    done = slow.benchjobs("cancel", "last")
    assert done.returncode == 0, done.stderr
    with HistoryReader.of(slow.path / "reports") as history:
        assert history.job(bundle.id) == cancelled
    assert json.loads((bundle.root / "report.json").read_text())["job"]["status"] == "cancelled"
