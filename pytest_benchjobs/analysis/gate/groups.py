"""A job in groups, one for each benchmark and agent: the units that rules look at."""

from __future__ import annotations

import collections
import dataclasses
import fnmatch
import functools
import operator
from collections.abc import Callable, Iterable
from typing import Any

from ...model.gate import GateVerdict, Rule, RuleReport, matches
from ..pairing import Pair, Pairing, cleaned
from ..sides import QUARANTINE, Cell, Key, Side
from .words import names

_BY_SCENARIO = operator.attrgetter("scenario")
_BY_GROUP: Callable[[Key], tuple[str, str]] = operator.itemgetter(0, 2)
CRITICAL = "critical"
"""Tag of scenarios that must pass."""


@dataclasses.dataclass(frozen=True)
class Group:
    """Results of one agent in one benchmark, without scenarios in quarantine."""

    benchmark: str
    agent: str
    cells: tuple[Cell, ...]
    """Scenarios of the job."""
    pairs: tuple[Pair, ...]
    baseline_agent: str | None
    """Label of the baseline's agent; None: the baseline has no result of this agent in this benchmark."""
    missing: tuple[Cell, ...] = ()
    """Scenarios of the baseline without a pair."""
    again: str = "last"
    """Arguments by which `benchjobs rerun` finds the job."""
    stale: frozenset[str] = frozenset()
    """Scenarios with results that are reused from the baseline: they show nothing new."""

    @functools.cached_property
    def errors(self) -> int:
        """Number of attempts that ended in an error."""
        return sum([cell.errors for cell in self.cells])

    @functools.cached_property
    def attempts(self) -> int:
        """Number of attempts with a score or an error."""
        return sum([len(cell.scores) for cell in self.cells]) + self.errors

    @property
    def samples(self) -> int:
        """Number of pairs; where nothing is compared, of scenarios with a score."""
        if self.baseline_agent is not None:
            return len(self.pairs)
        return sum(bool(cell.scores) for cell in self.cells)

    def with_pairs(self, pairs: dict[str, Pair]) -> Group:
        """Return the group with these pairs, which replace its own of the same scenarios."""
        if not pairs:
            return self
        every = {one.now.scenario: one for one in self.pairs} | pairs
        missing = tuple(cell for cell in self.missing if cell.scenario not in pairs)
        return dataclasses.replace(
            self, pairs=tuple(every[scenario] for scenario in sorted(every)), missing=missing
        )

    def report(self, rule: Rule, verdict: GateVerdict, why: str, **figures: Any) -> RuleReport:
        """Make the report of a rule in this group; `figures` are further fields."""
        return RuleReport(
            rule=rule,
            benchmark=self.benchmark,
            agent=self.agent,
            baseline_agent=self.baseline_agent,
            verdict=verdict,
            why=why,
            **figures,
        )


def group(now: Side, before: Side | None, pairing: Pairing, again: str = "last") -> list[Group]:
    """Return the groups of a job, sorted. `again` are arguments by which `benchjobs rerun` finds the job."""
    cells: dict[tuple[str, str], list[Cell]] = collections.defaultdict(list)
    checked = {id(pair.now) for pair in pairing.pairs}
    for cell in now.cells.values():
        if cell.known != QUARANTINE:
            cells[cell.benchmark, cell.agent].append(cell if id(cell) in checked else cleaned(cell))
    pairs: dict[tuple[str, str], list[Pair]] = collections.defaultdict(list)
    for pair in pairing.pairs:
        cell = pair.now
        if cell.known != QUARANTINE:
            pairs[cell.benchmark, cell.agent].append(pair)
    had: dict[tuple[str, str | None], list[Cell]] = {}
    jobs: frozenset[str] = frozenset()
    if before is not None:
        jobs = frozenset(before.jobs)
        had = {found: [] for found in map(_BY_GROUP, before.cells)}
        for ref in (*pairing.removed, *pairing.changed, *pairing.unscored):
            cell = before.cells[ref.benchmark, ref.scenario, pairing.agents[ref.agent]]
            had[cell.benchmark, cell.agent].append(cell)
    groups = []
    for benchmark, agent in sorted(cells):
        old = pairing.agents.get(agent)
        missing = had.get((benchmark, old))
        groups.append(
            Group(
                benchmark,
                agent,
                tuple(sorted(cells[benchmark, agent], key=_BY_SCENARIO)),
                tuple(pairs[benchmark, agent]),
                None if missing is None else old,
                tuple(sorted(missing or (), key=_BY_SCENARIO)),
                again,
                frozenset(
                    [
                        new.scenario
                        for old, new in pairs[benchmark, agent]
                        if new.reused and not jobs.union(old.reused).isdisjoint(new.reused)
                    ]
                ),
            )
        )
    return groups


def select(rule: Rule, groups: Iterable[Group]) -> list[Group]:
    """Return the groups a rule looks at, with its scenarios only; empty groups are left out."""
    chosen = []
    for one in groups:
        if not (matches(one.benchmark, rule.benchmark) and matches(one.agent, rule.agent)):
            continue
        if rule.only is not None and not (matches(one.benchmark, rule.only) or matches(one.agent, rule.only)):
            continue
        if rule.tag is not None:
            one = _with_tag(one, rule.tag)
        if one.cells:
            chosen.append(one)
    return chosen


def _with_tag(one: Group, tag: str) -> Group:
    """Keep the scenarios that have a tag now or in the baseline: removing a tag removes none from the gate."""
    pairs = tuple(pair for pair in one.pairs if tagged(pair.now, tag) or tagged(pair.before, tag))
    paired = {pair.now.scenario for pair in pairs}
    return dataclasses.replace(
        one,
        cells=tuple(cell for cell in one.cells if cell.scenario in paired or tagged(cell, tag)),
        pairs=pairs,
        missing=tuple(cell for cell in one.missing if tagged(cell, tag)),
    )


def is_critical(pair: Pair) -> bool:
    """Return whether the scenario is tagged critical, now or in the baseline."""
    return CRITICAL in pair.now.tags or CRITICAL in pair.before.tags


def nothing(rule: Rule, groups: Iterable[Group], tag: str | None = None) -> RuleReport:
    """Report a rule that matches nothing as invalid: it could never fail. `tag` is one that scenarios need."""
    listed = list(groups)
    benchmarks = names(dict.fromkeys(one.benchmark for one in listed))
    agents = names(dict.fromkeys(one.agent for one in listed))
    why = f"it matches nothing in this job, which has benchmarks {benchmarks} and agents {agents}"
    if (tag or rule.tag) is not None:
        tags = names(sorted({tag for one in listed for cell in one.cells for tag in cell.tags}), 10)
        why += f" with {f'tags {tags}' if tags else 'no tags'}"
        why += f"; no scenario has the tag {tag}" if tag is not None else ""
    return RuleReport(rule=rule, verdict=GateVerdict.INVALID, why=why)


def tagged(cell: Cell, tag: str) -> bool:
    """Return whether the cell has a tag that matches the pattern."""
    return any(fnmatch.fnmatchcase(one, tag) for one in cell.tags)
