"""Reasons that make a job invalid: no results, too many errors, too few samples, nothing in common."""

from __future__ import annotations

from collections.abc import Sequence

from ...model.gate import GateConfig, GateVerdict, Rule, RuleReport
from ...model.numbers import difference
from ..pairing import Pairing
from ..sides import QUARANTINE, Cell, Side
from ..statistics.intervals import fisher
from . import words
from .floors import ERRORS, SAMPLES, errors, samples, too_many
from .groups import Group, nothing, select

_ROUNDING = 1e-9
_CLEARLY = 0.01  # p of a difference between the error rates of the sides
_MORE_ERRORS = 0.05  # and by how much the rate must be higher now
_MOST_ATTEMPTS = 1000


def validity(
    now: Side, before: Side | None, config: GateConfig, groups: Sequence[Group], pairing: Pairing
) -> list[RuleReport]:
    """Return reports that make the job invalid; none when it can be judged."""
    most = config.max_error_rate
    ceiling = Rule(text=f"--bench-max-error-rate {most:g}", metric=ERRORS, amount=most)
    least = Rule(text=f"--bench-min-samples {config.min_samples}", metric=SAMPLES, amount=config.min_samples)
    if not groups:
        why = "the job has no results" + (" but those in quarantine" if now.cells else "")
        return [RuleReport(rule=least, verdict=GateVerdict.INVALID, why=why)]
    sides = [now] if before is None else [now, before]
    known = {benchmark for side in sides for benchmark, _, _ in side.cells}
    wrong = [name for name in config.noise if name not in known]
    # A limit for one group overrides the general one.
    limited = _without(groups, ERRORS, config)
    found = [errors(ceiling, one) for one in limited if too_many(ceiling, one)]
    found += [
        nothing(Rule(text=f"--bench-noise {name}", metric="noise", amount=config.noise[name]), groups)
        for name in wrong
    ]
    if before is not None:
        found += _more_errors(ceiling, before, now, pairing)
        new = all(one.baseline_agent is None for one in groups)
        if not pairing.pairs and not (new and config.without is GateVerdict.NO_BASELINE):
            why = _nothing_in_common(before, pairing)
            return [*found, RuleReport(rule=least, verdict=GateVerdict.INVALID, why=why)]
    enough = config.min_samples
    return found + [samples(least, one) for one in _without(groups, SAMPLES, config) if one.samples < enough]


def _without(groups: Sequence[Group], metric: str, config: GateConfig) -> list[Group]:
    """Return the groups without a rule of this metric."""
    limited = {
        (one.benchmark, one.agent)
        for rule in config.rules
        if rule.metric == metric and rule.tag is None
        for one in select(rule, groups)
    }
    return [one for one in groups if (one.benchmark, one.agent) not in limited]


def _more_errors(rule: Rule, before: Side, now: Side, pairing: Pairing) -> list[RuleReport]:
    """Report errors that are clearly more frequent than in the baseline, in scenarios that both sides ran."""
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
    # More than a thousand attempts are scaled down to a thousand with the same rate, which is conservative.
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
            rule=rule, verdict=GateVerdict.INVALID, why=why, before=was, now=is_now, change=difference(was, is_now),
            p_value=p, test="fisher",
        )
    ]  # fmt: skip


def _nothing_in_common(before: Side, pairing: Pairing) -> str:
    parts = [
        f"{len(listed):,} {what}"
        for what, listed in (
            ("changed", pairing.changed),
            ("without a score on one side", pairing.unscored),
            ("added", pairing.added),
            ("removed", pairing.removed),
        )
        if listed
    ]
    why = f"nothing can be compared with the baseline {words.names([before.name])}"
    return f"{why}: scenarios are {', '.join(parts)}" if parts else f"{why}: no agent is in both"
