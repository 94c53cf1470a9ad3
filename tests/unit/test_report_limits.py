"""Lists of reports at their limits, and figures at theirs: what is whole says so by saying nothing."""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from pytest_benchjobs.model.comparison import ComparedRow, ComparedSide, Comparison, HighScore
from pytest_benchjobs.model.gate import GateVerdict, ScenarioRef
from pytest_benchjobs.model.job import JobStatus
from pytest_benchjobs.model.known_failure import Known, KnownMode
from pytest_benchjobs.model.result import Failure, Outcome
from pytest_benchjobs.report.comparison import comparison_lines
from pytest_benchjobs.report.console import describe, failure_text, headline
from pytest_benchjobs.report.gate_markdown import gate_markdown, shown_change, shown_value
from pytest_benchjobs.report.markdown import summary_markdown
from pytest_benchjobs.report.units import cost, duration, percent

from .gates import change, gate_report, rule_report
from .records import JOB, NOW, record, result, trial


def refs(count: int) -> tuple[ScenarioRef, ...]:
    return tuple(ScenarioRef(benchmark="texts", scenario=f"n{n}", agent="a") for n in range(count))


def more(lines: Iterable[str]) -> list[str]:
    return [line for line in lines if " more" in line]


KNOWN = Known(reason="x", mode=KnownMode.EXPECTED_FAIL)


@pytest.mark.parametrize(
    ("field", "one", "most", "says"),
    [
        ("rules", rule_report(GateVerdict.OK), 50, "and 1 more rules"),
        ("broke", change(), 50, "and 1 more"),
        ("suspects", change(), 50, "and 1 more"),
        ("fixed", change(), 50, "and 1 more"),
        ("known", change(known=KNOWN), 50, "and 1 more"),
        ("added", refs(1)[0], 50, "- and 1 more added"),
        ("unscored", refs(1)[0], 50, "- and 1 more without a score on one side"),
        ("notes", "a note", 20, "- and 1 more notes"),
    ],
)
def test_lists_of_a_gate_say_what_they_leave_out(field: str, one: Any, most: int, says: str) -> None:
    def shown(count: int) -> list[str]:
        return list(gate_markdown(gate_report(GateVerdict.OK, **{"rules": (), field: (one,) * count})))

    assert more(shown(most)) == []
    assert more(shown(most + 1)) == [says]
    # An empty line ends what a list is a part of.
    after = shown(most + 1)
    assert after[after.index(says) + 1] == ""
    assert not any(" 0 more" in line for line in shown(0) + shown(1))


def test_advice_of_twenty_rules_is_whole() -> None:
    def shown(count: int) -> list[str]:
        rules = (rule_report(GateVerdict.OK, advice="do it"),) * count
        return list(gate_markdown(gate_report(GateVerdict.OK, rules=rules)))

    assert more(shown(20)) == []
    assert more(shown(21)) == ["- and 1 more"]
    assert sum(line.endswith("`do it`") for line in shown(21)) == 20


@pytest.mark.parametrize(
    ("jobs", "shown"),
    [("", ""), ("abcde", " (`a`, `b`, `c`, `d`, `e`)"), ("abcdef", " (`a`, `b`, `c`, `d`, `e` and 1 more)")],
)
def test_five_jobs_of_a_baseline_are_named(jobs: str, shown: str) -> None:
    lines = list(gate_markdown(gate_report(baseline_jobs=tuple(jobs))))
    assert f"Compared with baseline `main`{shown}, policy evidence." in lines
    assert not any("Compared" in line for line in gate_markdown(gate_report(baseline=None)))


@pytest.mark.parametrize(
    ("figures", "says"),
    [
        ({"before_cost": 2.0, "now_cost": 1.0}, "- Cost per attempt: $2.00 before, $1.00 now (-50.0 %)."),
        ({"before_cost": 0.0, "now_cost": 1.0}, "- Cost per attempt: $0.0000 before, $1.00 now."),
        ({"before_cost": 5e-324, "now_cost": 1e300}, None),
        ({"now_seconds": 3.0}, "- Time per attempt: - before, 3.0s now."),
        ({"before_seconds": 3.0}, "- Time per attempt: 3.0s before, - now."),
        ({"attempts": 0, "errors": 0}, None),
        ({"attempts": 2, "errors": 3}, "- Infrastructure: 0.0% of 2 attempts have a score; 3 ended"),
    ],
)
def test_figures_of_a_gate_are_those_that_are_known(figures: dict[str, Any], says: str | None) -> None:
    lines = list(gate_markdown(gate_report(rules=(), **figures)))
    found = [line for line in lines if line.startswith(("- Cost", "- Time"))]
    if "attempts" in figures:
        found = [line for line in lines if line.startswith("- Infra")]
        assert bool(found) is (says is not None)
    if says is not None:
        assert found[0].startswith(says)
    elif found:
        assert "%" not in found[0]


@pytest.mark.parametrize(
    ("metric", "value", "shown", "changed"),
    [
        ("cost", 0.1, "$0.10", "+$0.10"),
        ("cost", 0.0999, "$0.0999", "+$0.0999"),
        ("cost", -0.5, "$-0.50", "-$0.50"),
        ("cost", 0.0, "$0.0000", "+$0.0000"),
        ("duration", -3.0, "-3.0s", "-3.0s"),
        ("duration", 0.0, "0.0s", "+0.0s"),
        ("tokens", 3400.0, "3,400", "+3,400"),
        ("mean", -0.071, "-0.071", "-7.1 pp"),
    ],
)
def test_values_and_their_changes(metric: str, value: float, shown: str, changed: str) -> None:
    assert (shown_value(metric, value), shown_change(metric, value)) == (shown, changed)


def test_quarantine_among_known_failures_is_counted() -> None:
    def shown(*modes: KnownMode) -> str:
        known = tuple(change(known=Known(reason="x", mode=mode)) for mode in modes)
        lines = gate_markdown(gate_report(rules=(), known=known))
        return next(line for line in lines if "known failures" in line)

    assert "2 known failures among the pairs, 1 of them in quarantine and in no rule<" in shown(
        KnownMode.QUARANTINE, KnownMode.EXPECTED_FAIL
    )
    assert "1 known failures among the pairs<" in shown(KnownMode.EXPECTED_FAIL)


# summary.md


def failed(n: int, score: float = 0.25) -> Any:
    why = Failure(class_="below_threshold", message="wrong")
    return result(trial(f"s{n}"), outcome=Outcome.FAILED, score=score, failure=why)


@pytest.mark.parametrize(
    ("make", "most"),
    [
        (failed, 50),
        (lambda n: result(trial(f"s{n}"), outcome=Outcome.ERROR, score=None), 200),
        (lambda n: result(trial(f"s{n}"), known=KNOWN), 50),
    ],
)
def test_lists_of_a_summary_say_what_they_leave_out(make: Any, most: int) -> None:
    def shown(count: int) -> list[str]:
        return summary_markdown(record(Path()), [make(n) for n in range(count)]).splitlines()

    assert more(shown(most)) == []
    assert more(shown(most + 1)) == ["... and 1 more."]


def test_a_summary_says_how_long_it_took_since_it_was_resumed() -> None:
    def last(**changes: Any) -> str:
        ended = record(Path(), status=JobStatus.COMPLETED, **changes)
        return summary_markdown(ended, [result()]).splitlines()[-1]

    minute = datetime.timedelta(minutes=1)
    assert last() == f"Job `{JOB}`, 2026-11-21 05:47 UTC."
    resumed = (NOW + 5 * minute, NOW + 3 * minute)
    assert last(resumed_at=resumed, finished_at=NOW + 7 * minute) == (
        f"Job `{JOB}`, 2026-11-21 05:47 UTC, resumed 2026-11-21 05:52 UTC, took 2m00s since."
    )


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


@pytest.mark.parametrize(
    ("usd", "shown"), [(None, "-"), (0.0, "$0.00"), (0.0999, "$0.0999"), (0.1, "$0.10"), (2.0, "$2.00")]
)
def test_small_costs_have_more_digits(usd: float | None, shown: str) -> None:
    assert cost(usd) == shown
    if usd is not None:
        assert cost(usd, more=True) == f"{shown}+"
        paid = result(usage={"cost_usd": usd})
        assert headline(paid).endswith(f", {shown if usd else '$0.0000'}")


def test_numbers_at_the_ends_of_their_ways() -> None:
    assert [duration(one) for one in (9.94, 9.95, 59.4, 59.5, 3599.4, 3599.5, -1)] == [
        "9.9s", "10s", "59s", "1m00s", "59m59s", "1h00m", "0.0s",
    ]  # fmt: skip
    assert [percent(one, 1000) for one in (0, 0.5, 1, 999, 999.9, 1000, 1001)] == [
        "0.0%", "0.1%", "0.1%", "99.9%", "99.9%", "100.0%", "100.1%",
    ]  # fmt: skip


def test_a_score_at_its_threshold_is_not_below_it() -> None:
    assert describe(result(score=0.5, threshold=0.5)).startswith("score 0.5 >= 0.5 (passed)")
    # The verdict over several attempts may be another than that of their mean.
    mixed = result(score=0.5, threshold=0.5).model_copy(update={"score": 0.4})
    assert describe(mixed).startswith("score 0.4 (passed)")


def test_ten_notes_of_a_failure_are_shown() -> None:
    one = failed(1).model_copy(update={"notes": tuple(f"n{n}" for n in range(12))})
    assert [line for line in failure_text(one).splitlines() if line.startswith("note")] == [
        f"note: n{n}" for n in range(10)
    ]


# A comparison


def comparison(*rows: ComparedRow, **changes: Any) -> Comparison:
    values: dict[str, Any] = {
        "id": "cmp_20261121T120000Z_a1b2c3d4",
        "at": NOW,
        "a": ComparedSide(spec="main"),
        "b": ComparedSide(spec="last"),
        "level": 0.95,
        "rows": rows,
    }
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
        "per attempt   cost A  cost B  tokens A  tokens B  time A  time B  errors A  errors B",
        "texts        $0.5000       -         -      1200   1m35s       -         0         2",
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
    assert lines[6].endswith("0.8000  -0.0500        -")
    assert lines[7].endswith("0.8000  -0.0500        -")
    assert " B " in lines[6]
    assert "codex:a | goose:b" in lines[7]
    assert "not significantly" not in lines[-1]


@pytest.mark.parametrize("field", ["newly_failing", "newly_passing", "suspects"])
def test_lists_of_a_comparison_say_what_they_leave_out(field: str) -> None:
    def shown(count: int) -> list[str]:
        return list(
            comparison_lines(comparison(compared(), **{field: (change(adjusted=0.05),) * count}), 200)
        )

    assert more(shown(20)) == []
    assert more(shown(21)) == ["  ... and 1 more"]
    assert "  texts count: 1.00 -> 0.00 (passed 5/5 -> 0/3, adjusted p = 0.050)" in shown(1)


@pytest.mark.parametrize("field", ["added", "removed", "changed", "unscored"])
def test_names_of_a_comparison_say_what_they_leave_out(field: str) -> None:
    def shown(count: int) -> str:
        return list(comparison_lines(comparison(compared(), **{field: refs(count)}), 200))[-1]

    assert not more([shown(20)])
    assert shown(21).endswith(", texts n19 and 1 more")


def test_jobs_of_a_side_are_named_unless_they_are_what_was_asked_for() -> None:
    def side(spec: str, *jobs: str) -> str:
        one = comparison(a=ComparedSide(spec=spec, jobs=jobs))
        return list(comparison_lines(one, 200))[1]

    assert side("main", "j1", "j2") == "A: main (job j1, j2)"
    assert side("j1", "j1") == "A: j1"
    assert side("x", *"abcdef") == "A: x (job a, b, c, d, e)"
