"""Files that claim to be what they are not: copies of jobs, and results that somebody edited, are named and not used."""

from __future__ import annotations

import json
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from pytest_benchjobs.analysis.baseline.file import side_of_file
from pytest_benchjobs.job.dead_jobs import recover
from pytest_benchjobs.job.merge import Merge
from pytest_benchjobs.model.errors import InputError
from pytest_benchjobs.report.json import report_json
from pytest_benchjobs.store.bundle import BundleWarning, JobBundle
from pytest_benchjobs.store.database import NewerHistory, migrations
from pytest_benchjobs.store.history import History
from pytest_benchjobs.store.index import rebuild
from pytest_benchjobs.store.layout import Layout
from pytest_benchjobs.store.reader import HistoryReader

from .jobs import make_job, run
from .records import JOB

pytestmark = pytest.mark.when_changed

TWO = {"oracle": {"a": "P", "b": "F"}}


def place(directory: Path, scenario: str, attempt: int = 1, job: str = JOB) -> Path:
    return directory / "jobs" / job / "trials/oracle" / scenario / str(attempt) / "result.json"


def found_in(directory: Path) -> tuple[dict[str, str], list[BundleWarning]]:
    """Scenarios of the results of a job, with their paths, and what is warned of."""
    warnings: list[BundleWarning] = []
    results = list(JobBundle.open(directory, JOB).results(warnings))
    found = {one.scenario: one.path for one in results}
    assert len(found) == len(results), "none twice"
    return found, warnings


def edit(path: Path, /, **changes: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


@pytest.mark.parametrize("copy", ["0-copy", f"{JOB}-copy"])
@pytest.mark.parametrize("trials", ["none", "one", "all"])
def test_a_copy_of_a_job_never_takes_its_place(tmp_path: Path, copy: str, trials: str) -> None:
    make_job(tmp_path, JOB, TWO)
    jobs = tmp_path / "jobs"
    shutil.copytree(jobs / JOB, jobs / copy)
    if trials == "none":
        shutil.rmtree(jobs / copy / "trials")
    elif trials == "one":
        shutil.rmtree(jobs / copy / "trials/oracle/a")
    Layout(tmp_path).history.unlink()
    counted, found, warnings = rebuild(tmp_path)
    assert (counted, found) == (1, 2)
    (warning,) = warnings
    assert warning.path == jobs / copy / "job.json"
    assert warning.message == (
        f"is the record of job {JOB}: its own directory is beside it; move this copy out of {jobs}, or remove it"
    )
    with History.of(tmp_path) as history:
        assert [row.scenario for row in history.trials(JOB)] == ["a", "b"]
        assert history.job_ids() == {JOB}
        assert any("is the record of job" in done.message for done in recover(tmp_path, history))
        assert [row.scenario for row in history.trials(JOB)] == ["a", "b"]


def test_a_job_whose_directory_was_renamed_is_named_with_the_cure(tmp_path: Path) -> None:
    make_job(tmp_path, JOB, TWO)
    (tmp_path / "jobs" / JOB).rename(tmp_path / "jobs/mine")
    counted, _, warnings = rebuild(tmp_path)
    assert counted == 0
    assert warnings[0].message == f"is the record of job {JOB}: rename {tmp_path / 'jobs/mine'} to {JOB}"


EDITED = {
    "passed without a score": ({"score": None}, "its outcome is passed, but it has no score"),
    "passed below its threshold": ({"score": 0.25}, "its outcome is passed, but its score 0.25 is below its threshold 1"),
    "error with a score": ({"outcome": "error"}, "its outcome is error, which has no score, but its score is 1"),
    "newer schema": ({"schema_version": 3}, "schema_version: 3 is that of a newer pytest-benchjobs, which is needed to read it"),
    "no schema": ({"schema_version": 0}, "schema_version: Input should be greater than or equal to 1"),
    "another job": ({"job": "other"}, "is the result of another job"),
    "another scenario": ({"scenario": "b"}, "is the result of another trial: a.bench.yaml::a[oracle-1]"),
    "another attempt": ({"attempt": 2}, "is the result of another trial: a.bench.yaml::a[oracle-1]"),
    "another agent": ({"agent": {"name": "nop"}}, "is the result of another trial: a.bench.yaml::a[oracle-1]"),
    "no time zone": ({"finished_at": "2026-11-21T05:47:14"}, "finished_at: Input should have timezone info"),
    "another node id": ({"node_id": "a.bench.yaml::b[oracle-1]"}, "has the node id of the trial in trials/oracle/b/1"),
}  # fmt: skip


@pytest.mark.parametrize(("changes", "why"), EDITED.values(), ids=EDITED)
def test_a_result_edited_by_hand_is_named_and_not_used(
    tmp_path: Path, changes: dict[str, Any], why: str
) -> None:
    make_job(tmp_path / "there", JOB, TWO)
    edited = place(tmp_path / "there", "a")
    edit(edited, **changes)
    found, warnings = found_in(tmp_path / "there")
    assert list(found) == ["b"]
    assert [warning.path for warning in warnings] == [edited]
    assert warnings[0].message.removeprefix("is damaged or of another version: ") == why

    root = tmp_path / "there/jobs" / JOB
    assert rebuild(tmp_path / "there")[1] == 1
    with History.of(tmp_path / "here") as history:
        merging = Merge(tmp_path / "here", history)
        assert merging.bring_in(root).trials == 1
        assert [problem.removesuffix(why) for problem in merging.problems if problem.endswith(why)]
    with pytest.raises(InputError, match="cannot be a baseline: 1 of its 2 results are gone") as caught:
        side_of_file("file", root, None)
    assert why in str(caught.value)


@pytest.mark.parametrize("elsewhere", ["trials/oracle/b/1", "../../../etc", "/etc"])
def test_a_path_that_leads_elsewhere_is_put_right(tmp_path: Path, elsewhere: str) -> None:
    make_job(tmp_path, JOB, TWO)
    edit(place(tmp_path, "a"), path=elsewhere)
    assert found_in(tmp_path) == ({"a": "trials/oracle/a/1", "b": "trials/oracle/b/1"}, [])


@pytest.mark.parametrize("which", ["a", "b"])
def test_a_result_copied_over_another_is_named(tmp_path: Path, which: str) -> None:
    make_job(tmp_path, JOB, TWO)
    other = "b" if which == "a" else "a"
    shutil.copy(place(tmp_path, other), place(tmp_path, which))
    found, warnings = found_in(tmp_path)
    assert list(found) == [other]
    assert [warning.path for warning in warnings] == [place(tmp_path, which)]


def test_a_node_id_that_describes_no_scenario_is_kept_where_nobody_else_has_it(tmp_path: Path) -> None:
    make_job(tmp_path, JOB, TWO)
    edit(place(tmp_path, "a"), node_id="renamed by another plugin")
    found, warnings = found_in(tmp_path)
    assert (sorted(found), warnings) == (["a", "b"], [])


@pytest.mark.parametrize("edited", ["passed without a score", "newer schema", "another job"])
def test_a_report_edited_by_hand_is_no_baseline(tmp_path: Path, edited: str) -> None:
    changes, why = EDITED[edited]
    record = make_job(tmp_path, JOB, TWO)
    results = list(JobBundle.open(tmp_path, JOB).results())
    path = tmp_path / "report.json"
    path.write_bytes(b"".join(report_json(record, results)))
    report = json.loads(path.read_text())
    report["results"][0].update(changes)
    path.write_text(json.dumps(report, indent=1))
    with pytest.raises(InputError) as caught:
        side_of_file("file", path, None)
    assert why in str(caught.value)
    report["results"] = [json.loads(results[0].model_dump_json(by_alias=True))] * 2
    path.write_text(json.dumps(report, indent=1))
    with pytest.raises(InputError, match=r"results\[1\]: has the node id of the result in line \d+"):
        side_of_file("file", path, None)


def test_of_two_directories_with_one_id_merge_takes_the_one_of_that_name(tmp_path: Path) -> None:
    make_job(tmp_path / "there", JOB, TWO)
    jobs = tmp_path / "there/jobs"
    shutil.copytree(jobs / JOB, jobs / "copy")
    edit(place(tmp_path / "there", "a", job="copy"), finished_at="2030-01-01T00:00:00Z", outcome="failed")
    with History.of(tmp_path / "here") as history:
        merging = Merge(tmp_path / "here", history)
        with pytest.raises(InputError, match=f"is the record of job {JOB}: its own directory is beside it"):
            merging.bring_in(jobs / "copy")
        merging.bring_in(jobs / JOB)
        assert [row.outcome for row in history.trials(JOB)] == ["passed", "failed"]


def test_one_job_is_not_made_of_two_copies_of_a_part(tmp_path: Path) -> None:
    make_job(tmp_path / "one", JOB, TWO)
    make_job(tmp_path / "two", JOB, {"oracle": {"a": "P"}})
    roots = [tmp_path / name / "jobs" / JOB for name in ("one", "two")]
    with History.of(tmp_path / "here") as history:
        merging = Merge(tmp_path / "here", history)
        with pytest.raises(InputError, match=f"is job {JOB}, as is {roots[0]}; name one of the two"):
            merging.make_one("whole", roots)
        assert merging.make_one("whole", [roots[0], roots[0]]).trials == 2


def test_a_job_is_not_merged_into_a_directory_that_holds_another(tmp_path: Path) -> None:
    make_job(tmp_path / "there", JOB, TWO)
    make_job(tmp_path / "here", "other", {"oracle": {"c": "P"}})
    (tmp_path / "here/jobs/other").rename(tmp_path / "here/jobs" / JOB)
    with History.of(tmp_path / "here") as history:
        merging = Merge(tmp_path / "here", history)
        with pytest.raises(InputError, match=f"is the record of job other: rename .*{JOB} to other"):
            merging.bring_in(tmp_path / "there/jobs" / JOB)


@pytest.mark.parametrize("version", [-1, 10_000, 2**31 - 1, 0, 1, len(migrations()) - 1])
def test_a_damaged_version_of_the_history_is_damage_with_the_cure(tmp_path: Path, version: int) -> None:
    make_job(tmp_path, JOB, TWO)
    connection = sqlite3.connect(Layout(tmp_path).history)
    connection.execute(f"PRAGMA user_version = {version}")
    connection.close()
    for readonly in (True, False):
        with pytest.raises(InputError, match="benchjobs db rebuild") as caught:
            (HistoryReader if readonly else History).of(tmp_path)
        assert not isinstance(caught.value, NewerHistory)
        assert "damaged" in str(caught.value) or (readonly and version == 0)
    assert rebuild(tmp_path)[:2] == (1, 2)
    with History.of(tmp_path) as history:
        assert [row.scenario for row in history.trials(JOB)] == ["a", "b"]


@pytest.mark.parametrize("name", ["b\n::error::owned", "c\r::error::owned"])
@pytest.mark.parametrize(
    "arguments",
    [
        ("list",), ("runs",), ("baseline", "list"), ("logs", "last"), ("summary", "last"), ("gate", "last"), ("gc",),
        ("db", "rebuild"), ("recover",), ("export", "last"), ("watch", "last"), ("summary", "nothing"),
        ("baseline", "export", "last", "--to", "{dir}/baseline.json"),
    ],
    ids=" ".join,
)  # fmt: skip
@pytest.mark.parametrize("empty", [False, True], ids=["job", "no job"])
def test_no_command_prints_the_name_of_a_directory_as_a_line_of_its_own(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    arguments: tuple[str, ...],
    empty: bool,
) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.chdir(tmp_path)
    directory = tmp_path / name
    if not empty:
        make_job(directory, JOB, TWO)
        shutil.copytree(directory / "jobs" / JOB, directory / "jobs/copy")
        edit(place(directory, "a"), score=None)
    run(*(argument.format(dir=directory) for argument in arguments), "--dir", directory)
    out, err = capsys.readouterr()
    assert out + err
    assert not [line for line in (out + err).splitlines() if line.startswith("::error::owned")]
