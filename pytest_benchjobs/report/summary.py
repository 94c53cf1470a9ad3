"""Results by agent, for reports that are made of whole results."""

from __future__ import annotations

from collections.abc import Iterable

from ..analysis.summary import Summary as AgentRow
from ..analysis.summary import Told, summarise
from ..analysis.trials import grouped
from ..model.result import TrialResult
from ..store.totals import totals

__all__ = ["AgentRow", "by_agent", "totals"]


def by_agent(results: Iterable[TrialResult]) -> list[AgentRow]:
    """A row for each agent, in the order they first appear."""
    groups = grouped(results, lambda result: result.agent.label)
    return [summarise(label, map(_told, group)) for label, group in groups.items()]


def _told(result: TrialResult) -> Told:
    usage = result.usage
    return Told(
        outcome=result.outcome,
        class_=None if result.failure is None else result.failure.class_,
        reused=result.reused,
        rescored=result.rescored,
        score=result.score,
        seconds=result.seconds,
        cost_usd=usage.cost_usd,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cached_tokens=usage.cached_tokens,
    )
