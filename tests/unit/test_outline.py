"""Jobs of many trials: their reports are made of outlines, and are the same as of whole results."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pytest_benchjobs.analysis.publish import reasons_against
from pytest_benchjobs.model.job import JobConfig, JobRecord, JobStatus
from pytest_benchjobs.model.policy import parse_policy
from pytest_benchjobs.model.result import (
    Failure,
    ImageRecord,
    Outcome,
    Phase,
    ScorerResult,
    Signature,
    TrialResult,
)
from pytest_benchjobs.model.usage import Usage
from pytest_benchjobs.report.ci import metrics_text
from pytest_benchjobs.report.json import report_json
from pytest_benchjobs.report.junit import FULL_CASES
from pytest_benchjobs.report.write import write_reports
from pytest_benchjobs.store import outline
from pytest_benchjobs.store.bundle import JobBundle
from pytest_benchjobs.store.outline import WHOLE, Outline, whole
from pytest_benchjobs.store.rows import pair_row
from pytest_benchjobs.store.totals import spent_by, totals

from .records import JOB, NOW, record, result, trial

SCENARIOS = 40


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outline, "WHOLE", 10)
    monkeypatch.setattr("pytest_benchjobs.report.junit.FULL_CASES", 10)


def make(directory: Path, policy: str = "each", attempts: int = 1) -> tuple[JobBundle, JobRecord]:
    config = JobConfig(directory=directory, attempts=attempts, attempt_policy=parse_policy(policy))
    job = record(directory, status=JobStatus.COMPLETED, finished_at=NOW, config=config)
    bundle = JobBundle.create(directory, job)
    for number in range(SCENARIOS):
        for attempt in range(1, attempts + 1):
            of = trial(f"scenario-{number}", f"command:agent-{number % 3}", attempt)
            bundle.begin(of).commit(one(number, of))
    return bundle, job


def one(number: int, of: object) -> TrialResult:
    outcome = (Outcome.PASSED, Outcome.FAILED, Outcome.ERROR, Outcome.SKIPPED)[number % 4]
    failed = outcome in (Outcome.FAILED, Outcome.ERROR)
    return result(
        of,  # type: ignore[arg-type]
        outcome=outcome,
        score={Outcome.PASSED: 1.0, Outcome.FAILED: number / 100}.get(outcome),
        failure=Failure(class_="below_threshold", message=f"why {number}", detail=f"last words of {number}")
        if failed
        else None,
        scorers=(
            ScorerResult(name="right", type="bash", weight=1, score=1.0, output="much\n", details={"n": 1}),
        ),
        phases=(Phase(name="agent", start=0, end=1.5),),
        usage=Usage(input_tokens=number, cost_usd=0.25, source="gateway") if number % 5 else Usage(),
        image=ImageRecord(reference="a", id="b", substituted={"c": "d"} if number == 7 else {}),
        signature=Signature(value=f"{number:032x}", parts={"scenario": f"{number}", "agent": "same"}),
        notes=("a note",),
        tags=("easy",),
        cluster="repo",
        benchmark_version="1",
    )


@pytest.mark.parametrize(("policy", "attempts"), [("each", 1), ("each", 2), ("any", 3)])
def test_reports_of_outlines_are_those_of_whole_results(tmp_path: Path, policy: str, attempts: int) -> None:
    bundle, job = make(tmp_path, policy, attempts)
    results, found = list(bundle.results()), bundle.outlines(job.config)
    assert len(results) == SCENARIOS * attempts
    assert {type(each) for each in results} == {TrialResult}
    assert {type(each) for each in found} == {Outline}
    written = []
    for each in (results, found):
        write_reports(bundle, job, each)
        written.append({path.name: path.read_text() for path in bundle.layout.reports})
    assert json.loads(written[0].pop("report.json")) == json.loads(written[1].pop("report.json"))
    assert written[0] == written[1]
    assert metrics_text(job, found, None) == metrics_text(job, results, None)
    assert reasons_against(job, found, NOW.date()) == reasons_against(job, results, NOW.date())
    assert [pair_row(each) for each in found] == [pair_row(each) for each in results]
    assert (totals(found), spent_by(found)) == (totals(results), spent_by(results))


def test_an_outline_has_what_nothing_else_has_and_leads_to_the_whole(tmp_path: Path) -> None:
    bundle, job = make(tmp_path)
    results, found = list(bundle.results()), bundle.outlines(job.config)
    assert not any(each.scorers or each.phases or each.notes for each in found)
    assert not any(each.failure and each.failure.detail for each in found)
    assert [each.image is not None for each in found] == [each.scenario == "scenario-7" for each in found]
    assert [whole(bundle.root, each) for each in found] == results
    assert found[0].model_copy(update={"job": "other"}).node_id == results[0].node_id


def test_the_last_words_stay_where_one_verdict_of_several_attempts_shows_them(tmp_path: Path) -> None:
    bundle, job = make(tmp_path, "any", 2)
    told = [each.failure.detail for each in bundle.outlines(job.config) if each.failure is not None]
    assert told == [each.failure.detail for each in bundle.results() if each.failure is not None]


def test_few_results_are_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bundle, job = make(tmp_path)
    monkeypatch.setattr(outline, "WHOLE", SCENARIOS)
    assert {type(each) for each in bundle.outlines(job.config)} == {TrialResult}
    monkeypatch.setattr(outline, "WHOLE", SCENARIOS - 1)
    assert {type(each) for each in bundle.outlines(job.config)} == {Outline}
    assert WHOLE == FULL_CASES, "a full junit.xml is made of whole results"


def test_a_result_without_a_file_is_whole(tmp_path: Path) -> None:
    lost = result(trial("lost"), notes=("not written",))
    found = outline.outlined([lost] * 20)
    assert found == [lost] * 20
    assert not any(isinstance(each, Outline) for each in found)


def test_a_file_that_went_since_leaves_the_outline_in_the_report(tmp_path: Path) -> None:
    bundle, job = make(tmp_path)
    found = bundle.outlines(job.config)
    gone, damaged = bundle.root / found[0].path, bundle.root / found[1].path
    (gone / "result.json").unlink()
    (damaged / "result.json").write_text('{"schema_version": 2, "scorers": 1}')
    report = json.loads(b"".join(report_json(job, found, None, bundle.root)))
    assert [each["scenario"] for each in report["results"]] == [each.scenario for each in found]
    assert [bool(each["scorers"]) for each in report["results"]] == [False, False, *([True] * 38)]
    assert whole(bundle.root, found[0]) is found[0]


def test_the_report_is_made_a_result_at_a_time(tmp_path: Path) -> None:
    bundle, job = make(tmp_path)
    parts = list(report_json(job, bundle.outlines(job.config), None, bundle.root))
    assert len(parts) == 2 + 2 * SCENARIOS
    assert all(part.count(JOB.encode()) <= 1 for part in parts[1:])
