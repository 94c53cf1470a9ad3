from __future__ import annotations

import datetime
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_benchjobs.model.errors import InputError
from pytest_benchjobs.model.job import JobStatus, Owner, Totals
from pytest_benchjobs.model.owner import current_owner
from pytest_benchjobs.model.result import Failure, Outcome
from pytest_benchjobs.report import write_reports
from pytest_benchjobs.store.bundle import JobBundle
from pytest_benchjobs.store.history import FILE, History
from pytest_benchjobs.store.recover import rebuild, recover

from .records import JOB, NOW, record, result, trial


@pytest.fixture(scope="module")
def dead() -> Owner:
    code = "from pytest_benchjobs.model.owner import current_owner; print(current_owner().model_dump_json())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    return Owner.model_validate_json(done.stdout)


@pytest.fixture
def history(tmp_path: Path) -> Iterator[History]:
    with History(tmp_path / FILE) as history:
        yield history


def test_a_job_whose_process_died_is_closed_with_all_that_had_ended(
    tmp_path: Path, history: History, dead: Owner
) -> None:
    running = record(tmp_path, owner=dead, planned=4)
    bundle = JobBundle.create(tmp_path, running)
    history.save_job(running)
    bundle.begin(trial("good")).commit(result(trial("good")))
    later = NOW + datetime.timedelta(minutes=1)
    bundle.begin(trial("bad")).commit(
        result(
            trial("bad"),
            outcome=Outcome.FAILED,
            score=0.5,
            failure=Failure(class_="x", message="y"),
            finished_at=later,
        )
    )
    bundle.begin(trial("unfinished"))
    assert recover(tmp_path, history) == [
        f"job {JOB} died while it ran (process {dead.pid}): kept 2 of 4 trials, removed 1 unfinished"
    ]
    closed = running.model_copy(
        update={
            "status": JobStatus.FAILED,
            "finished_at": later,
            "totals": Totals(trials=2, passed=1, failed=1, mean_score=0.75),
        }
    )
    assert bundle.read() == closed
    assert history.job(JOB) == closed
    assert [row.scenario for row in history.trials(JOB)] == ["bad", "good"]
    assert not list(bundle.root.rglob(".*"))
    assert recover(tmp_path, history) == []


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
    ended = record(tmp_path, owner=dead, status=JobStatus.COMPLETED)
    bundle = JobBundle.create(tmp_path, ended)
    bundle.begin(trial()).commit(result())
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
        "import sys; from pathlib import Path; from pytest_benchjobs.store.recover import recover;"
        "from pytest_benchjobs.store.history import History;"
        "print(*recover(Path(sys.argv[1]), History(Path(sys.argv[1]) / 'history.sqlite')), sep='\\n')"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    lines = [line for process in running for line in process.communicate()[0].splitlines() if line]
    assert [process.returncode for process in running] == [0, 0]
    assert sorted(line.split()[1] for line in lines) == [f"job{number}" for number in range(10)]


def test_many_ended_jobs_cost_nothing(
    tmp_path: Path, history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(1000):
        ended = record(tmp_path, id=f"job{number}", status=JobStatus.COMPLETED)
        history.save_job(ended)
        (tmp_path / "jobs" / ended.id).mkdir(parents=True)
    monkeypatch.setattr(JobBundle, "read", lambda self: pytest.fail("the bundle of an ended job was read"))
    assert recover(tmp_path, history) == []


def test_nothing_is_made_where_there_are_no_jobs(tmp_path: Path) -> None:
    with History(tmp_path / "elsewhere" / FILE) as history:
        assert recover(tmp_path / "reports", history) == []
    assert not (tmp_path / "reports").exists()


def test_rebuild_makes_the_same_history_again(tmp_path: Path) -> None:
    bundle = JobBundle.create(tmp_path, record(tmp_path))
    bundle.begin(trial()).commit(result())
    with History(tmp_path / FILE) as history:
        history.save_job(record(tmp_path, id="gone"))
        history.save_job(record(tmp_path))
        history.save_trial(result(trial("vanished")))
    assert rebuild(tmp_path) == (1, 1, [])
    with History.open_readonly(tmp_path / FILE) as history:
        assert history.jobs() == [record(tmp_path)]
        assert [row.node_id for row in history.trials(JOB)] == [trial().node_id]


def test_rebuild_moves_a_damaged_history_aside(tmp_path: Path) -> None:
    JobBundle.create(tmp_path, record(tmp_path))
    (tmp_path / FILE).write_bytes(b"rubbish" * 1000)
    jobs, trials, warnings = rebuild(tmp_path)
    assert (jobs, trials) == (1, 0)
    (aside,) = tmp_path.glob(f"{FILE}.damaged-*")
    assert aside.read_bytes() == b"rubbish" * 1000
    assert [str(warning) for warning in warnings] == [
        f"{tmp_path / FILE}: was damaged; moved to {aside.name}"
    ]


def test_rebuild_leaves_a_newer_history_alone(tmp_path: Path) -> None:
    JobBundle.create(tmp_path, record(tmp_path))
    with History(tmp_path / FILE) as history:
        history._connection.execute("PRAGMA user_version = 99")
    before = (tmp_path / FILE).read_bytes()
    with pytest.raises(InputError, match="newer version"):
        rebuild(tmp_path)
    assert (tmp_path / FILE).read_bytes() == before


def test_who_asks_is_called_with_each_job_that_was_closed(
    tmp_path: Path, history: History, dead: Owner
) -> None:
    bundle = JobBundle.create(tmp_path, record(tmp_path, owner=dead))
    bundle.begin(trial()).commit(result())
    recover(tmp_path, history, lambda bundle, closed: write_reports(bundle, closed, list(bundle.results())))
    assert {path.name for path in bundle.root.iterdir()} >= {"junit.xml", "report.json", "summary.md"}


def test_reports_that_cannot_be_written_are_part_of_the_line(
    tmp_path: Path, history: History, dead: Owner
) -> None:
    JobBundle.create(tmp_path, record(tmp_path, owner=dead))

    def fail(_: JobBundle, __: object) -> None:
        raise OSError("no room")

    (line,) = recover(tmp_path, history, fail)
    assert line.endswith("; its reports could not be written: no room")
    assert recover(tmp_path, history) == []
