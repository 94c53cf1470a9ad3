"""Lists of reports at their limits, and figures at theirs: what is whole says so by saying nothing."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from pytest_benchjobs.model.comparison import ComparedRow, ComparedSide, Comparison, HighScore
from pytest_benchjobs.model.known_failure import Known, KnownMode
from pytest_benchjobs.model.result import Failure, Outcome
from pytest_benchjobs.report.comparison import comparison_lines
from pytest_benchjobs.report.console import describe, headline
from pytest_benchjobs.report.gate_text import shown_change, shown_value
from pytest_benchjobs.report.markdown import summary_markdown
from pytest_benchjobs.report.units import duration, percent

from .records import NOW, record, result, trial


def more(lines: Iterable[str]) -> list[str]:
    return [line for line in lines if " more" in line]


KNOWN = Known(reason="x", mode=KnownMode.EXPECTED_FAIL)


@pytest.mark.parametrize(
    ("metric", "value", "shown", "changed"),
    [
        ("cost", 0.1, "$0.10", "+$0.10"),
        ("cost", 0.0999, "$0.0999", "+$0.0999"),
        ("cost", -0.5, "$-0.50", "-$0.50"),
        ("cost", 0.0, "$0.00", "+$0.00"),
        ("duration", -3.0, "-3.0s", "-3.0s"),
        ("duration", 0.0, "0.0s", "+0.0s"),
        ("tokens", 3400.0, "3,400", "+3,400"),
        ("mean", -0.071, "-0.071", "-7.1 pp"),
    ],
)
def test_values_and_their_changes(metric: str, value: float, shown: str, changed: str) -> None:
    assert (shown_value(metric, value), shown_change(metric, value)) == (shown, changed)


# summary.md


def failed(n: int, score: float = 0.25) -> Any:
    why = Failure(class_="below_threshold", message="wrong")
    return result(trial(f"s{n}"), outcome=Outcome.FAILED, score=score, failure=why)


def test_a_summary_says_how_many_trials_did_not_run() -> None:
    def told(planned: int | None) -> list[str]:
        lines = summary_markdown(record(Path(), planned=planned), [result()]).splitlines()
        return [line for line in lines if "did not run" in line]

    assert told(None) == told(1) == []
    assert told(2) == ["1 planned trials did not run."]


def test_failures_of_a_summary_are_sorted_by_score() -> None:
    lines = summary_markdown(record(Path()), [failed(1, 0.5), failed(2, 0.0), failed(3, 0.25)]).splitlines()
    assert [line.split("::")[1][:2] for line in lines if "::s" in line] == ["s2", "s3", "s1"]


# On the console


def test_numbers_at_the_ends_of_their_ways() -> None:
    assert [duration(one) for one in (9.94, 9.95, 59.4, 59.5, 3599.4, 3599.5, -1)] == [
        "9.9s", "10s", "59s", "1m00s", "59m59s", "1h00m", "0.0s",
    ]  # fmt: skip
    assert [percent(one, 1000) for one in (0, 0.5, 1, 999, 999.9, 1000, 1001)] == [
        "0.0%", "0.1%", "0.1%", "99.9%", "99.9%", "100.0%", "100.1%",
    ]  # fmt: skip
    assert [percent(0, 0), percent(1, 3)] == ["-", "33.3%"]


def test_a_score_at_its_threshold_is_not_below_it() -> None:
    assert describe(result(score=0.5, threshold=0.5)).startswith("score 0.5 >= 0.5 (passed)")
    # The verdict over several attempts may be another than that of their mean.
    mixed = result(score=0.5, threshold=0.5).model_copy(update={"score": 0.4})
    assert describe(mixed).startswith("score 0.4 (passed)")


def test_one_line_of_a_failure_is_shorter_than_what_pytest_and_ci_cut_it_to() -> None:
    long = Failure(class_="agent_error", message="m" * 5000)
    line = headline(result(outcome=Outcome.ERROR, failure=long, path="t/" + "p" * 900), Path("/x"))
    assert ", logs: /x/t/ppp" in line
    assert len(line) < 500


# A comparison


def comparison(*rows: ComparedRow, **changes: Any) -> Comparison:
    values: dict[str, Any] = {
        "id": "cmp_20261121T120000Z_a1b2c3d4", "at": NOW, "a": ComparedSide(spec="main"),
        "b": ComparedSide(spec="last"), "level": 0.95, "rows": rows,
    }  # fmt: skip
    return Comparison.model_validate({**values, **changes})


def compared(**changes: Any) -> ComparedRow:
    values: dict[str, Any] = {
        "benchmark": "texts", "a_agent": "codex:a", "b_agent": "codex:a", "scenarios": 12, "a": 0.75, "b": 0.5,
        "delta": -0.25, "low": -0.5, "high": 0.0, "p_value": 0.06, "p_worse": 0.03, "detectable": 0.4,
        "winner": "a", "a_cost": 0.5, "b_tokens": 1200.4, "a_seconds": 95.0, "b_errors": 2,
    }  # fmt: skip
    return ComparedRow(**{**values, **changes})


def test_a_comparison_in_lines() -> None:
    assert list(comparison_lines(comparison(compared()), 200)) == [
        "Comparison ID: cmp_20261121T120000Z_a1b2c3d4",
        "A: main",
        "B: last",
        "Benchmarks: texts",
        "",
        "benchmark       A       B  delta (B-A)  winner   n       95 % interval      p  p worse  detectable",
        "texts      0.7500  0.5000      -0.2500  (A)     12  -0.5000 .. +0.0000  0.060    0.030      0.4000",
        "",
        "per attempt  cost A  cost B  tokens A  tokens B  time A  time B  errors A  errors B",
        "texts         $0.50       -         -      1200   1m35s       -         0         2",
        "(A), (B): ahead, but not significantly (p >= 0.05)",
    ]


def test_a_comparison_says_what_it_knows() -> None:
    high = HighScore(score=0.8, unit="%")
    rows = (
        compared(significant=True, high_score=high, a_to_high=-0.05, b_to_high=None, winner="b"),
        compared(b_agent="goose:b", winner=None, low=None, high_score=HighScore(score=0.8), a_to_high=-0.05),
    )
    lines = list(comparison_lines(comparison(*rows), 250))
    assert lines[5].split("  ")[1].strip() == "agents"
    assert lines[6].endswith("0.8000  -0.0500")
    assert lines[7].endswith("0.8000  -0.0500")
    assert " B " in lines[6]
    assert "codex:a | goose:b" in lines[7]
    assert "not significantly" not in lines[-1]
