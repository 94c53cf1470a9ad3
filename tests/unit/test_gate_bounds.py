"""Gates at their limits: which side of a limit the limit itself is on, and what depends on one or several."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest

from pytest_benchjobs.analysis.gate.outlook import outlook
from pytest_benchjobs.analysis.gate.rounds import looks
from pytest_benchjobs.model.gate import GateConfig, GateVerdict, RuleReport
from pytest_benchjobs.settings.rules import parse_rule

from .test_gate import GOOD, INCONCLUSIVE, INVALID, OK, REGRESSED, cell, judged, of, only, side


def test_the_fewest_that_can_show_a_regression() -> None:
    # The least p of a scenario of three attempts is alpha itself.
    found = only(judged(side([[0.0] * 3]), side([[1.0] * 3]), "mean"))
    assert found.advice is not None
    assert found.advice.startswith(
        "1 scenario of 3 attempts cannot show a regression at 95 %: use 2 scenarios or more, or 4 attempts or more on "
        "both sides"
    )
    assert found.detectable is None
    assert found.why.endswith("too few scenarios or attempts (1 scenario of 3 attempts)")
    found = only(judged(side([[0.0] * 3]), side([[1.0] * 3]), "scenario"))
    assert found.advice == (
        "so few attempts cannot show that one of 1 scenario broke at 95 %: use 4 attempts on both sides, or "
        "critical:any for those that must pass"
    )
    # Four scenarios of one attempt: one deal of sixteen, and five of 32.
    for n, enough in ((4, False), (5, True)):
        found = only(judged(side([[0.0]] * n), side([[1.0]] * n), "mean@95"))
        assert ("cannot show a regression" in (found.advice or "")) is not enough
    assert "use 2 scenarios or more" in (only(judged(side([[0.0]]), side([[1.0]]), "mean@70")).advice or "")


@pytest.mark.parametrize(("rule", "seen"), [("mean@96.875", False), ("mean@96", True)])
def test_what_the_least_p_equals_is_a_level_at_which_nothing_is_seen(rule: str, seen: bool) -> None:
    # Five scenarios of one attempt: one deal of 32.
    found = only(judged(side([[0.9]] * 5), side([[0.91], [0.9], [0.89], [0.9], [0.91]]), rule))
    assert (found.detectable is not None) is seen


@pytest.mark.parametrize(("rate", "verdict"), [(0.8, OK), (0.75, REGRESSED)])
def test_what_is_tolerated_of_what_is_critical_is_no_regression(rate: float, verdict: GateVerdict) -> None:
    passed = round(20 * rate)
    now = of(cell(0, [1.0] * passed + [0.0] * (20 - passed), tags=("critical",)))
    before = of(cell(0, [1.0] * 20, tags=("critical",)))
    assert only(judged(now, before, "critical:20pp")).verdict is verdict


@pytest.mark.parametrize(("passed", "worse"), [(16, False), (15, True)])
def test_what_is_tolerated_of_a_scenario_is_not_less_often(passed: int, worse: bool) -> None:
    now = side([[1.0] * passed + [0.0] * (20 - passed)])
    found = only(judged(now, side([[1.0] * 20]), "scenario:20pp"))
    assert (found.why != "none of 1 scenario passes less often") is worse


def test_beside_other_rules_a_broken_scenario_is_one_comparison_more() -> None:
    good, bad = [1.0] * 8, [0.0] * 8
    now, before = side([bad, good, *[good] * 8]), side([good, bad, *[good] * 8])  # the mean is as it was
    alone = only(judged(now, before, "scenario")).p_value
    assert alone == pytest.approx(10 / 12870)  # of ten scenarios; one deal of 16 over 8
    beside = [one for one in judged(now, before, "scenario", "mean").rules if one.rule.metric == "scenario"]
    assert [one.p_value for one in beside] == [pytest.approx(2 * alone)]


@pytest.mark.parametrize(("errors", "verdict"), [(1, OK), (2, INVALID)])
def test_a_job_may_have_as_many_errors_as_it_may(errors: int, verdict: GateVerdict) -> None:
    now = of(*(cell(n, [1.0] if n >= errors else [], errors=int(n < errors)) for n in range(20)))
    assert judged(now, None, "--bench-min-score 0.5", max_error_rate=0.05).verdict is verdict


@pytest.mark.parametrize(("n", "verdict"), [(5, OK), (4, INVALID)])
def test_as_many_samples_as_are_needed_are_enough(n: int, verdict: GateVerdict) -> None:
    few = side(GOOD[:n])
    assert judged(few, few, "mean", min_samples=5).verdict is verdict


@pytest.mark.parametrize(("passed", "silent"), [(1, False), (2, True)])
def test_errors_where_half_passed_before_hide_nothing(passed: int, silent: bool) -> None:
    before = [*GOOD, [1.0] * passed + [0.0] * (2 - passed)]
    now = of(*(cell(n, [1.0]) for n in range(20)), cell(20, [], errors=1))
    report = judged(now, side(before), "mean", max_error_rate=0.5)
    assert report.verdict is (INCONCLUSIVE if silent else OK)


def test_what_is_left_to_be_judged_at_the_end_takes_one_share_of_alpha() -> None:
    now = side(GOOD)
    config = GateConfig(baseline="main", rules=(parse_rule("mean"),), until_decided=True)
    confirming = config.model_copy(update={"confirm": 5})
    two = config.model_copy(update={"rules": (parse_rule("mean"), parse_rule("pass_rate"))})
    (alone,), (shared,), (one, other) = (
        looks(now, side([[1.0] * 5] * 20), asked, number=1, rounds=5) for asked in (config, confirming, two)
    )
    assert shared.boundary == one.boundary == other.boundary < alone.boundary


def test_the_place_is_said_where_there_are_several() -> None:
    assert judged(side([[0.0]] * 8 + GOOD[8:]), side(GOOD), "mean").why.startswith("regressed: mean 1.00")
    two = side(GOOD, [[0.0]] * 8 + GOOD[8:])
    assert judged(two, side(GOOD, GOOD), "mean").why.startswith("regressed: b, b:m: mean 1.00")
    # Of several the clearest is told, and how many there are more.
    both = side([[0.0]] * 8 + GOOD[8:], [[0.0]] * 12 + GOOD[12:])
    why = judged(both, side(GOOD, GOOD), "mean").why
    assert why.startswith("regressed: b, b:m: mean 1.00 -> 0.40")
    assert why.endswith(" (and 1 more)")


@pytest.mark.parametrize(
    ("before", "now"), [((3,), (3,)), ((3,), (1,)), ((1,), (5,)), ((3, 2), (1, 1)), ((1, 1, 1), (1, 1, 1))]
)
def test_what_is_advised_suffices(before: tuple[int, ...], now: tuple[int, ...]) -> None:
    def verdict(olds: Sequence[int], news: Sequence[int]) -> RuleReport:
        sides = side([[0.0] * n for n in news]), side([[1.0] * n for n in olds])
        return only(judged(*sides, "mean"))

    found = verdict(before, now)
    assert found.verdict is INCONCLUSIVE
    advised = re.search(
        r"use (\d+) scenarios or more, or (\d+) attempts or more on both sides", found.advice or ""
    )
    assert advised is not None
    scenarios, attempts = map(int, advised.groups())
    added = scenarios - len(before)
    more = ((*side, *[min(side)] * added) for side in (before, now))
    assert verdict(*more).verdict is REGRESSED
    assert verdict([attempts] * len(before), [attempts] * len(now)).verdict is REGRESSED
    assert verdict([attempts - 1] * len(before), [attempts - 1] * len(now)).verdict is INCONCLUSIVE


def test_a_regression_that_was_found_is_not_called_undetectable() -> None:
    found = only(judged(side([[0.25] * 5]), side([[1.0] * 5]), "mean"))
    assert (found.verdict, found.detectable) == (REGRESSED, None)
    assert found.why.endswith("p = 0.004)")
    report = only(judged(side([[1.0] * 5, [0.0] * 5]), side([[1.0] * 4 + [0.0], [0.0] * 5]), "mean"))
    assert report.why.endswith("smallest detectable drop unknown: fewer than 5 scenarios")


@pytest.mark.parametrize(
    ("scores", "told"),
    [
        ([[1.0] * 3], "no gate can turn red by 1 scenario of 3 attempts on both sides, even if every attempt fails: use 2 scenarios"),
        ([[1.0] * 5], "with this many attempts, a gate turns red when 1 of 1 scenario fails in all attempts"),
        ([[1.0]] * 8, "with this many attempts, a gate turns red when 5 of 8 scenarios fail in all attempts"),
        ([[1.0], [0.0]] * 4, "no gate can turn red, even if every attempt fails: the mean score is 0.5"),
        ([[1.0, 0.0, 1.0]], "no gate can turn red by 1 scenario of 3 attempts"),
        ([[1.0, 0.0, 1.0]] * 4, "with this many attempts, a gate turns red only when nearly all attempts of 4 scenarios fail"),
    ],
)  # fmt: skip
def test_a_baseline_tells_what_turns_a_gate_red(scores: list[list[float]], told: str) -> None:
    (line,) = outlook(side(scores))
    assert line.startswith(told)
