"""Rules about the mean over scenarios: worse by more than is tolerated, and by more than chance explains."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Mapping, Sequence

from ...model.gate import GateConfig, GatePolicy, GateVerdict, Rule, RuleReport, Unit
from ..statistics import Interval, needed
from . import words
from .family import Found, Tested
from .groups import Group, nothing, select
from .measure import Measured, mean, measure

_REMARKABLE = 0.2  # p from which a drop needs no attention
_FAR = 0.5  # of a score
_ROUNDING = 1e-9  # a drop from 0.6 to 0.55 is 5 pp, whatever binary fractions make of it


def compare(rule: Rule, groups: Sequence[Group], config: GateConfig) -> list[Found]:
    """Measure one rule in each group; verdicts follow when all p-values of the gate are known."""
    chosen = select(rule, groups)
    if not chosen:
        return [nothing(rule, groups)]
    found: list[Found] = []
    for group in chosen:
        if group.baseline_agent is None:
            found.append(new(rule, group, config))
            continue
        measured = measure(rule, group.pairs)
        if measured.pairs:
            tested = measured.test()
            about = (group, measured, tested.test, config)
            found.append(
                Tested(rule, tested.worse, *(functools.partial(way, *about) for way in (_reports, _verdicts)))
            )
        else:
            found.append(group.report(rule, GateVerdict.INVALID, _nothing_to_compare(measured)))
    return found


def _reports(
    group: Group, measured: Measured, test: str, config: GateConfig, p: float, comparisons: int
) -> list[RuleReport]:
    return [_Judged(group, measured, p, test, config, comparisons).report()]


def _verdicts(
    group: Group, measured: Measured, test: str, config: GateConfig, p: float, comparisons: int
) -> list[RuleReport]:
    verdict = _Judged(group, measured, p, test, config, comparisons).verdict
    return [group.report(measured.rule, verdict, "")]


def new(rule: Rule, group: Group, config: GateConfig) -> RuleReport:
    """Report of a rule where the baseline has nothing to compare with."""
    why = f"{words.metric_of(rule)} is not compared: the baseline has nothing of it"
    if config.without is GateVerdict.INVALID:
        why += "; allow that with --bench-first-run, or set the baseline anew"
    return group.report(rule, config.without, why)


def _nothing_to_compare(measured: Measured) -> str:
    rule, metric = measured.rule, words.metric_of(measured.rule)
    if not measured.left_out:
        return f"{metric} cannot be compared: no scenario can be paired"
    if rule.k is not None:
        return f"{metric} cannot be compared: no scenario has {words.count(rule.k, 'attempt')} on both sides"
    return f"{metric} is known on both sides of none of {words.count(measured.left_out, 'scenario')}"


@dataclasses.dataclass(frozen=True)
class _Judged:
    group: Group
    measured: Measured
    p: float
    test: str
    config: GateConfig
    comparisons: int

    @functools.cached_property
    def before(self) -> float:
        """Mean over scenarios."""
        return mean(self.measured.before)

    @functools.cached_property
    def now(self) -> float:
        """The same of the job."""
        return mean(self.measured.now)

    @functools.cached_property
    def tolerance(self) -> float:
        """In the unit of the metric."""
        return tolerated(self.measured.rule, self.before, self.group.benchmark, self.config.noise)

    def report(self) -> RuleReport:
        rule, before, now, tolerance = self.measured.rule, self.before, self.now, self.tolerance
        verdict = self.verdict
        interval = self.measured.interval()
        detectable = self.measured.detectable(self.comparisons)
        advice = None
        if verdict is not GateVerdict.REGRESSED:
            steps = (self._advice(before, tolerance, detectable), self._next_step(verdict))
            advice = "; ".join(step for step in steps if step is not None) or None
        return self.group.report(rule, verdict, "").model_copy(
            update={
                "why": self._why(verdict, before, now, tolerance, interval, detectable),
                "before": before,
                "now": now,
                "change": now - before,
                "low": None if interval is None else interval.low,
                "high": None if interval is None else interval.high,
                "tolerance": tolerance,
                "p_value": self.p,
                "test": self.test,
                "detectable": detectable,
                "scenarios": len(self.measured.pairs),
                "clusters": None if self.measured.clusters is None else self.measured.units,
                "advice": advice,
            }
        )

    @property
    def verdict(self) -> GateVerdict:
        """By the policy."""
        before, now, tolerance = self.before, self.now, self.tolerance
        worse = now - before if self.measured.spent else before - now
        beyond = worse > tolerance + _ROUNDING * max(1.0, tolerance)
        policy = self.config.policy
        if policy is GatePolicy.POINT:
            return GateVerdict.REGRESSED if beyond else GateVerdict.OK
        if beyond:
            proven = self.p < self.measured.rule.alpha
            return GateVerdict.REGRESSED if proven else GateVerdict.INCONCLUSIVE
        if policy is GatePolicy.STRICT and not self.measured.shown_within(tolerance, before):
            return GateVerdict.INCONCLUSIVE
        return GateVerdict.OK

    def _why(
        self,
        verdict: GateVerdict,
        before: float,
        now: float,
        tolerance: float,
        interval: Interval | None,
        detectable: float | None,
    ) -> str:
        rule = self.measured.rule
        scale = words.scale_of(rule.metric, before)
        fine = 0 < abs(now - before) < 0.01
        was, is_now = (words.value(rule.metric, one, fine=fine) for one in (before, now))
        parts = [scale.signed(now - before)]
        if interval is not None:
            between = scale.between(interval.low, interval.high)
            parts.append(f"{words.percent(rule.level)} interval {between}")
        parts.append(words.p(self.p))
        text = f"{words.metric_of(rule)} {was} -> {is_now} ({', '.join(parts)})"
        if verdict is GateVerdict.INCONCLUSIVE:
            worse = now - before if self.measured.spent else before - now
            text += (
                f"; more than {scale.amount(tolerance)}, but chance may explain it" + self._calming()
                if worse > tolerance
                else f"; not shown to be within {scale.amount(tolerance)}"
            )
        if self.measured.left_out:
            reason = "unknown on a side" if rule.k is None else f"fewer than {words.count(rule.k, 'attempt')}"
            text += f"; {words.count(self.measured.left_out, 'scenario')} left out, {reason}"
        return f"{text}; {self._could_see(scale, tolerance, detectable)}"

    def _calming(self) -> str:
        return (
            "" if self.p < _REMARKABLE else ": unchanged code often looks like this, nothing needs to be done"
        )

    def _next_step(self, verdict: GateVerdict) -> str | None:
        """Advice where some scenarios fell far and chance may explain it."""
        measured = self.measured
        if verdict is not GateVerdict.INCONCLUSIVE or measured.spent or self.config.confirm:
            return None
        fell = [
            pair.now.scenario
            for pair, change in zip(measured.pairs, measured.differences, strict=True)
            if change <= -_FAR
            and (self.p < _REMARKABLE or -change * min(len(pair.before.scores), len(pair.now.scores)) > 1)
        ]
        if not fell:
            return None
        return (
            f"{words.count(len(fell), 'scenario')} fell far ({words.names(fell, 3)}): --bench-confirm 5 decides by "
            "fresh attempts of those alone, and critical:any does without chance for those tagged `critical`"
        )

    def _could_see(self, scale: words.Scale, tolerance: float, detectable: float | None) -> str:
        if detectable is None:
            if self._enough and self.measured.varied:
                return "could not have been sure to see any drop, not even to 0"
            what = "scenarios" if self.measured.clusters is None else "clusters"
            return "cannot say what it could have seen: " + (
                "nothing varied" if self._enough else f"too few {what} ({self.measured.units})"
            )
        text = f"could have seen {scale.amount(detectable)}"
        return f"{text}, not {scale.amount(tolerance)}" if 0 < tolerance < detectable else text

    @property
    def _enough(self) -> bool:
        """True if there are enough scenarios and attempts for any drop to be called a regression."""
        return self.measured.least_p < self.measured.rule.alpha / self.comparisons

    @property
    def _least(self) -> int:
        """Scenarios, or clusters, of as many attempts that are enough."""
        measured = self.measured
        one = (
            2
            if measured.clusters is not None
            else math.comb(2 * measured.typical_attempts, measured.typical_attempts)
        )
        alpha, least = measured.rule.alpha / self.comparisons, 1
        while one**-least >= alpha:
            least += 1
        return least

    def _advice(self, before: float, tolerance: float, detectable: float | None) -> str | None:
        measured = self.measured
        level = words.percent(measured.rule.level)
        if not self._enough:
            what = words.count(measured.units, "scenario" if measured.clusters is None else "cluster")
            return f"{what} can hardly show a regression at {level}: {self._least} or more can"
        if detectable is None or not 0 < tolerance < detectable:
            return None
        scale = words.scale_of(measured.rule.metric, before)
        attempts, scenarios = needed(
            tolerance,
            scenarios=len(measured.pairs),
            attempts=measured.typical_attempts,
            detectable=detectable,
        )
        # The estimate of pass@K is of all attempts together, so how it falls with their number is not known.
        ways = [f"{attempts:,} attempts on both sides"] if measured.rule.k is None else []
        return (
            f"a tolerance of {scale.amount(tolerance)} is below the {scale.amount(detectable)} this suite can see: "
            f"use {' or '.join([*ways, f'{scenarios:,} scenarios'])}"
        )


def tolerated(rule: Rule, before: float, benchmark: str, noise: Mapping[str, float]) -> float:
    """Tolerated worsening, in the unit of the metric."""
    amount = rule.amount
    if rule.unit is Unit.POINTS:
        amount /= 100
    elif rule.unit is Unit.RELATIVE:
        amount = before * amount / 100
    return amount if rule.metric in words.UNITS else max(amount, noise.get(benchmark, 0.0))
