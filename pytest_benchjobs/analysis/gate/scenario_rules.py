"""Rules about single scenarios: `scenario`, with a test of each, and `critical`, without a test."""

from __future__ import annotations

from collections.abc import Sequence

from ...model.gate import GateConfig, GatePolicy, GateVerdict, Rule, RuleReport
from ..pairing import Pair
from ..statistics.intervals import fisher
from ..statistics.multiple import holm
from . import words
from .family import Found, Tested
from .groups import CRITICAL, Group, is_critical, nothing, select
from .mean_rules import new, tolerated

_ROUNDING = 1e-9
_MOST_ATTEMPTS = 100


def each(rule: Rule, groups: Sequence[Group], config: GateConfig) -> list[Found]:
    """Judge `scenario`, whether any passes less often now: Fisher's test, adjusted for all scenarios by Holm.

    To the other rules of the gate they are one comparison, with the smallest p.
    """
    chosen = select(rule, groups)
    if not chosen:
        return [nothing(rule, groups)]
    found: list[Found] = [new(rule, group, config) for group in chosen if group.baseline_agent is None]
    compared = [group for group in chosen if group.baseline_agent is not None]
    alone = holm(chances([pair for group in compared for pair in group.pairs]))
    if not alone:
        return [*found, *(_each(rule, group, config, [], 0) for group in compared)]
    least = min(alone)

    def reports(p: float, comparisons: int) -> list[RuleReport]:
        times = p / least if least else 1.0
        adjusted = iter([min(1.0, one * times) for one in alone])
        return [
            _each(rule, group, config, [next(adjusted) for _ in group.pairs], len(alone) * comparisons)
            for group in compared
        ]

    return [*found, Tested(rule, least, reports)]


def chances(pairs: Sequence[Pair]) -> list[float]:
    """Return p of "it passes less often now", for each pair alone."""
    known: dict[tuple[int, int, int, int], float] = {}
    found = []
    for before, now in pairs:
        counts = (before.passed, len(before.scores), now.passed, len(now.scores))
        p = known.get(counts)
        if p is None:
            p = known[counts] = fisher(*counts)
        found.append(p)
    return found


def _each(
    rule: Rule, group: Group, config: GateConfig, adjusted: Sequence[float], comparisons: int
) -> RuleReport:
    if not group.pairs:
        return group.report(rule, GateVerdict.INVALID, "no scenario can be paired")
    tolerance = tolerated(rule, 1.0, group.benchmark, {})
    lower = [
        (p, pair)
        for p, pair in zip(adjusted, group.pairs, strict=True)
        if pair.before.pass_rate - pair.now.pass_rate > tolerance + _ROUNDING
    ]
    lower.sort(key=lambda one: (one[0], one[1].now.scenario))
    worse = [pair for _, pair in lower]
    proven = [pair for p, pair in lower if p < rule.alpha]
    advice = None if proven else _advice(rule, group.pairs, comparisons)
    total = words.count(len(group.pairs), "scenario")
    if config.policy is GatePolicy.POINT and worse:
        verdict = GateVerdict.REGRESSED
        why = _less_often(worse, total, "")
    elif proven:
        verdict = GateVerdict.REGRESSED
        why = _less_often(proven, total, ", and chance does not explain it")
    elif worse:
        verdict = GateVerdict.INCONCLUSIVE
        why = _less_often(worse, total, ", but chance may explain it")
    else:
        verdict, why = GateVerdict.OK, f"none of {total} passes less often"
    return group.report(
        rule,
        verdict,
        why,
        p_value=min(adjusted),
        test="fisher",
        tolerance=tolerance,
        scenarios=len(group.pairs),
        advice=advice,
    )


def _advice(rule: Rule, pairs: Sequence[Pair], comparisons: int) -> str | None:
    """Advise how many attempts are needed to show that a scenario broke, where there were too few."""
    best = min(fisher(len(p.before.scores), len(p.before.scores), 0, len(p.now.scores)) for p in pairs)
    if best * comparisons < rule.alpha:
        return None
    least = next(
        (some for some in range(2, _MOST_ATTEMPTS) if fisher(some, some, 0, some) * comparisons < rule.alpha),
        None,
    )
    use = f"use {least} attempts on both sides, or" if least is not None else "use"
    return (
        f"so few attempts cannot show that one of {words.count(comparisons, 'scenario')} broke at "
        f"{words.percent(rule.level)}: {use} critical:any for those that must pass"
    )


def critical(rule: Rule, groups: Sequence[Group], config: GateConfig) -> list[Found]:
    """Judge `critical`: a scenario with that tag that passed in all attempts must still pass in all of them."""
    chosen = select(rule, groups)
    if not chosen:
        return [nothing(rule, groups)]
    reports: list[Found] = [
        found for group in chosen if (found := _critical(rule, group, config)) is not None
    ]
    if not reports:
        return [nothing(rule, chosen, CRITICAL)]
    return reports


def _critical(rule: Rule, group: Group, config: GateConfig) -> RuleReport | None:
    cells = [cell for cell in group.cells if CRITICAL in cell.tags]
    missing = [cell for cell in group.missing if CRITICAL in cell.tags]
    pairs = [pair for pair in group.pairs if is_critical(pair)]
    if not cells and not missing and not pairs:
        return None
    if group.baseline_agent is None:
        return new(rule, group, config)
    tolerance = tolerated(rule, 1.0, group.benchmark, {})
    held = [pair for pair in pairs if pair.before.passed == len(pair.before.scores)]
    broke = [pair for pair in held if pair.now.pass_rate < 1 - tolerance - _ROUNDING]
    here = {cell.scenario for cell in group.cells}
    paired = {pair.now.scenario for pair in group.pairs}
    # A scenario with only errors, or one that is gone, may have broken.
    gone = {cell.scenario for cell in group.missing}
    lost = sorted({cell.scenario for cell in (*cells, *missing) if cell.scenario not in paired} & gone)
    if broke:
        verdict = GateVerdict.REGRESSED
        why = (
            f"{words.count(len(broke), 'critical scenario')} always passed, and no longer do: {_named(broke)}"
        )
    elif lost:
        verdict = GateVerdict.INCONCLUSIVE
        why = f"{words.count(len(lost), 'critical scenario')} cannot be compared: {words.names(lost)}"
        if not set(lost) & here:
            why += " (not in this job)"
    else:
        verdict = GateVerdict.OK
        why = f"{words.count(len(held), 'critical scenario')} always passed, and still pass{'es' * (len(held) == 1)}"
        if len(pairs) > len(held):
            why += f"; {len(pairs) - len(held)} did not always pass before"
    return group.report(rule, verdict, why, test="rule", tolerance=tolerance, scenarios=len(pairs))


def _less_often(pairs: Sequence[Pair], total: str, explained: str) -> str:
    return f"{len(pairs)} of {total} pass{'es' * (len(pairs) == 1)} less often{explained}: {_named(pairs)}"


def _named(pairs: Sequence[Pair]) -> str:
    return words.names(pair.now.scenario for pair in pairs)
