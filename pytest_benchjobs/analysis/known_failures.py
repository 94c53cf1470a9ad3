"""Results of trials that are known to fail."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from ..model.known_failure import KnownMode
from ..model.result import Outcome, TrialResult
from .trials import grouped

_RAN = (Outcome.PASSED, Outcome.FAILED)


@dataclasses.dataclass(frozen=True, slots=True)
class KnownTally:
    """Counts of verdicts whose failure is known."""

    expected: int = 0
    """Expected to fail: the five below are parts of it."""
    failed: int = 0
    passing: int = 0
    errors: int = 0
    """An infrastructure error says nothing of what was expected."""
    not_run: int = 0
    quarantined: int = 0
    skipped: int = 0
    """Those of mode `skip`."""
    obsolete: tuple[str, ...] = ()
    """Places of entries under which something passes now, and nothing fails: they can be removed."""
    mixed: tuple[str, ...] = ()
    """Places of entries under which something passes now, and something else still fails."""

    def __bool__(self) -> bool:
        return bool(self.expected or self.quarantined or self.skipped)


def tally_known(results: Iterable[TrialResult]) -> KnownTally:
    """Count verdicts; those of which nothing is known are left out."""
    about = [result for result in results if result.known is not None]
    of_mode = grouped(about, lambda result: None if result.known is None else result.known.mode)
    expected = of_mode.get(KnownMode.EXPECTED_FAIL, [])
    outcomes = [result.outcome for result in expected]
    obsolete: list[str] = []
    mixed: list[str] = []
    for place, group in grouped(expected, _place).items():
        ran = {result.outcome for result in group}
        if Outcome.PASSED in ran and place is not None:
            # An error may hide a failure: what had one is not known to pass.
            (obsolete if ran == {Outcome.PASSED} else mixed).append(place)
    return KnownTally(
        expected=len(expected),
        failed=outcomes.count(Outcome.FAILED),
        passing=outcomes.count(Outcome.PASSED),
        errors=outcomes.count(Outcome.ERROR),
        not_run=sum(outcome not in (*_RAN, Outcome.ERROR) for outcome in outcomes),
        quarantined=len(of_mode.get(KnownMode.QUARANTINE, [])),
        skipped=len(of_mode.get(KnownMode.SKIP, [])),
        obsolete=tuple(obsolete),
        mixed=tuple(mixed),
    )


def waived(result: TrialResult) -> bool:
    """True for a failure that is known: to pytest an `xfail`. An error never is."""
    return result.outcome is Outcome.FAILED and is_xfail(result)


def is_xfail(result: TrialResult) -> bool:
    """True if pytest had put an `xfail` mark on the trial for a known failure."""
    return result.known is not None and result.known.mode is not KnownMode.SKIP


def surprising(result: TrialResult) -> bool:
    """True for a pass of a trial that must fail: to pytest a failure."""
    return result.outcome is Outcome.PASSED and result.known is not None and result.known.strict


def _place(result: TrialResult) -> str | None:
    return None if result.known is None else result.known.place
