"""Results that gates and comparisons read from the history are those that the job ended with."""

from __future__ import annotations

import contextlib
import datetime
import json
import sqlite3
from pathlib import Path

import pytest

from pytest_benchjobs.job.end import Ending, end
from pytest_benchjobs.model.errors import ResultsUnwritable
from pytest_benchjobs.model.job import JobStatus
from pytest_benchjobs.model.result import Signature
from pytest_benchjobs.store import checked as checking
from pytest_benchjobs.store.bundle import JobBundle
from pytest_benchjobs.store.checked import Checked, checked
from pytest_benchjobs.store.checksum import checksum_of
from pytest_benchjobs.store.files import remove_tree
from pytest_benchjobs.store.history import History
from pytest_benchjobs.store.layout import Layout
from pytest_benchjobs.store.reader import HistoryReader
from pytest_benchjobs.store.rows import PairRow, pair_row
from pytest_benchjobs.viewer.results import Results

from .jobs import ended, make_job, run

OLD, NEW = "20261101-000000-aaaaa1", "20261102-000000-aaaaa2"
SAME = {"oracle": dict.fromkeys(("s00", "s01", "s02"), "P")}
FLIP = "scenario = 's21' WHERE scenario = 's01' AND"
AGAIN = f"job {NEW}: the history differed from its files, and was made of them again"
GONE = (
    "its results in the history are not those it ended with, and its files are not here: restore them and run "
    "`benchjobs db rebuild`, or merge the job again"
)
CHANGED = "its results are not those it ended with: restore its files and run `benchjobs db rebuild`"
ROW = PairRow(
    "b", "s", "oracle", 1, "failed", 0.5, "below_threshold", 1.5, 0.25, 7, 3, "c", "j", "k", "quarantine",
    '["easy"]', "cluster", 1.0, '{"seconds": [1.5, "s", "lower"]}', "fresh",
)  # fmt: skip


@pytest.fixture
def reports(tmp_path: Path) -> Path:
    for number, job in enumerate((OLD, NEW)):
        make_job(tmp_path, job, SAME, hours_ago=5 - number)
    return tmp_path


def damage(reports: Path, change: str, job: str = NEW, table: str = "trials") -> None:
    """Change rows of the history, as a bit does that flips on the disk."""
    where = "" if " WHERE " in change else " WHERE"
    key = "job" if table == "trials" else "id"
    with contextlib.closing(sqlite3.connect(Layout(reports).history)) as connection, connection:
        connection.execute(f"UPDATE {table} SET {change}{where} {key} = ?", (job,))


def look(reports: Path, job: str = NEW) -> Checked:
    with HistoryReader.of(reports) as history:
        return checked(history, job)


def gate(
    reports: Path, capsys: pytest.CaptureFixture[str], baseline: str = f"job:{OLD}", job: str = NEW
) -> tuple[int, str]:
    capsys.readouterr()
    rule = ("--baseline", baseline, "--fail-on-regression", "mean:5pp")
    status = run("gate", job, "--dir", reports, *rule, "--ci", "off")
    shown = capsys.readouterr()
    return status, " ".join(f"{shown.out} {shown.err}".split())  # long lines go on below


def test_a_checksum_is_of_every_value_and_of_no_order() -> None:
    twin = ROW._replace(score=None, cost_usd=None)  # of another file with the same names
    whole = checksum_of([ROW, twin, ROW._replace(attempt=2)])
    assert whole == checksum_of([ROW._replace(attempt=2), twin, ROW])
    assert whole.results == 3
    assert checksum_of([ROW._replace(node_id="x")]) == checksum_of(
        [ROW]
    )  # which is of where a job was started
    for name, value in list(ROW._asdict().items())[:-1]:
        others = [f"{value}x", ""] if isinstance(value, str) else [value + 1e-9, 0]
        for other in [
            *others,
            *([None] if name not in ("benchmark", "scenario", "agent", "attempt") else []),
        ]:
            assert checksum_of([ROW._replace(**{name: other})]) != checksum_of([ROW]), (name, other)
    assert checksum_of([ROW._replace(score=0)]) == checksum_of([ROW._replace(score=-0.0)])


@pytest.mark.parametrize(
    "digest", ["1:09c2b9908f132646bb820e39239f1f39", "2:69287e3a92ee0340be66a715fc8f1bdf"]
)
def test_the_checksum_of_a_result_stays_as_it_is(digest: str) -> None:
    """If it has to change, so has its version: jobs that ended earlier would all seem to be damaged."""
    one = ended("H", "s", signature=Signature(value="v", parts={"scenario": "s", "agent": "a"}))
    assert checksum_of([pair_row(one), ROW], digest[0]).digest == digest


@pytest.mark.parametrize("job", [OLD, NEW])
@pytest.mark.parametrize(
    ("change", "table"),
    [(FLIP, "trials"), ("score = x'00'", "trials"), ("record = json_set(record, '$.planned', 2)", "jobs")],
)
def test_a_gate_judges_what_the_files_have(
    reports: Path, capsys: pytest.CaptureFixture[str], job: str, change: str, table: str
) -> None:
    damage(reports, change, job, table)
    status, shown = gate(reports, capsys)
    assert status == 0
    assert AGAIN.replace(NEW, job) in shown
    assert look(reports, job).note is None
    assert "made of them again" not in gate(reports, capsys)[1]


def test_baselines_of_all_kinds_and_comparisons_are_checked(
    reports: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run("baseline", "set", OLD, "--dir", reports)
    for spec in ("default", "last"):
        damage(reports, FLIP, OLD)
        assert AGAIN.replace(NEW, OLD) in gate(reports, capsys, spec)[1]
    damage(reports, FLIP)
    assert run("compare", OLD, NEW, "--dir", reports) == 0
    assert AGAIN in "".join(capsys.readouterr())


def test_a_damaged_job_without_files_is_invalid(reports: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for job in (OLD, NEW):
        remove_tree(JobBundle(reports, job).root)
    assert gate(reports, capsys)[0] == 0
    damage(reports, FLIP)
    status, shown = gate(reports, capsys)
    assert (status, f"invalid: job {NEW}: {GONE}" in shown) == (12, True), shown
    assert run("compare", OLD, NEW, "--dir", reports) == 0
    assert f"job {NEW}: {GONE}" in "".join(capsys.readouterr())
    damage(reports, FLIP, OLD)
    status, shown = gate(reports, capsys)
    assert status not in (0, 10)
    assert f"job {OLD} cannot be a baseline: {GONE}" in shown
    assert run("baseline", "set", OLD, "--dir", reports) == 2


def test_a_job_whose_files_changed_is_invalid(reports: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (path, *_) = JobBundle(reports, NEW).root.glob("trials/*/*/*/result.json")
    data = json.loads(path.read_text())
    path.write_text(json.dumps({**data, "seconds": 99.0, "finished_at": "2026-11-21T00:00:00Z"}))
    assert look(reports).wrong is None, "the history has what the job ended with"
    run("db", "rebuild", "--dir", reports)
    assert look(reports).wrong == CHANGED
    assert gate(reports, capsys)[0] == 12
    assert CHANGED.partition(":")[0] in gate(reports, capsys, f"file:{JobBundle(reports, NEW).root}", OLD)[1]


def test_where_the_history_is_not_written_the_files_are_read(
    reports: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = set(look(reports).rows)
    damage(reports, FLIP)
    with Results(reports).open() as history:
        seen = checked(history, NEW)
        assert set(seen.rows) == whole != set(history.paired_rows(NEW))
    assert seen.note == (
        f"job {NEW}: the history differed from its files, which were read; `benchjobs db rebuild` puts it right"
    )

    def refuse(*_: object) -> None:
        raise ResultsUnwritable("read-only")

    monkeypatch.setattr(checking, "index_job", refuse)
    assert look(reports) == seen


def test_a_history_of_before_is_upgraded_and_judged_as_it_was(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.unit.jobs.checksum_of", lambda rows: checksum_of(rows, "1"))
    for job in (OLD, NEW):
        make_job(tmp_path, job, SAME)
    with contextlib.closing(sqlite3.connect(Layout(tmp_path).history)) as old, old:
        for column in ("metrics", "graded_in"):
            old.execute(f"ALTER TABLE trials DROP COLUMN {column}")
        for index in ("runs_searched", "runs_by_tags", "runs_by_median_seconds"):
            old.execute(f"DROP INDEX {index}")
        old.execute("ALTER TABLE runs DROP COLUMN median_seconds")
        old.execute("PRAGMA user_version = 5")
    status, shown = gate(tmp_path, capsys)
    assert (status, AGAIN in shown, "place of grading" in shown) == (0, False, False), shown
    damage(tmp_path, FLIP)
    assert AGAIN in gate(tmp_path, capsys)[1]


def test_jobs_that_run_or_have_no_checksum_are_read_as_they_are(tmp_path: Path) -> None:
    record = make_job(tmp_path, NEW, SAME, status=JobStatus.RUNNING)
    damage(tmp_path, FLIP)
    assert look(tmp_path)[2:] == (None, None)
    bundle = JobBundle(tmp_path, NEW)
    with History.of(tmp_path) as history:
        end(bundle, history, Ending(JobStatus.COMPLETED, None, datetime.datetime.now(datetime.UTC)))
        ended_with = bundle.read().checksum
        assert ended_with == checksum_of(history.paired_rows(NEW))
        remove_tree(bundle.root / "trials" / "oracle" / "s01")
        end(bundle, history, record=bundle.read())
        assert bundle.read().checksum == ended_with, "of where the job ran"
        end(bundle, history)
        assert bundle.read().checksum == checksum_of(history.paired_rows(NEW)) != ended_with
        bundle.write(bundle.read().model_copy(update={"checksum": None}))
        history.save_job(bundle.read())
    damage(tmp_path, FLIP)
    assert look(tmp_path)[2:] == (None, None)
    assert record.checksum is None
