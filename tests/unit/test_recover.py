from __future__ import annotations

import contextlib
import datetime
import os
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pytest_benchjobs.job.dead_jobs import recover as recover_jobs
from pytest_benchjobs.job.end import Ending, end
from pytest_benchjobs.model.errors import DiskFull, InputError
from pytest_benchjobs.model.job import JobRecord, JobStatus, Owner, Totals
from pytest_benchjobs.model.owner import current_owner
from pytest_benchjobs.model.result import Failure, Outcome
from pytest_benchjobs.model.usage import Usage
from pytest_benchjobs.store import ledger
from pytest_benchjobs.store.bundle import JobBundle
from pytest_benchjobs.store.checksum import checksum_of
from pytest_benchjobs.store.history import History
from pytest_benchjobs.store.index import rebuild
from pytest_benchjobs.store.layout import JobLayout, Layout
from pytest_benchjobs.store.listing import JOBS, each
from pytest_benchjobs.store.liveness import STALE_SECONDS, beat, hold, join_crew
from pytest_benchjobs.store.reader import HistoryReader

from .jobs import make_job, run
from .records import JOB, NOW, OWNER, record, result, trial
from .test_database import make_v1

ONE = Totals(trials=1, passed=1, mean_score=1.0)
"""Of a job with the trial that `result()` is of."""


@pytest.fixture(scope="module")
def dead() -> Owner:
    code = "from pytest_benchjobs.model.owner import current_owner; print(current_owner().model_dump_json())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    return Owner.model_validate_json(done.stdout)


def recover(directory: Path, history: History, stale_seconds: float = STALE_SECONDS) -> list[str]:
    """What is said of each job."""
    return [done.message for done in recover_jobs(directory, history, stale_seconds)]


@pytest.fixture
def history(tmp_path: Path) -> Iterator[History]:
    with History.of(tmp_path) as history:
        yield history


def test_a_job_whose_process_died_is_closed_with_all_that_had_ended(
    tmp_path: Path, history: History, dead: Owner
) -> None:
    running = record(tmp_path, owner=dead, planned=4)
    bundle = JobBundle.create(tmp_path, running)
    history.save_job(running)
    bundle.begin(trial("good")).commit(result(trial("good")))
    later = NOW + datetime.timedelta(minutes=1)
    why = {"score": 0.5, "failure": Failure(class_="x", message="y"), "finished_at": later}
    bundle.begin(trial("bad")).commit(result(trial("bad"), outcome=Outcome.FAILED, **why))
    bundle.begin(trial("unfinished"))
    assert recover(tmp_path, history) == [
        f"job {JOB} died while it ran (process {dead.pid}): kept 2 of 4 trials, removed 1 unfinished"
    ]
    closed = running.model_copy(
        update={
            "status": JobStatus.FAILED,
            "message": "died while it ran",
            "finished_at": later,
            "totals": Totals(trials=2, passed=1, failed=1, mean_score=0.75),
            "checksum": checksum_of(history.paired_rows(JOB)),
        }
    )
    assert bundle.read() == closed
    assert history.job(JOB) == closed
    assert [row.scenario for row in history.trials(JOB)] == ["bad", "good"]
    assert [path.name for path in bundle.root.rglob(".*")] == [".lock"]
    (event,) = history.events(JOB)
    assert (event.kind, event.message) == ("recovered", f"died while it ran (process {dead.pid})")
    assert recover(tmp_path, history) == []


def test_what_a_job_spent_on_trials_that_never_ended_is_known_when_it_is_closed(
    tmp_path: Path, history: History, dead: Owner
) -> None:
    before = Usage(calls=3, input_tokens=10, cost_usd=1.0)
    running = record(tmp_path, owner=dead, planned=2, spent=before)
    bundle = JobBundle.create(tmp_path, running)
    bundle.begin(trial("good")).commit(result(trial("good"), usage=Usage(calls=2, output_tokens=4)))
    ledger.note(JobLayout(bundle.root).spent, Usage(calls=7, input_tokens=30, output_tokens=9, cost_usd=2.5))
    recover(tmp_path, history)
    assert bundle.read().spent == Usage(calls=7, input_tokens=30, output_tokens=9, cost_usd=2.5)
    assert [path.name for path in bundle.root.rglob(".*")] == [".lock"]


@pytest.mark.parametrize("content", [None, "", "{", '{"calls": -1}', "[]", '{"calls": 1, "more": 2}'])
def test_a_ledger_that_nobody_can_read_says_nothing(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        JobLayout(tmp_path).spent.write_text(content)
    assert ledger.noted(tmp_path) == Usage()


def test_a_job_that_is_alive_is_left_alone(tmp_path: Path, history: History) -> None:
    running = record(tmp_path, owner=current_owner())
    bundle = JobBundle.create(tmp_path, running)
    directory = bundle.begin(trial())
    assert recover(tmp_path, history) == []
    assert bundle.read() == running
    assert directory.path.is_dir()


def test_an_ended_job_which_the_history_missed_is_indexed_without_a_word(
    tmp_path: Path, history: History, dead: Owner
) -> None:
    ended = record(tmp_path, owner=dead, status=JobStatus.COMPLETED, totals=ONE)
    bundle = JobBundle.create(tmp_path, ended)
    bundle.begin(trial()).commit(result())
    bundle.layout.junit.touch()
    assert recover(tmp_path, history) == []
    assert history.job(JOB) == ended
    assert len(history.trials(JOB)) == 1


def test_a_damaged_job_is_named_and_the_next_one_is_recovered(
    tmp_path: Path, history: History, dead: Owner
) -> None:
    damaged = JobBundle.create(tmp_path, record(tmp_path, id="a", owner=dead))
    (damaged.root / "job.json").write_text("{")
    JobBundle.create(tmp_path, record(tmp_path, id="b", owner=dead))
    lines = recover(tmp_path, history)
    assert [line.partition(":")[0] for line in lines] == [
        "job a could not be recovered",
        f"job b died while it ran (process {dead.pid})",
    ]


def test_a_damaged_result_is_mentioned(tmp_path: Path, history: History, dead: Owner) -> None:
    bundle = JobBundle.create(tmp_path, record(tmp_path, owner=dead))
    committed = bundle.begin(trial()).commit(result())
    (bundle.root / committed.path / "result.json").write_text("{")
    (line,) = recover(tmp_path, history)
    assert "kept 0 trials; 1 results are damaged: " in line
    assert "result.json: is damaged" in line


def test_only_one_process_recovers_at_a_time(tmp_path: Path, dead: Owner) -> None:
    for number in range(10):
        bundle = JobBundle.create(tmp_path, record(tmp_path, id=f"job{number}", owner=dead))
        bundle.begin(trial()).commit(result(job=bundle.id))
    code = (
        "import sys; from pathlib import Path; from pytest_benchjobs.job.dead_jobs import recover\n"
        "from pytest_benchjobs.store.history import History\n"
        "for done in recover(Path(sys.argv[1]), History(Path(sys.argv[1]) / 'history.sqlite')): print(done.message)"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    lines = [line for process in running for line in process.communicate()[0].splitlines() if line]
    assert [process.returncode for process in running] == [0, 0]
    assert sorted(line.split()[1] for line in lines) == [f"job{number}" for number in range(10)]


def removed_while_it_ran(directory: Path, history: History, **changes: object) -> JobBundle:
    """A job whose process wrote another trial after somebody had removed its directory."""
    running = record(directory, planned=2, **changes)
    bundle = JobBundle.create(directory, running)
    history.save_job(running)
    shutil.rmtree(bundle.root)
    bundle.begin(trial()).commit(result())
    return bundle


def test_a_job_that_was_removed_while_it_ran_is_closed_with_what_came_later(
    tmp_path: Path, history: History, dead: Owner
) -> None:
    bundle = removed_while_it_ran(tmp_path, history, owner=dead)
    (line,) = recover(tmp_path, history)
    assert line.startswith(f"job {JOB} died while it ran (process {dead.pid}): kept 1 of 2 trials; ")
    assert line.endswith("its job.json was missing, and was restored from the history")
    assert bundle.layout.junit.is_file()
    closed = bundle.read()
    assert (closed.status, closed.totals.trials, closed.planned) == (JobStatus.FAILED, 1, 2)
    assert history.job(JOB) == closed
    assert recover(tmp_path, history) == []


def test_a_job_that_was_removed_and_goes_on_is_left_alone(tmp_path: Path, history: History) -> None:
    bundle = removed_while_it_ran(tmp_path, history, owner=current_owner())
    assert recover(tmp_path, history) == []
    assert [path.name for path in bundle.root.iterdir()] == ["trials"]


@pytest.mark.parametrize("why", ["it ended", "nobody knows it", "another machine"])
def test_what_is_left_of_a_job_that_cannot_be_closed_is_named(
    tmp_path: Path, history: History, dead: Owner, why: str
) -> None:
    there = dead.model_copy(update={"host": "there"}) if why == "another machine" else dead
    status = JobStatus.COMPLETED if why == "it ended" else JobStatus.RUNNING
    bundle = removed_while_it_ran(tmp_path, history, owner=there, status=status)
    if why == "nobody knows it":
        history.forget(JOB)
    path = bundle.root / "job.json"
    assert recover(tmp_path, history) == [
        f"job {JOB} could not be recovered: {path}: is missing; remove {bundle.root}, or restore the file"
    ]
    assert not path.exists()


def test_rebuild_makes_the_same_history_again(tmp_path: Path) -> None:
    bundle = JobBundle.create(tmp_path, record(tmp_path))
    bundle.begin(trial()).commit(result())
    with History.of(tmp_path) as history:
        history.save_job(record(tmp_path, id="gone"))
        history.save_job(record(tmp_path))
        history.save_trials([result(trial("vanished"))])
    assert rebuild(tmp_path) == (1, 1, [])
    with HistoryReader.of(tmp_path) as history:
        assert [history.job(row.id) for row in each(history, JOBS)] == [record(tmp_path)]
        assert [row.node_id for row in history.trials(JOB)] == [trial().node_id]


def test_a_job_that_ends_while_rebuild_waits_for_its_turn_stays_ended(
    tmp_path: Path, history: History
) -> None:
    running = record(tmp_path, owner=current_owner())
    bundle = JobBundle.create(tmp_path, running)
    history.save_job(running)
    with (
        ThreadPoolExecutor() as pool,
        sqlite3.connect(Layout(tmp_path).history, isolation_level=None) as writer,
    ):
        writer.execute("BEGIN IMMEDIATE")
        rebuilding = pool.submit(rebuild, tmp_path)
        time.sleep(0.5)  # it has found the job by now
        bundle.write(running.model_copy(update={"status": JobStatus.COMPLETED, "finished_at": NOW}))
        writer.execute("COMMIT")
        rebuilding.result()
    job = history.job(JOB)
    assert job is not None
    assert job.status is JobStatus.COMPLETED


def test_rebuild_counts_what_it_could_read_in_all_places(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_job(tmp_path, JOB, {"nop": {"a": "P", "b": "F", "c": "E", "d": "P"}})
    bundle = JobBundle(tmp_path, JOB)
    before = (bundle.root / "job.json").read_bytes()
    for scenario in ("a", "c"):
        (bundle.root / "trials/nop" / scenario / "1/result.json").write_text("{")
    _, trials, warnings = rebuild(tmp_path)
    assert (trials, len(warnings)) == (2, 2)
    assert (bundle.root / "job.json").read_bytes() == before
    with HistoryReader.of(tmp_path) as history:
        (job,) = each(history, JOBS)
        assert (job.ended, job.passed, job.failed, job.error, job.mean_score) == (2, 1, 1, 0, 0.5)
        assert (job.planned, job.cost_usd) == (4, None)
    capsys.readouterr()
    assert run("summary", JOB, "--dir", tmp_path) == 0
    assert "Trials:    2 of 4 ended" in capsys.readouterr().out


def test_rebuild_moves_a_damaged_history_aside(tmp_path: Path) -> None:
    JobBundle.create(tmp_path, record(tmp_path))
    Layout(tmp_path).history.write_bytes(b"rubbish" * 1000)
    jobs, trials, warnings = rebuild(tmp_path)
    assert (jobs, trials) == (1, 0)
    (aside,) = tmp_path.glob("history.sqlite.damaged-*")
    assert aside.read_bytes() == b"rubbish" * 1000
    assert [str(warning) for warning in warnings] == [
        f"{Layout(tmp_path).history}: was damaged; moved to {aside.name}"
    ]


def test_rebuild_leaves_a_newer_history_alone(tmp_path: Path) -> None:
    JobBundle.create(tmp_path, record(tmp_path))
    with History.of(tmp_path) as history:
        history.connection.execute("PRAGMA user_version = 99")
    before = Layout(tmp_path).history.read_bytes()
    with pytest.raises(InputError, match="newer version"):
        rebuild(tmp_path)
    assert Layout(tmp_path).history.read_bytes() == before


def test_reports_that_cannot_be_written_are_part_of_the_line(
    tmp_path: Path, history: History, dead: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    JobBundle.create(tmp_path, record(tmp_path, owner=dead))

    def fail(*_: object) -> None:
        raise OSError("no room")

    with monkeypatch.context() as patch:
        patch.setattr("pytest_benchjobs.job.end.write_reports", fail)
        (line,) = recover(tmp_path, history)
        assert line.endswith("; its reports could not be written: no room")
        (line,) = recover(tmp_path, history)
        assert line == f"job {JOB} had no reports; its reports could not be written: no room"
    assert recover(tmp_path, history) == [f"job {JOB} had no reports; they were written"]
    assert recover(tmp_path, history) == []


@pytest.mark.parametrize("known", [None, "no such benchmark"])
def test_a_job_whose_process_ended_before_its_first_trial_says_so_unless_more_is_known(
    tmp_path: Path, history: History, dead: Owner, known: str | None
) -> None:
    announced = record(tmp_path, owner=dead, status=JobStatus.INITIALIZING, planned=3, message=known)
    bundle = JobBundle.create(tmp_path, announced)
    assert recover(tmp_path, history) == [f"job {JOB} ended before its first trial (process {dead.pid})"]
    closed = bundle.read()
    assert (closed.status, closed.message) == (JobStatus.FAILED, known or "ended before its first trial")
    assert (closed.totals.trials, closed.finished_at) == (0, NOW)


@pytest.mark.parametrize("name", [".heartbeat", "job.json"])
def test_a_job_of_another_machine_is_judged_by_its_heartbeat(
    tmp_path: Path, history: History, name: str
) -> None:
    there = OWNER.model_copy(update={"host": "there"})
    bundle = JobBundle.create(tmp_path, record(tmp_path, owner=there))
    os.utime(bundle.root / "job.json", (0, 0))
    (bundle.root / name).touch()
    long_ago = time.time() - 400
    assert recover(tmp_path, history) == []
    os.utime(bundle.root / name, (long_ago, long_ago))
    assert recover(tmp_path, history, stale_seconds=500) == []
    (line,) = recover(tmp_path, history)
    assert line == f"job {JOB} died while it ran (process 1 of there): kept 0 trials"
    assert not (bundle.root / ".heartbeat").exists()


def test_without_patience_a_job_of_another_machine_is_closed_at_once(
    tmp_path: Path, history: History
) -> None:
    bundle = JobBundle.create(tmp_path, record(tmp_path, owner=OWNER.model_copy(update={"host": "there"})))
    beat(bundle.root)
    assert len(recover(tmp_path, history, stale_seconds=0)) == 1


def test_cancelling_a_dead_job_of_another_machine_leaves_other_jobs_alone(
    tmp_path: Path, history: History
) -> None:
    there = OWNER.model_copy(update={"host": "there"})
    silent_for = time.time() - 90  # too long for `cancel` of its own job, not so for `recover` of any
    for job in ("asked", "other"):
        bundle = JobBundle.create(tmp_path, record(tmp_path, id=job, owner=there))
        beat(bundle.root)
        for name in (".heartbeat", "job.json"):
            os.utime(bundle.root / name, (silent_for, silent_for))
        history.save_job(bundle.read())
    assert run("cancel", "asked", "--dir", tmp_path) == 0
    found = [JobBundle(tmp_path, job).read().status for job in ("asked", "other")]
    assert found == [JobStatus.CANCELLED, JobStatus.RUNNING]
    assert (JobBundle(tmp_path, "asked").root / "junit.xml").exists()


def test_the_age_of_a_job_that_is_alive_here_does_not_matter(tmp_path: Path, history: History) -> None:
    bundle = JobBundle.create(tmp_path, record(tmp_path, owner=current_owner()))
    beat(bundle.root)
    os.utime(bundle.root / ".heartbeat", (0, 0))
    os.utime(bundle.root / "job.json", (0, 0))
    assert recover(tmp_path, history, stale_seconds=0) == []
    assert bundle.read().status is JobStatus.RUNNING


def test_a_job_that_somebody_just_takes_up_again_is_left_alone(
    tmp_path: Path, history: History, dead: Owner
) -> None:
    bundle = JobBundle.create(tmp_path, record(tmp_path, owner=dead))
    lock = hold(bundle.root)
    assert lock is not None
    assert recover(tmp_path, history) == []
    os.close(lock)
    assert len(recover(tmp_path, history)) == 1


def test_a_lost_history_has_the_jobs_of_a_process_that_lives_on(tmp_path: Path, history: History) -> None:
    # A notebook, an editor: it has run this job, and is here to run others.
    ended = record(tmp_path, owner=current_owner(), status=JobStatus.COMPLETED)
    bundle = JobBundle.create(tmp_path, ended)
    bundle.begin(trial()).commit(result())
    lock = hold(bundle.root)
    assert lock is not None
    recover(tmp_path, history)
    assert history.job(JOB) is None
    os.close(lock)
    recover(tmp_path, history)
    assert [row.scenario for row in history.trials(JOB)] == ["count"]


def test_nobody_gets_a_job_whose_workers_still_write(tmp_path: Path, history: History, dead: Owner) -> None:
    bundle = JobBundle.create(tmp_path, record(tmp_path, owner=dead))
    (bundle.root / ".flight").mkdir()
    crew = [join_crew(bundle.root), join_crew(bundle.root)]
    for descriptor in crew:
        assert descriptor is not None
        assert hold(bundle.root) is None
        assert recover(tmp_path, history) == []
        os.close(descriptor)
    assert len(recover(tmp_path, history)) == 1


def test_what_processes_told_each_other_goes_with_them(tmp_path: Path, history: History, dead: Owner) -> None:
    bundle = JobBundle.create(tmp_path, record(tmp_path, owner=dead))
    beat(bundle.root)
    (bundle.root / ".flight" / "events").mkdir(parents=True)
    (bundle.root / ".flight" / "events" / "1.jsonl").touch()
    recover(tmp_path, history)
    left = {path.name for path in bundle.root.iterdir()} - {path.name for path in bundle.layout.reports}
    assert left == {".lock", "job.json", "trials"}


def test_an_ended_job_gets_the_reports_it_lacks(tmp_path: Path, history: History, dead: Owner) -> None:
    ended = record(tmp_path, owner=dead, status=JobStatus.COMPLETED, totals=ONE)
    bundle = JobBundle.create(tmp_path, ended)
    bundle.begin(trial()).commit(result())
    history.save_job(ended)

    assert recover(tmp_path, history) == [f"job {JOB} had no reports; they were written"]
    assert {path.name for path in bundle.root.iterdir()} >= {"junit.xml", "report.json", "summary.md"}
    assert bundle.read() == ended
    assert recover(tmp_path, history) == []


def test_an_ended_job_whose_process_still_writes_reports_is_left_alone(
    tmp_path: Path, history: History
) -> None:
    ended = record(tmp_path, owner=current_owner(), status=JobStatus.COMPLETED)
    bundle = JobBundle.create(tmp_path, ended)
    assert recover(tmp_path, history) == []
    assert not bundle.layout.junit.exists()


def test_a_job_whose_files_are_gone_is_forgotten(tmp_path: Path, history: History) -> None:
    (tmp_path / "jobs").mkdir()
    history.save_job(record(tmp_path))
    history.save_job(record(tmp_path, id="ended", status=JobStatus.COMPLETED))
    assert recover(tmp_path, history) == [
        f"job {JOB} was removed while it ran; it was deleted from the history"
    ]
    assert [job.id for job in each(history, JOBS)] == ["ended"]


def test_rebuild_keeps_jobs_that_came_without_files(tmp_path: Path) -> None:
    JobBundle.create(tmp_path, record(tmp_path))
    with History.of(tmp_path) as history:
        imported = record(tmp_path, id="imported", status=JobStatus.COMPLETED)
        history.replace_job(imported, [result(job="imported")])
        history.connection.execute("UPDATE jobs SET bundled = 0 WHERE id = 'imported'")
    assert rebuild(tmp_path) == (1, 0, [])
    with HistoryReader.of(tmp_path) as history:
        assert {row.id: row.ended for row in each(history, JOBS)} == {JOB: 0, "imported": 1}
        assert len(history.trials("imported")) == 1


@pytest.mark.parametrize("history_of", ["none", "version 1"])
def test_rebuild_reads_bundles_of_version_1(tmp_path: Path, history_of: str) -> None:
    shutil.copytree(Path(__file__).parent / "v1", tmp_path, dirs_exist_ok=True)
    if history_of == "version 1":
        make_v1(Layout(tmp_path).history, [])
    assert rebuild(tmp_path) == (1, 6, [])
    with HistoryReader.of(tmp_path) as history:
        (job,) = each(history, JOBS)
        assert (job.id, job.name, job.status, job.agents) == (
            "20261121-103154-49a600", "old", "completed", ("oracle", "nop"),
        )  # fmt: skip
        assert (job.ended, job.passed, job.failed, job.error, job.mean_score) == (6, 1, 3, 2, 0.3125)
        assert [(run.agent, run.passed, run.mean_score) for run in history.runs(job.id)] == [
            ("oracle", 1, 0.625), ("nop", 0, 0.0),
        ]  # fmt: skip
        assert [row.signature for row in history.trials(job.id)] == [None] * 6


def test_an_end_that_cannot_be_written_keeps_what_was_paid_for(
    tmp_path: Path, history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = JobBundle.create(tmp_path, record(tmp_path, planned=1))
    ledger.note(bundle.layout.spent, Usage(calls=7, cost_usd=2.5))
    with monkeypatch.context() as full:

        def write(_bundle: JobBundle, _record: JobRecord) -> None:
            raise DiskFull("no space left")

        full.setattr(JobBundle, "write", write)
        ending = Ending(JobStatus.CANCELLED, "full")
        ended = end(bundle, history, ending, noting=lambda _: contextlib.suppress(DiskFull))
    assert bundle.read().status is JobStatus.RUNNING
    assert ledger.noted(bundle.root).cost_usd == 2.5
    end(bundle, history, Ending(JobStatus.CANCELLED, "full"))
    assert bundle.read().spent.cost_usd == 2.5
    assert ledger.noted(bundle.root) == Usage()
    assert ended.judged is None
