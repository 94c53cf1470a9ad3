"""Totals of outcomes and spending."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from ..model.job import Totals
from ..model.result import Outcome, TrialResult
from ..model.usage import FIGURES, Usage


def totals(results: Iterable[TrialResult]) -> Totals:
    """Count outcomes, and compute the mean score over the trials that have one."""
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
        **{outcome.value: outcomes[outcome] for outcome in Outcome},
        mean_score=total / scored if scored else None,
        reused=reused,
        cost_usd=cost,
    )


def spent_by(results: Iterable[TrialResult]) -> Usage:
    """Add up the spending of trials in their job: of agents, and of scorers that ask a model.

    Reused trials spent nothing, and the agents of rescored ones neither. Limits of the job are checked against it, so
    usage reported by agents themselves is left out.
    """
    whole = nothing = Usage()
    for result in results:
        if result.reused is not None:
            continue
        if result.rescored is None and result.usage != nothing and result.usage.source != "agent":
            whole = added(whole, result.usage)
        if result.grading_usage != nothing:
            whole = added(whole, result.grading_usage)
    return whole


def added(one: Usage, other: Usage) -> Usage:
    """Return the sums of the known figures."""
    return _joined(one, other, lambda a, b: a + b)


def most(one: Usage, other: Usage) -> Usage:
    """Return the larger of each figure."""
    return _joined(one, other, max)


def _joined(one: Usage, other: Usage, join: Callable[[Any, Any], Any]) -> Usage:
    figures = {}
    for name in FIGURES:
        a, b = getattr(one, name), getattr(other, name)
        figures[name] = b if a is None else a if b is None else join(a, b)
    return Usage(**figures)
