"""Rules about the mean over scenarios: a drop beyond the tolerance that chance does not explain."""

from __future__ import annotations

import dataclasses
import functools
import shlex
from collections.abc import Mapping, Sequence

from ...model.gate import SIDE_A, GateConfig, GatePolicy, GateVerdict, RoundReport, Rule, RuleReport, Unit
from ...model.numbers import difference, mean
from ..statistics.power import FEWEST, needed
from . import words
from .family import Found, Tested
from .groups import Group, nothing, select
from .measure import Measured, measure

_REMARKABLE = 0.2  # p below which a scenario that fell far needs attention, however few its attempts
_FAR = 0.5  # of a score
_ROUNDING = 1e-9  # a drop from 0.6 to 0.55 is 5 pp, whatever binary fractions make of it


def compare(
    rule: Rule, groups: Sequence[Group], config: GateConfig, rounds: Sequence[RoundReport] = ()
) -> list[Found]:
    """Measure one rule in each group; verdicts follow when all p-values of the gate are known.

    `rounds` are the last looks of a job in rounds, whose boundaries take the place of those p-values.
    """
    chosen = select(rule, groups)
    if not chosen:
        return [nothing(rule, groups)]
    found: list[Found] = []
    for group in chosen:
        if group.baseline_agent is None:
            found.append(new(rule, group, config))
            continue
        measured = measure(rule, group.pairs)
        if not measured.pairs:
            found.append(group.report(rule, GateVerdict.INVALID, _nothing_to_compare(measured)))
        elif (unseen := _unseen(group, measured, config.max_error_rate)) is not None:
            found.append(group.report(rule, GateVerdict.INVALID, unseen, scenarios=len(measured.pairs)))
        else:
            found.append(_tested(group, measured, config, _last(rule, group, rounds)))
    return found


def _unseen(group: Group, measured: Measured, most: float) -> str | None:
    """Return why too much is unknown, as for errors: what is left may not be representative. None if it is not."""
    listed = {cell.scenario for cell in group.cells if cell.scores}
    errors = [cell for cell in group.missing if cell.errors and not cell.scores and cell.scenario in listed]
    unseen, total = measured.unknown + len(errors), len(measured.pairs) + measured.left_out + len(errors)
    if unseen <= most * total + _ROUNDING:
        return None
    rule = measured.rule
    needs = "is known" if rule.k is None else f"has {words.count(rule.k, 'attempt')}"
    return (
        f"{words.metric_of(rule)} {needs} on both sides of only {len(measured.pairs):,} of "
        f"{words.count(total, 'scenario')}; at most {words.percent(most)} may be left out"
    )


def _last(rule: Rule, group: Group, rounds: Sequence[RoundReport]) -> RoundReport | None:
    """Return the last look at a rule in a group; None without any that had something to compare."""
    of = (rule.text, group.benchmark, group.agent)
    looks = [one for one in rounds if (one.rule, one.benchmark, one.agent) == of and one.boundary > 0]
    return looks[-1] if looks else None


def _tested(group: Group, measured: Measured, config: GateConfig, last: RoundReport | None) -> Tested:
    judged = functools.partial(_Judged, group, measured, config, last)
    return Tested(
        measured.rule,
        judged(1.0, 1).measured_p,
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
    config: GateConfig
    last: RoundReport | None
    adjusted: float
    """p, adjusted for the comparisons of the gate."""
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
        """Smallest worsening that the rule finds with a chance of 80 %; None under `point`, which tests nothing."""
        policy = self.config.policy
        if policy is GatePolicy.POINT:
            return None
        comparisons = self.questions * self.comparisons
        return self.measured.detectable(comparisons, self.tolerance, shown=policy is GatePolicy.SHOWN)

    @functools.cached_property
    def measured_p(self) -> float:
        """P before it is adjusted: of any worsening, or of one beyond the tolerance where that has to be shown."""
        if self.config.policy is GatePolicy.SHOWN:
            return self.measured.p_beyond(self.tolerance, self.before)
        return self.measured.tested.worse

    @property
    def p(self) -> float:
        """P of the test that decides, for all tests of the gate. In rounds their boundary is adjusted instead."""
        if self.within:
            p = self.measured.p_within(self.tolerance, self.before, self.group.stale)
        else:
            p = self.adjusted if self.last is None else self.measured_p
        return min(1.0, self.questions * p)

    @property
    def questions(self) -> int:
        """Number of tests that share alpha: `strict` looks for a worsening, and for one within the tolerance."""
        return 2 if self.config.policy is GatePolicy.STRICT else 1

    @property
    def alpha(self) -> float:
        """Level for the measured p: it is below this one where the adjusted p is below that of the rule."""
        if self.last is not None:
            return max(self.last.boundary, self.p if self.last.stop is GateVerdict.REGRESSED else 0.0)
        alpha = self.measured.rule.alpha / self.questions
        return (
            alpha * self.measured_p / self.adjusted if 0 < self.adjusted < alpha else alpha / self.comparisons
        )

    @functools.cached_property
    def best(self) -> float | None:
        """Best change that is not excluded by the test for a worsening."""
        return self.measured.no_better(self.alpha, self.before)

    @functools.cached_property
    def worst(self) -> float | None:
        """Worst change that is not excluded; None where no test looks for it."""
        if self.questions == 1:
            return None
        # Not adjusted: all rules have to be within their tolerance, so that none is found by chance.
        alpha = self.measured.rule.alpha / self.questions
        return self.measured.no_worse(alpha, self.before, self.group.stale)

    @property
    def within(self) -> bool:
        """True if the change has to be shown to be within the tolerance."""
        return self.config.policy is GatePolicy.STRICT and not self.beyond

    @property
    def beyond(self) -> bool:
        """True if the observed worsening is more than is tolerated."""
        return self.worse > self.tolerance + _ROUNDING * max(1.0, self.tolerance)

    @property
    def shown(self) -> bool:
        """True if a worsening of more than is tolerated is shown, at the level of the comparison."""
        return self.best is not None and (self.best if self.measured.less else -self.best) > self.tolerance

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

    @functools.cached_property
    def verdict(self) -> GateVerdict:
        """Verdict under the policy."""
        if self.config.policy is GatePolicy.POINT:
            return GateVerdict.REGRESSED if self.beyond else GateVerdict.OK
        if self.within:
            return GateVerdict.OK if self.p < self.measured.rule.alpha else GateVerdict.INCONCLUSIVE
        if self.last is not None and self.last.stop is GateVerdict.REGRESSED:
            return GateVerdict.REGRESSED
        if not self.beyond:
            return GateVerdict.OK
        proven = self.last is None and self.p < self.measured.rule.alpha
        return GateVerdict.REGRESSED if proven else GateVerdict.INCONCLUSIVE

    def report(self) -> RuleReport:
        measured, verdict = self.measured, self.verdict
        advice = None
        if verdict is not GateVerdict.REGRESSED:
            steps = (self._advice(), self._next_step(verdict))
            advice = "; ".join(step for step in steps if step is not None) or None
        low, high = (self.best, self.worst) if measured.less else (self.worst, self.best)
        return self.group.report(
            measured.rule,
            verdict,
            self._why(verdict),
            before=self.before,
            now=self.now,
            change=self.change,
            low=low,
            high=high,
            tolerance=self.tolerance,
            p_value=self.p,
            test=measured.tested.test if self.last is None else f"{measured.tested.test}, in rounds",
            detectable=self.detectable,
            scenarios=len(measured.pairs),
            clusters=None if measured.clusters is None else measured.units,
            advice=advice,
        )

    def _why(self, verdict: GateVerdict) -> str:
        measured, scale, change = self.measured, self.scale, self.change
        rule = measured.rule
        fine = 0 < abs(change) < 0.01
        was, is_now = (words.value(rule.metric, one, fine=fine) for one in (self.before, self.now))
        parts = [scale.signed(change)]
        level = words.percent(rule.level)
        if self.best is not None and self.worst is not None:
            parts.append(f"{level} interval {scale.between(*sorted((self.best, self.worst)))}")
        elif self.best is not None and (
            measured.amounts or self.best < 1 - self.before
        ):  # no score can rise further
            parts.append(f"at {level} no better than {scale.signed(self.best)}")
        parts.append(words.p(self.p))
        text = f"{words.metric_of(rule)} {was} -> {is_now} ({', '.join(parts)})"
        if (judged := self._judged(verdict)) is not None:
            text += f"; {judged}"
        if self.measured.left_out:
            reason = "unknown on a side" if rule.k is None else f"fewer than {words.count(rule.k, 'attempt')}"
            text += f"; {words.count(self.measured.left_out, 'scenario')} left out, {reason}"
        if (seen := self._could_see(verdict)) is not None:
            text += f"; {seen}"
        if self.last is not None:
            text += f"; round {self.last.round} of {self.last.rounds}: {self.last.why}"
        return text

    def _judged(self, verdict: GateVerdict) -> str | None:
        """Phrase for how the change compares with the tolerance; None where there is nothing to say."""
        amount = self.scale.amount(self.tolerance)
        if self.within:
            stale = words.count(len(self.group.stale), "result")
            text = f"{'' if verdict is GateVerdict.OK else 'not '}shown to be within {amount}"
            return f"{text} ({stale} reused from the baseline show nothing)" if self.group.stale else text
        if not self.beyond or self.config.policy is GatePolicy.POINT:
            return None
        if verdict is GateVerdict.REGRESSED:
            if not self.tolerance:
                return None
            return f"more than {amount}" + (
                "" if self.shown else " by its estimate, though only a drop is shown"
            )
        if self.config.policy is GatePolicy.SHOWN:
            return f"more than {amount} by its estimate, which is not shown"
        return f"{f'more than {amount}, but ' if self.tolerance else ''}chance may explain it"

    def _could_see(self, verdict: GateVerdict) -> str | None:
        """Phrase for what would be detected; None where the drop was, and nothing more is known."""
        change = "rise" if self.measured.less else "drop"
        if self.config.policy is GatePolicy.POINT:
            return None
        if self.detectable is None:
            return None if verdict is GateVerdict.REGRESSED else self._undetected(change)
        return f"smallest detectable {change} {self.scale.amount(self.detectable)}"

    def _undetected(self, change: str) -> str:
        measured = self.measured
        if not self._enough:
            return f"no {change} can be shown: too few scenarios or attempts ({measured.size})"
        if not measured.varied:
            return f"smallest detectable {change} unknown: all attempts scored the same"
        if measured.units < FEWEST:
            what = "scenarios" if measured.clusters is None else "clusters"
            return f"smallest detectable {change} unknown: fewer than {FEWEST} {what}"
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
        by_chance = measured.detectable(self.questions * self.comparisons) if tolerance else None
        if by_chance is None or tolerance >= by_chance or detectable != by_chance:
            return None  # the tolerance is what limits it
        attempts, scenarios = needed(
            tolerance,
            scenarios=len(measured.pairs),
            attempts=measured.typical_attempts,
            detectable=by_chance,
        )
        # pass@K is estimated from all attempts together, so how the drop falls with their number is not known.
        ways = [f"{attempts:,} attempts on both sides"] if measured.rule.k is None else []
        return (
            f"a tolerance of {self.scale.amount(tolerance)} is below the smallest detectable drop "
            f"{self.scale.amount(by_chance)}: use {' or '.join([*ways, f'{scenarios:,} scenarios'])}"
        )


def tolerated(rule: Rule, before: float, benchmark: str, noise: Mapping[str, float]) -> float:
    """Tolerated worsening, in the unit of the metric."""
    amount = rule.amount
    if rule.unit is Unit.POINTS:
        amount /= 100
    elif rule.unit is Unit.RELATIVE:
        amount = abs(before) * amount / 100
    return amount if rule.metric in words.AMOUNTS else max(amount, noise.get(benchmark, 0.0))
