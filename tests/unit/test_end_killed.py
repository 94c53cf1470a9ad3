"""An end of a job that is killed at any of its operations is finished by whoever comes next."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sqlite3
import tempfile
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from pytest_benchjobs.job import detach
from pytest_benchjobs.job.begin import Begun
from pytest_benchjobs.job.cancel import cancel, finish
from pytest_benchjobs.job.dead_jobs import recover
from pytest_benchjobs.job.end import is_complete
from pytest_benchjobs.job.merge import Merge
from pytest_benchjobs.job.running import RunningJob
from pytest_benchjobs.job.ticket import Ticket
from pytest_benchjobs.job.trials import Supplies
from pytest_benchjobs.model.gate import GateConfig, GateExit
from pytest_benchjobs.model.job import JobConfig, JobStatus
from pytest_benchjobs.model.result import TrialResult
from pytest_benchjobs.model.usage import Usage
from pytest_benchjobs.sandbox.late import LateProvider
from pytest_benchjobs.sandbox.protocol import SandboxProvider
from pytest_benchjobs.store import ledger
from pytest_benchjobs.store.bundle import JobBundle
from pytest_benchjobs.store.gates import kept_gates
from pytest_benchjobs.store.history import History
from pytest_benchjobs.store.layout import Layout
from pytest_benchjobs.store.liveness import beat
from pytest_benchjobs.store.rows import as_text
from pytest_benchjobs.store.totals import totals

from ..killing import killed_at
from .records import JOB, NOW, record, trial
from .test_merge import ELSEWHERE, OTHER, SECOND, broken, failed, made, make

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning"),
    pytest.mark.when_changed("job", "store"),
]
Work = Callable[[Path], object]
"""Works in a directory: on results in `here`, from others in `there`."""


def running(here: Path, *results: TrialResult, status: JobStatus = JobStatus.RUNNING) -> JobBundle:
    """A job with these results whose process has not ended it."""
    config = JobConfig(directory=here, gate=GateConfig(exit=GateExit.GATE, max_error_rate=0))
    values = {"status": status, "planned": len(results), "owner": ELSEWHERE, "config": config}
    bundle = JobBundle.create(here, record(here, **values))
    with History.of(here) as history:
        history.save_job(bundle.read())
    for each in results:
        bundle.begin(trial(each.scenario)).commit(each)
    return bundle


def died(directory: Path) -> None:
    """Have a job whose process is gone, with a trial that did not end."""
    runs(directory)
    bundle = JobBundle.open(directory / "here", JOB)
    bundle.begin(trial("unfinished"))


def runs(directory: Path) -> None:
    """Have a job whose trials have ended; the history has one of them."""
    bundle = running(directory / "here", made("a"), failed("b"))
    with History.of(directory / "here") as history:
        history.save_trials(list(bundle.results())[:1])
    beat(bundle.root)
    (bundle.layout.events).mkdir(parents=True)
    (bundle.layout.events / "1.jsonl").touch()
    ledger.note(bundle.layout.spent, Usage(calls=7, cost_usd=2.5))


def session(directory: Path) -> None:
    """End the job as the process does that runs it."""
    bundle = JobBundle.open(directory / "here", JOB)
    record = bundle.read()
    begun = Begun(bundle, History.of(directory / "here"), record, lock=None)
    job: RunningJob[Ticket] = RunningJob(
        record.config, bundle, Supplies({}, {}, LateProvider(no_sandboxes)), begun
    )
    for each in bundle.results():
        job.record(each)
    job.finish(planned=2, stopped=None, host=None)
    assert job.problems.lines == []


def no_sandboxes() -> SandboxProvider:
    """No trial is run here."""
    raise AssertionError("unreachable")


def recovering(directory: Path) -> None:
    """Recover every job."""
    with History.of(directory / "here") as history:
        recover(directory / "here", history, 0)


def cancelling(directory: Path) -> None:
    """Cancel the job."""
    bundle = JobBundle.open(directory / "here", JOB)
    if bundle.read().status.ended:
        finish(directory / "here", bundle)
    else:
        os.utime(bundle.layout.heartbeat, (0, 0))
        cancel(directory / "here", bundle, 0)


def announced(directory: Path) -> None:
    """Have a job in the background whose pytest ended before it began."""
    bundle = running(directory / "here", status=JobStatus.INITIALIZING)
    bundle.layout.log.write_text("ERROR: no such benchmark\n")


def detached(directory: Path) -> None:
    """End the job in the background that never began."""
    detach._close({"directory": str(directory / "here"), "job": JOB}, 4)


def one_there(directory: Path) -> None:
    """Have a job elsewhere."""
    make(directory / "there", made("a", finished_at=NOW + 5 * SECOND), made("c"))


def one_in_both(directory: Path) -> None:
    """Have a job elsewhere of which a part is here."""
    one_there(directory)
    make(directory / "here", broken("a"), made("b"), index=True)


def merging(directory: Path) -> None:
    """Bring the job in."""
    with History.of(directory / "here") as history:
        Merge(directory / "here", history).bring_in(JobBundle(directory / "there", JOB).root)


def two_there(directory: Path) -> None:
    """Have two jobs elsewhere."""
    one_there(directory)
    make(directory / "there", failed("b"), job=OTHER)


def making_one(directory: Path) -> None:
    """Make one job of the two."""
    with History.of(directory / "here") as history:
        roots = [JobBundle(directory / "there", job).root for job in (JOB, OTHER)]
        Merge(directory / "here", history).make_one("whole", roots)


def assert_agreement(here: Path) -> None:
    """Assert that files, history and reports say the same of every job, and that nothing is left to do."""
    with History.of(here) as history:
        for bundle in JobBundle.all(here):
            record = bundle.read()
            results = {one.node_id: one for one in bundle.results()}
            assert record.status.ended
            assert record.totals == totals(results.values())
            assert history.job(bundle.id) == record
            rows = {row.node_id: (row.outcome, row.finished_at) for row in history.trials(bundle.id)}
            assert rows == {
                name: (one.outcome.value, as_text(one.finished_at)) for name, one in results.items()
            }
            row = history.job_row(bundle.id)
            assert row is not None
            assert (row.status, row.ended, row.passed) == (
                record.status.value, record.totals.trials, record.totals.passed,
            )  # fmt: skip
            kept = [report.model_dump(mode="json") for report in kept_gates(bundle.root)]
            assert [json.loads(text) for text in verdicts(here, bundle.id)] == kept
            report = json.loads(bundle.layout.report.read_bytes())
            assert report["job"]["status"] == record.status.value
            assert report["totals"]["trials"] == len(results)
            assert {one["node_id"] for one in report["results"]} == results.keys()
            assert report["gates"] == kept[-1:]
            assert sum(1 for _ in ET.parse(bundle.layout.junit).iter("testcase")) >= len(results)
            assert bundle.layout.summary.is_file()
            hidden = {path.name for path in bundle.root.rglob(".*")}
            assert hidden <= {".lock"}
            assert is_complete(bundle.layout)
        assert recover(here, history, 0) == []


def verdicts(here: Path, job: str) -> list[str]:
    """What the history keeps of the verdicts on a job."""
    query = "SELECT report FROM gates WHERE job = ? AND expression = '' ORDER BY id"
    with contextlib.closing(sqlite3.connect(Layout(here).history)) as connection:
        return [text for (text,) in connection.execute(query, (job,))]


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Path]:
    """A directory in memory, where there is such a file system: thousands of files are copied here."""
    if not Path("/dev/shm").is_dir():
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir="/dev/shm") as directory:
        yield Path(directory)


@pytest.mark.parametrize(
    "finishers",
    [
        pytest.param((recovering, None), id="in-turns"),
        pytest.param((recovering,), id="recovered", marks=pytest.mark.extended),
        pytest.param((None,), id="again", marks=pytest.mark.extended),
    ],
)
@pytest.mark.parametrize(
    ("before", "work"),
    [
        (runs, session), (died, recovering), (died, cancelling), (announced, detached), (one_there, merging),
        (one_in_both, merging), (two_there, making_one),
    ],
    ids=["session", "recover", "cancel", "detach", "merge", "update", "merge-as-one"],
)  # fmt: skip
def test_an_end_that_is_killed_is_finished_by_the_next_caller(
    memory: Path, before: Work, work: Work, finishers: Sequence[Work | None]
) -> None:
    """`finishers` take turns; None is the one that was killed."""
    start, directory = memory / "start", memory / "work"
    start.mkdir()
    before(start)
    History.of(start / "here").close()
    operation = 0
    while True:
        shutil.copytree(start, directory)
        if not killed_at(operation, lambda: work(directory)):
            break
        then = finishers[operation % len(finishers)]
        if then is not None:
            then(directory)
        elif work is session:
            cancelling(directory)
        else:
            work(directory)
        assert_agreement(directory / "here")
        shutil.rmtree(directory)
        operation += 1
    assert operation > 20
    assert_agreement(directory / "here")
