"""What gates say of a job."""

from __future__ import annotations

import datetime
import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_benchjobs.analysis.gate.judge import judge
from pytest_benchjobs.analysis.sides import Cell, Side
from pytest_benchjobs.model.exit_status import of_gate as exit_status
from pytest_benchjobs.model.gate import Absence, GateConfig, GatePolicy, GateReport, GateVerdict, RuleReport
from pytest_benchjobs.report.gate_text import gate_lines, gate_markdown
from pytest_benchjobs.settings.gates import gate_config
from pytest_benchjobs.settings.rules import floor, parse_rule

from .examples import at_most

AT = datetime.datetime(2026, 11, 21, tzinfo=datetime.UTC)
OK, NO_BASELINE, REGRESSED, INCONCLUSIVE, INVALID = (
    GateVerdict.OK, GateVerdict.NO_BASELINE, GateVerdict.REGRESSED, GateVerdict.INCONCLUSIVE,
    GateVerdict.INVALID,
)  # fmt: skip
NAN, INF = float("nan"), float("inf")


def cell(number: int, scores: Sequence[float], agent: str = "a:m", benchmark: str = "b", **more: Any) -> Cell:
    more.setdefault("comparable", "same")
    more.setdefault("passed", sum(score == 1 for score in scores))
    return Cell(benchmark, f"s{number:03}", agent, tuple(scores), **more)


def side(*groups: Sequence[Sequence[float]], name: str = "main", **more: Any) -> Side:
    """Scores of scenarios; each group is of another agent."""
    cells = [
        cell(number, scores, agent=f"{'ab'[place]}:m", **more)
        for place, group in enumerate(groups)
        for number, scores in enumerate(group)
    ]
    return of(*cells, name=name)


def of(*cells: Cell, name: str = "main") -> Side:
    return Side(name, ("job",), {one.key: one for one in cells})


def ask(*rules: str, **more: Any) -> GateConfig:
    floors = [
        floor(*rule.removeprefix("--bench-").replace("-", "_").split(" ", 1), rule)  # type: ignore[misc]
        for rule in rules
        if rule.startswith("--")
    ]
    compared = [parse_rule(rule) for rule in rules if not rule.startswith("--")]
    return GateConfig(rules=(*compared, *floors), **more)


def judged(now: Side, before: Side | None, *rules: str, random: Any = None, **more: Any) -> GateReport:
    report = judge(now, before, ask(*rules, **more), job="j", at=AT, random=random)
    assert report.model_validate_json(report.model_dump_json()) == report
    assert report.why.startswith(f"{report.verdict}: ")
    assert "\n" not in report.why
    return report


def only(report: GateReport) -> RuleReport:
    (found,) = report.rules
    return found


GOOD = [[1.0]] * 20
BAD = [[0.0]] * 8 + [[1.0]] * 12


# The table of docs/gates.md


def test_the_first_run_has_nothing_to_be_compared_with() -> None:
    config = ask("mean:5pp", "cost:20%", baseline="main")
    report = judge(side(GOOD), None, config, job="j", at=AT, baseline_missing="there is no baseline main yet")
    assert (report.verdict, exit_status(report), report.baseline) == (INVALID, 12, "main")
    assert report.why == "invalid: not compared: there is no baseline main yet (and 1 more)"
    assert not report.notes  # the first line says it
    first = config.model_copy(update={"first_run": True})
    report = judge(side(GOOD), None, first, job="j", at=AT, baseline_missing="there is no baseline main yet")
    assert (report.verdict, exit_status(report)) == (NO_BASELINE, 0)
    assert report.why == "no baseline: not compared: there is no baseline main yet (and 1 more)"
    needed = first.model_copy(update={"require_baseline": True})
    report = judge(side(GOOD), None, needed, job="j", at=AT, baseline_missing="there is no baseline main yet")
    assert (report.verdict, exit_status(report)) == (INVALID, 12)
    # Rules without any baseline, as where `none` was given: they cannot hold, and a floor that holds hides nothing.
    none = judged(side(GOOD), None, "mean:5pp", "--bench-min-score 0.5", baseline="none")
    assert (none.verdict, none.why) == (NO_BASELINE, "no baseline: not compared: no baseline is configured")
    assert judged(side(BAD), None, "mean:5pp", "--bench-min-score 0.9", baseline="none").verdict is REGRESSED
    assert judged(side(GOOD), None, "--bench-min-score 0.5", baseline="none").verdict is OK


@pytest.mark.parametrize("empty", [of(), side([[], []]), side([[], []], known="skip")])
def test_an_empty_baseline_is_none(empty: Side) -> None:
    report = judged(side(GOOD), empty, "mean:5pp")
    assert report.verdict is INVALID
    assert report.why == "invalid: not compared: the baseline main has no results"


def test_what_is_new_beside_what_is_not() -> None:
    for bad in (GOOD, [[0.0]] * 20):
        report = judged(side(GOOD, bad), side(GOOD), "mean", "--bench-min-samples 20")
        assert report.verdict is INVALID
        assert "the baseline has no agent to compare b:m with" in report.notes
        new = next(one for one in report.rules if one.agent == "b:m")
        assert new.why.startswith(
            "mean is not compared: the baseline has no results for it; allow this with "
        )
    for rule in ("mean", "scenario", "cost"):
        first = judged(side(GOOD, GOOD), side(GOOD), rule, first_run=True)
        assert [one.verdict for one in first.rules if one.agent == "b:m"] == [NO_BASELINE]
        new_one = judged(side(GOOD, GOOD), side(GOOD), rule)
        assert [one.verdict for one in new_one.rules if one.agent == "b:m"] == [INVALID]
    report = judged(side(GOOD, GOOD), side(GOOD), "mean", first_run=True)
    assert (report.verdict, exit_status(report)) == (NO_BASELINE, 0)
    assert judged(side(BAD, GOOD), side(GOOD), "mean", first_run=True).verdict is REGRESSED
    needed = judged(side(GOOD, GOOD), side(GOOD), "mean", first_run=True, require_baseline=True)
    assert needed.verdict is INVALID
    # A rule that is not for the new one says nothing of it.
    assert judged(side(GOOD, GOOD), side(GOOD), "mean[agent=a:*]").verdict is OK
    # Nor is all that is new in need of anything in common.
    other = of(cell(1, [1], benchmark="c"))
    assert judged(other, side(GOOD), "mean", first_run=True).verdict is NO_BASELINE
    assert judged(other, side(GOOD), "mean").verdict is INVALID


def test_what_is_listed_is_what_a_checked_model_would_be() -> None:
    before = of(*(cell(number, [1.0], known="expected-fail") for number in range(6)), cell(9, [1.0]))
    now = of(*(cell(number, [0.0], known="expected-fail") for number in range(6)), cell(7, [1.0]))
    report = judged(now, before, "mean")
    assert report.broke
    for one in (*report.broke, *report.added, *report.removed):
        checked = type(one).model_validate(one.model_dump())
        assert (checked, checked.model_dump_json(), repr(checked)) == (one, one.model_dump_json(), repr(one))
        assert one.__dict__.keys() == type(one).model_fields.keys()
        assert one.model_copy(update={"scenario": "x"}) == checked.model_copy(update={"scenario": "x"})


def test_nothing_in_common_is_invalid() -> None:
    report = judged(side(GOOD, comparable="new"), side(GOOD), "mean:5pp")
    assert (report.verdict, exit_status(report)) == (INVALID, 12)
    assert (
        report.why
        == "invalid: nothing can be compared with the baseline main: scenarios are 20 changed (and 1 more)"
    )
    assert len(report.changed) == 20
    other = of(cell(1, [1], agent="x:1"), cell(1, [1], agent="y:2"))
    report = judged(side(GOOD), other, "mean")
    assert report.verdict is INVALID
    assert "no agent is in both" in report.why
    assert judged(of(), side(GOOD), "mean").why == "invalid: the job has no results"


def test_only_errors_are_invalid() -> None:
    report = judged(side([[]] * 20, errors=1), side(GOOD), "mean:5pp", "--bench-min-score 0.5")
    assert (report.verdict, report.attempts, report.errors) == (INVALID, 20, 20)
    assert report.why.startswith("invalid: 20 of 20 attempts (100 %) ended in an error; at most 5 % allowed")
    assert REGRESSED not in {one.verdict for one in report.rules}
    assert judged(side([[]] * 20, errors=1), None, "--bench-min-score 0.5").verdict is INVALID


def test_ties_are_no_regression() -> None:
    for scores in (GOOD, [[0.0]] * 20, [[0.5]] * 20):
        for policy in GatePolicy:
            report = judged(
                side(scores), side(scores), "mean:2pp", "pass_rate:2pp", "scenario", policy=policy
            )
            # Twenty scenarios that are as before may hide a drop of 2 points: `strict` wants that excluded.
            assert report.verdict is (INCONCLUSIVE if policy is GatePolicy.STRICT else OK), policy
            assert all(one.p_value == 1 for one in report.rules) or policy is GatePolicy.STRICT
            assert ("all attempts scored the same" in report.why) is (policy is not GatePolicy.POINT)
    assert judged(side(GOOD), side(GOOD), "mean", policy="strict").verdict is INCONCLUSIVE


def test_one_scenario_is_inconclusive_at_most_unless_many_attempts_show_it() -> None:
    report = judged(side([[0]]), side([[1]]), "mean:5pp")
    found = only(report)
    assert (report.verdict, exit_status(report), found.p_value, found.test) == (
        INCONCLUSIVE, 0, 0.5, "mcnemar",
    )  # fmt: skip
    assert (found.low, found.detectable) == (None, None)
    assert found.advice == (
        "1 scenario of 1 attempt cannot show a regression at 95 %: use 5 scenarios or more, or 4 attempts or more on both sides"
    )
    assert exit_status(judged(side([[0]]), side([[1]]), "mean:5pp", policy="strict")) == 11
    many = judged(side([[0] * 5]), side([[1] * 5]), "mean:5pp")
    assert (many.verdict, exit_status(many)) == (REGRESSED, 10)
    assert only(many).p_value == pytest.approx(1 / 252)
    assert judged(side([[1]]), side([[1]]), "mean:5pp").verdict is OK
    assert judged(side([[0.2]]), side([[0.9]]), "mean").rules[0].test == "sign-flip"


def test_sides_with_different_numbers_of_attempts() -> None:
    before = side([[1, 1, 1, 0, 1]] * 12)
    report = judged(side([[1], [1]] + [[0]] * 10), before, "mean:5pp")
    assert report.verdict is REGRESSED
    found = only(report)
    assert found.before == pytest.approx(0.8)
    assert found.now == pytest.approx(2 / 12)
    assert found.test == "permutation"
    assert judged(side([[1]] * 12), before, "mean:5pp").verdict is OK


@pytest.mark.parametrize("bad", [NAN, INF, -INF, -1.0, 2.0, 1e308])
def test_numbers_that_cannot_be(bad: float) -> None:
    hostile = of(
        *(cell(n, [bad], seconds=(bad,), costs=(bad,), tokens=(bad,), passed=7, errors=-2) for n in range(3)),  # type: ignore[arg-type]
        *(cell(n, [1], seconds=(1,), costs=(1,), tokens=(1,)) for n in range(3, 30)),
    )
    fine = of(*(cell(n, [1], seconds=(1,), costs=(1,), tokens=(1,)) for n in range(30)))
    rules = ("mean:5pp", "pass_rate", "pass@1", "cost:20%", "tokens:5", "duration", "scenario", "critical")
    rules += ("--bench-min-score 0.5", "--bench-min-pass-rate 0.5", "--bench-min-lift 2")
    for now, before in ((hostile, fine), (fine, hostile), (hostile, hostile)):
        report = judged(now, before, *rules, random={"b": NAN} if now is fine else {"b": 0.2})
        assert len(report.unscored) == 3
        assert REGRESSED not in {one.verdict for one in report.rules}
        assert any("not numbers from 0 to 1" in note for note in report.notes)


# Rules


def test_a_line_says_everything() -> None:
    report = judged(side(BAD), side(GOOD), "mean:5pp")
    found = only(report)
    assert (found.verdict, found.benchmark, found.agent, found.baseline_agent) == (
        REGRESSED, "b", "a:m", "a:m",
    )  # fmt: skip
    assert (found.before, found.now, found.change, found.tolerance) == (1, 0.6, -0.4, 0.05)
    assert (found.test, found.scenarios) == ("mcnemar", 20)
    assert found.p_value == 1 / 256
    assert found.why == (
        "mean 1.00 -> 0.60 (-40 pp, at 95 % no better than -18.3 pp, p = 0.004); more than 5 pp; "
        "smallest detectable drop 47.6 pp"
    )
    assert report.why == f"regressed: {found.why}"
    assert exit_status(report) == 10
    assert only(judge(side(BAD), side(GOOD), GateConfig(baseline="main"), job="j", at=AT)).rule.text == "mean"


def test_more_than_is_tolerated_is_not_enough_and_nor_is_significance() -> None:
    two = [[0.0]] * 2 + [[1.0]] * 18
    report = judged(side(two), side(GOOD), "mean:5pp")
    assert report.verdict is INCONCLUSIVE
    assert "more than 5 pp, but chance may explain it" in report.why
    assert exit_status(report) == 0
    assert judged(side(two), side(GOOD), "mean:10pp").verdict is OK
    assert judged(side(BAD), side(GOOD), "mean:40pp").verdict is OK
    assert judged(side(BAD), side(GOOD), "mean:39.9pp").verdict is REGRESSED
    assert judged(side(BAD), side(GOOD), "mean:50%").verdict is OK
    assert judged(side(BAD), side(GOOD), "mean:39%").verdict is REGRESSED
    assert judged(side(BAD), side(GOOD), "mean:5pp", noise={"b": 0.5}).verdict is OK
    assert judged(side(BAD), side(GOOD), "mean:5pp", noise={"other": 0.5}).verdict is INVALID


def test_policies() -> None:
    two = [[0.0]] * 2 + [[1.0]] * 18
    verdicts = {
        policy: [judged(side(now), side(GOOD), "mean:5pp", policy=policy).verdict for now in (GOOD, two, BAD)]
        for policy in GatePolicy
    }
    assert verdicts == {
        GatePolicy.EVIDENCE: [OK, INCONCLUSIVE, REGRESSED],
        GatePolicy.SHOWN: [OK, INCONCLUSIVE, REGRESSED],
        GatePolicy.STRICT: [INCONCLUSIVE, INCONCLUSIVE, REGRESSED],
        GatePolicy.POINT: [OK, REGRESSED, REGRESSED],
    }
    noisy = side([[1.0], [0.0]] * 10)
    other = side([[0.0], [1.0]] * 10)
    report = judged(noisy, other, "mean:5pp", policy="strict")
    assert (report.verdict, exit_status(report)) == (INCONCLUSIVE, 11)
    assert "not shown to be within 5 pp" in report.why
    assert judged(noisy, other, "mean:5pp").verdict is OK


@pytest.mark.parametrize(
    ("now", "rule", "policy", "verdict", "says"),
    [
        (GOOD * 4, "mean:5pp", "strict", OK, "shown to be within 5 pp"),  # 80 scenarios
        (GOOD * 3, "mean:5pp", "strict", INCONCLUSIVE, "not shown to be within 5 pp"),
        (GOOD, "mean:0.1pp", "strict", INCONCLUSIVE, "95 % interval -17.3..17.3, p = 1)"),
        ([[0.0]] * 12 + GOOD * 4, "mean:5pp", "evidence", REGRESSED, "; more than 5 pp; smallest"),
        ([[0.0]] * 8 + GOOD * 4, "mean:5pp", "evidence", REGRESSED, "; more than 5 pp by its estimate, though only a drop is shown"),
        ([[0.0]] * 8 + GOOD * 4, "mean:5pp", "shown", INCONCLUSIVE, "; more than 5 pp by its estimate, which is not shown"),
        ([[0.0]] * 12 + GOOD * 4, "mean:5pp", "shown", REGRESSED, "; more than 5 pp; smallest"),
        ([[0.0]] * 8 + GOOD * 4, "mean:any", "shown", REGRESSED, "p = 0.004)"),
    ],
)  # fmt: skip
def test_a_tolerance_says_what_it_is(
    now: list[list[float]], rule: str, policy: str, verdict: GateVerdict, says: str
) -> None:
    found = only(judged(side(now), side([[1.0]] * len(now)), rule, policy=GatePolicy(policy)))
    assert found.verdict is verdict
    assert says in found.why


def test_results_that_are_reused_from_the_baseline_show_nothing_new() -> None:
    before, fresh = side([[1.0]] * 100), side([[1.0]] * 100)
    reused = {key: one._replace(reused=("job",)) for key, one in fresh.cells.items()}
    elsewhere = of(*(one._replace(reused=("other",)) for one in fresh.cells.values()))
    half = of(*(one if place % 2 else reused[key] for place, (key, one) in enumerate(fresh.cells.items())))
    both = side([[1.0]] * 100, reused=("other",))  # a third job's, on both sides
    found = only(judged(elsewhere, both, "mean:5pp", policy="strict"))
    assert (found.verdict, "100 results reused" in found.why) == (INCONCLUSIVE, True)
    for now, verdict, says in (
        (fresh, OK, "; shown to be within 5 pp"),
        (elsewhere, OK, "; shown to be within 5 pp"),
        (
            of(*reused.values()),
            INCONCLUSIVE,
            "not shown to be within 5 pp (100 results reused from the baseline",
        ),
        (half, INCONCLUSIVE, "not shown to be within 5 pp (50 results reused"),
    ):
        found = only(judged(now, before, "mean:5pp", policy="strict"))
        assert (found.verdict, says in found.why) == (verdict, True)
        assert only(judged(now, before, "mean:5pp")).verdict is OK


def test_what_could_be_seen_and_what_it_would_take() -> None:
    chance = random.Random(1)
    sides = [side([[float(chance.random() < 0.6) for _ in range(3)] for _ in range(89)]) for _ in range(2)]
    found = only(judged(*sides, "mean:2pp"))
    assert found.verdict is OK
    assert found.detectable == pytest.approx(0.1, abs=0.02)
    assert "smallest detectable drop" in found.why
    assert found.advice is not None
    assert found.advice.startswith("a tolerance of 2 pp is below the ")
    assert "attempts on both sides or" in found.advice
    assert only(judged(*sides, "mean:20pp")).advice is None
    assert only(judged(*sides, "mean")).advice is None


def test_pass_at_k_needs_k_attempts() -> None:
    before = side([[1, 1]] * 10 + [[1]] * 2)
    now = side([[0, 0]] * 10 + [[0, 0]] * 2)
    found = only(judged(now, before, "pass^2", max_error_rate=0.2))
    assert (found.verdict, found.scenarios, found.now) == (REGRESSED, 10, 0)
    assert "pass^2 1.00 -> 0.00" in found.why
    assert "2 scenarios left out, fewer than 2 attempts" in found.why
    none = judged(side(GOOD), side(GOOD), "pass@5:5pp")
    assert none.why == "invalid: pass@5 cannot be compared: no scenario has 5 attempts on both sides"


def test_what_is_spent_is_better_when_it_is_less() -> None:
    def spent(factor: float) -> Side:
        tokens = (int(factor * 1000),)
        each = (((factor * (1 + n),), (factor * 0.1 * n,)) for n in range(12))
        return of(*(cell(n, [1], seconds=s, costs=c, tokens=tokens) for n, (s, c) in enumerate(each)))

    more, less = spent(1.5), spent(0.5)
    for rule in ("cost:20%", "cost:0.1", "tokens:20%", "tokens:100", "duration:20%", "duration:1", "tokens"):
        assert judged(more, spent(1), rule).verdict is REGRESSED, rule
        assert judged(less, spent(1), rule).verdict is OK, rule
        assert judged(less, spent(1), rule.partition(":")[0] + ":20%", policy="strict").verdict is OK
    found = only(judged(more, spent(1), "tokens:20%"))
    assert found.why.startswith("tokens 1,000 -> 1,500 (+50 %, at 95 % no better than +50 %, p < 0.001)")
    assert (found.tolerance, found.test) == (200, "sign-flip")
    report = judged(more, spent(1), "duration:60%")
    assert report.verdict is OK
    assert (report.before_seconds, report.now_seconds) == (6.5, 9.75)
    assert (report.before_cost, report.now_cost) == (pytest.approx(0.55), pytest.approx(0.825))
    once_free = of(*(cell(n, [1, 1], costs=(0, 1)) for n in range(12)))
    assert judged(once_free, once_free, "cost:20%").verdict is OK
    unknown = judged(side(GOOD), side(GOOD), "cost:20%")
    assert unknown.why == "invalid: cost is known on both sides of none of 20 scenarios"
    assert (unknown.before_cost, unknown.now_cost) == (None, None)


@pytest.mark.parametrize(
    ("before", "now", "costs"),
    [
        ("12", "34", (1.5, 3.5)),
        ("-2", "34", (2.0, 4.0)),
        ("12", "3-", (1.0, 3.0)),
        ("-2", "3-", (None, None)),
        ("--", "34", (None, None)),
        ("12", "--", (None, None)),
    ],
)
def test_amounts_of_a_report_are_of_scenarios_of_which_both_sides_know_them(
    before: str, now: str, costs: tuple[float | None, float | None]
) -> None:
    def spent(amounts: str) -> Side:
        known = [() if one == "-" else (float(one),) for one in amounts]
        return of(*(cell(n, [1.0], costs=one, seconds=one) for n, one in enumerate(known)))

    report = judged(spent(now), spent(before), "mean")
    assert (report.before_cost, report.now_cost) == costs
    assert (report.before_seconds, report.now_seconds) == costs


def test_one_long_scenario_does_not_make_everything_slower() -> None:
    before = of(*(cell(n, [1], seconds=(10,)) for n in range(12)))
    now = of(*(cell(n, [1], seconds=(1000 if n == 0 else 9,)) for n in range(12)))
    assert judged(now, before, "duration:20%").verdict is INCONCLUSIVE


def test_scenarios_by_name() -> None:
    fifteen = side([[1] * 15] * 40)
    now = side([[0] * 5] + [[1] * 5] * 39)
    report = judged(now, fifteen, "scenario:any")
    assert (
        report.why == "regressed: 1 of 40 scenarios passes less often, and chance does not explain it: s000"
    )
    assert only(report).p_value < 0.01  # type: ignore[operator]
    assert judged(side(BAD), side(GOOD), "scenario").verdict is INCONCLUSIVE
    found = only(judged(side(BAD), side(GOOD), "scenario"))
    assert "so few attempts cannot show that one of 20 scenarios broke" in (found.advice or "")
    assert judged(side(BAD), side(GOOD), "scenario", policy="point").verdict is REGRESSED


def test_critical_scenarios_go_on_passing() -> None:
    def critical(*scores: Sequence[float], tags: tuple[str, ...] = ("critical",), **more: Any) -> Side:
        return of(*(cell(n, one, tags=tags, **more) for n, one in enumerate(scores)), cell(99, [1]))

    before = critical([1, 1, 1], [1, 1, 0])
    for policy in GatePolicy:
        report = judged(critical([1, 1, 0], [0, 0, 0]), before, "critical:any", policy=policy)
        assert report.why == "regressed: 1 critical scenario always passed, and no longer do: s000"
    assert judged(critical([1], [0]), before, "critical").verdict is OK
    absent = tuple(Absence(text=name, scenario=name) for name in ("s000", "s001"))
    gone = judged(of(cell(99, [1])), before, "critical", allow_missing=absent)
    assert gone.why == "inconclusive: 2 critical scenarios cannot be compared: s000, s001 (not in this job)"
    assert judged(side(GOOD), side(GOOD), "critical").verdict is INVALID
    assert {one.critical for one in judged(critical([0], [0]), before, "mean").broke} == {True}


def test_scopes() -> None:
    before, now = side(GOOD, GOOD), side(BAD, GOOD)
    assert judged(now, before, "mean[agent=b:*]").verdict is OK
    assert judged(now, before, "mean[agent=a:m,benchmark=b]").verdict is REGRESSED
    report = judged(now, before, "mean:5pp")
    assert [(one.agent, one.verdict) for one in report.rules] == [("a:m", REGRESSED), ("b:m", OK)]
    assert report.rules[0].p_value == 2 / 256  # twice as many comparisons
    assert report.why.startswith("regressed: b, a:m: mean 1.00 -> 0.60")
    nothing = judged(now, before, "mean[benchmark=other]")
    assert nothing.verdict is INVALID
    assert nothing.why.endswith("matches nothing in this job, which has benchmarks b and agents a:m, b:m")
    tagged = of(*(cell(n, [float(n > 5)], tags=("easy",) if n < 6 else ()) for n in range(20)))
    fine = of(*(cell(n, [1.0], tags=("easy",) if n < 6 else ()) for n in range(20)))
    assert only(judged(tagged, fine, "mean[tag=ea*]")).scenarios == 6
    assert "with tags easy" in judged(tagged, fine, "mean[tag=hard]").why


def test_too_few_clusters_could_have_seen_nothing() -> None:
    def clustered(score: float, number: int) -> Side:
        return of(*(cell(n, [score], cluster=f"c{n % number}") for n in range(12)))

    found = only(judged(clustered(0.0, 3), clustered(1.0, 3), "mean"))
    assert (found.verdict, found.detectable) == (INCONCLUSIVE, None)
    assert found.why.endswith("too few scenarios or attempts (3 clusters of 1 attempt)")
    assert str(found.advice).startswith(
        "3 clusters of 1 attempt cannot show a regression at 95 %: use 5 clusters or more, or 2 attempts or more on both sides"
    )
    found = only(judged(clustered(0.0, 6), clustered(1.0, 6), "mean"))
    assert found.verdict is REGRESSED
    assert found.detectable is not None


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
def test_what_could_have_been_seen_is_the_same_whatever_the_unit(unit: float) -> None:
    def spent(noise: float) -> Side:
        each = [(unit * (1 + noise * (number % 3)), unit) for number in range(20)]
        return of(*(cell(n, [1.0] * 2, costs=costs) for n, costs in enumerate(each)))

    assert only(judged(spent(0.3), spent(0.3), "cost")).detectable == pytest.approx(0.19 * unit, rel=0.2)
    assert only(judged(spent(1e-12), spent(1e-12), "cost")).detectable is None  # but for the last digits


def test_a_tag_that_is_taken_off_takes_nothing_out_of_a_gate() -> None:
    def easy(score: float, tags: tuple[str, ...], few: int = 20) -> Side:
        return of(*(cell(n, [score], tags=tags if n < few else ("easy", "critical")) for n in range(20)))

    before = easy(1.0, ("easy", "critical"))
    for now in (easy(0.0, ()), easy(0.0, (), few=19)):
        found = only(judged(now, before, "mean[tag=easy]"))
        assert (found.verdict, found.scenarios) == (REGRESSED, 20)
        found = only(judged(now, before, "critical"))
        assert (found.verdict, found.scenarios) == (REGRESSED, 20)
        assert {one.critical for one in judged(now, before, "mean").broke} == {True}
    # One that was put on counts as well.
    assert only(judged(before, easy(1.0, (), few=19), "mean[tag=easy]")).scenarios == 20


def test_a_p_that_equals_alpha_is_not_below_it() -> None:
    for level, alpha in ((95, 0.05), (90, 0.1), (99, 0.01), (80, 0.2)):
        assert parse_rule(f"mean@{level}").alpha == alpha
    # Of one scenario, 3 of 3 before and 0 of 3 now: one deal of twenty.
    found = only(judged(side([[0, 0, 0]]), side([[1, 1, 1]]), "mean"))
    assert (found.p_value, found.verdict) == (0.05, INCONCLUSIVE)
    found = only(judged(side([[0, 0, 0]]), side([[1, 1, 1]]), "scenario"))
    assert (found.p_value, found.verdict) == (0.05, INCONCLUSIVE)
    assert only(judged(side([[0, 0, 0]]), side([[1, 1, 1]]), "mean@94")).verdict is REGRESSED


def test_all_rules_of_a_gate_share_its_alpha() -> None:
    now = side([[0.0]] * 6 + [[1.0]] * 14)  # p is 1/64
    one = judged(now, side(GOOD), "mean")
    assert (one.verdict, only(one).p_value) == (REGRESSED, 1 / 64)
    several = judged(now, side(GOOD), "mean", "pass_rate", "mean[tag=*]", "cost")
    assert [rule.p_value for rule in several.rules][:2] == [2 / 64, 2 / 64]  # those with something to compare
    many = judged(now, side(GOOD), "mean", "pass_rate", "pass@1", "pass^1")
    assert {rule.p_value for rule in many.rules} == {4 / 64}
    assert many.verdict is INCONCLUSIVE
    # What could have been seen is what could have been seen by so many rules.
    assert many.rules[0].detectable > only(one).detectable  # type: ignore[operator]
    alone = judged(now, side(GOOD), "mean[alone=yes]", "pass_rate", "pass@1", "pass^1")
    assert [rule.p_value for rule in alone.rules] == [1 / 64, 3 / 64, 3 / 64, 3 / 64]
    assert alone.verdict is REGRESSED
    # All single scenarios are one comparison to the others.
    sides = side([[0] * 5] + [[1] * 5] * 9), side([[1] * 5] * 10)
    both = judged(*sides, "scenario", "mean")
    assert [rule.p_value for rule in both.rules] == pytest.approx([10 / 252, 2 / 252])
    assert only(judged(*sides, "scenario")).p_value == pytest.approx(10 / 252)


def test_what_was_taken_as_clusters_is_in_every_report() -> None:
    before, now = (of(*(cell(n, [score], cluster=f"repo\n{n % 6}" if n < 18 else None) for n in range(20))) for score in (1.0, 0.0))  # fmt: skip
    report = judged(now, before, "mean")
    listed = [(one.benchmark, one.cluster, one.scenarios) for one in report.clusters[:2]]
    assert listed == [("b", f"repo\n{number}", 3) for number in (0, 1)]
    assert only(report).clusters == 8
    lines = [text for text, _ in gate_lines(report)]
    (line,) = [text for text in lines if text.startswith("treated as clusters")]
    assert "18 scenarios, in " in line
    assert line.endswith("and 1 more")
    assert any("n=20 in 8 clusters" in text for text in lines)
    assert any(line in text.replace("`", "") for text in gate_markdown(report))
    apart = judged(side(BAD), side(GOOD), "mean")
    assert (apart.clusters, only(apart).clusters) == ((), None)
    assert not any("clusters" in text for text, _ in gate_lines(apart))


def test_an_ordinary_drop_by_chance_alarms_nobody() -> None:
    one, other = [[0.0], [0.0], [1.0]] + [[1.0]] * 17, [[1.0], [1.0], [0.0]] + [[1.0]] * 17
    report = judged(side(one), side(other), "mean:any")
    assert (report.verdict, exit_status(report), only(report).p_value) == (INCONCLUSIVE, 0, 0.5)
    assert "p = 0.5); chance may explain it; " in report.why
    assert only(report).advice is None
    assert next(gate_markdown(report)) == "> [!NOTE]"
    strict = judged(side(one), side(other), "mean:any", policy="strict")
    assert next(gate_markdown(strict)) == "> [!WARNING]"


def test_a_few_scenarios_that_fell_far_get_a_next_step() -> None:
    report = judged(side([[0.0]] * 3), side([[0.67]] * 3), "mean:any", baseline="main")
    assert (report.verdict, exit_status(report)) == (INCONCLUSIVE, 0)
    advice = only(report).advice or ""
    assert (
        "3 scenarios fell far (s000, s001, s002): `benchjobs rerun j -- --bench-baseline main --bench-confirm 5` decides"
        in advice
    )
    assert any(advice in text for text, _ in gate_lines(report))
    assert any("--bench-confirm 5" in text for text in gate_markdown(report))
    # Two of three attempts before and none of three now are proof, if nothing else changed.
    several = side([[1.0, 1.0, 0.0]] * 3), side([[0.0] * 3] * 3)
    assert judged(several[1], several[0], "mean:any").verdict is REGRESSED


@pytest.mark.parametrize("score", [0.0, 1.0])
def test_intervals_of_scores_end_where_scores_do(score: float) -> None:
    found = only(judged(side([[0.0]] * 4 + [[0.9]]), side([[1.0]] * 5), "mean"))
    assert found.low is None
    assert found.high is not None
    assert -1 < found.high < 0
    back = only(judged(side([[1.0]] * 5), side([[0.0]] * 4 + [[0.9]]), "mean"))
    assert back.high is not None
    assert 0.98 < back.high <= 1
    floored = only(judged(side([[score]] * 4 + [[0.4 + score / 5]]), None, "--bench-min-score 0.1"))
    assert floored.low is not None
    assert floored.high is not None
    assert 0 <= floored.low < floored.high <= 1
    # What is spent has no such ends.
    slow = of(*(cell(n, [1], seconds=(10.0 * n,)) for n in range(6)))
    fast = of(*(cell(n, [1], seconds=(1.0,)) for n in range(6)))
    found = only(judged(slow, fast, "duration"))
    assert (found.high, found.change) == (None, 24.0)


# Floors and validity


@pytest.mark.parametrize(
    ("rule", "verdict", "says"),
    [
        ("--bench-min-score 0.6", OK, "mean 0.60 (95 % interval 0.36..0.81) is not below 0.6"),
        ("--bench-min-score 0.61", REGRESSED, "mean 0.60 (95 % interval 0.36..0.81) is below 0.61"),
        ("--bench-min-pass-rate b=0.7", REGRESSED, "pass rate 0.60 (95 % interval 0.36..0.81) is below 0.7"),
        ("--bench-min-score a:*=0.7", REGRESSED, "is below 0.7"),
        ("--bench-min-score other=0.7", INVALID, "it matches nothing in this job"),
        ("--bench-min-samples 20", OK, "20 scenarios with a score"),
        ("--bench-min-samples 21", INVALID, "20 scenarios with a score; 21 or more are required"),
        ("--bench-max-error-rate b=0.1", OK, "0 of 20 attempts (0 %) ended in an error"),
        ("--bench-min-lift 3", OK, "is 3.00 times the chance score 0.20; 3 times is required"),
        ("--bench-min-lift 3.1", REGRESSED, "is 3.00 times the chance score 0.20; 3.1 times is required"),
    ],
)
def test_floors(rule: str, verdict: GateVerdict, says: str) -> None:
    report = judged(side(BAD), None, rule, random={"b": 0.2})
    assert report.verdict is verdict
    assert says in only(report).why
    assert exit_status(report) == {OK: 0, REGRESSED: 10, INVALID: 12}[verdict]


def test_chance_is_told_by_the_random_agent_of_the_same_job() -> None:
    guess = [cell(n, [float(n < 5)], agent="baseline:random:0.25") for n in range(20)]
    now = of(*side(BAD).cells.values(), *guess)
    report = judged(now, None, "--bench-min-lift 2", "--bench-min-score 0.5")
    assert [(one.agent, one.verdict) for one in report.rules] == [("a:m", OK), ("a:m", OK)]
    assert "is 2.40 times the chance score 0.25" in report.rules[0].why
    assert judged(side(BAD), None, "--bench-min-lift 2").why.startswith(
        "invalid: the chance score is unknown"
    )
    assert judged(side([[0.0]] * 5), None, "--bench-min-lift 2", random={"b": 0.0}).verdict is REGRESSED
    assert judged(side(BAD), None, "--bench-min-lift 2", random={"b": 0.0}).verdict is OK


def test_a_limit_for_one_takes_the_place_of_the_general_one() -> None:
    now = of(*(cell(n, [1], errors=int(n < 3)) for n in range(20)))
    assert judged(now, side(GOOD), "mean").verdict is INVALID
    assert judged(now, None, "--bench-max-error-rate b=0.2").verdict is OK
    assert judged(now, side([[1]] * 20, errors=1), "mean", max_error_rate=0.2).verdict is OK
    few = side(GOOD[:3])
    # Each agent by itself: one whose attempts all ran makes good for no other.
    two = of(*now.cells.values(), *side([], [[1.0]] * 20).cells.values())
    (errors,) = [one for one in judged(two, side(GOOD, GOOD), "mean").rules if one.verdict is INVALID]
    assert (errors.agent, errors.benchmark, errors.now) == ("a:m", "b", 3 / 23)
    assert judged(few, few, "mean", "--bench-min-samples a:m=3", min_samples=5).verdict is OK


def test_clearly_more_errors_than_before_are_invalid() -> None:
    now = side([[1, 1]] * 40, errors=1)
    before = side([[1, 1, 1]] * 40)
    report = judged(now, before, "mean", max_error_rate=0.5)
    assert report.verdict is INVALID
    told = "errors are more frequent than in the baseline: 33.3 % of attempts after 0 % (p < 0.001)"
    assert told in report.why
    assert judged(before, now, "mean", max_error_rate=0.5).verdict is OK
    assert judged(now, now, "mean", max_error_rate=0.5).verdict is OK
    # Five in a hundred more are forgiven, however many attempts there are.
    fewer, clean = (of(*(cell(n, [1] * 19, errors=bad) for n in range(100))) for bad in (1, 0))
    assert "more frequent" not in judged(fewer, clean, "mean", max_error_rate=0.5).why
    # Nor is it slow where there are many.
    many, before = (of(*(cell(n, [1] * 50, errors=bad) for n in range(100))) for bad in (20, 10))
    assert judged(many, before, "mean", max_error_rate=0.5).verdict is INVALID


def test_the_gravest_verdict_is_that_of_the_whole() -> None:
    two = [[0.0]] * 2 + [[1.0]] * 18
    report = judged(side(two), side(GOOD), "mean:5pp", "--bench-min-score 0.99", "cost")
    assert {one.verdict for one in report.rules} == {INCONCLUSIVE, REGRESSED, INVALID}
    assert report.verdict is INVALID
    assert judged(side(two), side(GOOD), "mean:5pp", "--bench-min-score 0.99").verdict is REGRESSED


# Lists


def test_lists_of_scenarios() -> None:
    before = side([[1, 1, 1], [0, 0, 0], [1, 1, 1], [0.6, 0.6, 0.6], [1, 1, 1], [0.5] * 3])
    now = side([[0, 0, 0.1], [1, 1, 0], [1, 1, 0], [0.1, 0.1, 0.1], [0, 0, 0], [0.2] * 3])
    report = judged(now, before, "mean")
    assert [one.scenario for one in report.broke] == ["s004", "s000"]
    assert [one.scenario for one in report.fixed] == ["s001"]
    assert [one.scenario for one in report.suspects] == ["s003"]
    # What always passed and now does not is never passed over silently.
    assert [one.scenario for one in report.slipped] == ["s002"]
    assert any("no longer pass in all attempts" in line for line, _ in gate_lines(report))
    worst = report.broke[0]
    assert (worst.before_passed, worst.before_attempts, worst.now_passed, worst.p_value) == (3, 3, 0, 0.05)
    assert worst.adjusted is not None
    assert worst.adjusted > 0.05


def test_a_drop_worth_a_warning() -> None:
    two = [[0.0]] * 2 + [[1.0]] * 18
    report = judged(side(two), side(GOOD), "mean:20pp", warn=0.05)
    assert report.notes == ("warning: b, a:m: mean 1.00 -> 0.90 (-10 pp), though no gate failed",)
    assert judged(side(two), side(GOOD), "mean:20pp", warn=0.15).notes == ()
    assert judged(side(BAD), side(GOOD), "mean:5pp", warn=0.05).notes == ()


def test_what_is_in_quarantine_is_out_of_everything_but_the_list() -> None:
    ill = [cell(n, [0.0], known="quarantine", errors=3) for n in range(100, 130)]
    well = [cell(n, [1.0]) for n in range(100, 130)]
    rules = (
        "mean:5pp", "scenario", "--bench-min-score 0.9", "--bench-max-error-rate b=0.01",
        "--bench-min-samples 20",
    )  # fmt: skip
    report = judged(of(*side(GOOD).cells.values(), *ill), of(*side(GOOD).cells.values(), *well), *rules)
    assert report.verdict is OK
    assert {one.scenarios for one in report.rules if one.test in ("mcnemar", "fisher")} == {20}
    assert (report.broke, report.suspects) == ((), ())
    assert len(report.known) == 30
    assert not report.notes  # they are listed
    gone = judged(of(*side(GOOD).cells.values(), *ill), side(GOOD), *rules)
    assert gone.notes == ("30 scenarios in quarantine left out",)
    assert (
        judged(of(*ill), of(*well), "mean").why == "invalid: the job has no results but those in quarantine"
    )
    expected = of(*(one._replace(known="expected-fail", errors=0) for one in ill))
    assert judged(expected, of(*well), "mean").verdict is REGRESSED


def test_hostile_names_stay_on_their_line() -> None:
    def named(score: float) -> Side:
        who = ((f"s\x1b[2J{n}", agent) for n in range(9) for agent in ("a\n", "b\u202e"))
        return of(*(Cell("b\nx", *one, (score,), int(score), comparable="c") for one in who))

    rules = ("mean", "scenario", "critical", "--bench-min-score 0.5")
    report = judged(named(0), named(1), *rules, warn=0.01, policy="point")
    said = [text or "" for one in report.rules for text in (one.why, one.advice)]
    assert all(line.isprintable() for line in (report.why, *report.notes, *said))


# Properties

SOME = at_most(60)  # each judges a job several times

SCORES = st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0]), min_size=1, max_size=3)
RULES = ("mean:5pp", "pass_rate", "scenario:any", "mean:10%@80", "pass@1", "pass^1:1pp")


@SOME
@given(st.lists(SCORES, min_size=1, max_size=25))
def test_what_has_not_changed_never_regressed(scores: list[list[float]]) -> None:
    for policy in GatePolicy:
        assert judge(side(scores), side(scores), ask(*RULES, policy=policy), job="j", at=AT).verdict in (
            (OK, INCONCLUSIVE) if policy is GatePolicy.STRICT else (OK,)
        )


@SOME
@given(st.lists(st.tuples(SCORES, SCORES), min_size=1, max_size=25))
def test_sides_cannot_both_be_worse_than_the_other(scores: list[tuple[list[float], list[float]]]) -> None:
    one, other = side([first for first, _ in scores]), side([second for _, second in scores])
    for rule in ("mean", "pass_rate:5pp", "pass@1"):
        verdicts = [
            only(judge(*both, ask(rule), job="j", at=AT)).verdict for both in ((one, other), (other, one))
        ]
        assert verdicts.count(REGRESSED) <= 1


@SOME
@given(st.lists(st.tuples(SCORES, SCORES), min_size=1, max_size=25), st.data())
def test_worse_never_makes_a_regression_ok(
    scores: list[tuple[list[float], list[float]]], data: st.DataObject
) -> None:
    before, now = side([first for first, _ in scores]), [second for _, second in scores]
    worse = [
        [min(score, data.draw(st.sampled_from([0.0, 0.25, 0.5, 1.0]))) for score in second] for second in now
    ]
    for policy in GatePolicy:
        config = ask(*RULES, "critical", policy=policy)
        old = judge(side(now), before, config, job="j", at=AT).rules
        new = judge(side(worse), before, config, job="j", at=AT).rules
        for was, is_now in zip(old, new, strict=True):
            assert was.rule == is_now.rule
            if was.verdict is REGRESSED:
                assert is_now.verdict is not OK


@SOME
@given(st.lists(st.tuples(SCORES, SCORES, st.sampled_from("bc")), min_size=2, max_size=25), st.randoms())
def test_the_order_of_trials_does_not_matter(
    scores: list[tuple[list[float], list[float], str]], chance: random.Random
) -> None:
    before = [cell(n, one[0], benchmark=one[2]) for n, one in enumerate(scores)]
    now = [cell(n, one[1], benchmark=one[2]) for n, one in enumerate(scores)]
    config = ask(*RULES, "--bench-min-score 0.5", warn=0.0)
    expected = judge(of(*now), of(*before), config, job="j", at=AT)
    chance.shuffle(before)
    chance.shuffle(now)
    now = [one._replace(scores=tuple(sorted(one.scores))) for one in now]
    assert judge(of(*now), of(*before), config, job="j", at=AT) == expected


def test_a_scenario_passes_where_more_than_half_of_its_attempts_do() -> None:
    """Exactly half is not passed, before as well as now."""
    half, more, less = [1, 1, 0, 0], [1, 1, 1, 0], [1, 0, 0, 0]
    report = judged(side([half, more, half, less]), side([more, half, less, half]), "mean:50pp")
    assert [one.scenario for one in report.broke] == ["s000"]
    assert [one.scenario for one in report.fixed] == ["s001"]


# Passes that do not follow from scores


def crashed(number: int, attempts: int = 5, score: float = 1.0, **more: Any) -> Cell:
    """A scenario whose agent wrote the right answer and then crashed, each time."""
    return cell(number, [score] * attempts, passed=0, **more)


DEFAULT = gate_config({"baseline": "main"})


def by_default(now: Side, before: Side, **more: Any) -> GateReport:
    return judge(now, before, DEFAULT.model_copy(update=more), job="j", at=AT)


def test_an_agent_that_crashes_after_the_right_answer_is_found_by_its_passes() -> None:
    report = by_default(of(crashed(0)), side([[1.0] * 5]))
    assert (report.verdict, exit_status(report)) == (REGRESSED, 10)
    assert report.why.startswith("regressed: pass rate 1.00 -> 0.00 (-100 pp, p = 0.008)")
    verdicts = [(one.rule.text, one.verdict) for one in report.rules]
    assert verdicts == [("mean:any", OK), ("pass_rate:any", REGRESSED)]
    (note,) = report.notes
    assert note.startswith(
        "b, a:m: 0 in the baseline and 5 now failed although their score reached the threshold ("
    )
    assert note.endswith("a limit): pass_rate:any is judged too, as mean looks at scores alone")
    # The other way round it is no loss, and as the same on both sides it is nothing.
    assert by_default(side([[1.0] * 5]), of(crashed(0))).verdict is OK
    assert by_default(of(crashed(0)), of(crashed(0))).verdict is OK


def test_a_threshold_below_1_counts_and_a_baseline_file_need_not_know_it() -> None:
    now = of(crashed(0, score=0.8, threshold=0.5))
    before = of(cell(0, [0.8] * 5, passed=5))
    assert by_default(now, before).verdict is REGRESSED
    below = of(crashed(0, score=0.4, threshold=0.5))
    assert [one.rule.text for one in by_default(below, before).rules] == ["mean:any"]


def test_only_the_agent_that_crashed_is_judged_by_passes_too() -> None:
    now = of(crashed(0), cell(0, [1.0] * 5, agent="b:m"))
    report = by_default(now, side([[1.0] * 5], [[1.0] * 5]))
    assert [(one.rule.metric, one.agent) for one in report.rules] == [
        ("mean", "a:m"), ("mean", "b:m"), ("pass_rate", "a:m"),
    ]  # fmt: skip


def test_where_passes_follow_from_scores_the_default_rule_is_alone() -> None:
    for scores in ([0.0] * 5, [1.0, 0.4, 0.0, 1.0, 1.0]):
        report = by_default(side([scores]), side([[1.0] * 5]))
        assert [one.rule.text for one in report.rules] == ["mean:any"]
        assert report.notes == ()


def test_rules_of_the_user_stay_alone_with_a_note() -> None:
    now, before = of(crashed(0)), side([[1.0] * 5])
    report = judged(now, before, "mean:any")
    assert (report.verdict, len(report.rules)) == (OK, 1)
    (note,) = report.notes
    assert note.endswith("a limit), and no rule looks at passes; pass_rate:any would")
    assert judged(now, before, "mean", "pass_rate[agent=z*]").notes == report.notes
    for rule in ("pass_rate", "scenario"):
        assert judged(now, before, "mean", rule).notes == ()


def test_a_gate_keeps_its_default_rule_when_it_is_judged_again() -> None:
    again = gate_config({"policy": "strict"}, base=DEFAULT)
    assert [(rule.text, rule.default) for rule in again.rules] == [("mean:any", True)]
    said = gate_config({"fail_on_regression": ["mean:any"]}, base=DEFAULT)
    assert [(rule.text, rule.default) for rule in said.rules] == [("mean:any", False)]


@pytest.mark.parametrize(
    ("what", "grouping"),
    [
        ("of the same tags", lambda n: {"tags": (f"repo-{n // 5}",)}),
        ("of one file", lambda n: {"file": f"repo-{n // 5}.bench.yaml"}),
        ("of one directory", lambda n: {"file": f"repo-{n // 5}/task-{n}"}),
    ],
)
def test_a_likely_cluster_is_named(what: str, grouping: Callable[[int], dict[str, Any]]) -> None:
    def of_six(shared: bool, **more: Any) -> tuple[Side, Side]:
        """Six repositories of five scenarios, whose scores rise and fall by themselves or together."""
        chance = random.Random(3)
        luck = [chance.random() < 0.5 for _ in range(6)]
        now = [[float(luck[n // 5]) if shared and n % 5 else float(chance.random() < 0.5)] for n in range(30)]
        scored, passed = (
            of(*(cell(n, scores, **grouping(n), **more) for n, scores in enumerate(one)))
            for one in (now, [[1.0]] * 30)
        )
        return scored, passed

    notes = judged(*of_six(shared=True), "mean").notes
    assert len(notes) == 1
    assert notes[0].startswith(f"b, a:m: scenarios {what} change together (intraclass correlation 0.")
    assert "most of all repo-" in notes[0]
    assert judged(*of_six(shared=False), "mean").notes == ()
    assert judged(*of_six(shared=True, cluster="one"), "mean").notes == ()
