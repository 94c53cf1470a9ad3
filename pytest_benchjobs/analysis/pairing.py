"""Pairing of two sides: scenarios that are the same task on both, with a score on both."""

from __future__ import annotations

import dataclasses
import functools
import operator
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from ..model.base import trusted
from ..model.gate import ScenarioRef
from ..store.text import one_line
from .sides import PLACES, QUARANTINE, Cell, Key, Side

_NAME = re.compile(r"[^@:,]*")
_HOST = re.compile(r"@(?:https?://)?[^@,]*[.:/][^@,]*")
_BY_AGENT = operator.itemgetter(0, 2, 1)
_REF = set(ScenarioRef.model_fields)
_SHOWN = 200
_LARGEST = 1e12  # seconds, USD or tokens of an attempt: implausible, and its square is still finite


class Pair(NamedTuple):
    """A scenario with scores on both sides, paired with itself."""

    before: Cell
    now: Cell

    @property
    def quarantined(self) -> bool:
        """True if the current known-failure entry takes the scenario out of every gate."""
        return self.now.known == QUARANTINE

    @property
    def same_task(self) -> bool:
        """True if both sides are the same task, as far as known."""
        return self.before.comparable == self.now.comparable or None in (
            self.before.comparable,
            self.now.comparable,
        )


_PAIR: Callable[[Iterable[Cell]], Pair] = functools.partial(tuple.__new__, Pair)
"""`Pair._make` without its length check."""


@dataclasses.dataclass(frozen=True, slots=True)
class Pairing:
    """Scenarios that two sides have in common, and the others. Everything is sorted."""

    pairs: tuple[Pair, ...] = ()
    """Sorted by benchmark, agent and scenario, as histories are: the order in memory."""
    added: tuple[ScenarioRef, ...] = ()
    """Scenarios of the job only. This list and the next ones have agents of both sides; `agent` is the label now."""
    removed: tuple[ScenarioRef, ...] = ()
    changed: tuple[ScenarioRef, ...] = ()
    """Scenarios that are not the same task on both sides."""
    unscored: tuple[ScenarioRef, ...] = ()
    """Scenarios without a score on a side."""
    agents: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Label now -> label before."""
    notes: tuple[str, ...] = ()
    """Notes for the reader: agents that were matched by less than their label, or not at all."""


def pair(before: Side, now: Side, *, known: bool = False) -> Pairing:
    """Pair each scenario with itself.

    A scenario whose `comparable` digest differs is not the same task, so it is left out and listed; where a side has no
    digest it is paired, and a note says so, as one does where both were graded in different places. Scores outside
    [0, 1], and times, costs and tokens that are negative or not finite, count as missing. `known` says that the reader
    knows which agents are compared where each side has one: no note repeats it.
    """
    agents = match_agents(before, now)
    told = known and len(before.agents) == len(now.agents) == 1
    back = {old: new for new, old in agents.items()}
    if all(back.get(label) == label for label in before.agents):
        had = dict(before.cells)
    else:
        had = {
            (benchmark, scenario, back[label]): one
            for (benchmark, scenario, label), one in before.cells.items()
            if label in back
        }
    has = sorted(now.cells, key=_BY_AGENT)
    if len(agents) < len(now.agents):
        has = [key for key in has if key[2] in agents]
    pairs: list[Pair] = []
    added: list[Key] = []
    changed: list[tuple[Key, str]] = []
    unscored: list[tuple[Key, str]] = []
    counts: Counter[str] = Counter()
    for key in has:
        old, new = had.pop(key, None), now.cells[key]
        if old is None:
            added.append(key)
            continue
        if old.comparable != new.comparable and old.comparable is not None and new.comparable is not None:
            changed.append((key, "not the same task as in the baseline"))
            continue
        if not _is_clean(old):
            old = _cleaned(old, counts)
        if not _is_clean(new):
            new = _cleaned(new, counts)
        if not old.scores or not new.scores:
            sides = ((bool(new.scores), new.errors), (bool(old.scores), old.errors))
            unscored.append((key, _missing(*sides)))
            continue
        if old.comparable is None or new.comparable is None:
            counts["unknown"] += 1
        if old.mixed or new.mixed:
            counts["mixed"] += 1
        pairs.append(_PAIR((old, new)))
    return Pairing(
        pairs=tuple(pairs),
        added=tuple(_ref(key, None) for key in sorted(added)),
        removed=tuple(_ref(key, None) for key in sorted(had)),  # without a pair
        changed=tuple(_ref(*one) for one in sorted(changed)),
        unscored=tuple(_ref(*one) for one in sorted(unscored)),
        agents=agents,
        notes=(
            *([] if told else _about_agents(agents, before, now)),
            *_about(counts),
            *_about_machines(before, now),
            *_about_places(pairs),
        ),
    )


def match_agents(before: Side, now: Side) -> dict[str, str]:
    """Label now -> label of the same agent before, sorted by the former.

    Agents match by label; else by agent and model, whatever version, host and parameters; else whatever provider, too;
    else by agent; else as the only ones left on both sides. An ambiguous match is not made.
    """
    olds, news = set(before.agents), set(now.agents)
    matched = {label: label for label in olds & news}
    for kind in (_agent_and_model, _without_provider, _agent, lambda _: ""):
        old = _unique(olds - set(matched.values()), kind)
        new = _unique(news - matched.keys(), kind)
        matched |= {
            new[key]: old[key]
            for key in new.keys() & old.keys()
            if kind is not _without_provider or _may_be_one(new[key], old[key])
        }
    return dict(sorted(matched.items()))


def cleaned(cell: Cell) -> Cell:
    """Return the cell without impossible numbers: they may come from an untrusted file."""
    return cell if _is_clean(cell) else _cleaned(cell, Counter())


def _unique(labels: Iterable[str], kind: Callable[[str], str]) -> dict[str, str]:
    """Return labels by their `kind`, without kinds that several labels share."""
    listed = list(labels)
    counts = Counter(map(kind, listed))
    return {key: label for label in listed if counts[key := kind(label)] == 1}


def _agent(label: str) -> str:
    return _NAME.match(label)[0]  # type: ignore[index]  # matches nothing at least


def _agent_and_model(label: str) -> str:
    model = label.partition(":")[2].partition(",")[0]
    return f"{_agent(label)}:{_HOST.sub('', model)}"


def _without_provider(label: str) -> str:
    agent, _, model = _agent_and_model(label).partition(":")
    return f"{agent}:{model.rpartition('/')[2]}"


def _may_be_one(label: str, other: str) -> bool:
    """Return True if two agents may have the same model, of which only one label names the provider."""
    (agent, _, model), (other_agent, _, other_model) = map(
        str.partition, map(_agent_and_model, (label, other)), "::"
    )
    short, long = sorted((model, other_model), key=len)
    return agent == other_agent != "command" and short != "" and long.endswith(f"/{short}")


def elsewhere(label: str, others: Iterable[str]) -> str:
    """Return a hint about agents with another id for the same model, `codex:openai/gpt-5.5`; empty without."""
    same = [one_line(one, _SHOWN) for one in others if _may_be_one(one, label)]
    return f"; {' and '.join(same)} may be the same model by another provider" if same else ""


def _ref(key: Key, why: str | None) -> ScenarioRef:
    benchmark, scenario, agent = key
    values = {"benchmark": benchmark, "scenario": scenario, "agent": agent, "why": why}
    return trusted(ScenarioRef, values, _REF)


@functools.lru_cache(maxsize=1024)
def _missing(now: tuple[bool, int], before: tuple[bool, int]) -> str:
    """Explain which side has no score, and why."""
    parts = []
    for (scored, errors), side in ((now, "now"), (before, "in the baseline")):
        if not scored:
            what = f"{errors} error{'s' * (errors != 1)}" if errors else "no result"
            parts.append(f"{what} {side}")
    return ", ".join(parts)


def _cleaned(cell: Cell, counts: Counter[str]) -> Cell:
    scores = tuple(one for one in cell.scores if 0.0 <= one <= 1.0)
    counts["bad"] += len(cell.scores) - len(scores)
    return cell._replace(
        scores=scores,
        passed=max(0, min(cell.passed, len(scores))),
        errors=max(0, cell.errors),
        seconds=_amounts(cell.seconds),
        costs=_amounts(cell.costs),
        tokens=tuple(one for one in cell.tokens if 0 <= one <= _LARGEST),
    )


def _is_clean(cell: Cell) -> bool:
    """Return whether all numbers of a cell are possible. Plain loops, as there may be thousands of cells."""
    scores, passed, errors, seconds, costs, tokens = cell[3:9]
    for score in scores:
        if not 0 <= score <= 1:  # false for NaN, too
            return False
    for numbers in (seconds, costs, tokens):
        for number in numbers:
            if not 0 <= number <= _LARGEST:
                return False
    return errors >= 0 <= passed <= len(scores)


def _amounts(numbers: Iterable[float]) -> tuple[float, ...]:
    return tuple(one for one in numbers if 0 <= one <= _LARGEST)


def _about_agents(agents: Mapping[str, str], before: Side, now: Side) -> Iterable[str]:
    for new, old in agents.items():
        if new != old:
            yield f"{one_line(new, _SHOWN)} is compared with {one_line(old, _SHOWN)} of the baseline"
    if before.cells and now.cells:
        for label in sorted(set(now.agents) - agents.keys()):
            hint = elsewhere(label, before.agents)
            yield f"the baseline has no agent to compare {one_line(label, _SHOWN)} with{hint}"
        for label in sorted(set(before.agents) - set(agents.values())):
            yield f"{one_line(label, _SHOWN)} of the baseline is not in this job{elsewhere(label, now.agents)}"


def _about(counts: Mapping[str, int]) -> Iterable[str]:
    if counts["unknown"]:
        yield f"for {_scenarios(counts['unknown'])} it is unknown whether the task is the same on both sides"
    if counts["mixed"]:
        yield f"{_scenarios(counts['mixed'])} changed within a side; only attempts at the newest version count"
    if counts["bad"]:
        yield f"{counts['bad']} scores are not numbers from 0 to 1, and are ignored"


def _about_machines(before: Side, now: Side) -> Iterable[str]:
    if before.ran_on and now.ran_on and before.ran_on != now.ran_on:
        ours, theirs = (one_line(" and ".join(sorted(one.ran_on)), _SHOWN) for one in (now, before))
        yield f"trials ran on {ours}, those of the baseline on {theirs}"


def _about_places(pairs: Iterable[Pair]) -> Iterable[str]:
    """Note scenarios by their places of grading now and before, the most frequent first."""
    moved = Counter(
        (new.graded_in, old.graded_in)
        for old, new in pairs
        if old.graded_in != new.graded_in and old.graded_in and new.graded_in
    )
    ways = [
        f"{number} now {_places(now)}, then {_places(then)}" for (now, then), number in moved.most_common()
    ]
    if ways:
        number = moved.total()
        yield f"the place of grading differs from the baseline's for {_scenarios(number)}: {'; '.join(ways)}"


def _places(listed: Iterable[str]) -> str:
    return " and ".join(PLACES[place] for place in listed)


def _scenarios(number: int) -> str:
    return f"{number} scenario{'s' * (number != 1)}"
