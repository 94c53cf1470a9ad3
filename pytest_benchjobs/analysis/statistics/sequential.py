"""Stopping rule for attempts: the group-sequential design behind `--bench-until-decided`.

Attempts run in rounds, one of each scenario. After a round the scenarios are compared with the baseline, and the job
ends when one of these holds:

- *regressed*: p of the permutation test is at or below the boundary of this round, and the drop exceeds the tolerance.
  The boundaries share out alpha over the rounds, so that looking often does not find more by chance.
- *ok*, since nothing is to be expected: the chance that the last round would call it regressed, given what was seen,
  is below 5 % (predictive power). This is not binding: a job that continues nevertheless keeps alpha.
- certain: whatever scores the attempts to come have, the verdict of the last round is known.
- it was the last round.

What it costs and saves is measured in docs/statistics.md.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import Literal

from ...model.numbers import difference, mean
from .numbers import finite
from .paired import Values, permutation
from .permutations import dealt, variance

Verdict = Literal["regressed", "ok"]

SHAPE = -2.5
"""Shape of the alpha spending: between O'Brien-Fleming, which hardly stops early, and Pocock, which costs power."""
FUTILE = 0.05
"""Predictive power below which a job stops with `ok`."""
_NODES = 100  # of Simpson's rule, an even number: boundaries are right to four digits
_FAR = 8.0  # standard deviations beyond which the density counts as 0


@dataclasses.dataclass(frozen=True, slots=True)
class Boundary:
    """Boundary of one look."""

    information: float
    """Share of the last look's information, in (0, 1]."""
    z: float
    """Standard normal deviate to cross."""
    p_value: float
    """One-sided p of the deviate."""


@dataclasses.dataclass(frozen=True, slots=True)
class Look:
    """Result of a look after a round."""

    boundary_p: float
    """Boundary: regressed at this p-value or below."""
    stop: Verdict | None
    """The verdict, or None: run another round."""
    p_value: float
    reason: str
    """Reason why it stops or continues, in one clause."""


def look(
    before: Sequence[Values],
    now: Sequence[Values],
    *,
    round: int,  # noqa: A002 - the word of the design, and always given by name
    rounds: int,
    alpha: float = 0.05,
    tolerance: float = 0.0,
) -> Look:
    """Decide after `round` of at most `rounds` rounds.

    `before` and `now` hold the scores of each scenario's attempts, in the same order of scenarios: those of the
    baseline, and those so far. Boundaries follow from how many attempts the baseline has (the harmonic mean, where
    scenarios differ). No scenarios: ok, as nothing can be compared.

    A job that ended so is judged by `stop`, not by p against alpha: p may lie between the boundary and alpha.

    Each p is that of the permutation test of all attempts so far, so it is right whatever the looks before it showed;
    the boundaries take the looks together for normal. Boundaries: Lan and DeMets 1983 (see `boundaries`). Predictive
    power: D. J. Spiegelhalter, L. S. Freedman and P. R. Blackburn, Control. Clin. Trials 7, 1986. Certain ends are the
    deterministic curtailment of Alling, J. Am. Stat. Assoc. 58, 1963.

    Raises ValueError: a score is not within [0, 1], a scenario has no attempts on a side, the sides differ in length,
    alpha is not between 0 and 1, or not 1 <= round <= rounds.
    """
    for scores in (*before, *now):
        if not all(-1e-9 <= one <= 1 + 1e-9 for one in finite(scores)):
            raise ValueError("a score is within [0, 1]")
    if not 1 <= round <= rounds or not 0 < alpha < 1:
        raise ValueError(
            f"round {round} of {rounds}, alpha {alpha:g}: needs 1 <= round <= rounds and 0 < alpha < 1"
        )
    p_value = permutation(before, now).p_value
    plan = boundaries(rounds, alpha, SHAPE, _harmonic(before))
    here = plan[round - 1]

    def decided(stop: Verdict | None, reason: str) -> Look:
        return Look(here.p_value, stop, p_value, reason)

    drop = _drop(before, now)
    if p_value <= here.p_value and drop > tolerance:
        return decided("regressed", f"p = {p_value:.2g}, and {here.p_value:.2g} is enough in round {round}")
    if round == rounds:
        return decided("ok", "the last round, and no drop beyond what chance and the tolerance explain")
    lowest, highest = ([[*scores, *[end] * (rounds - round)] for scores in now] for end in (0.0, 1.0))
    laxest = max(one.p_value for one in plan[round:])
    if not _may_regress(before, lowest, laxest, tolerance):
        return decided("ok", "whatever the attempts to come give, it cannot be called regressed")
    if _may_regress(before, highest, plan[-1].p_value, tolerance):
        return decided("regressed", "whatever the attempts to come give, the last round will call it so")
    parts = [part for pair in zip(before, now, strict=True) if (part := dealt(*pair)) is not None]
    if not parts:
        return decided("ok", "no scenario differs from the baseline")
    chance = _predicted(math.fsum(map(variance, parts)) / len(now) ** 2, drop, here, plan[-1], tolerance)
    if chance < FUTILE:
        return decided("ok", f"the chance that further rounds show a drop is {chance:.1%}")
    return decided(None, f"undecided: the chance that further rounds show a drop is {chance:.0%}")


def _harmonic(before: Sequence[Values]) -> float | None:
    """Return the harmonic mean of the baseline's attempts per scenario."""
    inverse = [1 / len(scores) for scores in before]
    return len(inverse) / math.fsum(inverse) if inverse else None


def _drop(before: Sequence[Values], now: Sequence[Values]) -> float:
    """Return the mean before minus the mean now."""
    drops = [-difference(mean(old), mean(new)) for old, new in zip(before, now, strict=True)]
    return math.fsum(drops) / len(drops) if drops else 0.0


def _may_regress(before: Sequence[Values], now: Sequence[Values], boundary: float, tolerance: float) -> bool:
    """Return whether these scores would be called regressed. A lower score now never raises p, so two ends suffice."""
    return _drop(before, now) > tolerance and permutation(before, now).p_value <= boundary


def _predicted(variance: float, drop: float, here: Boundary, last: Boundary, tolerance: float) -> float:
    """Return the predictive power: the chance, given the data and no prior, that the last round finds a drop.

    The drop then is normal about the drop now, with the variance that the rounds to come take away.
    """
    final = variance * here.information
    needed = max(tolerance, last.z * math.sqrt(final))
    return NormalDist().cdf((drop - needed) / math.sqrt(variance - final))


def spending(information: float, alpha: float, shape: float) -> float:
    """Error to have spent at this share of the information, of `alpha` in all.

    I. K. Hwang, W. J. Shih and J. S. De Cani, Stat. Med. 9, 1990. A shape of 1 is close to the boundaries of Pocock
    (a constant p), -4 close to those of O'Brien and Fleming (nearly nothing at first), 0 spends evenly.
    """
    if shape == 0:
        return alpha * information
    return alpha * math.expm1(-shape * information) / math.expm1(-shape)


def information(rounds: int, baseline_attempts: float | None) -> list[float]:
    """Share of the information after each round, of that after the last.

    The variance of "mean now minus mean before" after round r is in proportion to 1/r + 1/b, for b attempts in the
    baseline, which do not change: the fewer they are, the less the later rounds add. None: as if they were without
    number, which gives boundaries that are stricter than they need to be, never laxer.
    """
    before = 0.0 if baseline_attempts is None else 1 / baseline_attempts
    return [(1 / rounds + before) / (1 / done + before) for done in range(1, rounds + 1)]


@functools.lru_cache(maxsize=64)
def boundaries(
    rounds: int, alpha: float, shape: float, baseline_attempts: float | None = None
) -> tuple[Boundary, ...]:
    """Boundary of each of `rounds` looks, one-sided, such that the chance to cross any of them by chance is `alpha`.

    K. K. G. Lan and D. L. DeMets, Biometrika 70, 1983, with the spending above; the chance to cross first at a look
    by the numerical integration of P. Armitage, C. K. McPherson and B. C. Rowe, J. R. Stat. Soc. A 132, 1969, as laid
    out by Jennison and Turnbull, Group Sequential Methods, 2000, chapter 19. Nothing else stops the test: a stop
    for futility only lowers the chance (the boundaries are "non-binding").
    """
    found: list[Boundary] = []
    # The process is a Brownian motion at the times `information`. Where it may be now, if it has not crossed yet, and
    # the weight of each place.
    places, weights = [0.0], [1.0]
    before = spent = 0.0
    for now in information(rounds, baseline_attempts):
        total = spending(now, alpha, shape)
        step = math.sqrt(now - before)
        edge = _edge(places, weights, step, total - spent)
        z = edge / math.sqrt(now)
        found.append(Boundary(now, z, _above(z)))
        places, weights = _moved(places, weights, step, -_FAR * math.sqrt(now), edge)
        before, spent = now, total
    return tuple(found)


def _moved(
    places: Sequence[float], weights: Sequence[float], step: float, low: float, high: float
) -> tuple[list[float], list[float]]:
    """Return places from `low` to `high` after a step, and their weights: density times those of Simpson's rule."""
    width = (high - low) / _NODES
    there = [low + node * width for node in range(_NODES + 1)]
    densities = [
        sum(
            weight * _density((place - origin) / step) for origin, weight in zip(places, weights, strict=True)
        )
        for place in there
    ]
    simpson = [1, *[4, 2] * (_NODES // 2 - 1), 4, 1]
    return there, [of * one * width / 3 / step for of, one in zip(densities, simpson, strict=True)]


def _edge(places: Sequence[float], weights: Sequence[float], step: float, share: float) -> float:
    """Return the point with this share above it after a step, by bisection."""
    low, high = -_FAR, _FAR
    while high - low > 1e-9:
        middle = (low + high) / 2
        above = sum(
            weight * _above((middle - origin) / step) for origin, weight in zip(places, weights, strict=True)
        )
        low, high = (middle, high) if above > share else (low, middle)
    return (low + high) / 2


def _density(z: float) -> float:
    return math.exp(-z * z / 2) / math.sqrt(2 * math.pi)


def _above(z: float) -> float:
    return math.erfc(z / math.sqrt(2)) / 2
