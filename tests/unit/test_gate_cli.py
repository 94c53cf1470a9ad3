"""`benchjobs gate`: each of its options by itself."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from junitparser import JUnitXml

from pytest_benchjobs.model.result import Signature
from pytest_benchjobs.store.bundle import JobBundle
from pytest_benchjobs.store.gates import kept_gates

from .jobs import ended, make_job, run
from .records import JOB

SECOND, THIRD = "20261121-054713-ffffff", "20261121-054714-ffffff"
FILES = {"--junit": "all.xml", "--metrics": "metrics.txt", "--markdown": "gate.md"}


@pytest.fixture(autouse=True)
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GITHUB_ACTIONS", "GITLAB_CI", "TF_BUILD", "JENKINS_URL"):
        monkeypatch.delenv(name, raising=False)
    make_job(tmp_path, JOB, {"oracle": {"a": "P", "b": "F", "c": "E"}})


@pytest.mark.parametrize("option", FILES)
def test_each_file_is_written_where_it_alone_is_asked_for(tmp_path: Path, option: str) -> None:
    out = tmp_path / FILES[option]
    assert run("gate", JOB, "--min-score", "0.4", option, out, "--dir", tmp_path, "--ci", "off") in (0, 12)
    assert [name for name in FILES.values() if (tmp_path / name).exists()] == [out.name]
    content = out.read_text()
    if option == "--junit":
        suites = list(JUnitXml.fromfile(str(out)))
        assert [suite.tests for suite in suites] == [3]
        assert 'name="bench_gate" value="invalid"' in content
    else:
        assert ('bench_gate{verdict="invalid"} 1' if option == "--metrics" else "gate: invalid.") in content


@pytest.mark.parametrize(
    ("arguments", "status", "why"),
    [
        (["--min-score", "0.4"], 12, "invalid: 1 of 3 attempts (33.3 %) ended in an error"),
        (["--max-error-rate", "0.4"], 0, "ok: "),
        (["--max-error-rate", "0.4", "--require-fresh"], 12, "invalid: 2 scenarios graded in an unknown place, by"),
        (["--max-error-rate", "0.4", "--min-score", "0.6"], 10, "regressed: mean 0.50"),
        (["--max-error-rate", "0.4", "--min-pass-rate", "60%"], 10, "regressed: pass rate 0.50"),
        (["--max-error-rate", "0.4", "--min-samples", "3", "--baseline", "job:%s"], 12, "invalid: 2 scenarios"),
        (["--max-error-rate", "0.4", "--min-samples", "2", "--baseline", "job:%s"], 0, "ok: "),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)  # fmt: skip
def test_each_floor_decides_by_itself(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], status: int, why: str
) -> None:
    make_job(tmp_path, SECOND, {"oracle": {"a": "P", "b": "F", "c": "E"}})
    given = [argument.replace("%s", SECOND) for argument in arguments]
    assert run("gate", JOB, *given, "--dir", tmp_path, "--ci", "off", "-o", "json") == status
    assert json.loads(capsys.readouterr().out)["why"].startswith(why)


def test_places_of_grading_are_compared_and_may_have_to_be_fresh(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    signed = Signature(value="v", parts={"place": "p"})
    places = (("agent_container", "fresh", None), ("fresh", "agent_container", None))
    for job, graded in zip((SECOND, THIRD), places, strict=True):
        named = zip("abc", graded, strict=True)
        make_job(tmp_path, job, [ended("P", name, signature=signed, graded_in=one) for name, one in named])
    out = tmp_path / "gate.md"
    gate = ("gate", THIRD, "--dir", tmp_path, "--ci", "off", "--markdown", out, "-o", "json")
    assert run(*gate, "--baseline", f"job:{SECOND}") == 0
    (note,) = json.loads(capsys.readouterr().out)["notes"]
    assert note == (
        "the place of grading differs from the baseline's for 2 scenarios: 1 now in a fresh container, then in "
        "the agent's container; 1 now in the agent's container, then in a fresh container"
    )
    assert note in out.read_text()
    assert run(*gate, "--require-fresh") == 12
    assert json.loads(capsys.readouterr().out)["why"] == (
        "invalid: 1 scenario graded in the agent's container (b); run the job with --bench-grade-in fresh"
    )


def test_a_baseline_whose_answers_were_read_by_another_rule_is_judged_with_a_note(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for job, reading in ((SECOND, {}), (THIRD, {"reading": "simple-evals"})):
        signed = Signature(value=job, parts={"scenario": "x", **reading})
        make_job(tmp_path, job, [ended("P", name, signature=signed) for name in "abc"])
    gate = ("gate", THIRD, "--dir", tmp_path, "--ci", "off", "-o", "json")
    assert run(*gate, "--baseline", f"job:{SECOND}") == 0
    (note,) = json.loads(capsys.readouterr().out)["notes"]
    assert note.endswith("by different rules: simple-evals now, that of an earlier version before")
    assert run("compare", SECOND, THIRD, "--dir", tmp_path, "-o", "json") == 0
    assert note in json.loads(capsys.readouterr().out)["notes"]


def test_what_changed_in_a_scenario_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory = tmp_path / "reports"
    jobs = ("20261101-000000-aaaaaa", "20261102-000000-bbbbbb")
    for job, limits in zip(jobs, ("900", "60"), strict=True):
        parts = {"scenario": "x", "limits": limits, "agent": job, "parameters": job}
        signature = Signature(value=job, parts=parts)
        make_job(directory, job, [ended("P", "count", signature=signature)])
    arguments = ("gate", jobs[1], "--baseline", f"job:{jobs[0]}", "--dir", directory)
    assert run(*arguments) == 12
    said = capsys.readouterr().out
    assert said.splitlines()[0].endswith("scenarios are 1 changed (and 1 more); what changed: limits")
    assert "note: 1 scenario differs from the baseline in: limits" in said
    (report,) = kept_gates(JobBundle(directory, jobs[1]).root)
    assert [ref.why for ref in report.changed] == ["not the same task as in the baseline: limits"]
    # The files of the baseline are gone, and so is what was in them.
    shutil.rmtree(JobBundle(directory, jobs[0]).root / "trials")
    assert run(*arguments) == 12
    assert "what changed" not in capsys.readouterr().out


@pytest.mark.parametrize("file", ["texts", "a.bench.yaml"])
def test_ids_of_an_earlier_version_pair_with_those_of_now(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], file: str
) -> None:
    names = "abcdefghijkl"
    make_job(tmp_path, SECOND, [ended("P", name, file=file) for name in names], hours_ago=3)
    make_job(tmp_path, THIRD, [ended("PF"[name > "c"], name) for name in names])
    against = (
        "--baseline",
        f"job:{SECOND}",
        "--fail-on-regression",
        "mean:5pp",
        "--dir",
        tmp_path,
        "--ci",
        "off",
    )
    assert run("gate", THIRD, *against) == 10
    assert "12 scenarios" in capsys.readouterr().out
