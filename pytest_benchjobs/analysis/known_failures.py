"""Tally of known failures."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from ..model.known_failure import KnownMode
from ..model.result import Outcome, TrialResult
from .trials import grouped

ENOUGH = 5
"""Number of passes that show that a failure is gone: one that passes half of the time has as many in 3 % of cases."""
_RAN = (Outcome.PASSED, Outcome.FAILED)


@dataclasses.dataclass(frozen=True, slots=True)
class KnownTally:
    """Counts of verdicts that have a known-failure entry."""

    expected: int = 0
    """All verdicts expected to fail: the sum of the next four counts."""
    failed: int = 0
    passing: int = 0
    errors: int = 0
    """Infrastructure errors, which neither confirm nor contradict the expectation."""
    not_run: int = 0
    quarantined: int = 0
    skipped: int = 0
    """Skipped by mode `skip`."""
    obsolete: tuple[str, ...] = ()
    """Places of entries all of whose verdicts pass now, often enough: they can be removed."""
    passing_once: tuple[str, ...] = ()
    """Places of entries all of whose verdicts pass now, fewer than `ENOUGH` times: it may be luck."""
    mixed: tuple[str, ...] = ()
    """Places of entries of which some verdicts pass now, and others do not."""

    def __bool__(self) -> bool:
        return bool(self.expected or self.quarantined or self.skipped)


def tally_known(results: Iterable[TrialResult]) -> KnownTally:
    """Count verdicts that have a known-failure entry."""
    about = [result for result in results if result.known is not None]
    of_mode = grouped(about, lambda result: None if result.known is None else result.known.mode)
    expected = of_mode.get(KnownMode.EXPECTED_FAIL, [])
    outcomes = [result.outcome for result in expected]
    obsolete: list[str] = []
    once: list[str] = []
    mixed: list[str] = []
    for place, group in grouped(expected, _place).items():
        ran = {result.outcome for result in group}
        if Outcome.PASSED not in ran or place is None:
            continue
        if ran != {Outcome.PASSED}:  # an error may hide a failure, so this entry is not known to pass
            mixed.append(place)
            continue
        times = grouped(group, lambda result: (result.benchmark, result.scenario, result.agent.label))
        (obsolete if min(map(len, times.values())) >= ENOUGH else once).append(place)
    return KnownTally(
        expected=len(expected),
        failed=outcomes.count(Outcome.FAILED),
        passing=outcomes.count(Outcome.PASSED),
        errors=outcomes.count(Outcome.ERROR),
        not_run=sum(outcome not in (*_RAN, Outcome.ERROR) for outcome in outcomes),
        quarantined=len(of_mode.get(KnownMode.QUARANTINE, [])),
        skipped=len(of_mode.get(KnownMode.SKIP, [])),
        obsolete=tuple(obsolete),
        passing_once=tuple(once),
        mixed=tuple(mixed),
    )


def waived(result: TrialResult) -> bool:
    """Return true for a known failure, an `xfail` in pytest; never for an error."""
    return result.outcome is Outcome.FAILED and is_xfail(result)


def is_xfail(result: TrialResult) -> bool:
    """Return true for a trial that carries pytest's `xfail` mark for a known failure."""
    return result.known is not None and result.known.mode is not KnownMode.SKIP


def surprising(result: TrialResult) -> bool:
    """Return true for a trial that passed but must fail, a failure in pytest."""
    return result.outcome is Outcome.PASSED and result.known is not None and result.known.strict


def _place(result: TrialResult) -> str | None:
    return None if result.known is None else result.known.place
