"""Results by agent, for reports that are made of whole results."""

from __future__ import annotations

from collections.abc import Iterable

from ..analysis.summary import Summary as AgentRow
from ..analysis.summary import summarise
from ..analysis.trials import as_row, grouped
from ..model.result import TrialResult
from ..store.totals import totals

__all__ = ["AgentRow", "by_agent", "percent", "totals"]


def by_agent(results: Iterable[TrialResult]) -> list[AgentRow]:
    """A row for each agent, in the order they first appear."""
    groups = grouped(map(as_row, results), lambda trial: trial.agent)
    return [summarise(label, trials) for label, trials in groups.items()]


def percent(part: float, whole: float = 1.0) -> str:
    """`66.7%`; `-` of nothing. Only all is `100.0%`, and only nothing `0.0%`."""
    if not whole:
        return "-"
    share = 100 * part / whole
    if 0 < share < 100:
        share = min(max(share, 0.1), 99.9)
    return f"{share:.1f}%"
