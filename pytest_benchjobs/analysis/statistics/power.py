"""Power of a comparison: the smallest detectable drop, and the effort to detect a smaller one."""

from __future__ import annotations

import collections
import dataclasses
import functools
import itertools
import math
import operator
from collections.abc import Callable, Hashable, Mapping, Sequence
from statistics import NormalDist
from typing import NamedTuple

from .intervals import clustered_error, t_quantile
from .numbers import finite
from .paired import Worth, tables_of, value_of
from .permutations import Part, counted, variance

FEWEST = 5
"""Number of scenarios, or clusters, below which no smallest detectable drop is known."""
_WHOLE = frozenset((0.0, 1.0))
_UNSURE = 0.5  # deviations, over the root of scenarios: added because the variance is only estimated
_FEW_CLUSTERS = 3.5  # the same, over the number of clusters


@dataclasses.dataclass(frozen=True, slots=True)
class Aim:
    """A rule of which the power is asked for."""

    alpha: float = 0.05
    power: float = 0.8
    tolerance: float = 0.0
    """The observed drop has to be larger, too."""
    shown: bool = False
    """A drop beyond the tolerance has to be significant, not only a drop."""

    def __post_init__(self) -> None:
        if not (0 < self.alpha < 1 and 0 < self.power < 1):
            raise ValueError(f"alpha {self.alpha:g}, power {self.power:g}: both are between 0 and 1")


_OF_GATES = Aim()
_Shape = Callable[[float], tuple[float, float, float]]
"""Function: how much something fell -> drop of the mean, its variance over permutations, and the observed one."""


def detectable_drop(
    before: Sequence[Sequence[float]],
    now: Sequence[Sequence[float]],
    aim: Aim = _OF_GATES,
    *,
    scores: bool = True,
    worth: Worth | None = None,
    clusters: Sequence[Hashable] | None = None,
) -> float | None:
    """Minimum detectable drop of the mean: one that a rule finds with the chance that `aim` names.

    `before` and `now` hold the scores of each scenario's attempts, in the same order of scenarios. A drop of the mean
    may have many shapes, and the least favourable is assumed: some scenarios, taken at random, fall to 0, and the
    others stay as they are. That makes the drop itself vary, and the attempts of those scenarios too, by which the
    test judges what chance can do. Where values are no `scores`, all are assumed to shift by as much. With `worth`
    attempts are 0 or 1, and a side counts by it, as in `permutation`; then a drop of all pass rates may be the least
    favourable, as it makes them vary. With `clusters` the variance is that of their
    sums, and as a few of them tell it badly, Student's t takes the place of the normal distribution. How often such
    drops are found is simulated in docs/statistics.md.

    None: it cannot be known, as all attempts scored the same or there are fewer than five scenarios or
    clusters; or no drop would be found, not even to 0.

    Miller 2024 (arXiv:2411.00640), section 5; the general form is Cohen, Statistical Power Analysis, 1988, chapter 2.

    Raises ValueError: a score is not a finite number, or the sides differ in length.
    """
    if len(before) != len(now):
        raise ValueError(f"{len(before)} scenarios before and {len(now)} now: they are compared in pairs")
    pairs = [pair for pair in zip(before, now, strict=True) if pair[0] and pair[1]]
    finite(itertools.chain.from_iterable(itertools.chain.from_iterable(pairs)))
    units = len(pairs) if clusters is None else len(set(clusters))
    if units < FEWEST:
        return None
    suite = _Suite.of(pairs) if worth is None else _Suite.by_worth(pairs, worth)
    if suite.rest <= 0:
        return None
    if clusters is not None:
        suite = suite.together(clusters, [value_of(new, worth) - value_of(old, worth) for old, new in pairs])

    quantile = NormalDist().inv_cdf if clusters is None else functools.partial(t_quantile, freedom=units - 1)
    unsure = _UNSURE / math.sqrt(units)
    if clusters is not None:
        unsure = max(unsure, _FEW_CLUSTERS / units)
    critical, found = quantile(1 - aim.alpha), quantile(aim.power) + unsure

    def detected(shape: _Shape, most: float) -> float | None:
        """Return the least drop of a shape that is found, of those up to `most` of its measure."""

        def lacking(much: float) -> float:
            drop, dealt, seen = shape(much)
            edge = critical * math.sqrt(dealt if clusters is None else seen)
            beyond = aim.tolerance + critical * math.sqrt(seen) * aim.shown
            return max(edge, beyond) + found * math.sqrt(seen) + suite.step / 2 - drop

        low, high = 0.0, most
        if lacking(high) > 0:
            return None
        for _ in range(24):
            middle = (low + high) / 2
            low, high = (middle, high) if lacking(middle) > 0 else (low, middle)
        return shape(high)[0]

    if not scores:
        most = aim.tolerance + 10 * (critical + found) * math.sqrt(suite.noise / suite.n)
        return detected(suite.shifted, most)
    drops = [detected(suite.fallen, suite.mean)]
    if worth is not None:
        drops.append(detected(_Alike.of(pairs, worth, suite.noise / suite.rest).fallen, 1.0))
    return None if None in drops else max(drop for drop in drops if drop is not None)


@dataclasses.dataclass(frozen=True, slots=True)
class _Suite:
    """Variances of the difference at one scenario, on average."""

    n: int
    mean: float
    """Mean of the baseline."""
    rest: float
    """Over permutations, of a scenario that did not change."""
    lost: float
    """The same of one that fell to 0."""
    noise: float
    """Of what is observed at a scenario that did not change."""
    left: float
    """The same at one that fell to 0: the baseline's alone."""
    square: float
    """Mean of the squared values of scenarios."""
    both: float
    """Mean of 1 / (attempts on both sides - 1)."""
    step: float
    """Change of the mean by one attempt that passes or fails; 0 for scores in between."""

    @classmethod
    def of(cls, pairs: Sequence[tuple[Sequence[float], Sequence[float]]]) -> _Suite:
        n = len(pairs)
        first, second = zip(*pairs, strict=True)
        sides = [*first, *second]
        values = [scores[0] if len(scores) == 1 else math.fsum(scores) / len(scores) for scores in sides]
        olds, news = values[:n], values[n:]
        sizes = [*map(len, sides)]
        attempts = [*zip(sizes[:n], sizes[n:], strict=True)]
        many = collections.Counter(attempts).items()
        before, now, both, pooled = (
            math.fsum(itertools.chain.from_iterable([1 / of(*one)] * times for one, times in many)) / n
            for of in (lambda a, _: a, lambda _, b: b, lambda a, b: a + b - 1, lambda a, b: a + b)
        )
        freedom = sum(sizes) - 2 * n
        if freedom:
            within = math.fsum(_squares(scores) for scores in sides if len(scores) > 1) / freedom
        else:
            within = (
                math.fsum((new - old) ** 2 for old, new in zip(olds, news, strict=True)) / n / (before + now)
            )
        worth = [(old * a + new * b) / (a + b) for old, new, (a, b) in zip(olds, news, attempts, strict=True)]
        square = max(0.0, math.fsum(one * one for one in worth) / n - within * pooled)
        whole = _WHOLE.issuperset(itertools.chain.from_iterable(sides))
        step = (before + now) / n if whole else 0.0
        rest, left = within * (before + now), within * before
        lost = within * now + square * both
        return cls(n, math.fsum(olds) / n, rest, lost, rest, left, square, both, step)

    @classmethod
    def by_worth(cls, pairs: Sequence[tuple[Sequence[float], Sequence[float]]], worth: Worth) -> _Suite:
        """Return the variances of what attempts are worth together, counted over their permutations."""
        n = len(pairs)
        tables = tables_of(worth, itertools.chain.from_iterable(pairs))
        rest, lost, left, square, mean = [], [], [], [], []
        for old, new in pairs:
            values = tables[len(old)], tables[len(new)]
            rest.append(_variance(counted(old, new, values)))
            lost.append(_variance(counted(old, [0.0] * len(new), values)))
            left.append(rest[-1] * len(new) / (len(old) + len(new)))
            was, is_now = (of[round(math.fsum(some))] for of, some in zip(values, (old, new), strict=True))
            square.append(was * is_now)  # their errors are independent
            mean.append(was)
        was, dealt, fell, kept, squared = (math.fsum(one) / n for one in (mean, rest, lost, left, square))
        rises = [
            now - one for table in tables.values() for one, now in itertools.pairwise(table) if now > one
        ]
        return cls(n, was, dealt, fell, dealt, kept, squared, 1.0, min(rises, default=0.0) / n)

    def together(self, clusters: Sequence[Hashable], differences: Sequence[float]) -> _Suite:
        """Return the suite with scenarios that succeed and fail with those of their cluster."""
        error = clustered_error(differences, clusters) or 0.0
        noise = max(self.rest, self.n * error * error)
        return dataclasses.replace(self, noise=noise, left=self.left * noise / self.rest)

    def fallen(self, drop: float) -> tuple[float, float, float]:
        """Return the drop, its variance over permutations, and the observed one, if a share of scenarios fell to 0."""
        share = drop / self.mean if self.mean > drop else 1.0
        dealt = (1 - share) * self.rest + share * self.lost
        seen = (1 - share) * self.noise + share * self.left + share * (1 - share) * self.square
        return drop, dealt / self.n, seen / self.n

    def shifted(self, drop: float) -> tuple[float, float, float]:
        """Return the same if every value moves by as much."""
        return drop, (self.rest + drop * drop * self.both) / self.n, self.noise / self.n


class _Attempts(NamedTuple):
    """Scenarios with as many attempts, of which as many passed."""

    old: int
    new: int
    rate: float
    scenarios: int


@dataclasses.dataclass(frozen=True, slots=True)
class _Alike:
    """Scenarios whose pass rates all fall by as much, though what they are worth does not."""

    kinds: tuple[_Attempts, ...]
    n: int
    worth: Mapping[int, Sequence[float]]
    dealt: Mapping[tuple[int, int], Sequence[float]]
    """Attempts of both sides -> variance over permutations, for each number of passes."""
    design: float
    """By how much clusters make the observed variance larger."""

    @classmethod
    def of(
        cls, pairs: Sequence[tuple[Sequence[float], Sequence[float]]], worth: Worth, design: float
    ) -> _Alike:
        tables = tables_of(worth, itertools.chain.from_iterable(pairs))
        counts = collections.Counter(
            (len(old), len(new), round(math.fsum((*old, *new)))) for old, new in pairs
        )
        kinds = tuple(_Attempts(a, b, ones / (a + b), many) for (a, b, ones), many in counts.items())
        dealt = {
            (a, b): [
                _variance(counted(some[:a], some[a:], (tables[a], tables[b])))
                for ones in range(a + b + 1)
                if (some := [1.0] * ones + [0.0] * (a + b - ones))
            ]
            for a, b in {(one.old, one.new) for one in kinds}
        }
        return cls(kinds, len(pairs), tables, dealt, design)

    def fallen(self, by: float) -> tuple[float, float, float]:
        """Return the drop, its variance over permutations, and the observed one, if pass rates fall by so much."""
        drop = dealt = seen = 0.0
        for kind in self.kinds:
            # As estimated rates vary, variances at them are too small: at their mean by one of all attempts.
            scenarios = kind.scenarios / (1 - 1 / (kind.old + kind.new))
            sides = _binomial(kind.old, kind.rate), _binomial(kind.new, max(0.0, kind.rate - by))
            values = self.worth[kind.old], self.worth[kind.new]
            means = [math.fsum(map(operator.mul, *both)) for both in zip(sides, values, strict=True)]
            for chances, worth, mean in zip(sides, values, means, strict=True):
                seen += scenarios * math.fsum(
                    [chance * (one - mean) ** 2 for chance, one in zip(chances, worth, strict=True)]
                )
            drop += kind.scenarios * (means[0] - means[1])
            table = self.dealt[kind.old, kind.new]
            for ones, chance in enumerate(sides[0]):
                dealt += scenarios * chance * math.fsum(map(operator.mul, sides[1], table[ones:]))
        return drop / self.n, dealt / self.n**2, self.design * seen / self.n**2


@functools.lru_cache(maxsize=4096)
def _binomial(n: int, rate: float) -> list[float]:
    return [math.comb(n, some) * rate**some * (1 - rate) ** (n - some) for some in range(n + 1)]


def needed(drop: float, *, scenarios: int, attempts: int, detectable: float) -> tuple[int, int]:
    """Return (attempts, scenarios) needed to detect `drop`: more attempts at these scenarios, or more scenarios.

    `detectable` is the drop that these scenarios and attempts detect, by `detectable_drop`; it falls with the square
    root of either. Attempts are made on both sides.

    Raises ValueError: a drop is not a positive number.
    """
    finite([drop, detectable])
    if drop <= 0 or detectable <= 0:
        raise ValueError(f"drop {drop:g}, detectable {detectable:g}: both must be positive")
    times = (detectable / drop) ** 2
    return math.ceil(attempts * times - 1e-9), math.ceil(scenarios * times - 1e-9)


def _variance(part: Part | None) -> float:
    return 0.0 if part is None else variance(part)


def _squares(values: Sequence[float]) -> float:
    """Sum of squared deviations from the mean."""
    mean = math.fsum(values) / len(values)
    return math.fsum([(one - mean) ** 2 for one in values])
