"""How much error each look of a group-sequential test may spend, and the p-value at which it stops."""

from __future__ import annotations

import dataclasses
import functools
import math

_NODES = 100  # of Simpson's rule, an even number: boundaries are right to four digits
_FAR = 8.0  # standard deviations beyond which nothing is


@dataclasses.dataclass(frozen=True, slots=True)
class Boundary:
    """Of one look."""

    information: float
    """Of that of the last look, in (0, 1]."""
    spent: float
    """Chance of a false alarm at this look or an earlier one."""
    z: float
    """Standard normal deviate to reach."""
    p_value: float
    """The one-sided p of it."""


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
    # The process is a Brownian motion at the times `information`: where it may be now, and how likely.
    places, likely = [0.0], [1.0]
    before = spent = 0.0
    for now in information(rounds, baseline_attempts):
        total = spending(now, alpha, shape)
        step = math.sqrt(now - before)
        edge = _edge(places, likely, step, total - spent)
        z = edge / math.sqrt(now)
        found.append(Boundary(now, total, z, _above(z)))
        low = -_FAR * math.sqrt(now)
        width = (edge - low) / _NODES
        next_places = [low + place * width for place in range(_NODES + 1)]
        likely = [
            _simpson(node)
            * width
            / 3
            * sum(
                weight * _density((place - origin) / step)
                for origin, weight in zip(places, likely, strict=True)
            )
            / step
            for node, place in enumerate(next_places)
        ]
        places, before, spent = next_places, now, total
    return tuple(found)


def _edge(places: list[float], likely: list[float], step: float, share: float) -> float:
    """Where so much lies above after a step, by bisection."""
    low, high = -_FAR, _FAR
    while high - low > 1e-9:
        middle = (low + high) / 2
        above = sum(
            weight * _above((middle - origin) / step) for origin, weight in zip(places, likely, strict=True)
        )
        low, high = (middle, high) if above > share else (low, middle)
    return (low + high) / 2


def _simpson(node: int) -> int:
    return 1 if node in (0, _NODES) else 4 if node % 2 else 2


def _density(z: float) -> float:
    return math.exp(-z * z / 2) / math.sqrt(2 * math.pi)


def _above(z: float) -> float:
    return math.erfc(z / math.sqrt(2)) / 2
