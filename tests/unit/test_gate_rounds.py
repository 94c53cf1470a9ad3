"""Attempts in rounds, and fresh attempts of what looks worse: what they decide."""

from __future__ import annotations

import datetime
import random

import pytest

from pytest_benchjobs.analysis.gate.judge import judge
from pytest_benchjobs.analysis.gate.rounds import decided, looks, to_confirm, why_no_rounds
from pytest_benchjobs.analysis.sides import Cell, Side
from pytest_benchjobs.model.gate import GateConfig, GatePolicy, GateReport, GateVerdict
from pytest_benchjobs.report.gate_text import gate_lines, gate_markdown
from pytest_benchjobs.settings.gates import gate_config
from pytest_benchjobs.settings.rules import parse_rule

AT = datetime.datetime(2026, 11, 21, tzinfo=datetime.UTC)
MEAN = parse_rule("mean:any")


def side(scores: dict[str, list[int]], benchmark: str = "texts", agent: str = "codex:a", **more: str) -> Side:
    cells = {}
    for scenario, of in scores.items():
        cell = Cell(benchmark, scenario, agent, tuple(map(float, of)), sum(of), **more)  # type: ignore[arg-type]
        cells[cell.key] = cell
    return Side("now", ("job",), cells)


def both(*sides: Side) -> Side:
    return Side("both", ("job",), {key: cell for one in sides for key, cell in one.cells.items()})


def names(count: int) -> list[str]:
    return [f"s{number:02}" for number in range(count)]


BEFORE = side({name: [1] * 5 for name in names(20)})
CONFIG = GateConfig(baseline="main", rules=(MEAN,), until_decided=True)


def test_a_plain_regression_is_decided_in_the_first_round() -> None:
    now = side({name: [int(number >= 10)] for number, name in enumerate(names(20))})
    (found,) = looks(now, BEFORE, CONFIG, number=1, rounds=5)
    assert (found.benchmark, found.agent, found.rule, found.round) == ("texts", "codex:a", "mean:any", 1)
    assert found.stop is GateVerdict.REGRESSED
    assert found.p_value <= found.boundary < 0.05
    (why,) = decided([found]).values()
    assert why.startswith("decided after round 1 of 5: p = ")
    report = judge(now, BEFORE, CONFIG, job="j", at=AT, rounds=[found])
    assert report.verdict is GateVerdict.REGRESSED
    assert report.rounds == (found,)
    assert "in rounds" in (report.rules[0].test or "")


def test_rounds_of_the_default_rule_see_agents_that_crash_after_the_right_answer() -> None:
    config = gate_config({"baseline": "main", "until_decided": True})
    cells = {key: one._replace(scores=(1.0,), passed=0) for key, one in BEFORE.cells.items()}
    now = Side("now", ("job",), cells)
    found = looks(now, BEFORE, config, number=1, rounds=5)
    stops = [(one.rule, one.stop) for one in found]
    assert stops == [("mean:any", GateVerdict.OK), ("pass_rate:any", GateVerdict.REGRESSED)]
    assert judge(now, BEFORE, config, job="j", at=AT, rounds=found).verdict is GateVerdict.REGRESSED


def test_no_change_is_decided_early_too() -> None:
    now = side({name: [1] for name in names(20)})
    (found,) = looks(now, BEFORE, CONFIG, number=1, rounds=5)
    assert found.stop is GateVerdict.OK
    assert judge(now, BEFORE, CONFIG, job="j", at=AT, rounds=[found]).verdict is GateVerdict.OK


def test_below_alpha_but_above_the_boundary_is_no_regression() -> None:
    before = side({name: [1, 1, 1, 1, 0] for name in names(20)})
    now = side({name: [int(number >= 9)] for number, name in enumerate(names(20))})
    (found,) = looks(now, before, CONFIG, number=1, rounds=5)
    assert found.boundary < found.p_value < 0.05
    assert found.stop is None
    assert decided([found]) == {}
    plain = judge(now, before, CONFIG, job="j", at=AT)
    assert plain.verdict is GateVerdict.REGRESSED
    assert judge(now, before, CONFIG, job="j", at=AT, rounds=[found]).verdict is GateVerdict.INCONCLUSIVE


def test_two_agents_share_alpha_and_are_decided_each_for_itself() -> None:
    good, bad = {name: [1] for name in names(20)}, {name: [0] for name in names(20)}
    before = both(BEFORE, side({name: [1] * 5 for name in names(20)}, agent="goose:b"))
    now = both(side(good), side(bad, agent="goose:b"))
    found = looks(now, before, CONFIG, number=1, rounds=5)
    stops = {one.agent: one.stop for one in found}
    assert stops == {"codex:a": GateVerdict.OK, "goose:b": GateVerdict.REGRESSED}
    (alone,) = looks(side(good), BEFORE, CONFIG, number=1, rounds=5)
    assert all(one.boundary < alone.boundary for one in found)
    assert decided(found).keys() == {("texts", "codex:a"), ("texts", "goose:b")}


def test_a_benchmark_with_fewer_attempts_is_decided_in_its_own_last_round() -> None:
    unsure = {name: [1, 0, 1] for name in names(20)}
    before = both(side(unsure), side(unsure, "short"))
    hint = {name: [int(number >= 9)] for number, name in enumerate(names(20))}
    now = both(side(hint), side({name: [*scores, 1] for name, scores in hint.items()}, "short"))
    most = {"texts": 5, "short": 2}
    found = {one.benchmark: one for one in looks(now, before, CONFIG, number=1, rounds=most.__getitem__)}
    assert {name: one.rounds for name, one in found.items()} == most
    second = {one.benchmark: one for one in looks(now, before, CONFIG, number=2, rounds=most.__getitem__)}
    assert (second["short"].round, second["short"].rounds, second["short"].stop) == (2, 2, GateVerdict.OK)
    assert second["texts"].stop is None
    assert second["short"].boundary > second["texts"].boundary
    (third,) = looks(now, before, CONFIG, number=3, rounds=most.__getitem__)
    assert third.benchmark == "texts"


def test_rules_share_alpha_and_one_that_stands_alone_does_not() -> None:
    now = side({name: [1] for name in names(20)})
    (alone,) = looks(now, BEFORE, CONFIG, number=1, rounds=5)
    two = CONFIG.model_copy(update={"rules": (MEAN, parse_rule("pass_rate"))})
    assert {one.boundary < alone.boundary for one in looks(now, BEFORE, two, number=1, rounds=5)} == {True}
    own = CONFIG.model_copy(update={"rules": (parse_rule("mean[alone=yes]"), parse_rule("pass_rate"))})
    assert {one.boundary for one in looks(now, BEFORE, own, number=1, rounds=5)} == {alone.boundary}
    unsaid = CONFIG.model_copy(update={"rules": ()})
    assert [one.rule for one in looks(now, BEFORE, unsaid, number=1, rounds=5)] == ["mean"]


def test_what_cannot_be_looked_at_runs_to_its_end() -> None:
    now, before = (side(dict.fromkeys(names(20), scores), cluster="repo") for scores in ([0], [1] * 5))
    (found,) = looks(now, before, CONFIG, number=1, rounds=5)
    assert (found.stop, found.boundary) == (None, 0)
    (nothing,) = looks(side({"s00": []}), BEFORE, CONFIG, number=1, rounds=5)
    assert nothing.stop is None


def test_rounds_keep_the_rate_of_false_alarms_through_the_gate() -> None:
    chance = random.Random(7)
    alarms = attempts = 0
    jobs = 150
    for _ in range(jobs):
        difficulty = {name: chance.betavariate(0.5, 0.5) for name in names(20)}
        before = side({name: [int(chance.random() < p) for _ in range(5)] for name, p in difficulty.items()})
        scores: dict[str, list[int]] = {name: [] for name in difficulty}
        for number in range(1, 6):
            for name, p in difficulty.items():
                scores[name].append(int(chance.random() < p))
            attempts += 1
            found = looks(side(scores), before, CONFIG, number=number, rounds=5)
            if decided(found):
                break
        report = judge(side(scores), before, CONFIG, job="j", at=AT, rounds=found)
        alarms += report.verdict is GateVerdict.REGRESSED
    assert alarms <= 0.05 * jobs + 2 * (jobs * 0.05 * 0.95) ** 0.5
    assert attempts < 0.6 * 5 * jobs


@pytest.mark.parametrize(
    ("changes", "attempts", "says"),
    [
        ({"baseline": None}, 5, "name one with --bench-baseline"),
        ({"baseline": "none"}, 5, "name one with --bench-baseline"),
        ({}, 1, "set the maximum with --bench-attempts"),
        ({"policy": GatePolicy.STRICT}, 5, "needs the policy `evidence`, not `strict`"),
        ({"rules": (MEAN, parse_rule("cost:20%"))}, 5, "the rule 'cost:20%' cannot be decided in rounds"),
        ({}, 5, None),
    ],
)
def test_what_rounds_are_not_for(changes: dict[str, object], attempts: int, says: str | None) -> None:
    why = why_no_rounds(CONFIG.model_copy(update=changes), attempts)
    assert (why is None) == (says is None)
    assert (says or "") in (why or "")


# Fresh attempts

CONFIRM = GateConfig(baseline="main", rules=(MEAN,), confirm=5)


def judged(now: Side, fresh: Side) -> GateReport:
    return judge(now, BEFORE, CONFIRM, job="j", at=AT, fresh=fresh)


def test_what_broke_is_confirmed_by_fresh_attempts_alone() -> None:
    now = side({name: [int(name != "s03")] for name in names(20)})
    assert to_confirm(now, BEFORE) == (("texts", "s03", "codex:a"),)
    report = judged(now, side({"s03": [0] * 5}))
    assert report.verdict is GateVerdict.REGRESSED
    (change,) = report.broke
    assert (change.fresh_attempts, change.fresh_passed, change.confirmed) == (5, 0, True)
    assert (change.now_attempts, change.now) == (1, 0.0)
    (rule,) = [one for one in report.rules if one.rule.metric == "scenario"]
    assert "as fresh attempts confirm: s03" in rule.why
    (line,) = [text for text, _ in gate_lines(report) if text.startswith("  texts/s03")]
    assert line.endswith("; fresh attempts: passed 0 of 5, confirmed")
    told = list(gate_markdown(report))
    (title,) = [row for row in told if row.startswith("| scenario | agent |")]
    (row,) = [row for row in told if row.startswith("| `s03` | `codex:a`")]
    assert title.count("|") == row.count("|")
    assert title.endswith(" passed now | passed afresh | p |")
    assert "| 0 of 1 | 0 of 5, confirmed |" in row


def test_what_was_chance_is_not() -> None:
    now = side({name: [int(name != "s03")] for name in names(20)})
    report = judged(now, side({"s03": [1, 1, 0, 1, 1]}))
    assert report.verdict in (GateVerdict.OK, GateVerdict.INCONCLUSIVE)
    assert report.broke[0].confirmed is False
    (rule,) = [one for one in report.rules if one.rule.metric == "scenario"]
    assert rule.verdict is GateVerdict.OK
    assert "1 of 20 scenarios looked worse, and fresh attempts confirm none" in rule.why
    assert any(text.endswith("passed 4 of 5, not confirmed") for text, _ in gate_lines(report))


def test_where_nothing_looks_worse_there_is_nothing_to_confirm() -> None:
    now = side({name: [1] for name in names(20)})
    assert to_confirm(now, BEFORE) == ()
    report = judged(now, Side("fresh", (), {}))
    assert report.verdict is GateVerdict.OK
    assert "none of 20 scenarios looks worse" in report.rules[-1].why


def test_fresh_attempts_that_end_in_errors_confirm_nothing_and_clear_nobody() -> None:
    now = side({name: [int(name not in ("s03", "s04"))] for name in names(20)})
    broken = Cell("texts", "s03", "codex:a", errors=5)
    fresh = side({"s04": [1] * 5})
    report = judged(now, Side("fresh", (), {**fresh.cells, broken.key: broken}))
    (rule,) = [one for one in report.rules if one.rule.metric == "scenario"]
    assert rule.verdict is GateVerdict.INCONCLUSIVE
    assert "1 of 20 scenarios looks worse, and no fresh attempt has a score: s03" in rule.why
    # As failures they would have confirmed it.
    assert report.verdict is GateVerdict.INVALID
    told = "5 attempts ended in an error; counted as failures they would make the verdict regressed"
    assert told in report.why
    # Some of them have a score: the others may be what the agent did.
    some = Cell("texts", "s03", "codex:a", scores=(1.0,), passed=1, errors=4)
    one = side({name: [int(name != "s03")] for name in names(20)})
    assert judged(one, Side("fresh", (), {some.key: some})).verdict is GateVerdict.INVALID
    # One is enough, where it would decide.
    for errors, verdict in ((0, GateVerdict.INCONCLUSIVE), (1, GateVerdict.INVALID)):
        some = Cell("texts", "s03", "codex:a", scores=(0.0, 0.0), errors=errors)
        assert judged(one, Side("fresh", (), {some.key: some})).verdict is verdict
    # None were made at all.
    report = judged(now, fresh)
    (rule,) = [one for one in report.rules if one.rule.metric == "scenario"]
    assert rule.verdict is report.verdict is GateVerdict.INCONCLUSIVE
