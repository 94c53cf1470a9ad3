"""Sides of comparisons, from what is stored: jobs and baselines, or a part of their agents and benchmarks."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from ..model.errors import InputError
from ..store.checked import checked
from ..store.reader import HistoryReader
from ..store.results import find_job
from .baseline.resolve import resolve
from .sides import Side, side


def stored_side(history: HistoryReader, directory: Path, spec: str) -> tuple[Side, tuple[str, ...]]:
    """Return the results of the job that `spec` names, else of that baseline; and notes about them.

    Raises InputError: there is neither.
    """
    try:
        job = find_job(history, spec)
    except InputError as error:
        resolved = resolve(spec, history=history, directory=directory, root=Path.cwd(), job=None)
        if resolved.side is None:
            raise InputError(f"{error}, and no baseline: {resolved.missing}") from None
        return resolved.side, resolved.notes
    found = checked(history, job)
    notes = [found.note, found.wrong and f"job {job}: {found.wrong}"]
    return side(spec, [(job, found.rows)], [found.record]), tuple(note for note in notes if note)


def narrowed(whole: Side, named: str, pattern: str | None, benchmarks: Sequence[str]) -> Side:
    """Return the side with only these agents and benchmarks. Raises InputError: it has none of them."""
    wanted = {
        name.strip().partition("@")[0] for text in benchmarks for name in text.split(",") if name.strip()
    }
    cells = {
        key: cell
        for key, cell in whole.cells.items()
        if (pattern is None or fnmatchcase(cell.agent, pattern)) and (not wanted or cell.benchmark in wanted)
    }
    if pattern is not None and not any(fnmatchcase(agent, pattern) for agent in whole.agents):
        raise InputError(f"{named}: no agent {pattern!r}; there are {', '.join(whole.agents[:10]) or 'none'}")
    if wanted and not cells and whole.cells:
        there = sorted({cell.benchmark for cell in whole.cells.values()})
        raise InputError(
            f"{named}: none of the benchmarks {', '.join(sorted(wanted))}; there are {', '.join(there)}"
        )
    return dataclasses.replace(whole, name=named, cells=cells)


def two_agents(history: HistoryReader, job: str) -> tuple[str, str]:
    """Return the two agents of the job with this id, which is compared with itself.

    Raises InputError: it has another number of agents.
    """
    agents = agents_of(history, job)
    if len(agents) != 2:
        there_are = f"there {'is' if len(agents) == 1 else 'are'} {len(agents)}: {', '.join(agents[:10])}"
        raise InputError(
            f"job {job} is compared with itself, which takes two agents, and {there_are}; "
            "name a second job, or an agent of each side"
        )
    return agents[0], agents[1]


def agents_of(history: HistoryReader, job: str) -> list[str]:
    """Return the labels of a job's agents, in order of their runs."""
    return list(dict.fromkeys(run.agent for run in history.runs(job)))


def exactly(label: str) -> str:
    """Return a pattern that matches only this label."""
    return "".join(f"[{char}]" if char in "*?[" else char for char in label)
