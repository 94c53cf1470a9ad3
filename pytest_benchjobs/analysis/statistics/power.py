"""What a comparison can see: the smallest drop it would find, and what it would take to find a smaller one."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from .numbers import finite
from .rates import normal_quantile


def detectable_drop(
    before: Sequence[Sequence[float]],
    now: Sequence[Sequence[float]],
    *,
    alpha: float = 0.05,
    power: float = 0.8,
) -> float | None:
    """Minimum detectable drop of the mean score: one that the one-sided test at `alpha` finds with chance `power`.

    `before` and `now` hold the scores of each scenario's attempts, in the same order of scenarios; one without
    attempts on a side is not part of the comparison. The drop is (z_alpha + z_power) times the standard error, which
    comes from how much attempts of one scenario vary on each side; where a side has no scenario with two attempts, from
    how much the differences vary.

    None: it cannot be known. There are fewer scenarios than the sign-flip test needs to reach alpha (five for 0.05),
    or nothing varied, which happens to any benchmark that is small enough.

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
    sides = [[pair[side] for pair in pairs] for side in (0, 1)]
    for side in sides:
        finite(itertools.chain.from_iterable(side))
    n = len(pairs)
    if n < 2 or 0.5**n > alpha:
        return None
    was, is_now = map(_within, sides)
    if was is not None and is_now is not None:
        variance = math.fsum(was / len(old) + is_now / len(new) for old, new in pairs) / n**2
    else:
        differences = [math.fsum(new) / len(new) - math.fsum(old) / len(old) for old, new in pairs]
        variance = _squares(differences) / (n - 1) / n
    if variance == 0:
        return None
    return (normal_quantile(1 - alpha) + normal_quantile(power)) * math.sqrt(variance)


def needed(drop: float, *, scenarios: int, attempts: int, detectable: float) -> tuple[int, int]:
    """What it takes to detect `drop`, (attempts, scenarios): so many attempts with as many scenarios, or the reverse.

    `detectable` is what these scenarios and attempts detect, by `detectable_drop`; it falls with the square root of
    either. Attempts are of both sides.

    Raises:
        ValueError: a drop is not a positive number.

    """
    finite([drop, detectable])
    if drop <= 0 or detectable <= 0:
        raise ValueError(f"drop {drop:g}, detectable {detectable:g}: both must be positive")
    times = (detectable / drop) ** 2
    return math.ceil(attempts * times - 1e-9), math.ceil(scenarios * times - 1e-9)


def _within(scenarios: Sequence[Sequence[float]]) -> float | None:
    """Variance of attempts within scenarios, pooled; None when none has two."""
    freedom = sum(map(len, scenarios)) - len(scenarios)
    return (
        math.fsum(_squares(scores) for scores in scenarios if len(scores) > 1) / freedom if freedom else None
    )


def _squares(values: Sequence[float]) -> float:
    """Sum of squared deviations from the mean."""
    mean = math.fsum(values) / len(values)
    return math.fsum([(one - mean) ** 2 for one in values])
