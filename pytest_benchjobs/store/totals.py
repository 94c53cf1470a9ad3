"""Counting outcomes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from ..model.job import Totals
from ..model.result import Outcome, TrialResult


def totals(results: Iterable[TrialResult]) -> Totals:
    """Counts of outcomes, and the mean score over the trials that have one."""
    outcomes: Counter[Outcome] = Counter()
    scored = 0
    total = 0.0
    for result in results:
        outcomes[result.outcome] += 1
        if result.score is not None:
            scored += 1
            total += result.score
    return Totals(
        trials=outcomes.total(),
        passed=outcomes[Outcome.PASSED],
        failed=outcomes[Outcome.FAILED],
        error=outcomes[Outcome.ERROR],
        cancelled=outcomes[Outcome.CANCELLED],
        skipped=outcomes[Outcome.SKIPPED],
        mean_score=total / scored if scored else None,
    )
