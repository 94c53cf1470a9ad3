"""What the end of a session makes of its gates."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_benchjobs.job.judge import judge
from pytest_benchjobs.model.gate import GateConfig, GateExit, GateVerdict
from pytest_benchjobs.model.job import JobConfig, JobStatus
from pytest_benchjobs.settings.rules import floor
from pytest_benchjobs.store.bundle import JobBundle

from .records import record, result


def test_a_job_whose_judgement_breaks_is_invalid_and_never_good(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaks(*_: object, **__: object) -> None:
        raise ZeroDivisionError("by nobody")

    monkeypatch.setattr("pytest_benchjobs.analysis.gate.job.judge_job", breaks)
    config = JobConfig(
        directory=tmp_path, gate=GateConfig(rules=(floor("min_score", 0.5, "--bench-min-score 0.5"),))
    )
    judged = judge(record(tmp_path, status=JobStatus.COMPLETED, config=config), [result()], None)
    assert judged is not None
    assert judged.report.verdict is GateVerdict.INVALID
    assert "by nobody" in judged.report.why
    assert judged.status == 12


def test_a_job_without_gates_is_not_judged(tmp_path: Path) -> None:
    assert not GateConfig().judges
    assert judge(record(tmp_path, status=JobStatus.COMPLETED), [result()], None) is None
    assert GateConfig(exit=GateExit.GATE).judges
    assert GateConfig(exit=GateExit.BOTH).judges
    assert not GateConfig(exit=GateExit.TESTS).judges
    assert GateConfig(require_fresh=True).judges


def test_results_in_memory_are_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rule = floor("min_score", 0.5, "--bench-min-score 0.5").model_copy(update={"benchmark": "texts"})
    config = JobConfig(directory=tmp_path, gate=GateConfig(rules=(rule,)))
    job = record(tmp_path, status=JobStatus.COMPLETED, planned=1, config=config)
    JobBundle.create(tmp_path, job)
    monkeypatch.setattr(JobBundle, "results", None)
    judged = judge(job, [result()], None)
    assert judged is not None
    assert judged.report.rules[0].benchmark == "texts"
    assert judged.report.verdict is GateVerdict.OK, judged.report.why
