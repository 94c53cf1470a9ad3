"""Attempts in rounds (`--bench-until-decided`), and fresh attempts for what looks worse (`--bench-confirm`).

Both spend attempts where they can still change the verdict, and neither raises its error rate. Rounds split alpha over
the looks (see `statistics.sequential`). A scenario that was picked because it looked worse is judged by fresh attempts
alone: counting the attempts that made it look worse would be a selection bias.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterable, Sequence

from ...model.gate import Change, GateConfig, GatePolicy, GateVerdict, RoundReport, Rule, RuleReport
from ...model.numbers import mean
from ..pairing import Pair, pair
from ..sides import Key, Side
from ..statistics.multiple import holm
from ..statistics.sequential import look
from ..trials import grouped
from . import words
from .changes import changes
from .family import Found, Tested, comparisons
from .groups import Group, group, nothing, select
from .mean_rules import new, tolerated
from .measure import Measured, measure
from .passes import with_passes
from .scenario_rules import chances

METRICS = ("mean", "pass_rate")
"""Rules that rounds can decide."""
MEAN = Rule(text="mean", metric="mean", default=True)
"""Rule of a baseline for which a configuration has no other."""
_ALPHA = 0.05  # of the fresh attempts at scenarios listed by name


def why_no_rounds(config: GateConfig, attempts: int) -> str | None:
    """Return why the attempts of a job cannot run in rounds, in one line; None when they can."""
    if config.baseline in (None, "none"):
        return "it needs a baseline; name one with --bench-baseline"
    if attempts < 2:
        return "it needs more than one attempt; set the maximum with --bench-attempts"
    if config.policy is not GatePolicy.EVIDENCE:
        return f"it needs the policy `evidence`, not `{config.policy.value}`"
    other = next((rule for rule in config.rules if not rule.floor and rule.metric not in METRICS), None)
    if other is not None:
        return f"the rule {other.text!r} cannot be decided in rounds; {' and '.join(METRICS)} can"
    return None


def looks(
    now: Side, before: Side, config: GateConfig, *, number: int, rounds: int | Callable[[str], int]
) -> tuple[RoundReport, ...]:
    """Report round `number` of at most `rounds`, for each rule in each benchmark and agent.

    Alpha is split equally among the comparisons of all rules, or of one rule that stands alone (Bonferroni), as they
    take different numbers of rounds. `rounds` may differ by benchmark; one whose last round was earlier is left out.
    """
    groups = group(now, before, pair(before, now))
    rules = [rule for rule in config.rules if not rule.floor] or [MEAN]
    rules, _ = with_passes(rules, groups)
    chosen = [
        (rule, [one for one in select(rule, groups) if one.baseline_agent is not None]) for rule in rules
    ]
    counts = [(rule, len(compared)) for rule, compared in chosen]
    if config.confirm:
        counts.append((Rule(text="scenario", metric="scenario"), 1))  # judged at the end
    found = []
    for rule, compared in chosen:
        shares = comparisons(rule, counts)
        for one in compared:
            most = rounds if isinstance(rounds, int) else rounds(one.benchmark)
            if number <= most:
                found.append(_look(rule, one, measure(rule, one.pairs), config, number, most, shares))
    return tuple(found)


def _look(
    rule: Rule,
    one: Group,
    measured: Measured,
    config: GateConfig,
    number: int,
    rounds: int,
    comparisons: int,
) -> RoundReport:
    report = functools.partial(
        RoundReport,
        rule=rule.text,
        benchmark=one.benchmark,
        agent=one.agent,
        round=number,
        rounds=rounds,
    )
    if not measured.pairs:
        return report(p_value=1, boundary=0, stop=None, why="no scenario can be paired yet")
    if measured.clusters is not None:  # the boundaries assume independent scenarios
        return report(p_value=1, boundary=0, stop=None, why="scenarios of one cluster: all rounds run")
    seen = look(
        *measured.attempts,
        round=number,
        rounds=rounds,
        alpha=rule.alpha / comparisons,
        tolerance=tolerated(rule, mean(measured.before), one.benchmark, config.noise),
    )
    stop = None if seen.stop is None else GateVerdict(seen.stop)
    return report(p_value=seen.p_value, boundary=seen.boundary_p, stop=stop, why=seen.reason)


def decided(found: Iterable[RoundReport]) -> dict[tuple[str, str], str]:
    """Return benchmark and agent -> why no further attempt is run, where every rule about them has its verdict."""
    listed = grouped(found, lambda one: (one.benchmark, one.agent))
    return {
        key: f"decided after round {reports[0].round} of {reports[0].rounds}: {reports[0].why}"
        for key, reports in listed.items()
        if all(one.stop is not None for one in reports)
    }


def to_confirm(now: Side, before: Side) -> tuple[Key, ...]:
    """Return benchmark, scenario and agent of what needs fresh attempts: broken scenarios and suspects."""
    return _worse(pair(before, now).pairs)


def _worse(pairs: Sequence[Pair]) -> tuple[Key, ...]:
    found = changes(pairs)
    return tuple((one.benchmark, one.scenario, one.agent) for one in (*found.broke, *found.suspects))


def confirm(rule: Rule, groups: Sequence[Group], fresh: Side, config: GateConfig) -> list[Found]:
    """Judge `scenario` by fresh attempts: Fisher's test of each scenario that looked worse, adjusted by Holm."""
    chosen = select(rule, groups)
    if not chosen:
        return [nothing(rule, groups)]
    found: list[Found] = [new(rule, one, config) for one in chosen if one.baseline_agent is None]
    compared = [one for one in chosen if one.baseline_agent is not None]
    picked = [_answered(one.pairs, fresh) for one in compared]
    worse = set(_worse([two for one in compared for two in one.pairs]))
    alone = holm(chances([two for pairs in picked for two in pairs]))
    least = min(alone, default=1.0)

    def reports(p: float, _: int) -> list[RuleReport]:
        times = p / least if least else 1.0
        adjusted = iter([min(1.0, one * times) for one in alone])
        return [
            _confirmed(rule, one, pairs, [next(adjusted) for _ in pairs], worse)
            for one, pairs in zip(compared, picked, strict=True)
        ]

    return [*found, Tested(rule, least, reports)]


def _confirmed(
    rule: Rule, one: Group, pairs: Sequence[Pair], adjusted: Sequence[float], worse: Collection[Key]
) -> RuleReport:
    unanswered = sorted(
        {two.now.key for two in one.pairs if two.now.key in worse} - {two.now.key for two in pairs}
    )
    total = words.count(len(one.pairs), "scenario")
    proven = [two.now.scenario for p, two in zip(adjusted, pairs, strict=True) if p < rule.alpha]
    if proven:
        verdict = GateVerdict.REGRESSED
        why = f"{len(proven)} of {total} broke, as fresh attempts confirm: {words.names(proven)}"
    elif unanswered:
        verdict = GateVerdict.INCONCLUSIVE
        named = words.names(scenario for _, scenario, _ in unanswered)
        looks_worse = f"look{'s' * (len(unanswered) == 1)} worse"
        why = f"{len(unanswered)} of {total} {looks_worse}, and no fresh attempt has a score: {named}"
    elif pairs:
        verdict = GateVerdict.OK
        why = f"{len(pairs)} of {total} looked worse, and fresh attempts confirm none"
    else:
        verdict, why = GateVerdict.OK, f"none of {total} looks worse"
    p = min(adjusted, default=1.0)
    return one.report(rule, verdict, why, p_value=p, test="fisher, fresh attempts", scenarios=len(one.pairs))


def with_fresh(listed: Iterable[Change], groups: Sequence[Group], fresh: Side) -> tuple[Change, ...]:
    """Return the changes with the results of their fresh attempts."""
    pairs = _answered([two for one in groups for two in one.pairs], fresh)
    adjusted = holm(chances(pairs))
    found = {two.now.key: (two.now, p) for two, p in zip(pairs, adjusted, strict=True)}
    told = []
    for change in listed:
        key = (change.benchmark, change.scenario, change.agent)
        if key in found:
            cell, p = found[key]
            attempts = {"fresh_attempts": len(cell.scores), "fresh_passed": cell.passed}
            change = change.model_copy(update={**attempts, "confirmed": p < _ALPHA})
        told.append(change)
    return tuple(told)


def _answered(pairs: Iterable[Pair], fresh: Side) -> list[Pair]:
    """Return pairs whose fresh attempts have scores, with these in place of the job's attempts."""
    found = ((two.before, fresh.cells.get(two.now.key)) for two in pairs)
    return [Pair(before, cell) for before, cell in found if cell is not None and cell.scores]
