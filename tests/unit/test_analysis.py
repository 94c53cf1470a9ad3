from __future__ import annotations

import itertools
import statistics
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_benchjobs.analysis.attempts import AtK, at_k, pass_at_k, pass_hat_k, shown
from pytest_benchjobs.analysis.scenarios import Repeats, judged, repeats
from pytest_benchjobs.analysis.summary import Summary, percentile, summarise
from pytest_benchjobs.model.job import JobConfig, Overrides
from pytest_benchjobs.model.policy import parse_policy
from pytest_benchjobs.model.result import Failure, Origin, Outcome, TrialResult
from pytest_benchjobs.model.usage import Usage
from pytest_benchjobs.store.rows import TrialRow, trial_values

from .jobs import ended
from .records import NOW, result, trial


def as_row(of: TrialResult) -> TrialRow:
    """As the history would have it, but for the number of its run."""
    values: tuple[Any, ...] = (*trial_values(of), "")
    return TrialRow(*values)


def results(
    letters: str, scenario: str = "count", agent: str = "oracle", **changes: Any
) -> list[TrialResult]:
    """A trial for each letter; a dot is an attempt that never ran."""
    return [
        ended(letter, scenario, agent, number, **changes)
        for number, letter in enumerate(letters, 1)
        if letter != "."
    ]


def attempts(letters: str, scenario: str = "count") -> list[TrialRow]:
    return [*map(as_row, results(letters, scenario))]


def summed(trials: list[TrialRow], job: JobConfig) -> Repeats:
    return repeats(judged(trials, job), job)


def config(number: int = 1, policy: str = "each", **changes: Any) -> JobConfig:
    return JobConfig(
        directory=Path("reports"), attempts=number, attempt_policy=parse_policy(policy), **changes
    )


@st.composite
def outcomes_and_k(draw: st.DrawFn) -> tuple[list[bool], int]:
    passes = draw(st.lists(st.booleans(), min_size=1, max_size=9))
    return passes, draw(st.integers(1, len(passes)))


@given(outcomes_and_k())
def test_at_k_is_what_enumerating_every_choice_of_k_attempts_gives(case: tuple[list[bool], int]) -> None:
    passes, k = case
    choices = list(itertools.combinations(passes, k))
    n, c = len(passes), sum(passes)
    assert pass_at_k(n, c, k) == pytest.approx(sum(map(any, choices)) / len(choices))
    assert pass_hat_k(n, c, k) == pytest.approx(sum(map(all, choices)) / len(choices))


@given(st.integers(1, 400).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n))))
def test_the_curve_is_the_formula_at_every_k(case: tuple[int, int]) -> None:
    n, c = case
    for point in at_k([case], n):
        assert point.pass_at_k == pytest.approx(pass_at_k(n, c, point.k))
        assert point.pass_hat_k == pytest.approx(pass_hat_k(n, c, point.k))
        assert point.scenarios == 1


def test_a_scenario_with_fewer_than_k_attempts_has_no_estimate_and_does_not_count() -> None:
    assert pass_at_k(2, 1, 3) is None
    assert pass_hat_k(2, 1, 3) is None
    assert [tuple(dict(point).values()) for point in at_k([(1, 1), (2, 1)], 3)] == [
        (1, 0.75, 0.75, 2),
        (2, 1.0, 0.0, 1),
        (3, None, None, 0),
    ]


def test_a_table_shows_a_few_of_many_k() -> None:
    assert [shown(0), shown(4), shown(10)] == [[], [1, 2, 3, 4], [1, 2, 4, 8, 10]]


def test_an_error_is_no_attempt() -> None:
    found = summed([*attempts("PEF"), *attempts("EEE", "sums")], config(3))
    assert found.at_k == (
        AtK(k=1, pass_at_k=0.5, pass_hat_k=0.5, scenarios=1),
        AtK(k=2, pass_at_k=1.0, pass_hat_k=0.0, scenarios=1),
        AtK(k=3, pass_at_k=None, pass_hat_k=None, scenarios=0),
    )


def test_flaky_scenarios_both_passed_and_failed() -> None:
    letters = {"flaky": "PF", "broken": "PE", "sure": "PP", "hopeless": "FF"}
    trials = [row for scenario, of in letters.items() for row in attempts(of, scenario)]
    assert summed(trials, config(2)).flaky == ("a.bench.yaml::flaky[oracle]",)


@pytest.mark.parametrize(
    ("policy", "letters", "verdict"),
    [
        ("any", "FFP", "passed"),
        ("any", "FFE", "error"),
        ("any", "FF.", "error"),
        ("all", "F..", "failed"),
        ("rate:50%", "FFFP", "failed"),
        ("all", "SSS", "skipped"),
    ],
)
def test_a_scenario_has_the_verdict_of_its_policy(policy: str, letters: str, verdict: str) -> None:
    job = config(len(letters), policy)
    assert [scenario.verdict for scenario in judged(attempts(letters), job)] == [verdict]
    counts = summed(attempts(letters), job).verdicts
    assert counts is not None
    found = {
        "passed": counts.passed,
        "failed": counts.failed,
        "error": counts.error,
        "skipped": counts.skipped,
    }
    assert (found, counts.total) == ({**dict.fromkeys(found, 0), verdict: 1}, 1)


def test_verdicts_have_the_mean_of_means_of_what_was_decided() -> None:
    letters = {"good": "PPPF", "partly": "PFFF", "bad": "FFFF", "open": "PPEE"}
    trials = [row for scenario, of in letters.items() for row in attempts(of, scenario)]
    counts = summed(trials, config(4, "rate:0.75")).verdicts
    assert counts is not None
    decided = {"total": 4, "passed": 1, "failed": 2, "partial": 1, "zero": 1}
    assert dict(counts) == {**decided, "error": 1, "skipped": 0, "mean_score": pytest.approx(1 / 3)}


def test_one_attempt_has_no_curve_and_each_for_itself_makes_no_verdicts() -> None:
    assert summed(attempts("P"), config()).at_k == ()
    assert summed(attempts("PF"), config(2)).verdicts is None


def test_attempts_may_differ_by_benchmark() -> None:
    job = config(3, "all", per_benchmark={"texts": Overrides(attempts=1)})
    (found,) = judged(attempts("P"), job)
    assert (found.attempts, found.verdict) == (1, "passed")


def test_scenarios_of_one_name_in_two_files_are_two() -> None:
    rows = [as_row(result(trial("count", file=f"{name}.bench.yaml"))) for name in "ab"]
    expected = [f"{name}.bench.yaml::count[oracle]" for name in "ab"]
    assert [found.node_id for found in judged(rows, config(2))] == expected


def test_what_was_reused_counts_but_was_not_spent() -> None:
    spent = {"usage": Usage(input_tokens=10, output_tokens=5, cached_tokens=2, cost_usd=0.5), "seconds": 4.0}
    origin = Origin(job="earlier", path="trials/oracle/count/1", finished_at=NOW)
    reused = results("PP", "old", **spent, reused=origin)
    summary = summarise("oracle", [*reused, *results("F", **spent)])
    assert (summary.total, summary.passed, summary.reused, summary.mean_scored) == (
        3, 2, 2, pytest.approx(2 / 3),
    )  # fmt: skip
    assert (summary.cost_usd, summary.seconds, summary.p50_seconds) == (0.5, 4.0, 4.0)
    assert (summary.input_tokens, summary.output_tokens, summary.cached_tokens) == (10, 5, 2)
    nothing_ran = summarise("oracle", reused)
    assert (nothing_ran.cost_usd, nothing_ran.seconds, nothing_ran.p95_seconds) == (None, 0.0, None)


def test_the_agent_of_a_trial_that_was_graded_anew_was_paid_before() -> None:
    spent = {"usage": Usage(input_tokens=10, cost_usd=0.5), "seconds": 4.0}
    origin = Origin(job="earlier", path="trials/oracle/count/1", finished_at=NOW)
    summary = summarise("oracle", results("P", **spent, rescored=origin))
    assert (summary.cost_usd, summary.unpriced, summary.input_tokens, summary.seconds) == (None, 0, None, 4.0)


def test_an_unknown_cost_is_not_a_cost_of_nothing() -> None:
    priced = results("P", usage=Usage(cost_usd=0.25))
    summary = summarise("oracle", [*priced, *results("PS", "sums")])
    assert (summary.cost_usd, summary.unpriced) == (0.25, 1)
    assert summarise("oracle", results("P")).cost_usd is None


def test_failures_are_told_apart() -> None:
    def failed(class_: str, score: float | None) -> TrialResult:
        why = Failure(class_=class_, message="x")
        return result(outcome=Outcome.FAILED, score=score, failure=why)

    summary = summarise(
        "x", [failed("agent_timeout", 0.5), failed("below_threshold", 0.0), failed("agent_timeout", None)]
    )
    assert (summary.failed, summary.partial, summary.zero, summary.timeouts) == (3, 1, 2, 2)
    assert list(summary.classes.items()) == [("agent_timeout", 2), ("below_threshold", 1)]


def test_nothing_sums_up_to_nothing() -> None:
    assert summarise("x", []) == Summary("x")


@given(st.lists(st.floats(0, 1e6), min_size=2, max_size=30))
def test_percentiles_are_those_of_the_standard_library(numbers: list[float]) -> None:
    numbers.sort()
    cuts = statistics.quantiles(numbers, n=20, method="inclusive")
    assert percentile(numbers, 0.5) == pytest.approx(cuts[9])
    assert percentile(numbers, 0.95) == pytest.approx(cuts[18])
    assert percentile(numbers[:1], 0.95) == numbers[0]
