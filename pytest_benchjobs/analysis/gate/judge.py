"""The judgement of a job beside a baseline: pure, and the same for the same numbers. Explained in docs/gates.md."""

from __future__ import annotations

import dataclasses
import datetime
import functools
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence

from ...model.gate import (
    ClusterRef,
    GateConfig,
    GatePolicy,
    GateReport,
    GateVerdict,
    RoundReport,
    Rule,
    RuleReport,
)
from ...system.garbage import undisturbed
from ..pairing import Pair, Pairing, pair, sane
from ..sides import QUARANTINE, Cell, Side
from ..statistics import fisher
from . import words
from .changes import changes
from .coverage import coverage
from .family import Found, judged
from .floors import ERRORS, SAMPLES, error_rate, errors, floors, samples, too_many
from .groups import Group, group, select
from .mean_rules import compare
from .measure import mean
from .rounds import by_rounds, confirm, with_fresh
from .scenario_rules import critical, each

EXIT_REGRESSED, EXIT_INCONCLUSIVE, EXIT_INVALID = 10, 11, 12
_SEVERITY = (
    GateVerdict.OK,
    GateVerdict.NO_BASELINE,
    GateVerdict.INCONCLUSIVE,
    GateVerdict.REGRESSED,
    GateVerdict.INVALID,
)
HIDDEN = "errors"
"""Metric of the rule that asks what errors may hide."""
_MEAN = Rule(text="mean", metric="mean")
_ROUNDING = 1e-9
_CLEARLY = 0.01  # p of a difference between the error rates of the sides
_MORE_ERRORS = 0.05  # and how much higher the rate has to be now
_MOST_ATTEMPTS = 1000


@undisturbed()
def judge(
    now: Side,
    before: Side | None,
    config: GateConfig,
    *,
    job: str,
    at: datetime.datetime,
    baseline_missing: str | None = None,
    random: Mapping[str, float] | None = None,
    rounds: Sequence[RoundReport] = (),
    fresh: Side | None = None,
) -> GateReport:
    """Judge a job by the rules of `config`; a baseline without any rule of comparison is compared by `mean`.

    `before` is None when there is no baseline, and `baseline_missing` says why. `random` is the score of chance by
    benchmark, for `min_lift`; where it has none, `baseline:random` in the same job tells it. `rounds` are the last
    ones of a job whose attempts ran in rounds, which then decide. `fresh` holds the attempts that were made because a
    scenario looked worse: they decide rules of single scenarios, and count nowhere else.
    """
    named = before is not None or config.names_baseline
    if before is not None and not any(cell.scores or cell.errors for cell in before.cells.values()):
        baseline_missing = baseline_missing or f"the baseline {words.names([before.name])} has no results"
        before = None
    pairing = pair(before, now) if before is not None else Pairing()
    groups = group(now, before, pairing)
    kept = [one for one in pairing.pairs if not one.quarantined]
    rules = [rule for rule in config.rules if not rule.floor] or ([_MEAN] if before is not None else [])
    found = _validity(now, before, config, groups, pairing)
    notes = list(pairing.notes)
    if before is not None:
        if pairing.pairs:
            lost, more = coverage(before, now, pairing, rules, config)
            found += lost
            notes += more
        if config.confirm and not any(rule.metric == "scenario" for rule in rules):
            rules = [*rules, Rule(text="scenario", metric="scenario")]
        found += _compared(rules, config, rounds, groups, fresh)
        notes += _warnings(config, groups, found)
    elif rules or named:
        missing = baseline_missing or "no baseline was asked for"
        found += _not_compared(rules, missing, config.without if named else GateVerdict.NO_BASELINE)
        notes.append(f"nothing was compared: {missing}")
    found += _floors(config, groups, random or {})
    notes += _about_quarantine(now)
    if before is not None and pairing.pairs:
        again = functools.partial(_compared, rules, config, rounds, wordless=True)
        found += _hidden(now, before, pairing, groups, found, fresh=fresh, again=again)
    by_name = changes(pairing.pairs)
    verdict = _gravest(found)
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


def _not_compared(rules: Sequence[Rule], missing: str, verdict: GateVerdict) -> list[RuleReport]:
    """Report each rule of a job that has nothing to be compared with."""
    why = f"not compared: {missing}"
    return [RuleReport(rule=rule, verdict=verdict, why=why) for rule in rules or [_MEAN]]


def exit_status(report: GateReport) -> int:
    """0, 10 for a regression, 11 for an inconclusive verdict under `strict`, 12 for a job that cannot be judged."""
    if report.verdict is GateVerdict.INVALID:
        return EXIT_INVALID
    if report.verdict is GateVerdict.REGRESSED:
        return EXIT_REGRESSED
    strict = report.policy is GatePolicy.STRICT
    return EXIT_INCONCLUSIVE if strict and report.verdict is GateVerdict.INCONCLUSIVE else 0


_RULES: dict[str, Callable[[Rule, Sequence[Group], GateConfig], list[Found]]] = {
    "scenario": each,
    "critical": critical,
}


def _validity(
    now: Side, before: Side | None, config: GateConfig, groups: Sequence[Group], pairing: Pairing
) -> list[RuleReport]:
    """Why the job cannot be judged; empty when it can."""
    most = config.max_error_rate
    ceiling = Rule(text=f"--bench-max-error-rate {most:g}", metric=ERRORS, amount=most)
    least = Rule(text=f"--bench-min-samples {config.min_samples}", metric=SAMPLES, amount=config.min_samples)
    if not groups:
        why = "the job has no results" + (" but those in quarantine" if now.cells else "")
        return [RuleReport(rule=least, verdict=GateVerdict.INVALID, why=why)]
    # A limit for one group takes the place of the general one.
    limited = _without(groups, ERRORS, config)
    found = [errors(ceiling, one) for one in limited if too_many(ceiling, one.errors, one.attempts)]
    both = sum(one.errors for one in limited), sum(one.attempts for one in limited)
    if not found and too_many(ceiling, *both):
        found = [error_rate(ceiling, *both)]
    if before is not None:
        found += _more_errors(ceiling, before, now, pairing)
        new = all(one.baseline_agent is None for one in groups)
        if not pairing.pairs and not (new and config.without is GateVerdict.NO_BASELINE):
            why = _nothing_in_common(before, pairing)
            return [*found, RuleReport(rule=least, verdict=GateVerdict.INVALID, why=why)]
    enough = config.min_samples
    return found + [samples(least, one) for one in _without(groups, SAMPLES, config) if one.samples < enough]


def _without(groups: Sequence[Group], metric: str, config: GateConfig) -> list[Group]:
    """Groups that no rule of this metric is about."""
    limited = {
        (one.benchmark, one.agent)
        for rule in config.rules
        if rule.metric == metric and rule.tag is None
        for one in select(rule, groups)
    }
    return [one for one in groups if (one.benchmark, one.agent) not in limited]


def _more_errors(rule: Rule, before: Side, now: Side, pairing: Pairing) -> list[RuleReport]:
    """Whether errors are clearly more frequent than in the baseline, in what both sides ran."""
    both: list[tuple[Cell, Cell]] = [one for one in pairing.pairs if not one.quarantined]
    for ref in pairing.unscored:
        cell = now.cells[ref.benchmark, ref.scenario, ref.agent]
        if cell.known != QUARANTINE:
            both.append((before.cells[ref.benchmark, ref.scenario, pairing.agents[ref.agent]], cell))
    sides = [[old for old, _ in both], [new for _, new in both]]
    errors = [sum([cell.errors for cell in side if cell.errors > 0]) for side in sides]
    attempts = [
        bad + sum([len(cell.scores) for cell in side]) for side, bad in zip(sides, errors, strict=True)
    ]
    if not all(attempts):
        return []
    was, is_now = (bad / some for bad, some in zip(errors, attempts, strict=True))
    if is_now - was <= _MORE_ERRORS + _ROUNDING:
        return []
    # Of more than a thousand attempts it is enough to know what as many with the same rate would say, which is less.
    sizes = [min(some, _MOST_ATTEMPTS) for some in attempts]
    good = [round((1 - share) * size) for share, size in zip((was, is_now), sizes, strict=True)]
    p = fisher(good[0], sizes[0], good[1], sizes[1])
    if p >= _CLEARLY:
        return []
    why = (
        f"errors are more frequent than in the baseline: {words.percent(is_now)} of attempts after "
        f"{words.percent(was)} ({words.p(p)}), so what is left may not be comparable"
    )
    return [
        RuleReport(
            rule=rule, verdict=GateVerdict.INVALID, why=why, before=was, now=is_now, change=is_now - was,
            p_value=p, test="fisher",
        )
    ]  # fmt: skip


def _compared(
    rules: Sequence[Rule],
    config: GateConfig,
    rounds: Sequence[RoundReport],
    groups: Sequence[Group],
    fresh: Side | None,
    *,
    wordless: bool = False,
) -> list[RuleReport]:
    """Judge the rules of comparison, by what the last rounds found where there are any."""
    tested: list[Found] = []
    for rule in rules if groups else ():
        if fresh is not None and rule.metric == "scenario":
            tested += confirm(rule, groups, fresh, config)
        else:
            tested += _RULES.get(rule.metric, compare)(rule, groups, config)
    return by_rounds(judged(tested, wordless=wordless), rounds)


def _hidden(
    now: Side,
    before: Side,
    pairing: Pairing,
    groups: Sequence[Group],
    found: Sequence[RuleReport],
    *,
    fresh: Side | None,
    again: Callable[[Sequence[Group], Side | None], list[RuleReport]],
) -> list[RuleReport]:
    """Judge the job with its errors as failures: what they may hide is not `ok`. Floors hold for what has a score."""
    verdict = _gravest(found)
    if verdict not in (GateVerdict.OK, GateVerdict.INCONCLUSIVE):
        return []
    broken = [
        Pair(old, cell)
        for cell in now.cells.values()
        if cell.errors > 0
        and cell.known != QUARANTINE
        and (old := before.cells.get((cell.benchmark, cell.scenario, pairing.agents.get(cell.agent, ""))))
        and old.scores
    ]
    freshly = [] if fresh is None else [cell for cell in fresh.cells.values() if cell.errors > 0]
    if not broken and not freshly:
        return []
    if fresh is not None:
        fresh = dataclasses.replace(fresh, cells={key: _failed(cell) for key, cell in fresh.cells.items()})
    would = _gravest(again(_with_failures(groups, broken), fresh))
    # A scenario that passed and now has nothing but errors is not known to be as it was, however little it weighs.
    silent = [cell for old, cell in broken if not cell.scores and 2 * old.passed > len(old.scores)]
    if would is GateVerdict.REGRESSED:
        verdict = GateVerdict.INVALID
    elif would is GateVerdict.INCONCLUSIVE and verdict is GateVerdict.OK and silent:
        verdict = GateVerdict.INCONCLUSIVE
    else:
        return []
    failed = [*(cell for _, cell in broken), *freshly]
    number = words.count(sum(cell.errors for cell in failed), "attempt")
    why = (
        f"{number} ended in an error; as failures they would make it {would.value}. "
        "Run them again: benchjobs rerun --errors"
    )
    return [
        RuleReport(
            rule=Rule(text=HIDDEN, metric=HIDDEN),
            verdict=verdict,
            why=why,
            test="floor",
            scenarios=len({cell.key for cell in failed}),
        )
    ]


def _with_failures(groups: Sequence[Group], broken: Iterable[Pair]) -> list[Group]:
    """The groups, if all errors were failures: on both sides, as some scenarios are always unreliable."""
    failed: dict[tuple[str, str], dict[str, Pair]] = {}
    for old, new in broken:
        one = Pair(sane(_failed(old)), sane(_failed(new)))
        if one.same_task and one.before.scores and one.now.scores:
            failed.setdefault((new.benchmark, new.agent), {})[new.scenario] = one
    return [one.with_pairs(failed.get((one.benchmark, one.agent), {})) for one in groups]


def _failed(cell: Cell) -> Cell:
    """The cell with its errors as failures."""
    return cell._replace(scores=(*cell.scores, *[0.0] * cell.errors), errors=0) if cell.errors > 0 else cell


def _clusters(pairs: Sequence[Pair]) -> tuple[ClusterRef, ...]:
    """Clusters with several scenarios."""
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


def _gravest(found: Iterable[RuleReport]) -> GateVerdict:
    return max((one.verdict for one in found), key=_SEVERITY.index, default=GateVerdict.OK)


def _nothing_in_common(before: Side, pairing: Pairing) -> str:
    parts = [
        f"{len(listed):,} {what}"
        for what, listed in (
            ("changed", pairing.changed),
            ("without a score on a side", pairing.unscored),
            ("added", pairing.added),
            ("removed", pairing.removed),
        )
        if listed
    ]
    why = f"nothing can be compared with the baseline {words.names([before.name])}"
    return f"{why}: scenarios are {', '.join(parts)}" if parts else f"{why}: no agent is in both"


def _floors(config: GateConfig, groups: Sequence[Group], random: Mapping[str, float]) -> list[RuleReport]:
    if not groups:
        return []
    return [one for rule in config.rules if rule.floor for one in floors(rule, groups, random)]


def _warnings(config: GateConfig, groups: Sequence[Group], found: Sequence[RuleReport]) -> Iterable[str]:
    """Drops worth a word although no rule about the mean failed of them."""
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
            drop = words.Scale().signed(is_now - was)
            place = words.place(one.benchmark, one.agent)
            yield f"warning: {place}mean {was:.2f} -> {is_now:.2f} ({drop}), though no gate failed"


def _about_quarantine(now: Side) -> Iterable[str]:
    number = [cell.known for cell in now.cells.values()].count(QUARANTINE)
    if number:
        yield f"{words.count(number, 'scenario')} in quarantine left out"


def _both(
    pairs: Sequence[Pair], read: Callable[[Cell], Sequence[float]]
) -> tuple[float | None, float | None]:
    """Mean over scenarios of which both sides know it, so that both are of the same ones."""
    olds, news = [read(old) for old, _ in pairs], [read(new) for _, new in pairs]
    if not (all(olds) and all(news)):
        known = [both for both in zip(olds, news, strict=True) if all(both)]
        olds, news = [old for old, _ in known], [new for _, new in known]
    if not olds:
        return None, None
    return mean([*map(mean, olds)]), mean([*map(mean, news)])


def _why(verdict: GateVerdict, found: Sequence[RuleReport], groups: Sequence[Group]) -> str:
    """The first line: the verdict, and what makes it."""
    making = [one for one in found if one.verdict is verdict]
    if not making:
        return f"{verdict}: no gate was asked for"
    order = {rule: place for place, rule in enumerate(dict.fromkeys(one.rule.text for one in making))}
    # Of a rule about several agents the clearest; what makes a job invalid in the order it was found.
    making.sort(key=lambda one: (order[one.rule.text], 0.0 if one.rule.floor else _or(one.p_value, 1.0)))
    first = making[0]
    place = words.place(first.benchmark, first.agent) if len(groups) > 1 else ""
    more = f" (and {len(making) - 1} more)" if len(making) > 1 and verdict is not GateVerdict.OK else ""
    return f"{verdict}: {place}{first.why}{more}"


def _or(number: float | None, other: float) -> float:
    return other if number is None else number
