"""What a metric makes of pairs: a value of each scenario on both sides, and how sure a difference between them is."""

from __future__ import annotations

import dataclasses
import functools
import math
import operator
from collections.abc import Callable, Hashable, Sequence
from typing import NamedTuple

from ...model.gate import Rule, Unit
from ..attempts import pass_at_k, pass_hat_k
from ..pairing import Pair
from ..sides import Cell
from ..statistics import (
    Interval,
    detectable_drop,
    fisher,
    holm,
    mcnemar,
    mean_interval,
    non_inferiority,
    sign_flip,
)
from .words import UNITS

Values = Sequence[float]
_ROUNDING = 1e-9
_PASS_OR_FAIL = frozenset((0.0, 1.0))


class Tested(NamedTuple):
    """P-values of both one-sided tests, and the name of the test."""

    worse: float
    """Of "it became worse": what a gate judges by."""
    better: float
    test: str


@dataclasses.dataclass(frozen=True, slots=True)
class Measured:
    """Values of scenarios; all lists are in the order of the pairs, which is that of scenarios."""

    rule: Rule
    pairs: Sequence[Pair]
    """Those that have a value on both sides."""
    left_out: int
    before: Values
    now: Values
    attempts: tuple[Sequence[Values], Sequence[Values]]
    """What the values are means of, before and now."""
    clusters: list[Hashable] | None
    """Which scenarios depend on each other; None when none do."""

    @property
    def spent(self) -> bool:
        """Whether less is better."""
        return self.rule.metric in UNITS

    @property
    def units(self) -> int:
        """How many independent differences there are."""
        return len(self.pairs) if self.clusters is None else len(set(self.clusters))

    def differences(self) -> list[float]:
        """Now minus before."""
        return [new - old for old, new in zip(self.before, self.now, strict=True)]

    def merits(self) -> list[float]:
        """How much better each scenario became. Of relative amounts of what is spent, on a scale of ratios."""
        if not self.spent:
            return self.differences()
        if self.ratios:
            return [math.log(old) - math.log(new) for old, new in zip(self.before, self.now, strict=True)]
        return [-one for one in self.differences()]

    @property
    def ratios(self) -> bool:
        """Whether ratios are compared: one long scenario must not decide alone whether all became 20 % slower."""
        return self.spent and self.rule.unit is Unit.RELATIVE and min(*self.before, *self.now, 1) > 0

    @property
    def binary(self) -> bool:
        """Whether all attempts are worth 0 or 1."""
        if self.rule.metric not in ("mean", "pass_rate"):
            return False
        return all(all(map(_PASS_OR_FAIL.issuperset, side)) for side in self.attempts)

    @property
    def single(self) -> bool:
        """Whether each scenario has one attempt on either side."""
        return all(set(map(len, side)) == {1} for side in self.attempts)

    def test(self) -> Tested:
        """Whether it became worse, or better, by the test that fits the values."""
        binary = self.binary
        if binary and 0.5**self.units > self.rule.alpha:
            # So few signs cannot tell; attempts can, where there are enough of them.
            before, now = self.attempts
            return Tested(_fisher(before, now), _fisher(now, before), "fisher")
        if binary and self.single and self.clusters is None:
            changes = self.differences()
            broke, fixed = changes.count(-1.0), changes.count(1.0)
            return Tested(mcnemar(broke, fixed), mcnemar(fixed, broke), "mcnemar")
        found = sign_flip(self.merits(), clusters=self.clusters)
        return Tested(found.p_value, found.rise, "sign-flip")

    def shown_within(self, tolerance: float, before: float) -> bool:
        """Whether it is shown, at the rule's level, that it became worse by less than the tolerance."""
        margin = math.log1p(tolerance / before) if self.ratios else tolerance
        return non_inferiority(self.merits(), margin, clusters=self.clusters) < self.rule.alpha

    def interval(self) -> Interval | None:
        """Of the mean difference."""
        found = mean_interval(self.differences(), level=self.rule.level, clusters=self.clusters)
        if found is None or self.spent:
            return found
        # Student knows nothing of scores, which end at 0 and 1.
        return dataclasses.replace(found, low=max(-1.0, found.low), high=min(1.0, found.high))

    def detectable(self, comparisons: int) -> float | None:
        """The smallest worsening that would be found four times of five, at the level of so many comparisons."""
        found = detectable_drop(*self.attempts, alpha=self.rule.alpha / comparisons)
        if found is not None and found <= _ROUNDING * max(mean(self.before), mean(self.now)):
            return None  # nothing varied but the last digits
        return found

    @property
    def typical_attempts(self) -> int:
        """Attempts that, made on both sides, would tell as much as those there are."""
        inverse = [1 / len(old) + 1 / len(new) for old, new in zip(*self.attempts, strict=True)]
        return max(1, round(2 * len(inverse) / math.fsum(inverse)))


def measure(rule: Rule, pairs: Sequence[Pair]) -> Measured:
    """The values of the rule's metric; a scenario that has none on a side is left out."""
    read = _reader(rule)
    kept: list[Pair] = []
    before: list[float] = []
    now: list[float] = []
    attempts: tuple[list[Values], list[Values]] = ([], [])
    for pair in pairs:
        old, new = read(pair.before), read(pair.now)
        if not old or not new:
            continue
        kept.append(pair)
        attempts[0].append(old)
        attempts[1].append(new)
        before.append(old[0] if len(old) == 1 else mean(old))
        now.append(new[0] if len(new) == 1 else mean(new))
    clusters = clusters_of([pair.now for pair in kept])
    return Measured(rule, kept, len(pairs) - len(kept), before, now, attempts, clusters)


def mean(values: Values) -> float:
    """Of at least one."""
    return values[0] if len(values) == 1 else math.fsum(values) / len(values)


def clusters_of(cells: Sequence[Cell]) -> list[Hashable] | None:
    """The cluster of each cell, one of its own where it names none; None when no two share one."""
    named = [cell.cluster for cell in cells if cell.cluster is not None]
    if len(set(named)) == len(named):
        return None
    return [(cell.scenario,) if cell.cluster is None else cell.cluster for cell in cells]


def _fisher(before: Sequence[Values], now: Sequence[Values]) -> float:
    found = [
        fisher(round(math.fsum(old)), len(old), round(math.fsum(new)), len(new))
        for old, new in zip(before, now, strict=True)
    ]
    return min(holm(found))


def passes(cell: Cell) -> Values:
    """1 for each attempt that passed, 0 for each that did not."""
    return [1.0] * cell.passed + [0.0] * (len(cell.scores) - cell.passed)


def _reader(rule: Rule) -> Callable[[Cell], Values]:
    """What gives the values of attempts; of pass@K and pass^K, the estimate of all attempts together."""
    if rule.k is not None:
        estimate = pass_at_k if rule.metric == "pass@K" else pass_hat_k
        return functools.partial(_estimated, estimate, rule.k)
    readers: dict[str, Callable[[Cell], Values]] = {
        "mean": operator.attrgetter("scores"),
        "pass_rate": passes,
        "cost": operator.attrgetter("costs"),
        "tokens": lambda cell: [float(one) for one in cell.tokens],
        "duration": operator.attrgetter("seconds"),
    }
    return readers[rule.metric]


def _estimated(estimate: Callable[[int, int, int], float | None], k: int, cell: Cell) -> Values:
    found = estimate(len(cell.scores), cell.passed, k)
    return () if found is None else (found,)
