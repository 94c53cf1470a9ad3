"""When to stop running attempts: the group-sequential design behind `--bench-until-decided`.

Attempts run in rounds, one of each scenario. After a round the scenarios are compared with the baseline, and the job
ends when one of these holds:

- *regressed*: p of the sign-flip test is at or below the boundary of this round, and the drop exceeds the tolerance.
  The boundaries share out alpha over the rounds, so that looking often does not find more by chance.
- *ok*, since nothing is to be expected: the chance that the last round would call it regressed, given what was seen,
  is below 5 % (predictive power). This is not binding: whoever goes on all the same keeps alpha.
- certain: whatever scores the attempts to come have, the verdict of the last round is known.
- it was the last round.

What it costs and saves is measured in docs/statistics.md.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Literal

from .boundaries import Boundary, boundaries
from .numbers import finite
from .paired import sign_flip
from .rates import normal_cdf

Verdict = Literal["regressed", "ok"]

SHAPE = -1.5
"""Of the spending of alpha: between O'Brien-Fleming, which hardly stops early, and Pocock, which costs power."""
FUTILE = 0.05
"""Chance of a drop being found below which no further round is worth its attempts."""


@dataclasses.dataclass(frozen=True, slots=True)
class Look:
    """What a round showed."""

    round: int
    rounds: int
    spent: float
    """Chance of a false alarm up to here, of alpha in all."""
    boundary_p: float
    """At this p-value or below it is called regressed."""
    stop: Verdict | None
    """The verdict, or None: run another round."""
    p_value: float
    reason: str
    """One clause for people: why it stopped, or goes on."""


def look(
    differences: Sequence[float],
    *,
    round: int,  # noqa: A002 - the word of the design, and always given by name
    rounds: int,
    alpha: float = 0.05,
    tolerance: float = 0.0,
    seed: int = 0,
    baseline: Sequence[float] | None = None,
    baseline_attempts: float | None = None,
) -> Look:
    """Decide after `round` of at most `rounds` rounds.

    `differences` are mean score now minus mean score in the baseline, of each scenario over the attempts so far.
    `baseline` holds the latter, where known: it tells how far a scenario can still fall. `baseline_attempts` is how
    many attempts of a scenario the baseline has (their harmonic mean, where they differ); without it the boundaries
    are stricter than they need to be. No differences: ok, as nothing can be compared.

    A job that ended so is judged by `stop`, not by p against alpha: p may lie between the boundary and alpha.

    Boundaries: Lan and DeMets 1983 (see `boundaries`). Predictive power: D. J. Spiegelhalter, L. S. Freedman and P. R.
    Blackburn, Control. Clin. Trials 7, 1986. Certain ends are the deterministic curtailment of Alling, J. Am. Stat.
    Assoc. 58, 1963.

    Raises:
        ValueError: a difference is not within [-1, 1], `baseline` has another length, alpha is not between 0 and 1,
            there are no attempts in the baseline, or not 1 <= round <= rounds.

    """
    seen = finite(differences)
    was = None if baseline is None else finite(baseline)
    if any(abs(one) > 1 + 1e-9 for one in seen):
        raise ValueError("a difference of scores is within [-1, 1]")
    if not 1 <= round <= rounds or not 0 < alpha < 1:
        raise ValueError(
            f"round {round} of {rounds}, alpha {alpha:g}: needs 1 <= round <= rounds and 0 < alpha < 1"
        )
    if was is not None and len(was) != len(seen):
        raise ValueError(f"{len(was)} scenarios of the baseline and {len(seen)} differences: one for each")
    if baseline_attempts is not None and not baseline_attempts > 0:
        raise ValueError(f"{baseline_attempts:g} attempts in the baseline: needs some")
    plan = boundaries(rounds, alpha, SHAPE, baseline_attempts)
    here = plan[round - 1]
    p_value = sign_flip(seen, seed=seed).p_value

    def decided(stop: Verdict | None, reason: str) -> Look:
        return Look(round, rounds, here.spent, here.p_value, stop, p_value, reason)

    drop = -math.fsum(seen) / len(seen) if seen else 0.0
    if p_value <= here.p_value and drop > tolerance:
        return decided("regressed", f"p = {p_value:.2g}, and {here.p_value:.2g} is enough in round {round}")
    if round == rounds:
        return decided("ok", "the last round, and no drop beyond what chance and the tolerance explain")
    lowest, highest = _ends(seen, was, round / rounds)
    laxest = max(one.p_value for one in plan[round:])
    if not _may_regress(lowest, laxest, tolerance, seed):
        return decided("ok", "whatever the attempts to come give, it cannot be called regressed")
    if _may_regress(highest, plan[-1].p_value, tolerance, seed):
        return decided("regressed", "whatever the attempts to come give, the last round will call it so")
    if not any(seen):
        return decided("ok", "no scenario differs from the baseline")
    chance = _predicted(seen, drop, here, plan[-1], tolerance)
    if chance < FUTILE:
        return decided("ok", f"the chance that further rounds show a drop is {chance:.1%}")
    return decided(None, f"undecided: the chance that further rounds show a drop is {chance:.0%}")


def _ends(
    seen: Sequence[float], baseline: Sequence[float] | None, done: float
) -> tuple[list[float], list[float]]:
    """The differences after the last round, if all attempts to come score 0, and if all score 1.

    Without the baseline they are as far apart as any that allows the differences seen.
    """
    if baseline is None:
        most = [min(1.0, 1 - one) for one in seen]
        least = [max(0.0, -one) for one in seen]
    else:
        most = least = list(baseline)
    to_come = 1 - done
    lowest = [done * one - to_come * was for one, was in zip(seen, most, strict=True)]
    highest = [done * one + to_come * (1 - was) for one, was in zip(seen, least, strict=True)]
    return lowest, highest


def _may_regress(differences: Sequence[float], boundary: float, tolerance: float, seed: int) -> bool:
    """Whether these would be called regressed. Lower differences never have a higher p, so the ends tell all."""
    total = math.fsum(differences)
    if not differences or -total / len(differences) <= tolerance:
        return False
    squares = math.fsum(one * one for one in differences)
    # W. Hoeffding's bound of a sum of random signs spares the count where it is plain.
    if math.exp(-(total**2) / (2 * squares)) <= boundary:
        return True
    return sign_flip(differences, seed=seed).p_value <= boundary


def _predicted(seen: Sequence[float], drop: float, here: Boundary, last: Boundary, tolerance: float) -> float:
    """Predictive power: the chance, given what was seen and no prior, that the last round finds a drop.

    The drop then is normal about the drop now, with the variance that the rounds to come take away.
    """
    variance = math.fsum(one * one for one in seen) / len(seen) ** 2
    final = variance * here.information
    needed = max(tolerance, last.z * math.sqrt(final))
    return normal_cdf((drop - needed) / math.sqrt(variance - final))
