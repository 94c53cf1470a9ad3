"""Results by agent, for reports that are made of whole results."""

from __future__ import annotations

from collections.abc import Iterable

from ..analysis.summary import Summary as AgentRow
from ..analysis.summary import summarise
from ..analysis.trials import grouped
from ..model.result import TrialResult
from ..store.totals import totals

__all__ = ["AgentRow", "by_agent", "totals"]


def by_agent(results: Iterable[TrialResult]) -> list[AgentRow]:
    """A row for each agent, in the order they first appear."""
    groups = grouped(results, lambda result: result.agent.label)
    return [summarise(label, group) for label, group in groups.items()]
