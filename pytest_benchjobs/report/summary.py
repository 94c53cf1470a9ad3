"""Summing up results. Pure functions."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from ..model.result import Outcome, TrialResult
from ..store.totals import totals

__all__ = ["AgentRow", "by_agent", "percent", "totals"]


@dataclasses.dataclass(frozen=True, slots=True)
class AgentRow:
    """How one agent did."""

    label: str
    passed: int = 0
    failed: int = 0
    partial: int = 0
    """Those of `failed` with a score above 0."""
    errors: int = 0
    cancelled: int = 0
    skipped: int = 0
    total: int = 0
    mean_scored: float | None = None
    """Mean score of the trials that have one. Errors have none, so they do not count."""
    mean_all: float | None = None
    """Sum of scores over all trials that were meant to run: what is certain even if every error hides a 0."""
    seconds: float = 0.0
    """Sum over its trials."""

    @property
    def pass_rate(self) -> float | None:
        """Passed among those that passed or failed."""
        return self.passed / (self.passed + self.failed) if self.passed + self.failed else None


def by_agent(results: Iterable[TrialResult]) -> list[AgentRow]:
    """A row for each agent, in the order they first appear."""
    groups: dict[str, list[TrialResult]] = {}
    for result in results:
        groups.setdefault(result.agent.label, []).append(result)
    return [_row(label, group) for label, group in groups.items()]


def percent(part: float, whole: float = 1.0) -> str:
    """`66.7%`; `-` of nothing. Only all is `100.0%`, and only nothing `0.0%`."""
    if not whole:
        return "-"
    share = 100 * part / whole
    if 0 < share < 100:
        share = min(max(share, 0.1), 99.9)
    return f"{share:.1f}%"


def _row(label: str, results: list[TrialResult]) -> AgentRow:
    counts = totals(results)
    scores = [result.score for result in results if result.score is not None]
    meant = counts.trials - counts.skipped
    return AgentRow(
        label=label,
        passed=counts.passed,
        failed=counts.failed,
        partial=sum(1 for result in results if result.outcome is Outcome.FAILED and (result.score or 0) > 0),
        errors=counts.error,
        cancelled=counts.cancelled,
        skipped=counts.skipped,
        total=counts.trials,
        mean_scored=counts.mean_score,
        mean_all=sum(scores) / meant if meant else None,
        seconds=sum(result.seconds for result in results),
    )
