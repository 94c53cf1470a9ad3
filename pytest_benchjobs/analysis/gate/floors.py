"""Rules without a baseline: floors of score, pass rate, samples and lift, a ceiling of errors, the place of grading."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence

from ...model.gate import GateVerdict, Rule, RuleReport
from ...model.numbers import mean
from ...model.scenario import GradeIn
from ..sides import PLACES, Cell
from ..statistics.intervals import clopper_pearson
from ..statistics.inversion import mean_interval
from . import words
from .groups import Group, nothing, select
from .measure import clusters_of, passes

_ROUNDING = 1e-9
_RANDOM = "baseline:random"
ERRORS, SAMPLES = "max_error_rate", "min_samples"


def floors(rule: Rule, groups: Sequence[Group], random: Mapping[str, float]) -> list[RuleReport]:
    """Judge a floor in each group by the measured value, and report its interval."""
    chosen = select(rule, groups)
    if not chosen:
        return [nothing(rule, groups)]
    if rule.metric == ERRORS:
        return [errors(rule, group) for group in chosen]
    if rule.metric == SAMPLES:
        return [samples(rule, group) for group in chosen]
    others = [group for group in chosen if not _is_random(group)]
    # `baseline:random` is only the yardstick, unless it is the only agent.
    if rule.metric == "min_lift":
        chances = chance(groups, random)
        return [_lift(rule, group, chances.get(group.benchmark)) for group in others or chosen]
    if rule.metric == "require_fresh":
        return [_fresh(rule, group) for group in others or chosen]
    return [_level(rule, group) for group in others or chosen]


def errors(rule: Rule, group: Group) -> RuleReport:
    """Judge the share of attempts that ended in an error."""
    bad, attempts = group.errors, group.attempts
    share = bad / attempts if attempts else 0.0
    low, high = clopper_pearson(bad, attempts, rule.level)
    beyond = too_many(rule, group)
    why = f"{bad:,} of {words.count(attempts, 'attempt')} ({words.percent(share)}) ended in an error"
    why += f"; at most {words.percent(rule.amount)} allowed" if beyond else ""
    return RuleReport(
        rule=rule,
        benchmark=group.benchmark,
        agent=group.agent,
        verdict=GateVerdict.INVALID if beyond else GateVerdict.OK,
        why=why,
        now=share,
        low=low,
        high=high,
        tolerance=rule.amount,
        test="floor",
    )


def too_many(rule: Rule, group: Group) -> bool:
    """Return whether the share of attempts that ended in an error is above the ceiling."""
    return group.attempts > 0 and group.errors / group.attempts > rule.amount + _ROUNDING


def samples(rule: Rule, group: Group) -> RuleReport:
    """Judge the number of scenarios that have scores."""
    what = "with a score" if group.baseline_agent is None else "with a score on both sides"
    enough = group.samples >= rule.amount
    why = f"{words.count(group.samples, 'scenario')} {what}"
    why += "" if enough else f"; {rule.amount:g} or more are required"
    verdict = GateVerdict.OK if enough else GateVerdict.INVALID
    figures = {"now": float(group.samples), "tolerance": rule.amount, "scenarios": group.samples}
    return group.report(rule, verdict, why, test="floor", **figures)


def _fresh(rule: Rule, group: Group) -> RuleReport:
    """Judge the places of grading. A scenario whose scorers needed none is fine."""
    scored = [cell for cell in group.cells if cell.scores]
    wrong = {
        place: [cell.scenario for cell in scored if place in cell.graded_in]
        for place in PLACES
        if place != GradeIn.FRESH
    }
    parts = [
        f"{words.count(len(listed), 'scenario')} graded {PLACES[place]} ({words.names(listed, 3)})"
        for place, listed in wrong.items()
        if listed
    ]
    good = len(scored) - len({scenario for listed in wrong.values() for scenario in listed})
    why = f"{words.count(good, 'scenario')} graded in a fresh container, or without programs of scorers"
    if parts:
        why = f"{' and '.join(parts)}; run the job with --bench-grade-in fresh"
    verdict = GateVerdict.INVALID if parts else GateVerdict.OK
    share = good / len(scored) if scored else None
    return group.report(
        rule, verdict, why, now=share, tolerance=rule.amount, test="floor", scenarios=len(scored)
    )


def chance(groups: Sequence[Group], random: Mapping[str, float]) -> dict[str, float]:
    """Return benchmark -> chance score: the given one, else that of `baseline:random` in the same job."""
    found: dict[str, float] = {}
    for group in groups:
        if _is_random(group) and (values := [mean(cell.scores) for cell in group.cells if cell.scores]):
            found.setdefault(group.benchmark, mean(values))
    return found | {name: score for name, score in random.items() if 0 <= score <= 1}


def _is_random(group: Group) -> bool:
    return group.agent == _RANDOM or group.agent.startswith(f"{_RANDOM}:")


@dataclasses.dataclass(frozen=True, slots=True)
class _Seen:
    value: float
    low: float | None
    high: float | None
    scenarios: int

    def text(self, metric: str, level: float) -> str:
        text = f"{metric} {words.value('mean', self.value, fine=False)}"
        if self.low is None or self.high is None:
            return text
        return f"{text} ({words.percent(level)} interval {self.low:.2f}..{self.high:.2f})"


def _seen(rule: Rule, group: Group, read: Callable[[Cell], Sequence[float]]) -> _Seen | None:
    cells = [cell for cell in group.cells if cell.scores]
    if not cells:
        return None
    values = [mean(read(cell)) for cell in cells]
    interval = mean_interval(values, level=rule.level, clusters=clusters_of(cells))
    if interval is None:
        return _Seen(mean(values), None, None, len(cells))
    return _Seen(mean(values), interval.low, interval.high, len(cells))


def _level(rule: Rule, group: Group) -> RuleReport:
    rates = rule.metric == "min_pass_rate"
    seen = _seen(rule, group, passes if rates else lambda cell: cell.scores)
    metric = "pass rate" if rates else "mean"
    if seen is None:
        return group.report(rule, GateVerdict.INVALID, f"no attempt has a score, so there is no {metric}")
    low = seen.value < rule.amount - _ROUNDING
    why = f"{seen.text(metric, rule.level)} is {'below' if low else 'not below'} {rule.amount:g}"
    return _report(rule, group, seen, low, why, rule.amount)


def _lift(rule: Rule, group: Group, guess: float | None) -> RuleReport:
    seen = _seen(rule, group, lambda cell: cell.scores)
    if seen is None:
        return group.report(rule, GateVerdict.INVALID, "no attempt has a score, so there is no lift")
    if guess is None:
        why = f"the chance score is unknown. Run {_RANDOM} in the same job, or give the score"
        return group.report(rule, GateVerdict.INVALID, why)
    needed = rule.amount * guess
    # No multiple of a chance score of 0 is above 0.
    low = seen.value < needed - _ROUNDING or (guess == 0 and seen.value == 0)
    times = f"{seen.value / guess:.2f} times" if guess else "against"
    why = f"{seen.text('mean', rule.level)} is {times} the chance score {guess:.2f}; {rule.amount:g} times is required"
    return _report(rule, group, seen, low, why, needed)


def _report(rule: Rule, group: Group, seen: _Seen, low: bool, why: str, limit: float) -> RuleReport:
    return group.report(
        rule,
        GateVerdict.REGRESSED if low else GateVerdict.OK,
        why,
        now=seen.value,
        low=seen.low,
        high=seen.high,
        tolerance=limit,
        test="floor",
        scenarios=seen.scenarios,
    )
