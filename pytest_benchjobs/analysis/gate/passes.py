"""Passes that do not follow from scores: an agent that crashed after the right answer has a score, and did not pass."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from ...model.gate import Rule
from ..pairing import Pair
from . import words
from .groups import Group, select

_LOOK_AT_PASSES = ("pass_rate", "pass@K", "pass^K", "scenario")


@dataclasses.dataclass(frozen=True, slots=True)
class _Contradiction:
    group: Group
    before: int
    """Attempts of the baseline that failed although their score reached the threshold."""
    now: int

    @property
    def told(self) -> str:
        """Part of a note: how many attempts there are on either side."""
        sides = f"{self.before} in the baseline and {self.now} now"
        return (
            f"{words.place(self.group.benchmark, self.group.agent)}{sides} failed although their score reached the "
            "threshold (a crash, a timeout or a limit)"
        )


def with_passes(rules: Sequence[Rule], groups: Sequence[Group]) -> tuple[list[Rule], list[str]]:
    """Return the rules with `pass_rate` beside the default rule where passes do not follow from scores, and notes.

    Rules that the user gave stay as they are; a note tells if none of them looks at passes. Whether a group is
    concerned depends on the attempts of both sides together, so p remains valid.
    """
    every, notes = list(rules), []
    for one in _contradictions(groups):
        if any(rule.default for rule in rules):
            every.append(
                Rule(
                    text="pass_rate:any",
                    metric="pass_rate",
                    benchmark=one.group.benchmark,
                    agent=one.group.agent,
                    default=True,
                )
            )
            notes.append(f"{one.told}: pass_rate:any is judged too, as mean looks at scores alone")
        elif not any(rule.metric in _LOOK_AT_PASSES and select(rule, [one.group]) for rule in rules):
            notes.append(f"{one.told}, and no rule looks at passes; pass_rate:any would")
    return every, notes


def _contradictions(groups: Sequence[Group]) -> list[_Contradiction]:
    found = []
    for group in groups:
        counts = [_failed_anyway(pair) for pair in group.pairs]
        before, now = (sum(count[side] for count in counts) for side in (0, 1))
        if before or now:
            found.append(_Contradiction(group, before, now))
    return found


def _failed_anyway(pair: Pair) -> tuple[int, int]:
    """Return the number of attempts before and now that failed with a score that would have passed.

    The task is the same on both sides, so the threshold is, too; a baseline file does not have it.
    """
    threshold = pair.now.threshold
    before, now = (
        len(cell.scores) - cell.passed and sum(score >= threshold for score in cell.scores) - cell.passed
        for cell in pair
    )
    return max(0, before), max(0, now)
