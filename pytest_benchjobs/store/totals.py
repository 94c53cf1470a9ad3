"""Counting outcomes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from ..model.job import Totals
from ..model.result import Outcome, TrialResult


def totals(results: Iterable[TrialResult]) -> Totals:
    """Counts of outcomes, and the mean score over the trials that have one."""
    outcomes: Counter[Outcome] = Counter()
    scored = reused = 0
    total = 0.0
    cost: float | None = None
    for result in results:
        outcomes[result.outcome] += 1
        if result.reused is not None:
            reused += 1
        elif result.usage.cost_usd is not None and result.rescored is None:
            cost = (cost or 0.0) + result.usage.cost_usd
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
        reused=reused,
        cost_usd=cost,
    )
