"""Judgement of a job against a baseline: pure and deterministic. Explained in docs/gates.md."""

from __future__ import annotations

import datetime
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence

from ...model.gate import (
    SIDE_A,
    ClusterRef,
    GateConfig,
    GateReport,
    GateVerdict,
    RoundReport,
    Rule,
    RuleReport,
)
from ...model.numbers import difference, mean
from ...system.garbage import gc_paused
from ..pairing import Pair, Pairing, pair
from ..sides import QUARANTINE, Cell, Side
from . import words
from .changes import changes
from .coverage import coverage
from .family import Found, judged
from .floors import floors
from .groups import Group, group
from .hidden import hidden
from .likely import likely_clusters
from .mean_rules import compare
from .outlook import outlook
from .passes import with_passes
from .rounds import MEAN, confirm, with_fresh
from .scenario_rules import critical, each
from .validity import validity

_SEVERITY = (
    GateVerdict.OK,
    GateVerdict.NO_BASELINE,
    GateVerdict.INCONCLUSIVE,
    GateVerdict.REGRESSED,
    GateVerdict.INVALID,
)
_OF_SCENARIOS = {"scenario": each, "critical": critical}
_SCENARIO = Rule(text="scenario", metric="scenario")
_ROUNDING = 1e-9


@gc_paused()
def judge(
    now: Side,
    before: Side | None,
    config: GateConfig,
    *,
    job: str,
    at: datetime.datetime,
    where: str = "",
    baseline_missing: str | None = None,
    random: Mapping[str, float] | None = None,
    rounds: Sequence[RoundReport] = (),
    fresh: Side | None = None,
) -> GateReport:
    """Judge a job by the rules of `config`; a baseline without any rule of comparison is compared by `mean`.

    `where` is the option by which commands find the results directory; it is part of commands in advice.
    `before` is None without a baseline, and `baseline_missing` says why. `random` is the chance score by benchmark, for
    `min_lift`; else that of `baseline:random` in the same job counts. `rounds` are the last looks of a job in rounds,
    which then decide. `fresh` holds fresh attempts at what looked worse, for rules about single scenarios.
    """
    named = before is not None or config.names_baseline
    if before is not None and not any(cell.scores or cell.errors for cell in before.cells.values()):
        baseline_missing = baseline_missing or f"the baseline {words.names([before.name])} has no results"
        before = None
    pairing = Pairing() if before is None else pair(before, now, known=config.baseline == SIDE_A)
    groups = group(now, before, pairing, f"{job}{where}")
    rules = [rule for rule in config.rules if not rule.floor] or [MEAN] * named
    found = validity(now, before, config, groups, pairing)
    notes = list(pairing.notes)
    if before is None and rules:
        missing = baseline_missing or "no baseline is configured"
        verdict = config.without if named else GateVerdict.NO_BASELINE
        why = f"not compared: {missing}"
        found += [RuleReport(rule=rule, verdict=verdict, why=why) for rule in rules]
        if verdict is GateVerdict.NO_BASELINE:
            notes += [f"as a baseline: {line}" for line in outlook(now)]
    elif before is not None:
        if pairing.pairs:
            lost, more = coverage(before, now, pairing, rules, config)
            found += lost
            notes += more
        if config.confirm and not any(rule.metric == "scenario" for rule in rules):
            rules.append(_SCENARIO)
        rules, about = with_passes(rules, groups)
        notes += about
        found += _compared(rules, config, rounds, groups, fresh)
        notes += _warnings(config, groups, found)
        notes += likely_clusters(groups)
    found += [one for rule in config.floors if groups for one in floors(rule, groups, random or {})]
    notes += _about_quarantine(now, pairing)
    if fresh is not None and fresh.cells:
        notes.append(
            f"{words.count(sum(len(cell.scores) + cell.errors for cell in fresh.cells.values()), 'fresh attempt')} of "
            f"{words.count(len(fresh.cells), 'scenario')} count in no figure but their own; the job's mean in "
            "`benchjobs list` and `summary` is with them"
        )
    if before is not None and pairing.pairs:
        found += hidden(
            now, before, pairing, groups, gravest(found), fresh=fresh, rerun=f"{job}{where}",
            again=lambda groups, fresh: gravest(_compared(rules, config, rounds, groups, fresh, wordless=True)),
        )  # fmt: skip
    return _report(
        now, before, config, pairing, groups, found, notes, job=job, at=at, rounds=rounds, fresh=fresh
    )


def _compared(
    rules: Sequence[Rule],
    config: GateConfig,
    rounds: Sequence[RoundReport],
    groups: Sequence[Group],
    fresh: Side | None,
    *,
    wordless: bool = False,
) -> list[RuleReport]:
    """Judge the rules of comparison, by the last rounds where there are any."""
    tested: list[Found] = []
    for rule in rules if groups else ():
        if fresh is not None and rule.metric == "scenario":
            tested += confirm(rule, groups, fresh, config)
        elif rule.metric in _OF_SCENARIOS:
            tested += _OF_SCENARIOS[rule.metric](rule, groups, config)
        else:
            tested += compare(rule, groups, config, rounds)
    return judged(tested, wordless=wordless)


def _report(
    now: Side,
    before: Side | None,
    config: GateConfig,
    pairing: Pairing,
    groups: Sequence[Group],
    found: Sequence[RuleReport],
    notes: Sequence[str],
    *,
    job: str,
    at: datetime.datetime,
    rounds: Sequence[RoundReport],
    fresh: Side | None,
) -> GateReport:
    verdict = gravest(found)
    kept = [one for one in pairing.pairs if not one.quarantined]
    by_name = changes(pairing.pairs)
    cells = list(now.cells.values())
    failed = sum([cell.errors for cell in cells if cell.errors > 0])
    cost, seconds = (_both(kept, operator.attrgetter(name)) for name in ("costs", "seconds"))
    return GateReport(
        job=job,
        at=at,
        baseline=config.baseline if config.baseline is not None or before is None else before.name,
        baseline_jobs=before.jobs if before is not None else (),
        policy=config.policy,
        verdict=verdict,
        why=_why(verdict, found, groups),
        rules=tuple(found),
        broke=by_name.broke if fresh is None else with_fresh(by_name.broke, groups, fresh),
        fixed=by_name.fixed,
        suspects=by_name.suspects if fresh is None else with_fresh(by_name.suspects, groups, fresh),
        slipped=by_name.slipped,
        added=pairing.added,
        removed=pairing.removed,
        changed=pairing.changed,
        unscored=pairing.unscored,
        clusters=_clusters(kept),
        rounds=tuple(rounds),
        known=by_name.known,
        attempts=failed + sum([len(cell.scores) for cell in cells]),
        errors=failed,
        before_cost=cost[0],
        now_cost=cost[1],
        before_seconds=seconds[0],
        now_seconds=seconds[1],
        notes=tuple(notes),
    )


def _clusters(pairs: Sequence[Pair]) -> tuple[ClusterRef, ...]:
    """Return the number of clusters with several scenarios."""
    members: dict[tuple[str, str], set[str]] = {}
    for one in pairs:
        if one.now.cluster is not None:
            members.setdefault((one.now.benchmark, one.now.cluster), set()).add(one.now.scenario)
    found = [
        ClusterRef(benchmark=benchmark, cluster=cluster, scenarios=len(scenarios))
        for (benchmark, cluster), scenarios in members.items()
        if len(scenarios) > 1
    ]
    return tuple(sorted(found, key=lambda one: (-one.scenarios, one.benchmark, one.cluster)))


def gravest(found: Iterable[RuleReport | GateReport]) -> GateVerdict:
    """Return the most severe verdict; `ok` of none."""
    return max((one.verdict for one in found), key=_SEVERITY.index, default=GateVerdict.OK)


def _warnings(config: GateConfig, groups: Sequence[Group], found: Sequence[RuleReport]) -> Iterable[str]:
    """Yield warnings about large drops where no rule about the mean failed."""
    if config.warn is None:
        return
    failed = {(one.benchmark, one.agent) for one in found if one.verdict is GateVerdict.REGRESSED}
    for one in groups:
        if not one.pairs or (one.benchmark, one.agent) in failed:
            continue
        was, is_now = (
            mean([mean(cell.scores) for cell in side])
            for side in ([two.before for two in one.pairs], [two.now for two in one.pairs])
        )
        if was - is_now >= config.warn - _ROUNDING:
            drop = words.Scale().signed(difference(was, is_now))
            place = words.place(one.benchmark, one.agent)
            yield f"warning: {place}mean {was:.2f} -> {is_now:.2f} ({drop}), though no gate failed"


def _about_quarantine(now: Side, pairing: Pairing) -> Iterable[str]:
    """Note how many scenarios in quarantine are left out, unless the report lists them all as known failures."""
    number = [cell.known for cell in now.cells.values()].count(QUARANTINE)
    if number > sum([one.quarantined for one in pairing.pairs]):
        yield f"{words.count(number, 'scenario')} in quarantine left out"


def _both(
    pairs: Sequence[Pair], read: Callable[[Cell], Sequence[float]]
) -> tuple[float | None, float | None]:
    """Return the means of both sides over scenarios where both have a value."""
    olds, news = [read(old) for old, _ in pairs], [read(new) for _, new in pairs]
    if not (all(olds) and all(news)):
        known = [both for both in zip(olds, news, strict=True) if all(both)]
        olds, news = [old for old, _ in known], [new for _, new in known]
    if not olds:
        return None, None
    return mean([*map(mean, olds)]), mean([*map(mean, news)])


def _why(verdict: GateVerdict, found: Sequence[RuleReport], groups: Sequence[Group]) -> str:
    """Return the first line: the verdict and its reason."""
    making = [one for one in found if one.verdict is verdict]
    if not making:
        return f"{verdict}: no gate is configured"
    order = {rule: place for place, rule in enumerate(dict.fromkeys(one.rule.text for one in making))}
    # The clearest of a rule about several agents; reasons for `invalid` in the order they were found.
    making.sort(key=lambda one: (order[one.rule.text], 0.0 if one.rule.floor else _or(one.p_value, 1.0)))
    first = making[0]
    place = words.place(first.benchmark, first.agent) if len(groups) > 1 else ""
    more = f" (and {len(making) - 1} more)" if len(making) > 1 and verdict is not GateVerdict.OK else ""
    return f"{verdict}: {place}{first.why}{more}"


def _or(number: float | None, other: float) -> float:
    return other if number is None else number
