"""Comparison of two sides, scenario by scenario, with the measurements of gates. Tests are two-sided."""

from __future__ import annotations

import dataclasses
import datetime
import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ..model.comparison import AgentRank, ComparedMetric, ComparedRow, ComparedSide, Comparison, HighScore
from ..model.gate import Change, Rule, ScenarioRef
from ..model.numbers import difference, mean
from ..system.garbage import gc_paused
from .gate import words
from .gate.changes import change_of
from .gate.measure import Measured, measure
from .gate.scenario_rules import chances
from .pairing import Pair, Pairing, pair
from .sides import Side
from .statistics.multiple import benjamini_hochberg, holm
from .trials import grouped

LEVEL = 0.95
_FALSE_DISCOVERIES = 0.1
"""False discovery rate of the suspects."""
_FAILING, _PASSING = 1, 2


@gc_paused()
def compare(
    a: Side,
    b: Side,
    *,
    comparison_id: str,
    at: datetime.datetime,
    level: float = LEVEL,
    high_scores: Mapping[str, HighScore] | None = None,
    notes: Iterable[str] = (),
) -> Comparison:
    """Compare two sides. A scenario counts where it is the same task on both, and both have a score.

    Raises ValueError: the level is not between 0.5 and 1.
    """
    pairing = pair(a, b, known=True)
    pairs = [one for one in pairing.pairs if not one.quarantined]
    alone = chances(pairs)
    outcomes = [_outcome(one) for one in pairs]
    return Comparison(
        id=comparison_id,
        at=at,
        a=_head(a),
        b=_head(b),
        level=level,
        rows=_rows(pairs, level, high_scores or {}),
        newly_failing=_listed(_FAILING, outcomes, pairs, alone),
        newly_passing=_listed(_PASSING, outcomes, pairs, alone),
        suspects=_suspects(outcomes, pairs, alone),
        added=pairing.added,
        removed=pairing.removed,
        changed=_refs(pairing.changed),
        unscored=_refs(pairing.unscored),
        notes=(
            *notes,
            *map(_worded, pairing.notes),
            *_quarantine(len(pairing.pairs) - len(pairs)),
            *_emptiness(a, b, pairing),
        ),
    )


@gc_paused()
def compare_agents(
    side: Side,
    *,
    comparison_id: str,
    at: datetime.datetime,
    level: float = LEVEL,
    high_scores: Mapping[str, HighScore] | None = None,
    notes: Iterable[str] = (),
) -> Comparison:
    """Compare each two agents of a side, and rank them. Raises ValueError as `compare` does."""
    alone = [
        dataclasses.replace(
            side, cells={key: cell for key, cell in side.cells.items() if cell.agent == agent}
        )
        for agent in side.agents
    ]
    pairs = [one for a, b in itertools.combinations(alone, 2) for one in pair(a, b).pairs]
    kept = [one for one in pairs if not one.quarantined]
    rows = _rows(kept, level, high_scores or {})
    hidden = {one.now.key[:2] for one in pairs if one.quarantined}
    ranks = tuple(_ranks(rows))
    unranked = [agent for agent in side.agents if agent not in {one.agent for one in ranks}]
    return Comparison(
        id=comparison_id,
        at=at,
        a=_head(side),
        b=_head(side),
        level=level,
        rows=rows,
        ranks=ranks,
        notes=(
            *notes,
            *_quarantine(len(hidden)),
            *(f"{one} is not ranked: no scenario has a score of it and of another agent" for one in unranked),
        ),
    )


def _ranks(rows: Iterable[ComparedRow]) -> Iterator[AgentRank]:
    """Yield the ranks of agents by the rows of each two of them, whose p are adjusted for all.

    M. Mogstad et al., Inference for ranks, Rev. Econ. Stud. 91, 2024.
    """
    for benchmark, some in grouped(rows, lambda row: row.benchmark).items():
        agents = dict.fromkeys(agent for row in some for agent in (row.a_agent, row.b_agent))
        better, worse = Counter[str](), Counter[str]()
        for row in some:
            if row.significant and row.winner is not None:
                best, other = row.a_agent, row.b_agent
                if row.winner == "b":
                    best, other = other, best
                better[other] += 1
                worse[best] += 1
        ranks = [(1 + better[agent], len(agents) - worse[agent], agent) for agent in agents]
        for first, last, agent in sorted(ranks):
            yield AgentRank(benchmark=benchmark, agent=agent, first=first, last=last)


def _rows(
    pairs: Iterable[Pair], level: float, high_scores: Mapping[str, HighScore]
) -> tuple[ComparedRow, ...]:
    """Yield a row for each benchmark and pair of agents, with the measurements of a gate's rule `mean`.

    The means of all rows, and the metrics of all rows, have half of the level each where there are both: so that of all
    that is printed nothing differs by chance, at the level.
    """
    groups = grouped(pairs, lambda one: (one.now.benchmark, one.before.agent, one.now.agent)).values()
    measured = [measure(Rule(text="mean", metric="mean", level=level), group) for group in groups]
    metrics = [_measured_metrics(group, level) for group in groups]
    families = 2 if any(metrics) else 1
    either = _adjusted(measured, families)
    p_worse = [min(1.0, families * p) for p in holm([one.tested.worse for one in measured])]
    of_metrics = iter(_adjusted([one for some in metrics for one in some], families))
    return tuple(
        _row(one, families * len(measured), p, worse, high_scores).model_copy(
            update={"metrics": tuple(_metric(metric, next(of_metrics)) for metric in some)}
        )
        for one, p, worse, some in zip(measured, either, p_worse, metrics, strict=True)
    )


def _adjusted(measured: Sequence[Measured], families: int) -> list[float]:
    """Return the two-sided p of each, adjusted by Holm, and by Bonferroni for the number of families."""
    return [min(1.0, families * p) for p in holm([_two_sided(one) for one in measured])]


def _two_sided(measured: Measured) -> float:
    """Return twice the smaller of the one-sided p."""
    return min(1.0, 2 * min(measured.tested.worse, measured.tested.better))


def _row(
    measured: Measured, comparisons: int, p_value: float, p_worse: float, high_scores: Mapping[str, HighScore]
) -> ComparedRow:
    pairs = measured.pairs
    before, now = [one.before for one in pairs], [one.now for one in pairs]
    first, benchmark = pairs[0], pairs[0].now.benchmark
    a, b = mean(measured.before), mean(measured.now)
    delta = difference(a, b)
    # So that the interval is without 0 where the adjusted p is below alpha.
    alpha = measured.rule.alpha
    significant = p_value < alpha
    share = _two_sided(measured) / p_value if significant and p_value else 1 / comparisons
    interval = measured.interval(1 - alpha * share)
    high = high_scores.get(benchmark)
    return ComparedRow(
        benchmark=benchmark,
        a_agent=first.before.agent,
        b_agent=first.now.agent,
        scenarios=len(pairs),
        clusters=None if measured.clusters is None else measured.units,
        a=a,
        b=b,
        delta=delta,
        low=None if interval is None else interval.low,
        high=None if interval is None else interval.high,
        p_value=p_value,
        p_worse=p_worse,
        # In either direction, so at half the level each.
        detectable=measured.detectable(2 * comparisons),
        winner=None if not delta else "b" if delta > 0 else "a",
        significant=significant,
        a_pass_rate=mean([one.pass_rate for one in before]),
        b_pass_rate=mean([one.pass_rate for one in now]),
        a_cost=_mean(one.costs for one in before),
        b_cost=_mean(one.costs for one in now),
        a_tokens=_mean(one.tokens for one in before),
        b_tokens=_mean(one.tokens for one in now),
        a_seconds=_mean(one.seconds for one in before),
        b_seconds=_mean(one.seconds for one in now),
        a_errors=sum([one.errors for one in before]),
        b_errors=sum([one.errors for one in now]),
        high_score=high,
        a_to_high=None if high is None else difference(high.score, a),
        b_to_high=None if high is None else difference(high.score, b),
    )


def _measured_metrics(pairs: Sequence[Pair], level: float) -> list[Measured]:
    """Return the metrics that scenarios have on both sides, sorted by name."""
    names = sorted({one.name for pair in pairs for one in pair.now.metrics})
    rules = [Rule(text=name, metric="metric", name=name, level=level) for name in names]
    return [one for rule in rules if (one := measure(rule, pairs)).pairs]


def _metric(measured: Measured, p_value: float) -> ComparedMetric:
    name = str(measured.rule.name)
    series = next(one for pair in reversed(measured.pairs) if (one := pair.now.metric(name)) is not None)
    a, b = mean(measured.before), mean(measured.now)
    delta = difference(a, b)
    ahead = delta > 0 if not measured.less else delta < 0
    return ComparedMetric(
        name=series.name,
        unit=series.unit,
        direction="lower" if measured.less else "higher",
        scenarios=len(measured.pairs),
        a=a,
        b=b,
        delta=delta,
        winner=None if not delta else "b" if ahead else "a",
        p_value=p_value,
    )


def _outcome(one: Pair) -> int:
    """Classify as newly failing on B, newly passing, or neither. Exactly half of the attempts is neither."""
    before = 2 * one.before.passed - len(one.before.scores)
    now = 2 * one.now.passed - len(one.now.scores)
    return _FAILING if before > 0 > now else _PASSING if before < 0 < now else 0


def _listed(
    wanted: int, outcomes: Sequence[int], pairs: Sequence[Pair], alone: Sequence[float]
) -> tuple[Change, ...]:
    found = zip(outcomes, pairs, alone, strict=True)
    return _sorted(change_of(one, p, None) for outcome, one, p in found if outcome == wanted)


def _suspects(outcomes: Sequence[int], pairs: Sequence[Pair], alone: Sequence[float]) -> tuple[Change, ...]:
    """Return the suspects that are not listed as newly failing already."""
    # Correct for all scenarios, as all were looked at.
    found = zip(outcomes, pairs, alone, benjamini_hochberg(alone), strict=True)
    return _sorted(
        change_of(one, p, adjusted)
        for outcome, one, p, adjusted in found
        if adjusted <= _FALSE_DISCOVERIES
        and outcome != _FAILING
        and difference(mean(one.before.scores), mean(one.now.scores)) < 0
    )


def _sorted(changes: Iterable[Change]) -> tuple[Change, ...]:
    """Sort changes, the greatest first."""
    return tuple(sorted(changes, key=lambda one: (-abs(one.change), one.benchmark, one.scenario)))


def _worded(text: str) -> str:
    """Reword a note of pairing for two sides instead of a baseline and a job."""
    return text.replace("the baseline", "side A").replace("this job", "side B")


def _refs(refs: Iterable[ScenarioRef]) -> tuple[ScenarioRef, ...]:
    return tuple(one.model_copy(update={"why": _worded(one.why)}) if one.why else one for one in refs)


def _head(side: Side) -> ComparedSide:
    return ComparedSide(spec=side.name, jobs=side.jobs, agents=side.agents)


def _mean(values: Iterable[Sequence[float]]) -> float | None:
    known = list(itertools.chain.from_iterable(values))
    return mean(known) if known else None


def _quarantine(number: int) -> Iterable[str]:
    if number:
        yield f"{words.count(number, 'scenario')} in quarantine on side B left out"


def _emptiness(a: Side, b: Side, pairing: Pairing) -> Iterable[str]:
    for letter, side in (("A", a), ("B", b)):
        if not any(cell.scores for cell in side.cells.values()):
            yield f"side {letter} has no scores"
    if not pairing.pairs and a.cells and b.cells:
        yield "the sides have no scenario in common"
