"""Results by agent, for reports made from whole results."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from ..analysis.summary import Summary, summarise
from ..analysis.trials import grouped
from ..model.job import JobRecord
from ..model.metric import Metric
from ..model.result import Outcome, TrialResult
from ..settings.table import BY_NAME
from .units import cost, percent, tokens

if TYPE_CHECKING:
    from .documents.summary import MetricFigures


def by_agent(results: Iterable[TrialResult]) -> list[Summary]:
    """Return a row for each agent, in the order they first appear."""
    groups = grouped(results, lambda result: result.agent.label)
    return [summarise(label, group) for label, group in groups.items()]


@dataclasses.dataclass(frozen=True, slots=True)
class CategoryRow:
    """The trials of an agent at the scenarios of one category."""

    agent: str
    category: str
    total: int
    passed: int
    mean_scored: float | None
    """Mean score of the trials that have one."""


def by_category(results: Iterable[TrialResult]) -> list[CategoryRow]:
    """Return a row for each agent and category, agents in the order they first appear, if there are two categories."""
    known = [result for result in results if result.category is not None]
    if len({result.category for result in known}) < 2:
        return []
    rows = []
    for label, group in grouped(known, lambda result: result.agent.label).items():
        for category, found in sorted(grouped(group, lambda result: str(result.category)).items()):
            scores = [result.score for result in found if result.score is not None]
            passed = sum(result.outcome is Outcome.PASSED for result in found)
            mean = math.fsum(scores) / len(scores) if scores else None
            rows.append(CategoryRow(label, category, len(found), passed, mean))
    return rows


def by_metric(results: Iterable[TrialResult]) -> Iterator[tuple[str, MetricFigures]]:
    """Yield each agent with the mean of each of its metrics, agents in the order they first appear.

    Trials without a score are left out.
    """
    graded = [result for result in results if result.score is not None]
    for label, group in grouped(graded, lambda result: result.agent.label).items():
        for figures in metric_figures(result.metrics for result in group):
            yield label, figures


def metric_figures(trials: Iterable[Iterable[Metric]]) -> Iterator[MetricFigures]:
    """Yield the mean of each metric of trials, in the order they first appear."""
    by_name = grouped(itertools.chain.from_iterable(trials), lambda metric: metric.name)
    if not by_name:
        return
    from .documents.summary import MetricFigures  # imports documents of many commands

    for name, values in by_name.items():
        newest = values[-1]
        yield MetricFigures(
            name=name,
            unit=newest.unit,
            direction=newest.direction,
            mean=math.fsum(one.value for one in values) / len(values),
            trials=len(values),
        )


def by_turn(results: Iterable[TrialResult]) -> Iterator[tuple[str, str]]:
    """Yield each agent that got feedback, and how many of its trials had passed by each turn.

    Trials without a score are left out.
    """
    scored = [result for result in results if result.turns and result.score is not None]
    for label, group in grouped(scored, lambda result: result.agent.label).items():
        passed = [len(result.turns) for result in group if result.outcome is Outcome.PASSED]
        turns = range(1, max(len(result.turns) for result in group) + 1)
        counts = {turn: sum(needed <= turn for needed in passed) for turn in turns}
        rates = (f"{count} by turn {turn} ({percent(count / len(group))})" for turn, count in counts.items())
        yield label, f"of {len(group)} trials passed: {', '.join(rates)}"


def used_of_limits(record: JobRecord) -> list[str]:
    """Return how much of each limit on models a job used: `$0.13 of $5.00 (--bench-max-cost)`."""
    limits, spent = record.config, record.spent
    calls = "-" if spent.calls is None else f"{spent.calls:,}"
    pairs = (
        ("max_cost", cost(spent.cost_usd), cost(limits.max_cost)),
        ("max_tokens", tokens(spent.input_tokens, spent.output_tokens), tokens(limits.max_tokens, None)),
        ("max_calls", calls, "-" if limits.max_calls is None else f"{limits.max_calls:,}"),
    )
    return [
        f"{'unknown' if used == '-' else used} of {limit} ({BY_NAME[name].flag})"
        for name, used, limit in pairs
        if limit != "-"
    ]
