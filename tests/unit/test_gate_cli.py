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
from pytest_benchjobs.store.history import History

from .jobs import ended, make_job, run
from .records import JOB

SECOND = "20261121-054713-ffffff"
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
        (["--max-error-rate", "0.4", "--min-score", "0.4"], 0, "ok: "),
        (["--max-error-rate", "0.4", "--min-score", "0.6"], 10, "regressed: mean 0.50"),
        (["--max-error-rate", "0.4", "--min-pass-rate", "60%"], 10, "regressed: pass rate 0.50"),
        (["--max-error-rate", "0.4", "--min-pass-rate", "texts=60%"], 10, "regressed: pass rate 0.50"),
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


def test_the_verdict_is_kept_with_the_job_and_in_the_history(tmp_path: Path) -> None:
    run("gate", JOB, "--min-score", "0.4", "--dir", tmp_path, "--ci", "off")
    kept = list(kept_gates(JobBundle.open(tmp_path, JOB).root))
    with History.of(tmp_path) as history:
        assert [report.verdict for report in kept] == [history.gate_verdict(JOB)]


def test_a_verdict_that_cannot_be_kept_stands_nevertheless(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: object) -> None:
        from pytest_benchjobs.model.errors import ResultsUnwritable

        raise ResultsUnwritable("no room")

    status = run("gate", JOB, "--min-score", "0.4", "--dir", tmp_path, "--ci", "off")
    monkeypatch.setattr("pytest_benchjobs.job.judge.keep_gate", refuse)
    capsys.readouterr()
    assert run("gate", JOB, "--min-score", "0.4", "--dir", tmp_path, "--ci", "off") == status
    assert "warning: this verdict could not be stored: no room" in capsys.readouterr().err


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
