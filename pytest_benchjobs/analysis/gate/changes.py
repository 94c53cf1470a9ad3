"""Scenarios by name: broken, fixed, suspects, and those that no longer always pass."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from ...model.base import trusted
from ...model.gate import Change
from ...model.known_failure import Known, KnownMode
from ...model.numbers import mean
from ..pairing import Pair
from ..statistics.multiple import benjamini_hochberg
from .groups import is_critical
from .scenario_rules import chances

_FALSE_SHARE = 0.1  # false discovery rate of suspects
_ROUNDING = 1e-9
_MODES = frozenset(KnownMode)
_CHANGE = set(Change.model_fields)


@dataclasses.dataclass(frozen=True, slots=True)
class Changes:
    """Lists of changed scenarios, the greatest change first."""

    broke: tuple[Change, ...]
    """Most attempts passed before, and fewer than half do now."""
    fixed: tuple[Change, ...]
    """The reverse of broken."""
    suspects: tuple[Change, ...]
    """Others whose score fell by more than one attempt explains, or that pass less often (false discovery rate 0.1)."""
    slipped: tuple[Change, ...]
    """Others that passed in all attempts before, and do not in all now."""
    known: tuple[Change, ...]
    """Known failures, including those in quarantine, which are in none of the other lists."""


def changes(pairs: Sequence[Pair]) -> Changes:
    """Classify each pair by itself."""
    broke: list[Change] = []
    fixed: list[Change] = []
    suspects: list[Change] = []
    slipped: list[Change] = []
    judged = [pair for pair in pairs if not pair.quarantined]
    alone = chances(judged)
    for pair, p, adjusted in zip(judged, alone, benjamini_hochberg(alone), strict=True):
        before, now = pair
        if before.scores == now.scores and before.passed == now.passed:
            continue  # as for nearly all pairs; their p is at least a half
        passed = 2 * before.passed > len(before.scores)
        passes = 2 * now.passed > len(now.scores)
        if passed != passes:
            (broke if passed else fixed).append(change_of(pair, p, adjusted))
        elif _suspicious(pair, adjusted):
            suspects.append(change_of(pair, p, adjusted))
        elif before.passed == len(before.scores) and now.passed < len(now.scores):
            slipped.append(change_of(pair, p, adjusted))
    known = [change_of(pair, None, None) for pair in pairs if pair.now.known in _MODES]
    return Changes(
        tuple(sorted(broke, key=_worst)),
        tuple(sorted(fixed, key=_best)),
        tuple(sorted(suspects, key=_worst)),
        tuple(sorted(slipped, key=_worst)),
        tuple(sorted(known, key=_worst)),
    )


def _suspicious(pair: Pair, adjusted: float) -> bool:
    if adjusted <= _FALSE_SHARE:
        return True
    fewest = min(len(pair.before.scores), len(pair.now.scores))
    # A single attempt explains each drop.
    return (mean(pair.before.scores) - mean(pair.now.scores)) * fewest > 1 + _ROUNDING


def change_of(pair: Pair, p: float | None, adjusted: float | None) -> Change:
    """Return the change of one scenario, with its p-value and the one adjusted for all scenarios looked at."""
    before, now = pair.before, pair.now
    return trusted(
        Change,
        {
            "benchmark": now.benchmark,
            "scenario": now.scenario,
            "agent": now.agent,
            "before": mean(before.scores),
            "now": mean(now.scores),
            "before_attempts": len(before.scores),
            "now_attempts": len(now.scores),
            "before_passed": before.passed,
            "now_passed": now.passed,
            "p_value": p,
            "adjusted": adjusted,
            "critical": is_critical(pair),
            "known": Known(mode=KnownMode(now.known), reason="") if now.known in _MODES else None,
            "fresh_attempts": None,
            "fresh_passed": None,
            "confirmed": None,
        },
        _CHANGE,
    )


def _worst(one: Change) -> tuple[float, float, str, str, str]:
    return one.change, one.p_value or 0.0, one.benchmark, one.scenario, one.agent


def _best(one: Change) -> tuple[float, str, str, str]:
    return -one.change, one.benchmark, one.scenario, one.agent
