"""Measurement of a metric on pairs: each scenario's value on both sides, and tests of their difference."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
import operator
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from typing import NamedTuple

from ...model.gate import Rule, Unit
from ...model.numbers import difference, mean
from ..attempts import pass_at_k, pass_hat_k
from ..pairing import Pair
from ..sides import Cell
from ..statistics import (
    Interval,
    clustered_error,
    detectable_drop,
    mcnemar,
    mean_interval,
    non_inferiority,
    permutation,
)
from . import words
from .words import AMOUNTS, UNITS

Values = Sequence[float]
Worth = Callable[[int, int], float]
"""Function: value of n attempts of which c passed."""
_ROUNDING = 1e-9
_PASS_OR_FAIL = frozenset((0.0, 1.0))


class Tested(NamedTuple):
    """P-values of both one-sided tests, and the name of the test."""

    worse: float
    """p of "it became worse", which a gate judges by."""
    better: float
    test: str


@dataclasses.dataclass(frozen=True)
class Measured:
    """Values of scenarios; all lists are in the order of the pairs."""

    rule: Rule
    pairs: Sequence[Pair]
    """Pairs with a value on both sides."""
    left_out: int
    before: Values
    now: Values
    attempts: tuple[Sequence[Values], Sequence[Values]]
    """Numbers the values are computed from, before and now: by the mean, or by `worth`."""
    clusters: list[Hashable] | None
    """Cluster of each scenario; None when all are independent."""
    worth: Worth | None
    """Estimator of pass@K and pass^K."""
    less: bool
    """True if less is better."""

    @property
    def amounts(self) -> bool:
        """True if the values are no scores: they have no bounds."""
        return self.rule.metric in AMOUNTS

    @property
    def units(self) -> int:
        """Number of independent differences."""
        return len(self.pairs) if self.clusters is None else len(set(self.clusters))

    @functools.cached_property
    def differences(self) -> list[float]:
        """Now minus before."""
        return [difference(old, new) for old, new in zip(self.before, self.now, strict=True)]

    def merits(self) -> list[float]:
        """Improvement of each scenario; of relative amounts, on a scale of ratios."""
        sign = -1 if self.less else 1
        if self.ratios:
            both = zip(self.before, self.now, strict=True)
            return [sign * (math.log(new) - math.log(old)) for old, new in both]
        return [sign * one for one in self.differences] if self.less else self.differences

    @property
    def ratios(self) -> bool:
        """True if ratios are compared, so that one long scenario does not decide that all became 20 % slower."""
        if not self.amounts or self.rule.unit is not Unit.RELATIVE:
            return False
        return all(min(values) > 0 for side in self.attempts for values in side)

    @property
    def binary(self) -> bool:
        """True if all attempts have a value of 0 or 1."""
        if self.rule.metric not in ("mean", "pass_rate"):
            return False
        return all(all(map(_PASS_OR_FAIL.issuperset, side)) for side in self.attempts)

    @functools.cached_property
    def single(self) -> bool:
        """True if each scenario has one attempt on either side."""
        return all(set(map(len, side)) == {1} for side in self.attempts)

    def test(self) -> Tested:
        """Test for a worsening and for an improvement, with the test that suits the values."""
        if self.clusters is None and self.single and self.binary:
            changes = self.differences
            broke, fixed = changes.count(-1.0), changes.count(1.0)
            return Tested(mcnemar(broke, fixed), mcnemar(fixed, broke), "mcnemar")
        before, now = map(self._merit, self.attempts) if self.amounts else self.attempts
        found = permutation(before, now, clusters=self.clusters, worth=self.worth, alpha=self.rule.alpha)
        return Tested(found.p_value, found.rise, "sign-flip" if self.single else "permutation")

    def _merit(self, side: Sequence[Values]) -> list[Values]:
        """Return amounts so that more is better; of ratios the logarithms."""
        sign = -1 if self.less else 1
        if self.ratios:
            return [[sign * math.log(one) for one in values] for values in side]
        return [[sign * one for one in values] for values in side]

    def shown_within(self, tolerance: float, before: float) -> bool:
        """Return whether the worsening is shown, at the rule's level, to be less than the tolerance."""
        margin = tolerance
        if self.ratios:
            share = tolerance / before
            margin = math.log1p(share) if self.less else -math.log1p(-share) if share < 1 else math.inf
        return non_inferiority(self.merits(), margin, clusters=self.clusters) < self.rule.alpha

    def interval(self) -> Interval | None:
        """Confidence interval of the mean difference."""
        found = mean_interval(self.differences, level=self.rule.level, clusters=self.clusters)
        if found is None or self.amounts:
            return found
        # Student's t ignores that scores end at 0 and 1.
        return dataclasses.replace(found, low=max(-1.0, found.low), high=min(1.0, found.high))

    def detectable(self, comparisons: int) -> float | None:
        """Return the smallest worsening found with a chance of 80 %, at the level of so many comparisons."""
        if self.least_p >= self.rule.alpha / comparisons:
            return None  # not even a drop of all scenarios to 0
        sides = self.attempts
        if self.worth is not None:
            sides = [[one] for one in self.before], [[one] for one in self.now]
        found = detectable_drop(*sides, alpha=self.rule.alpha / comparisons, scores=not self.amounts)
        if found is not None and self.clusters is not None:
            # Scenarios that succeed and fail together count as fewer.
            together, apart = (clustered_error(self.differences, of) for of in (self.clusters, None))
            found *= max(1.0, (together or 0.0) / apart) if apart else 1.0
            found = found if self.amounts or found <= mean(self.before) else None
        if found is not None and found <= _ROUNDING * max(abs(mean(self.before)), abs(mean(self.now))):
            return None  # nothing varied beyond rounding errors
        return found

    @property
    def varied(self) -> bool:
        """True if attempts at a scenario differ within a side; if there are single values, between the sides."""
        if self.single or self.worth is not None:
            listed = [[old, new] for old, new in zip(self.before, self.now, strict=True)]
        else:
            listed = [list(values) for side in self.attempts for values in side]
        return any(max(values) - min(values) > _ROUNDING * max(map(abs, values)) for values in listed)

    @functools.cached_property
    def least_p(self) -> float:
        """Return the smallest possible p: that of scenarios, or clusters, that all fell as far as they can."""
        if self.clusters is None:
            attempts = Counter(zip(*(map(len, side) for side in self.attempts), strict=True))
            ways: int = math.prod(math.comb(a + b, b) ** times for (a, b), times in attempts.items())
            return 1 / ways
        sizes: dict[Hashable, tuple[int, int]] = {}
        for cluster, old, new in zip(self.clusters, *self.attempts, strict=True):
            least = sizes.get(cluster, (len(old), len(new)))
            sizes[cluster] = min(least[0], len(old)), min(least[1], len(new))
        if 0.5 ** len(sizes) <= self.rule.alpha:
            return 0.5 ** len(sizes)
        return 1 / math.prod(math.comb(a + b, b) for a, b in sizes.values())

    @property
    def size(self) -> str:
        """`1 scenario of 3 attempts`, by the fewest attempts that a side of a scenario has."""
        what = words.count(self.units, "scenario" if self.clusters is None else "cluster")
        return f"{what} of {words.count(min(len(one) for side in self.attempts for one in side), 'attempt')}"

    def remedy(self, comparisons: int) -> str:
        """Advise how many scenarios or attempts can show a loss of everything, where these cannot."""
        alpha = self.rule.alpha / comparisons
        units, ways = self.units, 1 / self.least_p
        if self.clusters is not None:
            units, more, ways = 0, 2, 1.0
        else:
            more = min(math.comb(len(a) + len(b), len(b)) for a, b in zip(*self.attempts, strict=True))
        while 1 / ways >= alpha:
            ways *= more
            units += 1
        use = f"use {units} {'scenarios' if self.clusters is None else 'clusters'} or more"
        if self.worth is not None:
            return use
        attempts = next(n for n in itertools.count(1) if math.comb(2 * n, n) ** -self.units < alpha)
        return f"{use}, or {words.count(attempts, 'attempt')} or more on both sides"

    @property
    def typical_attempts(self) -> int:
        """Number of attempts on both sides that would tell as much as the actual ones."""
        inverse = [1 / len(old) + 1 / len(new) for old, new in zip(*self.attempts, strict=True)]
        return max(1, round(2 * len(inverse) / math.fsum(inverse)))


def measure(rule: Rule, pairs: Sequence[Pair]) -> Measured:
    """Measure the rule's metric; a scenario without a value on a side is left out."""
    read, worth = _reader(rule), _estimate(rule)
    least = rule.k or 1
    kept = [
        (pair, old, new)
        for pair in pairs
        if len(old := read(pair.before)) >= least <= len(new := read(pair.now))
    ]
    attempts = [old for _, old, _ in kept], [new for _, _, new in kept]
    if worth is None:
        before, now = (
            [values[0] if len(values) == 1 else mean(values) for values in side] for side in attempts
        )
    else:
        before, now = ([worth(len(values), round(math.fsum(values))) for values in side] for side in attempts)
    paired = [pair for pair, _, _ in kept]
    clusters = clusters_of([pair.now for pair in paired])
    less = rule.metric in UNITS or any(_less_is_better(rule, pair.now) for pair in paired)
    return Measured(rule, paired, len(pairs) - len(paired), before, now, attempts, clusters, worth, less)


def _reader(rule: Rule) -> Callable[[Cell], Values]:
    if rule.name is None:
        return _READERS[rule.metric]
    name = rule.name

    def read(cell: Cell) -> Values:
        found = cell.metric(name)
        return () if found is None else found.values

    return read


def _less_is_better(rule: Rule, cell: Cell) -> bool:
    found = None if rule.name is None else cell.metric(rule.name)
    return found is not None and found.direction == "lower"


def clusters_of(cells: Sequence[Cell]) -> list[Hashable] | None:
    """Return the cluster of each cell, its own where it names none; None when no two share one."""
    named = [cell.cluster for cell in cells if cell.cluster is not None]
    if len(set(named)) == len(named):
        return None
    return [(cell.scenario,) if cell.cluster is None else cell.cluster for cell in cells]


def passes(cell: Cell) -> Values:
    """Return 1 for each attempt that passed, 0 for each other."""
    return [1.0] * cell.passed + [0.0] * (len(cell.scores) - cell.passed)


def _estimate(rule: Rule) -> Worth | None:
    if rule.k is None:
        return None
    estimate, k = pass_at_k if rule.metric == "pass@K" else pass_hat_k, rule.k
    return lambda attempts, passed: estimate(attempts, passed, k) or 0.0


_READERS: dict[str, Callable[[Cell], Values]] = {
    "mean": operator.attrgetter("scores"),
    "pass_rate": passes,
    "pass@K": passes,
    "pass^K": passes,
    "cost": operator.attrgetter("costs"),
    "tokens": lambda cell: [float(one) for one in cell.tokens],
    "duration": operator.attrgetter("seconds"),
}
