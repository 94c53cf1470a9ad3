"""Rules about the mean over scenarios: a drop beyond the tolerance that chance does not explain."""

from __future__ import annotations

import dataclasses
import functools
import shlex
from collections.abc import Mapping, Sequence

from ...model.gate import SIDE_A, GateConfig, GatePolicy, GateVerdict, Rule, RuleReport, Unit
from ...model.numbers import difference, mean
from ..statistics import FEWEST, Interval, needed
from . import words
from .family import Found, Tested
from .groups import Group, nothing, select
from .measure import Measured, measure

_REMARKABLE = 0.2  # p above which a drop needs no attention
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
            found.append(_tested(group, measured, config))
        else:
            found.append(group.report(rule, GateVerdict.INVALID, _nothing_to_compare(measured)))
    return found


def _tested(group: Group, measured: Measured, config: GateConfig) -> Tested:
    tested = measured.test()
    judged = functools.partial(_Judged, group, measured, tested.test, config)
    return Tested(
        measured.rule,
        tested.worse,
        reports=lambda p, comparisons: [judged(p, comparisons).report()],
        wordless=lambda p, comparisons: [group.report(measured.rule, judged(p, comparisons).verdict, "")],
    )


def new(rule: Rule, group: Group, config: GateConfig) -> RuleReport:
    """Report a rule where the baseline has nothing to compare with."""
    why = f"{words.metric_of(rule)} is not compared: the baseline has no results for it"
    if config.without is GateVerdict.INVALID:
        why += "; allow this with --bench-first-run, or set a new baseline"
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
    test: str
    config: GateConfig
    p: float
    comparisons: int

    @functools.cached_property
    def before(self) -> float:
        """Mean over scenarios of the baseline."""
        return mean(self.measured.before)

    @functools.cached_property
    def now(self) -> float:
        """Mean over scenarios of the job."""
        return mean(self.measured.now)

    @functools.cached_property
    def tolerance(self) -> float:
        """Tolerated worsening, in the unit of the metric."""
        return tolerated(self.measured.rule, self.before, self.group.benchmark, self.config.noise)

    @functools.cached_property
    def detectable(self) -> float | None:
        """Smallest worsening that is found with a chance of 80 %."""
        return self.measured.detectable(self.comparisons)

    @property
    def scale(self) -> words.Scale:
        """Unit in which differences are shown."""
        return words.scale_of(self.measured.rule.metric, self.before)

    @property
    def change(self) -> float:
        """Difference of the means: now minus before."""
        return difference(self.before, self.now)

    @property
    def worse(self) -> float:
        """Worsening of the mean."""
        return self.change if self.measured.less else -self.change

    @property
    def verdict(self) -> GateVerdict:
        """Verdict under the policy."""
        beyond = self.worse > self.tolerance + _ROUNDING * max(1.0, self.tolerance)
        policy = self.config.policy
        if policy is GatePolicy.POINT:
            return GateVerdict.REGRESSED if beyond else GateVerdict.OK
        if beyond:
            proven = self.p < self.measured.rule.alpha
            return GateVerdict.REGRESSED if proven else GateVerdict.INCONCLUSIVE
        if policy is GatePolicy.STRICT and not self.measured.shown_within(self.tolerance, self.before):
            return GateVerdict.INCONCLUSIVE
        return GateVerdict.OK

    def report(self) -> RuleReport:
        measured, verdict, interval = self.measured, self.verdict, self.measured.interval()
        advice = None
        if verdict is not GateVerdict.REGRESSED:
            steps = (self._advice(), self._next_step(verdict))
            advice = "; ".join(step for step in steps if step is not None) or None
        return self.group.report(
            measured.rule,
            verdict,
            self._why(verdict, interval),
            before=self.before,
            now=self.now,
            change=self.change,
            low=None if interval is None else interval.low,
            high=None if interval is None else interval.high,
            tolerance=self.tolerance,
            p_value=self.p,
            test=self.test,
            detectable=self.detectable,
            scenarios=len(measured.pairs),
            clusters=None if measured.clusters is None else measured.units,
            advice=advice,
        )

    def _why(self, verdict: GateVerdict, interval: Interval | None) -> str:
        rule, scale, change = self.measured.rule, self.scale, self.change
        fine = 0 < abs(change) < 0.01
        was, is_now = (words.value(rule.metric, one, fine=fine) for one in (self.before, self.now))
        parts = [scale.signed(change)]
        if interval is not None:
            between = scale.between(interval.low, interval.high)
            parts.append(f"{words.percent(rule.level)} interval {between}")
        parts.append(words.p(self.p))
        text = f"{words.metric_of(rule)} {was} -> {is_now} ({', '.join(parts)})"
        if verdict is GateVerdict.INCONCLUSIVE and self.worse > self.tolerance:
            text += f"; more than {scale.amount(self.tolerance)}, but chance may explain it"
            if self.p >= _REMARKABLE:
                text += ": unchanged code often looks like this; no action is needed"
        elif verdict is GateVerdict.INCONCLUSIVE:
            text += f"; not shown to be within {scale.amount(self.tolerance)}"
        if self.measured.left_out:
            reason = "unknown on a side" if rule.k is None else f"fewer than {words.count(rule.k, 'attempt')}"
            text += f"; {words.count(self.measured.left_out, 'scenario')} left out, {reason}"
        seen = self._could_see(verdict)
        return text if seen is None else f"{text}; {seen}"

    def _could_see(self, verdict: GateVerdict) -> str | None:
        """Phrase for what would be detected; None where the drop was, and nothing more is known."""
        change = "rise" if self.measured.less else "drop"
        if self.detectable is None:
            return None if verdict is GateVerdict.REGRESSED else self._undetected(change)
        text = f"smallest detectable {change} {self.scale.amount(self.detectable)}"
        if 0 < self.tolerance < self.detectable:
            text += f" (more than the tolerance {self.scale.amount(self.tolerance)})"
        return text

    def _undetected(self, change: str) -> str:
        measured = self.measured
        if not self._enough:
            return f"no {change} can be shown, however large: too few scenarios or attempts ({measured.size})"
        if not measured.varied:
            return f"smallest detectable {change} unknown: nothing varied"
        if len(measured.pairs) < FEWEST:
            return f"smallest detectable {change} unknown: fewer than {FEWEST} scenarios"
        return f"no {change} is reliably detectable" + ("" if measured.amounts else ", not even to 0")

    def _next_step(self, verdict: GateVerdict) -> str | None:
        """Advise where some scenarios fell far and chance may explain it."""
        measured = self.measured
        if verdict is not GateVerdict.INCONCLUSIVE or measured.amounts or self.config.confirm:
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
            f"{words.count(len(fell), 'scenario')} fell far ({words.names(fell, 3)}): {self._afresh()}critical:any "
            "judges those tagged `critical` without statistics"
        )

    def _afresh(self) -> str:
        """Phrase with a command that can be typed after any that judges a job; empty for two agents of one job."""
        baseline = self.config.baseline
        if baseline in (None, SIDE_A):
            return ""
        if baseline == "last" or baseline.startswith("branch:"):  # it might be the judged job by then
            return "a new run with --bench-confirm 5 decides by fresh attempts of those alone; "
        command = f"benchjobs rerun {self.group.again} -- --bench-baseline {shlex.quote(baseline)} --bench-confirm 5"
        return f"`{command}` decides by fresh attempts of those alone; "

    @property
    def _enough(self) -> bool:
        """True if some drop could be called a regression with these scenarios and attempts."""
        return self.measured.least_p < self.measured.rule.alpha / self.comparisons

    def _advice(self) -> str | None:
        measured, tolerance, detectable = self.measured, self.tolerance, self.detectable
        if not self._enough:
            level = words.percent(measured.rule.level)
            return f"{measured.size} cannot show a regression at {level}: {measured.remedy(self.comparisons)}"
        if detectable is None or not 0 < tolerance < detectable:
            return None
        attempts, scenarios = needed(
            tolerance,
            scenarios=len(measured.pairs),
            attempts=measured.typical_attempts,
            detectable=detectable,
        )
        # pass@K is estimated from all attempts together, so how the drop falls with their number is not known.
        ways = [f"{attempts:,} attempts on both sides"] if measured.rule.k is None else []
        return (
            f"a tolerance of {self.scale.amount(tolerance)} is below the smallest detectable drop "
            f"{self.scale.amount(detectable)}: use {' or '.join([*ways, f'{scenarios:,} scenarios'])}"
        )


def tolerated(rule: Rule, before: float, benchmark: str, noise: Mapping[str, float]) -> float:
    """Tolerated worsening, in the unit of the metric."""
    amount = rule.amount
    if rule.unit is Unit.POINTS:
        amount /= 100
    elif rule.unit is Unit.RELATIVE:
        amount = abs(before) * amount / 100
    return amount if rule.metric in words.AMOUNTS else max(amount, noise.get(benchmark, 0.0))
