"""Coverage as a part of the verdict, and what errors may hide."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_benchjobs.analysis.sides import Side
from pytest_benchjobs.model.exit_status import of_gate as exit_status
from pytest_benchjobs.model.gate import Absence, GatePolicy
from pytest_benchjobs.settings.rules import parse_absence

from .test_gate import GOOD, INCONCLUSIVE, INVALID, OK, REGRESSED, cell, judged, of, side

SIXTY = side([[1.0]] * 60)


def allowed(*texts: str) -> tuple[Absence, ...]:
    return tuple(map(parse_absence, texts))


def test_fifty_nine_scenarios_gone_are_not_ok() -> None:
    report = judged(side([[1.0]]), SIXTY, "mean")
    assert (report.verdict, exit_status(report)) == (INVALID, 12)
    assert report.why.startswith(
        "invalid: the job did not run 59 of 60 scenarios (b/s001, b/s002, b/s003 and 56 more) of the baseline. "
    )
    assert len(report.removed) == 59
    (coverage,) = [rule for rule in report.rules if rule.rule.metric == "coverage"]
    assert (coverage.now, coverage.scenarios) == (1 - 59 / 60, 59)
    # One is enough, and everything else is judged as ever.
    assert judged(side([[1.0]] * 59), SIXTY, "mean").verdict is INVALID
    assert REGRESSED in {one.verdict for one in judged(side([[0.0]] * 59), SIXTY, "mean").rules}
    assert judged(side([[1.0]] * 61), SIXTY, "mean").verdict is OK


def test_what_is_gone_on_purpose_is_named() -> None:
    less = side([[1.0]] * 58)
    assert judged(less, SIXTY, "mean", allow_missing=allowed("s058")).verdict is INVALID
    report = judged(less, SIXTY, "mean", allow_missing=allowed("s058", "scenario=s059,benchmark=b", "x"))
    assert report.verdict is OK
    assert "2 of the baseline's scenarios may be missing: --bench-allow-missing" in report.notes
    assert "--bench-allow-missing x: nothing that matches is missing" in report.notes
    assert judged(less, SIXTY, "mean", allow_missing=allowed("s05*")).verdict is OK
    assert judged(less, SIXTY, "mean", allow_missing=allowed("scenario=s05*,agent=other")).verdict is INVALID


def test_an_agent_that_is_missing_is_not_ok() -> None:
    two = side(GOOD, GOOD)
    report = judged(side(GOOD), two, "mean")
    assert report.verdict is INVALID
    assert report.why.startswith("invalid: the job did not run agent b:m of the baseline. ")
    both = of(*(cell(0, [1], agent) for agent in ("b:m", "b:p/m")))
    missing = judged(of(cell(0, [1], "b:m")), both, "mean").why
    assert (
        "did not run agent b:p/m of the baseline; b:m may be the same model by another provider. " in missing
    )
    assert "--bench-allow-missing agent=b:m" in report.why
    assert judged(side(GOOD), two, "mean", allow_missing=allowed("agent=b:*")).verdict is OK
    # A rule for one agent looks at that one only, whatever its version is called now.
    assert judged(side(GOOD), two, "mean[agent=a:*]").verdict is OK
    newer = of(*(cell(n, [1.0], agent="a:m2") for n in range(19)))
    assert judged(newer, side(GOOD), "mean[agent=a:m2]").verdict is INVALID
    assert judged(newer, side(GOOD), "mean[agent=a:m]").verdict is INVALID


def test_a_rule_s_scope_is_what_it_misses() -> None:
    before = of(*(cell(n, [1.0], tags=("easy",) if n < 5 else ()) for n in range(10)))
    now = of(*(cell(n, [1.0], tags=("easy",)) for n in range(5)))
    assert judged(now, before, "mean[tag=easy]").verdict is OK
    assert judged(now, before, "mean[tag=easy]", "pass_rate").verdict is INVALID
    wide = of(*before.cells.values(), cell(1, [1.0], benchmark="c"))
    assert judged(before, wide, "mean[benchmark=b]").verdict is OK
    assert "benchmark c" in judged(before, wide, "mean").why


def test_a_scenario_that_was_skipped_did_not_run_unless_it_is_known() -> None:
    def now(**more: str) -> Side:
        return of(*(cell(n, [1.0]) for n in range(1, 20)), cell(0, [], **more))

    assert judged(now(), side(GOOD), "mean").verdict is INVALID
    assert judged(now(known="skip"), side(GOOD), "mean").verdict is OK
    assert judged(now(known="quarantine"), side(GOOD), "mean").verdict is OK
    assert judged(now(known="expected-fail"), side(GOOD), "mean").verdict is INVALID
    # What had no score before is not missed.
    before = of(*(cell(n, [1.0]) for n in range(1, 20)), cell(0, [], errors=1))
    assert judged(now(), before, "mean").verdict is OK


def test_more_changed_than_the_same_is_not_ok() -> None:
    def now(changed: int) -> Side:
        return of(*(cell(n, [1.0], comparable="new" if n < changed else "same") for n in range(20)))

    assert judged(now(10), side(GOOD), "mean").verdict is OK
    report = judged(now(11), side(GOOD), "mean")
    assert report.verdict is INVALID
    assert report.why.startswith(
        "invalid: 11 scenarios changed (b/s000, b/s001, b/s002 and 8 more), more than remain comparable. "
    )
    assert judged(now(11), side(GOOD), "mean", allow_missing=allowed("s0*")).verdict is OK


def test_of_several_agents_each_scenario_is_counted_once() -> None:
    now, before = side([[1.0]] * 18, [[1.0]] * 18), side(GOOD, GOOD)
    (lost,) = [rule for rule in judged(now, before, "mean").rules if rule.rule.metric == "coverage"]
    assert lost.why.startswith("the job did not run 2 of 20 scenarios (b/s018, b/s019) of the baseline. ")
    assert "give --bench-allow-missing scenario=s018, or" in lost.why
    assert (lost.now, lost.scenarios) == (1 - 4 / 40, 2)
    both = ((n, f"{agent}:m") for n in range(20) for agent in "ab")
    changed = of(*(cell(n, [1.0], agent, comparable="new" if n < 11 else "same") for n, agent in both))
    (lost,) = [rule for rule in judged(changed, before, "mean").rules if rule.rule.metric == "coverage"]
    assert lost.why.startswith("11 scenarios changed (b/s000, b/s001, b/s002 and 8 more), more than remain ")
    assert "give --bench-allow-missing scenario=s000, or" in lost.why
    assert (lost.now, lost.scenarios) == (1 - 22 / 40, 11)


def failing(count: int, attempts: int = 1, of_all: int = 60) -> Side:
    """A side on which an attempt at so many scenarios ended in an error."""
    errors = (int(n < count) for n in range(of_all))
    return of(*(cell(n, [1.0] * (attempts - bad), errors=bad) for n, bad in enumerate(errors)))


def test_errors_that_may_hide_failures_are_not_ok() -> None:
    report = judged(failing(3), SIXTY, "mean")
    assert report.verdict is INCONCLUSIVE
    assert report.why == (
        "inconclusive: 3 attempts ended in an error; counted as failures they would make the verdict inconclusive. "
        "Run them again: benchjobs rerun j --errors"
    )
    assert exit_status(judged(failing(3), SIXTY, "mean", policy=GatePolicy.STRICT)) == 11
    # More of them would be a regression: then nobody can say that it is none.
    hidden = judged(failing(6), SIXTY, "mean", max_error_rate=0.2)
    assert (hidden.verdict, exit_status(hidden)) == (INVALID, 12)
    told = "6 attempts ended in an error; counted as failures they would make the verdict regressed"
    assert told in hidden.why
    assert judged(failing(6), SIXTY, "mean:20pp", max_error_rate=0.2).verdict is OK

    def critical(some: Side) -> Side:
        return of(*(one._replace(tags=("critical",)) for one in some.cells.values()))

    assert judged(critical(failing(1)), critical(SIXTY), "critical").verdict is INVALID


def test_errors_that_cannot_hide_anything_are_left_out_as_ever() -> None:
    three = side([[1.0] * 3] * 60)
    # Two other attempts of each passed.
    assert judged(failing(3, 3), three, "mean").verdict is OK
    assert judged(failing(9, 3), three, "mean").verdict is INVALID
    # It failed in the baseline anyway.
    before = of(*(cell(n, [0.0] if n < 3 else [1.0]) for n in range(60)))
    assert judged(failing(3), before, "mean").verdict is OK
    # As unreliable as before.
    assert judged(failing(9, 3), failing(9, 3), "mean").verdict is OK
    # In quarantine.
    apart = of(
        *(one._replace(known="quarantine" if one.errors else None) for one in failing(3).cells.values())
    )
    assert judged(apart, SIXTY, "mean").verdict is OK
    # A regression stays one.
    worse = of(*failing(3, of_all=40).cells.values(), *(cell(n, [0.0]) for n in range(40, 60)))
    assert judged(worse, SIXTY, "mean").verdict is REGRESSED
    # Floors are about what has a score.
    assert judged(failing(3), None, "--bench-min-score 0.99").verdict is OK


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("old-*", {"scenario": "old-*"}),
        ("scenario=a,benchmark=b", {"scenario": "a", "benchmark": "b"}),
        ("agent=codex:gpt,temperature=0, scenario=a", {"agent": "codex:gpt,temperature=0", "scenario": "a"}),
    ],
)
def test_what_may_be_missing_is_written_like_the_scope_of_a_rule(text: str, fields: dict[str, str]) -> None:
    assert parse_absence(text) == Absence(text=text, **fields)


def costs(known: int, *, reused: tuple[str, ...] = (), scenarios: int = 60) -> Side:
    """Costs are known of the first scenarios alone."""
    return of(
        *(
            cell(n, [1.0], costs=(0.5,) if n < known else (), reused=() if n < known else reused)
            for n in range(scenarios)
        )
    )


@pytest.mark.parametrize(
    ("now", "before", "rule", "more", "says"),
    [
        (side(GOOD, tags=("Critical",)), side(GOOD), "critical:any", {}, "no scenario has the tag critical"),
        (side(GOOD), side(GOOD), "mean", {"noise": {"bb": 0.02}}, "matches nothing in this job, which has benchmarks b"),
        (side([[1.0] * 3] * 30 + [[0.0]] * 30), side([[1.0] * 3] * 60), "pass@3", {}, "of only 30 of 60 scenarios"),
        (costs(30), costs(60), "cost:20%", {}, "cost is known on both sides of only 30 of 60 scenarios; at most 5 %"),
        (costs(60), costs(56), "cost:20%", {}, "on both sides of only 56 of 60 scenarios"),
        (
            of(cell(0, [1.0]), *(cell(n, [], known="skip") for n in range(1, 60))), SIXTY, "mean", {},
            "59 scenarios are skipped as known failures (b/s001, b/s002, b/s003 and 56 more), more than remain",
        ),
        (SIXTY, of(*(cell(n, [1.0] if n < 50 else [], errors=int(n >= 50)) for n in range(60))), "mean", {}, "mean is known on both sides of only 50 of 60 scenarios"),
        (costs(57), costs(60), "cost:20%", {}, None),
        (costs(10, reused=("job",)), costs(60), "cost:20%", {}, None),
        (of(*(cell(n, [1.0] if n < 40 else [], known=None if n < 40 else "skip") for n in range(60))), SIXTY, "mean", {}, None),
        (side(GOOD), side(GOOD), "mean", {"noise": {"b": 0.02}}, None),
    ],
)  # fmt: skip
def test_a_rule_that_sees_too_little_is_invalid(
    now: Side, before: Side, rule: str, more: dict[str, Any], says: str | None
) -> None:
    report = judged(now, before, rule, **more)
    assert report.verdict is (OK if says is None else INVALID)
    assert says is None or says in report.why
