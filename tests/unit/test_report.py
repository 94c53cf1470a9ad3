from __future__ import annotations

import json
import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from junitparser import Error, Failure, JUnitXml, Skipped

from pytest_benchjobs.analysis.summary import Summary
from pytest_benchjobs.model.errors import ResultsUnwritable
from pytest_benchjobs.model.job import JobConfig, JobStatus, Totals
from pytest_benchjobs.model.result import Failure as Why
from pytest_benchjobs.model.result import Outcome, Phase, ScorerResult, TrialResult, Usage
from pytest_benchjobs.model.scenario import GradeIn
from pytest_benchjobs.report.alike import alike
from pytest_benchjobs.report.console import describe, failure_text, render_table
from pytest_benchjobs.report.junit import case_names, junit_xml
from pytest_benchjobs.report.markdown import summary_markdown
from pytest_benchjobs.report.markdown_parts import code
from pytest_benchjobs.report.properties import properties
from pytest_benchjobs.report.summary import by_agent, by_turn
from pytest_benchjobs.report.write import write_reports
from pytest_benchjobs.store import files
from pytest_benchjobs.store.bundle import JobBundle
from pytest_benchjobs.store.totals import totals

from .records import JOB, NOW, record, result, trial

HOSTILE = "\x1b[31m]]></failure><script>|\x00`x`\ud800 @everyone \uffff\n# heading\n| a | b |"


def failed(
    name: str = "bad", score: float = 0.25, agent: str = "codex:gpt-5.5", message: str = "wrong"
) -> TrialResult:
    why = Why(class_="below_threshold", message=message, detail="line 1\nline 2")
    return result(trial(name, agent), outcome=Outcome.FAILED, score=score, failure=why)


def broken(
    name: str = "broken", agent: str = "codex:gpt-5.5", message: str = "the engine went away"
) -> TrialResult:
    why = Why(class_="engine_lost", message=message)
    return result(trial(name, agent), outcome=Outcome.ERROR, score=None, failure=why)


def skipped(outcome: Outcome = Outcome.SKIPPED) -> TrialResult:
    return result(trial("skipped"), outcome=outcome, score=None)


@pytest.fixture
def results() -> list[TrialResult]:
    return [result(trial("good")), failed(), broken(), skipped()]


def test_totals_never_take_an_error_for_a_zero(results: list[TrialResult]) -> None:
    assert totals(results) == Totals(trials=4, passed=1, failed=1, error=1, skipped=1, mean_score=0.625)
    assert totals([broken()]) == Totals(trials=1, error=1, mean_score=None)
    assert totals([]) == Totals()


def test_a_row_for_each_agent(results: list[TrialResult]) -> None:
    oracle, codex = by_agent([*results, failed("zero", 0.0)])
    assert oracle == Summary(
        "oracle", passed=1, skipped=1, total=2, mean_scored=1.0, mean_all=1.0, seconds=4.0, unpriced=1,
        p50_seconds=2.0, p95_seconds=2.0,
    )  # fmt: skip
    assert codex == Summary(
        "codex:gpt-5.5", failed=2, partial=1, errors=1, total=3, mean_scored=0.125, mean_all=0.25 / 3,
        seconds=6.0, unpriced=3, p50_seconds=2.0, p95_seconds=2.0,
        classes={"below_threshold": 2, "engine_lost": 1},
    )  # fmt: skip
    assert (oracle.pass_rate, codex.pass_rate, Summary("x").pass_rate) == (1.0, 0.0, None)


def test_results_are_described_in_a_line() -> None:
    assert (
        describe(result(score=0.75, threshold=0.5, seconds=252))
        == "score 0.75 >= 0.5 (passed) oracle a1 4m12s"
    )
    assert describe(failed()) == "score 0.25 < 1.0 (below_threshold) codex:gpt-5.5 a1 2.0s"
    assert describe(failed(score=0.999999)) == "score 0.999999 < 1.0 (below_threshold) codex:gpt-5.5 a1 2.0s"
    crashed = failed(score=1.0).model_copy(update={"failure": Why(class_="agent_error", message="exit 1")})
    assert describe(crashed) == "failed in spite of its score 1.0 (agent_error) codex:gpt-5.5 a1 2.0s"
    assert describe(broken()) == "error (engine_lost) codex:gpt-5.5 a1 2.0s"
    assert describe(skipped(Outcome.CANCELLED)) == "cancelled (cancelled) oracle a1 2.0s"


def test_a_failure_tells_verdict_scorers_output_and_place() -> None:
    scorers = (
        ScorerResult(name="exists", type="bash", weight=1, score=1.0, output="fine"),
        ScorerResult(name="right", type="tests", weight=3, score=0.0, output="expected 3\ngot 4\n"),
    )
    changed = failed().model_copy(
        update={"scorers": scorers, "path": "trials/x/1", "notes": ("artifact missing",)}
    )
    assert failure_text(changed, Path("reports/jobs/j")).splitlines() == [
        "score 0.25 < 1.0 (below_threshold) codex:gpt-5.5 a1 2.0s, logs: reports/jobs/j/trials/x/1",
        "",
        "wrong",
        "",
        "  exists  1.0  weight 1",
        "  right   0.0  weight 3",
        "",
        "last output:",
        "  line 1",
        "  line 2",
        "",
        "last lines of scorer right (scorers/right/output.log):",
        "  expected 3",
        "  got 4",
        "",
        "note: artifact missing",
    ]


@given(st.text(st.characters(), max_size=300))
def test_whatever_an_agent_wrote_a_failure_is_clean_and_the_xml_valid(text: str) -> None:
    scorer = ScorerResult(name=text or "x", type="x", weight=1, score=0.5, output=text)
    why = Why(class_=text, message=text, detail=text)
    update = {"failure": why, "scorers": (scorer,), "notes": (text,), "benchmark": text}
    one = failed().model_copy(update={**update, "graded_in": GradeIn.FRESH})
    shown = failure_text(one)
    assert [char for char in shown if ord(char) < 32 and char != "\n" and char != "\t"] == []
    shown.encode()
    describe(one).encode("ascii")
    ET.fromstring(junit_xml(record(Path()), [one]))
    for _, value in properties(one):
        assert type(value) in (str, int, float)
        str(value).encode()
    summary_markdown(record(Path()), [one]).encode()


def test_a_failure_stays_short_whatever_was_printed() -> None:
    why = Why(class_="x", message="m" * 100_000, detail="line\n" * 100_000)
    scorers = tuple(
        ScorerResult(name="s" * 500, type="x", weight=1, score=0.0, output="o" * 100_000) for _ in range(9)
    )
    assert len(failure_text(failed().model_copy(update={"failure": why, "scorers": scorers}))) < 32_000


def test_it_is_said_by_which_turn_trials_had_passed() -> None:
    def turned(outcome: Outcome, *turns: float) -> TrialResult:
        update = {"outcome": outcome, "turns": turns, "score": turns[-1] if outcome != "error" else None}
        return failed().model_copy(update=update)

    results = [
        turned(Outcome.PASSED, 1.0), turned(Outcome.PASSED, 0.0, 1.0), turned(Outcome.FAILED, 0.0, 0.0),
        turned(Outcome.FAILED, 0.0), turned(Outcome.ERROR, 0.0), failed(),
    ]  # fmt: skip
    told = [("codex:gpt-5.5", "of 4 trials passed: 1 by turn 1 (25.0%), 2 by turn 2 (50.0%)")]
    assert list(by_turn(results)) == told
    assert list(by_turn([failed()])) == []


def test_properties_are_flat_and_plain() -> None:
    phases = (
        Phase(name="start", start=0, end=0.5),
        Phase(name="Scorer: x", start=1, end=2),
        Phase(name="start", start=3, end=4),
    )
    one = failed().model_copy(
        update={
            "phases": phases,
            "usage": Usage(input_tokens=3, cost_usd=0.5),
            "path": "trials/x",
            "turns": (0.0, 0.25),
        }
    )
    assert dict(properties(one)) == {
        "bench_job": JOB, "bench_benchmark": "texts", "bench_scenario": "bad", "bench_agent": "codex:gpt-5.5",
        "bench_model": "gpt-5.5", "bench_attempt": 1, "bench_tries": 1, "bench_outcome": "failed",
        "bench_class": "below_threshold", "bench_score": 0.25, "bench_score_turn_1": 0.0,
        "bench_score_turn_2": 0.25, "bench_threshold": 1.0, "bench_seconds": 2.0, "bench_seconds_start": 1.5,
        "bench_seconds_scorer_x": 1.0, "bench_input_tokens": 3, "bench_cost_usd": 0.5,
        "bench_path": "trials/x",
    }  # fmt: skip


def test_junit_holds_every_trial_with_its_outcome(results: list[TrialResult], tmp_path: Path) -> None:
    other = result(trial("good", file="sub/b.bench.yaml")).model_copy(update={"benchmark": "tables"})
    (tmp_path / "junit.xml").write_bytes(junit_xml(record(tmp_path), [*results, other]))
    document = JUnitXml.fromfile(str(tmp_path / "junit.xml"))
    assert [(suite.name, suite.tests, suite.failures, suite.errors, suite.skipped) for suite in document] == [
        ("texts", 4, 1, 1, 1),
        ("tables", 1, 0, 0, 0),
    ]
    cases = [case for suite in document for case in suite]
    assert [(case.classname, case.name, case.time) for case in cases] == [
        ("a.bench.yaml", "good[oracle-1]", 2.0),
        ("a.bench.yaml", "bad[codex:gpt-5.5-1]", 2.0),
        ("a.bench.yaml", "broken[codex:gpt-5.5-1]", 2.0),
        ("a.bench.yaml", "skipped[oracle-1]", 2.0),
        ("sub.b.bench.yaml", "good[oracle-1]", 2.0),
    ]
    kinds = [[(type(one), one.type) for one in case.result] for case in cases]
    assert kinds == [[], [(Failure, "below_threshold")], [(Error, "engine_lost")], [(Skipped, "skipped")], []]
    assert cases[1].result[0].message == describe(results[1])
    assert cases[1].result[0].text == failure_text(results[1])
    assert cases[2].result[0].message == f"{describe(results[2])}: the engine went away"
    found = ET.parse(tmp_path / "junit.xml").findall(".//testcase")[1].find("properties")
    assert found is not None
    assert {one.get("name"): one.get("value") for one in found} == {
        name: str(value) for name, value in properties(results[1])
    }


def test_cases_are_named_as_pytest_names_them(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "test_x.py").write_text(
        "import pytest\n@pytest.mark.parametrize('a', ['b/c::d[e]', 'x.py'])\ndef test_one(a): pass\n"
    )
    command = [
        sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--junitxml=j.xml", "--rootdir=.",
        "-c", os.devnull,
    ]  # fmt: skip
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    theirs = [
        (case.get("classname"), case.get("name")) for case in ET.parse(tmp_path / "j.xml").iter("testcase")
    ]
    assert [case_names(f"sub/test_x.py::test_one[{a}]") for a in ("b/c::d[e]", "x.py")] == theirs


def test_report_json_has_all_but_the_logs(results: list[TrialResult], tmp_path: Path) -> None:
    bundle = JobBundle.create(tmp_path, record(tmp_path))
    config = JobConfig(directory=tmp_path, env={"KEY": "very-secret"})
    scorer = ScorerResult(name="s", type="x", weight=1, score=0.5, output="LOG", details={"object": object()})
    write_reports(
        bundle,
        record(tmp_path, config=config),
        [*results, failed("more").model_copy(update={"scorers": (scorer,)})],
    )
    text = (bundle.root / "report.json").read_text()
    report = json.loads(text)
    assert (report["schema_version"], report["job"]["id"], report["totals"]["error"]) == (2, JOB, 1)
    assert [row["label"] for row in report["agents"]] == ["oracle", "codex:gpt-5.5"]
    assert [one["node_id"] for one in report["results"][:4]] == [one.node_id for one in results]
    assert report["results"][1]["failure"]["class"] == "below_threshold"
    assert report["results"][4]["scorers"][0]["name"] == "s"
    for absent in ("very-secret", "LOG", "line 1"):
        assert absent not in text


def test_reports_are_written_into_the_bundle_and_nothing_else(
    results: list[TrialResult], tmp_path: Path
) -> None:
    bundle = JobBundle.create(tmp_path, record(tmp_path))
    for _ in range(2):
        write_reports(bundle, record(tmp_path), results)
    names = sorted(path.name for path in bundle.root.iterdir())
    assert names == ["job.json", "junit.xml", "report.json", "summary.md", "trials"]


def test_where_junit_is_all_reports_are(
    results: list[TrialResult], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = JobBundle.create(tmp_path, record(tmp_path))
    there: list[set[str]] = []
    write = files.write_atomically

    def note(path: Path, content: bytes, *, durable: bool = True) -> None:
        write(path, content, durable=durable)
        there.append({path.name for path in bundle.layout.reports if path.exists()})

    monkeypatch.setattr(files, "write_atomically", note)
    write_reports(bundle, record(tmp_path), results)
    assert [names for names in there if "junit.xml" in names] == [
        {path.name for path in bundle.layout.reports}
    ]


def test_reports_that_cannot_be_written_are_an_infrastructure_error(tmp_path: Path) -> None:
    with pytest.raises(ResultsUnwritable, match=r"report\.json"):
        write_reports(JobBundle(tmp_path, JOB), record(tmp_path), [])


def test_the_summary_shows_agents_errors_and_failures(results: list[TrialResult]) -> None:
    ended = record(Path(), status=JobStatus.COMPLETED, finished_at=NOW.replace(minute=50), planned=6)
    assert summary_markdown(ended, results).splitlines() == [
        f"# Job `{JOB}`",
        "",
        "completed: 4 trials, 1 passed, 1 failed, 1 errors, 1 skipped",
        "",
        "2 planned trials did not run.",
        "",
        "| agent | passed | partial | failed | errors | skipped | total | pass rate | mean | time (sum) |",
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
        "| `oracle` | 1 | 0 | 0 | 0 | 1 | 2 | 100.0% | 1.000 | 4.0s |",
        "| `codex:gpt-5.5` | 0 | 1 | 1 | 1 | 0 | 2 | 0.0% | 0.250 | 4.0s |",
        "",
        "## Errors (not the agents' doing; no score)",
        "",
        "| trial | score | class | message |",
        "|---|--:|---|---|",
        "| `a.bench.yaml::broken[codex:gpt-5.5-1]` | - | `engine_lost` | `the engine went away` |",
        "",
        "## Failed, lowest scores first",
        "",
        "| trial | score | class | message |",
        "|---|--:|---|---|",
        "| `a.bench.yaml::bad[codex:gpt-5.5-1]` | 0.25 | `below_threshold` | `wrong` |",
        "",
        f"Job `{JOB}`, 2026-11-21 05:47 UTC, took 3m00s.",
    ]


_CRASH = {"failure": Why(class_="agent_crashed", message="status 1")}


@pytest.mark.parametrize(
    ("scores", "titles"),
    [
        ((0.5,), ["a.bench.yaml::bad[codex:gpt-5.5-1]"]),
        ((0.0, 0.0, 0.0), ["a.bench.yaml::bad[codex:gpt-5.5] (3 of 3 attempts)"]),
        ((0.0, 1.0, 0.0), ["a.bench.yaml::bad[codex:gpt-5.5] (attempts 1 and 3 of 3)"]),
        (
            (0.0, 0.25, 0.0, 0.0),
            [
                "a.bench.yaml::bad[codex:gpt-5.5] (attempts 1, 3 and 4 of 4)",
                "a.bench.yaml::bad[codex:gpt-5.5-2]",
            ],
        ),
    ],
)
def test_attempts_that_ended_alike_are_told_once(scores: tuple[float, ...], titles: list[str]) -> None:
    config = JobConfig(directory=Path(), attempts=len(scores))
    attempts = [
        failed(score=score).model_copy(
            update={"attempt": number, "node_id": f"a.bench.yaml::bad[codex:gpt-5.5-{number}]"}
        )
        for number, score in enumerate(scores, 1)
    ]
    unsolved = [one for one in attempts if one.score != 1]
    assert [one.title for one in alike(unsolved, config)] == titles
    summary = summary_markdown(record(Path(), config=config), unsolved)
    assert [line.split("`")[1] for line in summary.splitlines() if line.startswith("| `a.bench")] == titles
    crashed = [unsolved[0].model_copy(update=_CRASH), *unsolved[1:]]
    assert len(alike(crashed, config)) == min(len(titles) + 1, len(unsolved))


@pytest.mark.parametrize(
    ("usage", "limits", "cells", "line"),
    [
        ({}, {}, None, None),
        ({}, {"max_cost": 5.0}, None, "Models: unknown of $5.00 (--bench-max-cost)."),
        (
            {"input_tokens": 11_000, "output_tokens": 1000, "cost_usd": 0.125},
            {"max_cost": 5.0, "max_tokens": 2_000_000},
            ["12k", "$0.12"],
            "Models: $0.12 of $5.00 (--bench-max-cost), 12k of 2M (--bench-max-tokens).",
        ),
        (
            {"cost_usd": 0.031, "calls": 7},
            {"max_calls": 1000},
            ["$0.0310"],
            "Models: 7 of 1,000 (--bench-max-calls).",
        ),
    ],
)
def test_the_summary_has_tokens_and_cost_where_they_are_known(
    usage: dict[str, Any], limits: dict[str, Any], cells: list[str] | None, line: str | None
) -> None:
    spent = Usage(**usage)
    about = record(Path(), config=JobConfig(directory=Path(), **limits), spent=spent)
    lines = summary_markdown(about, [result(usage=spent)]).splitlines()
    (row,) = [line for line in lines if line.startswith("| `oracle`")]
    assert row.split(" | ")[8:-1] == (cells or [])
    assert [line for line in lines if line.startswith("Models")] == ([line] if line else [])


def test_hostile_text_stays_one_cell_of_code() -> None:
    (row,) = [
        line
        for line in summary_markdown(record(Path()), [failed(message=HOSTILE)]).splitlines()
        if "script" in line
    ]
    assert row == (
        "| `a.bench.yaml::bad[codex:gpt-5.5-1]` | 0.25 | `below_threshold` | "
        "``]]></failure><script>\\|`x`\ufffd @everyone # heading \\| a \\| b \\|`` |"
    )


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("plain", "`plain`"),
        ("`", "`` ` ``"),
        ("a``b`c", "```a``b`c```"),
        ("a|b", "`a\\|b`"),
        ("a\\|b", "`a\\\u00a6b`"),
        ("two\nlines", "`two lines`"),
        ("", ""),
    ],
)
def test_code_spans(text: str, span: str) -> None:
    assert code(text) == span


def test_a_table_fits_eighty_columns() -> None:
    rows = [
        Summary("oracle", passed=12, total=12, mean_scored=1.0, seconds=61),
        Summary("a-very-long-agent-name:vendor/an-even-longer-model-name-2026-11@host.example", failed=3, errors=1,
                 cancelled=2, total=6, mean_scored=0.3333, seconds=7500),
        Summary("nothing", errors=2, total=2),
    ]  # fmt: skip
    lines = render_table(rows, 80)
    assert max(map(len, lines)) <= 80
    assert len({len(line) for line in lines}) == 1
    assert [line.split()[-7:] for line in lines] == [
        ["time"],
        ["passed", "failed", "errors", "cancelled", "total", "mean", "(sum)"],
        ["12", "0", "0", "0", "12", "1.000", "1m01s"],
        ["0", "3", "1", "2", "6", "0.333", "2h05m"],
        ["0", "0", "2", "0", "2", "-", "0.0s"],
    ]
    assert lines[3].startswith("a-very-lo")
    assert "...".join(lines[3].split("...")[1:]).split()[0].endswith("example")


def test_a_table_of_one_short_row_is_narrow() -> None:
    assert render_table([Summary("nop", failed=2, total=2, mean_scored=0.0, seconds=1)]) == [
        "agent  passed  failed  errors  total   mean  time (sum)",
        "nop         0       2       0      2  0.000        1.0s",
    ]


def test_results_and_jobs_obey_their_published_schemas(tmp_path: Path, results: list[TrialResult]) -> None:
    from pytest_benchjobs.report.documents import schema_of

    bundle = JobBundle.create(tmp_path, record(tmp_path))
    jsonschema.validate(json.loads((bundle.root / "job.json").read_bytes()), schema_of("job"))
    for one in results:
        jsonschema.validate(json.loads(one.model_dump_json(by_alias=True)), schema_of("result"))
