"""What became of the cells, as a table."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable

from .trials import HEALED, NOT_MET, Verdict

_SLOW = 90.0
"""Seconds above the median with which a trial is told, healed or not."""


def share_healed(verdicts: Iterable[Verdict]) -> float:
    """Return which part of single faults was healed, but for streams of agents at work, and for Compose's questions."""
    counted = [
        one
        for one in verdicts
        if one.cell.is_single and not one.works and not one.cell.is_composes and one.said != NOT_MET
    ]
    return sum(one.said == HEALED for one in counted) / max(1, len(counted))


def markdown(verdicts: Iterable[Verdict]) -> str:
    """Rows are kinds of faults, columns calls, and what was not healed is told below, a line each."""
    every = list(verdicts)
    calls = sorted({one.cell.fault.call for one in every})
    kinds = list(dict.fromkeys(one.cell.kind for one in every))
    lines = [f"| kind | {' | '.join(f'`{call}`' for call in calls)} |", "|---" * (len(calls) + 1) + "|"]
    for kind in kinds:
        row = []
        for call in calls:
            said = Counter(one.said for one in every if one.cell.kind == kind and one.cell.fault.call == call)
            row.append(", ".join(f"{what}{f' x{n}' if n > 1 else ''}" for what, n in said.items()))
        lines.append(f"| {kind} | {' | '.join(row)} |")
    lines += ["", summary(every), ""]
    lines += [told(one) for one in every if one.said not in (HEALED, NOT_MET)]
    usual = statistics.median(one.seconds for one in every)
    lines += [f"{told(one)} {one.seconds:.0f} s" for one in every if one.seconds > usual + _SLOW]
    return "\n".join(lines) + "\n"


def summary(verdicts: Iterable[Verdict]) -> str:
    """One line of counts."""
    every = list(verdicts)
    said = Counter(one.said for one in every)
    return (
        f"{len(every)} cells: {', '.join(f'{n} {what}' for what, n in said.most_common())}. "
        f"Of single faults {share_healed(every):.0%} healed; wrong: {sum(one.is_wrong for one in every)}. "
        f"The longest trial took {max((one.seconds for one in every), default=0):.0f} s."
    )


def told(one: Verdict) -> str:
    """One line about a cell that was not healed."""
    fault = one.cell.fault
    where = f"{one.cell.agent}, {one.cell.shape}, {fault.call} #{fault.nth}, {one.cell.kind}"
    return f"- {one.cell.name} ({where}): {one.said}: {one.message.strip()[:300]}"
