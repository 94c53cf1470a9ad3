"""Measurement of a metric on pairs: each scenario's value on both sides, and tests of their difference."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
import operator
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Sequence
from typing import NamedTuple

from ...model.gate import Rule, Unit
from ...model.numbers import difference, mean
from ..attempts import pass_at_k, pass_hat_k
from ..pairing import Pair
from ..sides import Cell
from ..statistics.intervals import Interval
from ..statistics.inversion import Units, bounds
from ..statistics.paired import mcnemar, permutation
from ..statistics.power import Aim, detectable_drop
from . import words
from .words import AMOUNTS, UNITS

Values = Sequence[float]
Worth = Callable[[int, int], float]
"""Function: value of n attempts of which c passed."""
_ROUNDING = 1e-9
_LARGEST = 700.0  # whose exponential is still a number
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
    """Pairs without a value on a side."""
    unknown: int
    """Those of them that should have one: a result that is reused costs nothing."""
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

    @functools.cached_property
    def tested(self) -> Tested:
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

    def merit_units(self, without: Collection[str] = ()) -> Units | None:
        """Return the improvements as independent values; None if there are fewer than two.

        Scenarios `without` new results are left out, and with them the test of all.
        """
        merits, clusters, exact = self.merits(), self.clusters, self.tested.better
        if without:
            kept = [place for place, pair in enumerate(self.pairs) if pair.now.scenario not in without]
            merits = [merits[place] for place in kept]
            clusters = None if clusters is None else [clusters[place] for place in kept]
        if len(merits if clusters is None else set(clusters)) < 2:
            return None
        ends = None if self.amounts else (-1.0, 1.0)
        return Units.of(merits, clusters, ends=ends, exact=None if without else exact)

    @functools.cached_property
    def _worsening(self) -> Units | None:
        units = self.merit_units()
        return None if units is None else units.negated(self.tested.worse)

    def p_beyond(self, tolerance: float, before: float) -> float:
        """Return p of "it became worse by more than the tolerance"."""
        margin = self._margin(tolerance, before)
        if margin <= 0:
            return self.tested.worse
        # At least as large as that of any worsening at all.
        model = 1.0 if self._worsening is None else self._worsening.p_above(margin)
        return max(self.tested.worse, model)

    def p_within(self, tolerance: float, before: float, without: Collection[str]) -> float:
        """Return p of "it did not become worse by as much as the tolerance", of scenarios that have new results."""
        units = self.merit_units(without)
        return 1.0 if units is None else units.p_above(-self._margin(tolerance, before))

    def no_better(self, alpha: float, before: float) -> float | None:
        """Return the largest improvement, or the smallest worsening, that is not excluded: as a change."""
        return None if self._worsening is None else self._change(-self._worsening.low(alpha), before)

    def no_worse(self, alpha: float, before: float, without: Collection[str] = ()) -> float | None:
        """Return the largest worsening that is not excluded, as a change, by scenarios that have new results."""
        units = self.merit_units(without)
        return None if units is None else self._change(units.low(alpha), before)

    def _margin(self, tolerance: float, before: float) -> float:
        """Return the tolerance on the scale of merits."""
        if not self.ratios:
            return tolerance
        share = tolerance / before
        return math.log1p(share) if self.less else -math.log1p(-share) if share < 1 else math.inf

    def _change(self, merit: float, before: float) -> float:
        """Return the change of the metric that an improvement is."""
        signed = -merit if self.less else merit
        return before * math.expm1(min(signed, _LARGEST)) if self.ratios else signed

    def interval(self, level: float) -> Interval | None:
        """Return the two-sided confidence interval of the change, which agrees with the tests of both sides."""
        units = self.merit_units()
        if units is None:
            return None
        found, before = bounds(units, level=level, opposite=self.tested.worse), mean(self.before)
        ends = sorted((self._change(found.low, before), self._change(found.high, before)))
        return Interval(*ends)

    def detectable(self, comparisons: int, tolerance: float = 0.0, *, shown: bool = False) -> float | None:
        """Return the smallest worsening that is found with a chance of 80 %, at the level of that many comparisons."""
        if self.least_p >= self.rule.alpha / comparisons:
            return None  # not even a drop of all scenarios to 0
        aim = Aim(alpha=self.rule.alpha / comparisons, tolerance=tolerance, shown=shown)
        found = detectable_drop(
            *self.attempts, aim, scores=not self.amounts, worth=self.worth, clusters=self.clusters
        )
        if found is not None and found <= _ROUNDING * max(abs(mean(self.before)), abs(mean(self.now))):
            return None  # the scores differ by rounding errors only
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
    left_out = len(pairs) - len(paired)
    free = left_out and rule.metric in UNITS and sum(bool(pair.now.reused) for pair in pairs)
    clusters = clusters_of([pair.now for pair in paired])
    less = rule.metric in UNITS or any(_less_is_better(rule, pair.now) for pair in paired)
    unknown = max(0, left_out - free)
    return Measured(rule, paired, left_out, unknown, before, now, attempts, clusters, worth, less)


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
