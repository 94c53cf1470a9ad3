"""`benchjobs baseline`."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from pytest_benchjobs.model.gate import GateVerdict
from pytest_benchjobs.model.job import JobStatus
from pytest_benchjobs.report.documents import schema_of
from pytest_benchjobs.store.history import History
from pytest_benchjobs.store.layout import Layout

from .gates import gate_report
from .jobs import documents, make_job, run

OLD, NEW, BAD = "20261101-000000-aaaaaa", "20261102-000000-bbbbbb", "20261103-000000-cccccc"


@pytest.fixture(autouse=True)
def _me(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_ACTOR", "ann\x1b[31m")
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def reports(tmp_path: Path) -> Path:
    git = {"git": {"commit": "a" * 40, "branch": "main", "dirty": False}}
    directory = tmp_path / "reports"
    make_job(
        directory, OLD, {"oracle": {"a": "PP", "b": "PF"}, "nop": {"a": "FF"}}, hours_ago=5,
        reproducibility=git,
    )  # fmt: skip
    make_job(
        directory, NEW, {"oracle": {"a": "PP", "b": "FF"}, "nop": {"a": "FF"}}, hours_ago=4, name="newer"
    )
    make_job(directory, BAD, {"oracle": {"a": "PPPE", "b": "PPPP"}}, hours_ago=3)
    return directory


def shown(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[str, Any]:
    capsys.readouterr()
    return documents(capsys, "baseline", "baseline", "show", *arguments)


def test_a_baseline_is_set_moved_shown_and_deleted(reports: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("baseline", "list") == 0
    assert "no baselines are set" in capsys.readouterr().err
    assert run("baseline", "accept", "newer", "--reason", "why") == 2
    assert "there is no baseline 'default': no baseline is set yet" in capsys.readouterr().err

    assert run("baseline", "set", OLD, "--reason", "the first") == 0
    assert capsys.readouterr().out == f"baseline default is job {OLD}\n"
    assert run("baseline", "accept", "newer", "--reason", "b became harder") == 0
    said = capsys.readouterr()
    assert said.out == f"baseline default is job {NEW}, was job {OLD}\n"
    not_regressed = f"job {NEW} was not regressed: no gate has judged it"
    beginnings = [line.partition(": no gate can turn red by ")[0] for line in said.err.splitlines()]
    assert beginnings == [not_regressed, "note: texts, nop", "note: texts, oracle"]
    assert run("baseline", "set", OLD, "--name", "release-1") == 0

    capsys.readouterr()
    _, one = documents(capsys, "baselines", "baseline", "list")["baselines"]
    found = (one["name"], one["jobs"], one["set_by"], one["commit"])
    assert found == ("release-1", [OLD], "ann", "a" * 40)
    found = shown(capsys)
    assert found["jobs"] == [NEW]
    assert found["reason"] == "b became harder"
    assert [(row["agent"], row["attempts"], row["passed"], row["mean"]) for row in found["figures"]] == [
        ("nop", 2, 0, 0.0), ("oracle", 4, 2, 0.5),
    ]  # fmt: skip
    assert [entry["reason"] for entry in found["past"]] == ["the first"]
    assert run("baseline", "show", "-e") == 0
    text = capsys.readouterr().out
    assert "texts/b" in text
    assert "Before:" in text
    assert "\x1b" not in text

    assert run("baseline", "delete", "default", "--reason", "over") == 0
    assert run("baseline", "show") == 2
    assert "there is no baseline 'default'; there are release-1" in capsys.readouterr().err
    assert run("baseline", "delete", "default") == 2
    assert run("baseline", "show", "releas-1") == 2
    assert "Did you mean 'release-1'?" in capsys.readouterr().err


def test_a_job_that_tells_little_needs_force(reports: Path, capsys: pytest.CaptureFixture[str]) -> None:
    going, gone = "20261104-000000-dddddd", "20261105-000000-eeeeee"
    make_job(reports, going, {"oracle": {"a": "P"}}, status=JobStatus.RUNNING)
    make_job(reports, gone, {"oracle": {"a": "EE"}}, status=JobStatus.COMPLETED)
    make_job(reports, "20261106-000000-ffffff", {"oracle": {"a": "S"}}, status=JobStatus.COMPLETED)
    make_job(reports, "20261107-000000-ffffff", {"oracle": {"a": "PC"}}, status=JobStatus.CANCELLED)
    for job, why in (
        (BAD, "1 of its 8 attempts ended in an error"),
        (going, "it is still running"),
        (gone, "all its attempts ended in an error"),
        ("20261106", "it has no trial that passed or failed"),
        ("20261107", "it did not complete: cancelled"),
    ):
        assert run("baseline", "set", job) == 2
        error = capsys.readouterr().err
        assert why in error
        assert "--force" in error
    assert run("baseline", "set", BAD, "--force") == 0
    assert run("baseline", "set", "nothing") == 2
    for name in ("last", "job:x", "../x", "", "branch"):
        assert run("baseline", "set", OLD, "--name", name) == 2
    assert run("baseline", "set", OLD, "--dir", "elsewhere") == 2
    assert not Path("elsewhere").exists()


def test_jobs_are_pooled(reports: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("baseline", "set", NEW, "--pool", "3") == 0
    said = capsys.readouterr()
    assert said.out == f"baseline default is job {NEW} and 1 other\n"
    assert said.err.startswith("only 2 of 3 jobs: no other job has the same benchmarks and agents\n")
    found = shown(capsys)
    assert found["jobs"] == [NEW, OLD]
    assert {one["scenario"]: one["scores"] for one in found["scenarios"] if one["agent"] == "oracle"} == {
        "a": [1, 1, 1, 1], "b": [1, 0, 0, 0],
    }  # fmt: skip


def test_what_is_exported_is_the_same_each_time_and_can_be_shown(
    reports: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("baseline", "set", OLD) == 0
    assert run("baseline", "export") == 0
    assert capsys.readouterr().out.endswith("baseline.json: 2 scenarios, 2 agents\n")
    first = Path("baseline.json").read_bytes()
    jsonschema.validate(json.loads(first), schema_of("baseline-file"), jsonschema.Draft202012Validator)
    lines = first.decode().splitlines()
    assert [line for line in lines if '"scenario"' in line] == [
        '  {"benchmark": "texts", "scenario": "a", "agent": "nop", "scores": [0.0, 0.0], "seconds": 2.0},',
        '  {"benchmark": "texts", "scenario": "a", "agent": "oracle", "scores": [1.0, 1.0], "passed": 2, "seconds": 2.0},',
        '  {"benchmark": "texts", "scenario": "b", "agent": "oracle", "scores": [1.0, 0.0], "passed": 1, "seconds": 2.0}',
    ]  # fmt: skip
    assert run("baseline", "export", f"job:{OLD}", "--to", "other.json") == 0
    assert Path("other.json").read_text().replace(f"job:{OLD}", "default") == first.decode()

    Path("elsewhere").mkdir()
    found = shown(capsys, "file:baseline.json", "--dir", "elsewhere")
    assert found["jobs"] == [OLD]
    assert [row["mean"] for row in found["figures"]] == [0.0, 0.75]
    assert run("baseline", "show", "file:none.json") == 2
    assert run("baseline", "export", "last", "--to", "no/such/place.json") == 2


def test_baselines_outlive_the_history(reports: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("baseline", "set", OLD, "--reason", "first") == 0
    assert run("baseline", "set", NEW) == 0
    before = shown(capsys)
    Layout(reports).history.unlink()
    assert run("db", "rebuild") == 0
    capsys.readouterr()
    assert shown(capsys) == before
    assert run("db", "rebuild") == 0
    capsys.readouterr()
    assert shown(capsys) == before

    # What somebody set after the history was lost, and before it was rebuilt, does not push the past out of the file.
    Layout(reports).history.unlink()
    make_job(reports, "20261108-000000-ffffff", {"oracle": {"a": "P"}}, hours_ago=1)
    assert run("baseline", "set", "20261108", "--name", "other") == 0
    assert run("db", "rebuild") == 0
    assert shown(capsys) == before

    shutil.rmtree(reports / "jobs" / NEW)
    assert run("db", "rebuild") == 0
    assert run("baseline", "show") == 2
    assert f"job {NEW} of baseline default is no longer here" in capsys.readouterr().err
    (reports / "baselines.json").write_text('[{"name": "x"}]')
    assert run("db", "rebuild") == 0
    assert "baselines.json: is damaged" in capsys.readouterr().err
    assert run("baseline", "set", OLD) == 2
    assert "Move it away" in capsys.readouterr().err


def test_merging_leaves_baselines_as_they_are(reports: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("baseline", "set", OLD) == 0
    make_job(Path("elsewhere"), "20261108-000000-ffffff", {"oracle": {"a": "P"}}, hours_ago=1)
    for name in ("default", "theirs"):
        assert run("baseline", "set", "last", "--name", name, "--dir", "elsewhere") == 0
    assert run("merge", "elsewhere") == 0
    capsys.readouterr()
    listed = documents(capsys, "baselines", "baseline", "list")["baselines"]
    assert [(one["name"], one["jobs"]) for one in listed] == [("default", [OLD])]


@pytest.mark.parametrize(("verdict", "noted"), [("regressed", True), ("ok", False), (None, False)])
def test_a_job_that_was_worse_becomes_no_baseline_without_a_word(
    reports: Path, capsys: pytest.CaptureFixture[str], verdict: str | None, noted: bool
) -> None:
    if verdict is not None:
        with History.of(reports) as history:
            history.save_gate(gate_report(GateVerdict(verdict), job=NEW))
    assert run("baseline", "set", NEW) == 0
    said = capsys.readouterr().err
    assert (f"the verdict of job {NEW} is regressed: it hides that loss from later gates" in said) is noted


@pytest.mark.parametrize("command", [("set",), ("accept", "--reason", "why")])
def test_a_selection_of_scenarios_becomes_no_baseline_unless_forced(
    reports: Path, capsys: pytest.CaptureFixture[str], command: tuple[str, ...]
) -> None:
    part = "20261105-000000-eeeeee"
    assert run("baseline", "set", OLD) == 0
    make_job(reports, part, {"oracle": {"a": "PP"}}, hours_ago=1, partial=True, narrowed=True)
    assert run("rm", BAD) == 0
    capsys.readouterr()
    name, *more = command
    assert run("baseline", name, part, *more) == 2
    said = capsys.readouterr().err
    assert f"job {part} would make a bad baseline: it ran only a selection of scenarios" in said
    assert "the last one that ran all is" in said
    assert run("baseline", name, "last", *more) == 0
    said = capsys.readouterr()
    assert f"job {part} was skipped: it ran only a selection of scenarios" in said.err
    assert part not in said.out
    assert run("baseline", name, part, *more, "--force") == 0
    said = capsys.readouterr()
    assert f"note: job {part} ran only a part of its benchmarks; gates will not compare the rest" in said.err
    assert f"baseline default is job {part}" in said.out


def test_where_all_jobs_ran_a_selection_none_is_taken(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_job(tmp_path / "reports", OLD, {"oracle": {"a": "PP"}}, partial=True, narrowed=True)
    assert run("baseline", "set", "last") == 2
    assert "compared. Use --force" in capsys.readouterr().err
    # A job that was named ran its selection on purpose.
    make_job(tmp_path / "reports", NEW, {"oracle": {"a": "PP"}}, partial=True, narrowed=True, name="small")
    assert run("baseline", "set", "last") == 0
    assert "ran only a part of its benchmarks" in capsys.readouterr().err
