"""Power of a comparison: the smallest detectable drop, and the effort to detect a smaller one."""

from __future__ import annotations

import collections
import dataclasses
import itertools
import math
from collections.abc import Sequence
from statistics import NormalDist

from .numbers import finite

FEWEST = 5
"""Number of scenarios below which no smallest detectable drop is known."""
_WHOLE = frozenset((0.0, 1.0))
_UNSURE = 0.5  # deviations, over the root of scenarios: added because the variance is only estimated


def detectable_drop(
    before: Sequence[Sequence[float]],
    now: Sequence[Sequence[float]],
    *,
    alpha: float = 0.05,
    power: float = 0.8,
    scores: bool = True,
) -> float | None:
    """Minimum detectable drop of the mean: one that the permutation test at `alpha` finds with chance `power`.

    `before` and `now` hold the scores of each scenario's attempts, in the same order of scenarios; one without
    attempts on a side is not part of the comparison. A drop of the mean may have many shapes, and the least favourable
    is assumed: some scenarios, taken at random, fall to 0, and the others stay as they are. That makes the drop itself
    vary, and the attempts of those scenarios too, by which the test judges what chance can do. Where values are no
    `scores`, all are assumed to shift by as much. How often such drops are found is simulated in docs/statistics.md.

    None: it cannot be known, as nothing varied or there are fewer than five scenarios; or no drop would be found, not
    even to 0.

    Miller 2024 (arXiv:2411.00640), section 5; the general form is Cohen, Statistical Power Analysis, 1988, chapter 2.

    Raises:
        ValueError: a score is not a finite number, alpha or power is not between 0 and 1, or the sides differ in
            length.

    """
    if len(before) != len(now):
        raise ValueError(f"{len(before)} scenarios before and {len(now)} now: they are compared in pairs")
    if not (0 < alpha < 1 and 0 < power < 1):
        raise ValueError(f"alpha {alpha:g}, power {power:g}: both are between 0 and 1")
    pairs = [pair for pair in zip(before, now, strict=True) if pair[0] and pair[1]]
    finite(itertools.chain.from_iterable(itertools.chain.from_iterable(pairs)))
    if len(pairs) < FEWEST:
        return None
    suite = _Suite.of(pairs)
    if suite.within <= 0:
        return None
    quantile = NormalDist().inv_cdf
    critical, found = quantile(1 - alpha), quantile(power) + _UNSURE / math.sqrt(len(pairs))

    def lacking(drop: float) -> float:
        chance, spread = suite.fallen(drop) if scores else suite.shifted(drop)
        return critical * math.sqrt(chance) + found * math.sqrt(spread) + suite.step / 2 - drop

    low, high = 0.0, suite.mean if scores else 10 * (critical + found) * math.sqrt(suite.plain)
    if lacking(high) > 0:
        return None
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if lacking(middle) > 0 else (low, middle)
    return high


@dataclasses.dataclass(frozen=True, slots=True)
class _Suite:
    """Moments of all scenarios together, under no change."""

    n: int
    mean: float
    """Mean of the baseline."""
    within: float
    """Variance of attempts at one scenario."""
    square: float
    """Mean of the squared values of scenarios."""
    before: float
    """Mean of 1 / attempts, of the baseline; the next one is that of the job."""
    now: float
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
        square = math.fsum(one * one for one in worth) / n - within * pooled
        whole = _WHOLE.issuperset(itertools.chain.from_iterable(sides))
        step = (before + now) / n if whole else 0.0
        return cls(n, math.fsum(olds) / n, within, max(0.0, square), before, now, both, step)

    @property
    def plain(self) -> float:
        """Variance of the difference of means under no change."""
        return self.within * (self.before + self.now) / self.n

    def fallen(self, drop: float) -> tuple[float, float]:
        """Return the variance over permutations and that of the observed drop, if a share of scenarios fell to 0."""
        share = drop / self.mean if self.mean > drop else 1.0
        rest = (1 - share) * self.within * (self.before + self.now)
        deals = rest + share * (self.within * self.now + self.square * self.both)
        seen = rest + share * self.within * self.before + share * (1 - share) * self.square
        return deals / self.n, seen / self.n

    def shifted(self, drop: float) -> tuple[float, float]:
        """Return the same variances if every value moves by as much."""
        return self.plain + drop * drop * self.both / self.n, self.plain


def needed(drop: float, *, scenarios: int, attempts: int, detectable: float) -> tuple[int, int]:
    """Return (attempts, scenarios) needed to detect `drop`: more attempts at these scenarios, or more scenarios.

    `detectable` is the drop that these scenarios and attempts detect, by `detectable_drop`; it falls with the square
    root of either. Attempts are made on both sides.

    Raises:
        ValueError: a drop is not a positive number.

    """
    finite([drop, detectable])
    if drop <= 0 or detectable <= 0:
        raise ValueError(f"drop {drop:g}, detectable {detectable:g}: both must be positive")
    times = (detectable / drop) ** 2
    return math.ceil(attempts * times - 1e-9), math.ceil(scenarios * times - 1e-9)


def _squares(values: Sequence[float]) -> float:
    """Sum of squared deviations from the mean."""
    mean = math.fsum(values) / len(values)
    return math.fsum([(one - mean) ** 2 for one in values])
