"""Exit statuses besides pytest's own, of sessions and commands alike."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from .gate import GateReport


class ExitStatus(enum.IntEnum):
    """Reason why a job is not simply good, as an exit status, and its words. The first that applies counts."""

    words: str

    def __new__(cls, status: int, words: str) -> Self:
        """Make a member of a status, with its words."""
        member = int.__new__(cls, status)
        member._value_ = status
        member.words = words
        return member

    # That of `sysexits.h` for "try again later": whatever is wrong may be right after the resume.
    PAUSED = 75, "paused"
    INVALID = 12, "invalid"
    BUDGET_SPENT = 13, "stopped by a budget"
    REGRESSED = 10, "regressed"
    INCONCLUSIVE = 11, "inconclusive under --policy strict"


def first_of(*statuses: int) -> int:
    """Return the first of exit statuses in the order of `ExitStatus`; 0: there is none."""
    return next((status for status in ExitStatus if status in statuses), 0)


def of_gate(report: GateReport) -> int:
    """Return that of a gate: 0, or 12 for an invalid job, 10 for a regression, 11 for doubt under `strict`."""
    from .gate import GatePolicy, GateVerdict  # not needed by those who only know the numbers

    if report.verdict is GateVerdict.INVALID:
        return ExitStatus.INVALID
    if report.verdict is GateVerdict.REGRESSED:
        return ExitStatus.REGRESSED
    strict = report.policy is GatePolicy.STRICT
    return ExitStatus.INCONCLUSIVE if strict and report.verdict is GateVerdict.INCONCLUSIVE else 0
