"""Errors counted as failures: a job whose errors might hide a regression is not `ok`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence

from ...model.gate import GateVerdict, Rule, RuleReport
from ..pairing import Pair, Pairing, cleaned
from ..sides import QUARANTINE, Cell, Side
from . import words
from .groups import Group

HIDDEN = "errors"
"""Metric of the rule about errors that may hide a regression."""


def hidden(
    now: Side,
    before: Side,
    pairing: Pairing,
    groups: Sequence[Group],
    verdict: GateVerdict,
    *,
    fresh: Side | None,
    rerun: str,
    again: Callable[[Sequence[Group], Side | None], GateVerdict],
) -> list[RuleReport]:
    """Judge the job again with its errors as failures, unless `verdict` is worse already.

    `rerun` are arguments by which `benchjobs rerun` finds the job. `again` compares groups and fresh attempts by the
    rules of the gate. Floors look only at scores.
    """
    if verdict not in (GateVerdict.OK, GateVerdict.INCONCLUSIVE):
        return []
    broken = _broken(now, before, pairing)
    freshly = [] if fresh is None else [cell for cell in fresh.cells.values() if cell.errors > 0]
    if not broken and not freshly:
        return []
    if fresh is not None:
        fresh = dataclasses.replace(fresh, cells={key: _failed(cell) for key, cell in fresh.cells.items()})
    would = again(_with_failures(groups, broken), fresh)
    # A scenario that passed and now has only errors may have broken, however little it weighs.
    silent = any(not cell.scores and 2 * old.passed > len(old.scores) for old, cell in broken)
    if would is GateVerdict.REGRESSED:
        verdict = GateVerdict.INVALID
    elif would is GateVerdict.INCONCLUSIVE and verdict is GateVerdict.OK and silent:
        verdict = GateVerdict.INCONCLUSIVE
    else:
        return []
    failed = [*(cell for _, cell in broken), *freshly]
    number = words.count(sum(cell.errors for cell in failed), "attempt")
    why = (
        f"{number} ended in an error; counted as failures they would make the verdict {would.value}. "
        f"Run them again: benchjobs rerun {rerun} --errors"
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


def _broken(now: Side, before: Side, pairing: Pairing) -> list[Pair]:
    """Return scenarios with errors now and a score in the baseline."""
    return [
        Pair(old, cell)
        for cell in now.cells.values()
        if cell.errors > 0
        and cell.known != QUARANTINE
        and (old := before.cells.get((cell.benchmark, cell.scenario, pairing.agents.get(cell.agent, ""))))
        and old.scores
    ]


def _with_failures(groups: Sequence[Group], broken: Iterable[Pair]) -> list[Group]:
    """Return the groups with all errors as failures, on both sides, as some scenarios are always unreliable."""
    failed: dict[tuple[str, str], dict[str, Pair]] = {}
    for old, new in broken:
        one = Pair(cleaned(_failed(old)), cleaned(_failed(new)))
        if one.same_task and one.before.scores and one.now.scores:
            failed.setdefault((new.benchmark, new.agent), {})[new.scenario] = one
    return [one.with_pairs(failed.get((one.benchmark, one.agent), {})) for one in groups]


def _failed(cell: Cell) -> Cell:
    """Return the cell with its errors as failures."""
    return cell._replace(scores=(*cell.scores, *[0.0] * cell.errors), errors=0) if cell.errors > 0 else cell
