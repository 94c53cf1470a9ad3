"""Coverage: scenarios of the baseline that the job should have run. Part of every verdict with a baseline."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from ...model.gate import GateConfig, GateVerdict, Rule, RuleReport, matches
from ...model.known_failure import KnownMode
from ...store.text import one_line
from ..pairing import Pairing, elsewhere
from ..sides import Cell, Key, Side
from . import words
from .groups import tagged

COVERAGE = "coverage"
"""Metric of the rule that finds missing scenarios."""
_DECLARED = (KnownMode.QUARANTINE.value, KnownMode.SKIP.value)
"""Modes of known failures whose results may be missing."""


def coverage(
    before: Side, now: Side, pairing: Pairing, rules: Sequence[Rule], config: GateConfig
) -> tuple[list[RuleReport], list[str]]:
    """Judge whether the job ran the baseline's scenarios, as far as a rule of comparison looks at them.

    A scenario with only errors was run. A skipped one was not, unless a known failure skips it.

    `before` is the part of the baseline that the job should run, `now` the job, and `rules` are those of comparison;
    `config` lists what may be missing. Returns a report if anything is missing, and notes about allowed gaps.
    """
    back = {old: new for new, old in pairing.agents.items()}
    # Paired scenarios were run.
    doubtful = {
        (ref.benchmark, ref.scenario, pairing.agents[ref.agent])
        for ref in (*pairing.removed, *pairing.changed, *pairing.unscored)
    }
    doubtful.update(key for key in before.cells if key[2] not in back)
    missing = [
        key for key in doubtful if not _ran(key, now, back) and _is_judged(before.cells[key], rules, back)
    ]
    changed = _mostly_changed(pairing, before, rules)

    def unexpected(keys: Sequence[Key]) -> list[Key]:
        return [key for key in keys if not any(one.fits(*key) for one in config.allow_missing)]

    lost, replaced = unexpected(missing), unexpected(changed)
    notes = []
    if allowed := len(missing) + len(changed) - len(lost) - len(replaced):
        notes.append(f"{allowed:,} of the baseline's scenarios may be missing: --bench-allow-missing")
    notes += [
        f"--bench-allow-missing {one.text}: nothing that matches is missing"
        for one in config.allow_missing
        if not any(one.fits(*key) for key in (*missing, *changed))
    ]
    found = [_lost(lost, before, now, back)] if lost else []
    for keys, are, remain in (
        (replaced, "changed", "more than remain comparable"),
        (
            unexpected(_mostly_skipped(pairing, before, now, rules)),
            "are skipped as known failures",
            "more than remain",
        ),
    ):
        if keys:
            listed = sorted({key[:2] for key in keys})
            named = words.names([f"{benchmark}/{scenario}" for benchmark, scenario in listed], 3)
            what = f"{words.count(len(listed), 'scenario')} {are} ({named}), {remain}"
            found.append(_report(keys, before, what, f"scenario={one_line(listed[0][1], 100)}"))
    return found, notes


def _mostly_changed(pairing: Pairing, before: Side, rules: Sequence[Rule]) -> list[Key]:
    """Return scenarios that are another task now, where they are more than half of an agent's in a benchmark."""
    changed: dict[tuple[str, str], list[Key]] = {}
    for ref in pairing.changed:
        key = (ref.benchmark, ref.scenario, pairing.agents[ref.agent])
        cell = before.cells[key]
        if _is_judged(cell, rules, {key[2]: ref.agent}):
            changed.setdefault((ref.benchmark, ref.agent), []).append(key)
    same = Counter((pair.now.benchmark, pair.now.agent) for pair in pairing.pairs)
    return [key for place, keys in changed.items() if len(keys) > same[place] for key in keys]


def _mostly_skipped(pairing: Pairing, before: Side, now: Side, rules: Sequence[Rule]) -> list[Key]:
    """Return scenarios that known failures skip, where they are more than what is left of an agent."""
    skipped: dict[tuple[str, str], list[Key]] = {}
    for cell in now.cells.values():
        old = before.cells.get((cell.benchmark, cell.scenario, pairing.agents.get(cell.agent, "")))
        if (
            cell.known == KnownMode.SKIP
            and old is not None
            and _is_judged(old, rules, {old.agent: cell.agent})
        ):
            skipped.setdefault((cell.benchmark, cell.agent), []).append(old.key)
    left = Counter((pair.now.benchmark, pair.now.agent) for pair in pairing.pairs)
    return [key for place, keys in skipped.items() if len(keys) > left[place] for key in keys]


def _is_judged(cell: Cell, rules: Iterable[Rule], back: Mapping[str, str]) -> bool:
    """Return whether a rule compares this scenario of the baseline, by its agent's label then or now."""
    if not cell.scores or cell.known in _DECLARED:
        return False
    return any(
        matches(cell.benchmark, rule.benchmark)
        and (matches(cell.agent, rule.agent) or matches(back.get(cell.agent, cell.agent), rule.agent))
        and (rule.tag is None or tagged(cell, rule.tag))
        for rule in rules
    )


def _ran(key: Key, now: Side, back: Mapping[str, str]) -> bool:
    agent = back.get(key[2])
    cell = None if agent is None else now.cells.get((key[0], key[1], agent))
    return cell is not None and (bool(cell.scores) or cell.errors > 0 or cell.known in _DECLARED)


def _report(lost: Sequence[Key], before: Side, what: str, cure: str) -> RuleReport:
    return RuleReport(
        rule=Rule(text=COVERAGE, metric=COVERAGE, amount=1.0),
        verdict=GateVerdict.INVALID,
        why=f"{what}. If this is intended, give --bench-allow-missing {cure}, or set a new baseline",
        now=1 - len(lost) / len(before.cells),
        tolerance=1.0,
        test="floor",
        scenarios=len({key[:2] for key in lost}),
    )


def _lost(lost: Sequence[Key], before: Side, now: Side, back: Mapping[str, str]) -> RuleReport:
    """Report what did not run: `agent codex:gpt-5, benchmark texts, 59 of 60 scenarios (a, b and 57 more)`."""
    here = {benchmark for benchmark, _, _ in now.cells}
    agents = sorted({key[2] for key in lost if key[2] not in back})
    benchmarks = sorted({key[0] for key in lost if key[2] in back and key[0] not in here})
    rest = sorted({key[:2] for key in lost if key[2] in back and key[0] in here})
    parts, cure = [], ""
    for noun, listed in (("agent", agents), ("benchmark", benchmarks)):
        if listed:
            parts.append(f"{noun}{'s' * (len(listed) > 1)} {words.names(listed)}")
            cure = cure or f"{noun}={one_line(listed[0], 100)}"
    if rest:
        total = len({key[:2] for key in before.cells})
        named = words.names([f"{benchmark}/{scenario}" for benchmark, scenario in rest], 3)
        parts.append(f"{len(rest):,} of {words.count(total, 'scenario')} ({named})")
        cure = cure or f"scenario={one_line(rest[0][1], 100)}"
    hints = "".join(elsewhere(label, now.agents) for label in agents)
    return _report(lost, before, f"the job did not run {', '.join(parts)} of the baseline{hints}", cure)
