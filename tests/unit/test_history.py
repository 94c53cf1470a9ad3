from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pytest_benchjobs.model.errors import InputError, ResultsUnwritable
from pytest_benchjobs.model.job import JobStatus, Totals
from pytest_benchjobs.model.result import Failure, Outcome, ScorerResult
from pytest_benchjobs.store import database
from pytest_benchjobs.store.history import History
from pytest_benchjobs.store.listing import JOBS, each
from pytest_benchjobs.store.reader import HistoryReader
from pytest_benchjobs.store.rows import ScoreRow

from .records import JOB, record, result, trial
from .test_database import read


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "history.sqlite"


def test_a_job_is_read_back_as_it_was_last_saved(path: Path, tmp_path: Path) -> None:
    running = record(tmp_path)
    ended = record(tmp_path, status=JobStatus.COMPLETED, totals=Totals(trials=1, passed=1, mean_score=1.0))
    with History(path) as history:
        history.save_job(running)
        assert history.ended_jobs() == set()
        history.save_job(ended)
        assert history.job(JOB) == ended
        assert history.job(ended.id) == ended
        assert history.ended_jobs() == {JOB}
        assert history.job("another") is None


def test_a_trial_saved_again_replaces_the_first_with_its_scores(path: Path, tmp_path: Path) -> None:
    broken = Failure(class_="scorer_crashed", message="boom")
    with History(path) as history:
        history.save_job(record(tmp_path))
        scorers = (ScorerResult(name="a", type="bash", weight=2, error=broken),) * 3
        history.save_trials([result(outcome=Outcome.ERROR, score=None, failure=broken, scorers=scorers)])
        (row,) = history.trials(JOB)
        assert (row.outcome, row.score, row.class_, row.message) == ("error", None, "scorer_crashed", "boom")
        assert history.scores(JOB, row.node_id)[0] == ScoreRow("a", "bash", 2, None, "scorer_crashed", 0.0)
        history.save_trials([result(scorers=(ScorerResult(name="b", type="bash", weight=1, score=1.0),))])
        (row,) = history.trials(JOB)
        assert (row.outcome, row.score, row.class_) == ("passed", 1.0, None)
        assert history.scores(JOB, row.node_id) == [ScoreRow("b", "bash", 1, 1.0, None, 0.0)]


def test_hostile_text_does_not_stop_a_save(path: Path, tmp_path: Path) -> None:
    why = Failure(class_="x", message="\ud800\x00" + "y" * 10_000)
    with History(path) as history:
        history.save_job(record(tmp_path))
        history.save_trials([result(outcome=Outcome.FAILED, score=0.0, failure=why)])
        message = history.trials(JOB)[0].message
        assert message is not None
        assert len(message) <= 2000


def test_many_trials_are_saved_all_or_none(path: Path, tmp_path: Path) -> None:
    def broken_off():
        yield result(trial("a"))
        raise KeyboardInterrupt

    with History(path) as history:
        history.save_job(record(tmp_path))
        with pytest.raises(KeyboardInterrupt):
            history.save_trials(broken_off())
        assert history.trials(JOB) == []
        history.save_trials(result(trial(name)) for name in "abc")
        assert [row.scenario for row in history.trials(JOB)] == ["a", "b", "c"]


def test_a_forgotten_job_takes_its_trials_and_scores_along(path: Path, tmp_path: Path) -> None:
    with History(path) as history:
        history.save_job(record(tmp_path))
        history.save_trials([result(scorers=(ScorerResult(name="b", type="bash", weight=1, score=1.0),))])
        history.forget(JOB)
        assert (list(each(history, JOBS)), history.trials(JOB)) == ([], [])
    assert read(path, "SELECT count(*) FROM scores") == 0


WRITER = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from tests.unit.records import record, result, trial
from pytest_benchjobs.store.history import History
path, name = Path(sys.argv[1]), sys.argv[3]
number = 0
with History(path) as history:
    history.save_job(record(path.parent, id=name))
    while number < 100 or not (path.parent / "enough").exists():
        history.save_trials([result(trial(f"s{number % 100}"), job=name)])
        number += 1
"""


def test_two_processes_write_while_others_read(path: Path) -> None:
    root = str(Path(__file__).parents[2])
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(path), root, name]) for name in ("one", "two")
    ]
    reads: list[tuple[int, int]] = []
    # They write until both were seen at it, and read twenty times more.
    while sum(all(read) for read in reads) < 20 and all(writer.poll() is None for writer in writers):
        if path.is_file():
            try:
                with HistoryReader(path) as reader:
                    reads.append((len(reader.trials("one")), len(reader.trials("two"))))
            except InputError as error:
                # Only before the first writer has made the tables.
                assert "older version" in str(error)
                assert reads == []
    (path.parent / "enough").touch()
    assert [writer.wait() for writer in writers] == [0, 0]
    assert sum(all(read) for read in reads) == 20
    for counts in zip(*reads, strict=True):
        assert list(counts) == sorted(counts), "what was read once is there ever after"
    with HistoryReader(path) as reader:
        assert [len(reader.trials(name)) for name in ("one", "two")] == [100, 100]


def test_a_reader_cannot_write(path: Path) -> None:
    History(path).close()
    with HistoryReader(path) as reader, pytest.raises(ResultsUnwritable):
        reader.select("DELETE FROM jobs")


def test_reading_where_there_is_no_history_says_so_and_makes_none(path: Path) -> None:
    with pytest.raises(InputError, match=r"history.sqlite: there is no history yet"):
        HistoryReader(path)
    assert not path.exists()


def test_migrations_go_on_from_where_a_history_is(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with History(path) as history:
        history.save_job(record(tmp_path))
        steps = database.migrations()
    more = (*steps, "CREATE TABLE later (name TEXT);\nINSERT INTO later VALUES ('a; b');\n")
    monkeypatch.setattr(database, "migrations", lambda: more)
    for _ in range(2):
        with History(path) as history:
            assert [job.id for job in each(history, JOBS)] == [JOB]
    assert read(path, "SELECT group_concat(name) FROM later") == "a; b"
    assert read(path, "PRAGMA user_version") == len(more)


def test_a_migration_that_fails_changes_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    History(path).close()
    steps = database.migrations()
    monkeypatch.setattr(database, "migrations", lambda: (*steps, "CREATE TABLE half (x);\nNONSENSE;\n"))
    with pytest.raises(InputError):
        History(path)
    assert read(path, "PRAGMA user_version") == len(steps)
    assert read(path, "SELECT count(*) FROM sqlite_master WHERE name = 'half'") == 0


def test_a_directory_that_cannot_be_made_is_an_infrastructure_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ResultsUnwritable, match="Make the directory writable, or choose another place"):
        History(tmp_path / "file" / "history.sqlite")


def test_without_wal_the_history_works_the_old_way(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "wal_works", lambda directory: False)
    with History(path) as history:
        history.save_job(record(tmp_path))
    assert read(path, "PRAGMA journal_mode") == "delete"
