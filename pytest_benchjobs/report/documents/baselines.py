"""Documents of `baseline list` and `baseline show`."""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterable, Iterator, Sequence

from ...analysis.baseline.file import as_scenarios
from ...analysis.sides import Cell, Side
from ...model.base import Model
from ...model.baseline import BaselineEntry, BaselineScenario
from . import Document


class BaselinesDocument(Document):
    """`benchjobs baseline list`: by name."""

    baselines: tuple[BaselineEntry, ...]


class BaselineFigures(Model):
    """Figures of a baseline for one benchmark and agent."""

    benchmark: str
    agent: str
    scenarios: int
    attempts: int
    """Those that passed or failed."""
    passed: int
    errors: int
    """Attempts that ended in an error, and count for nothing."""
    mean: float | None
    """Of the mean scores of its scenarios; None: no scenario has a score."""


class BaselineDocument(Document):
    """`benchjobs baseline show`: what a job would be judged against."""

    baseline: str
    """As it was asked for."""
    jobs: tuple[str, ...]
    """Ids of those it is made of, the newest first."""
    branch: str | None
    commit: str | None
    set_at: datetime.datetime | None
    """None for one that was never set: the last job, those of a branch, a file."""
    set_by: str | None
    reason: str | None
    figures: tuple[BaselineFigures, ...]
    scenarios: tuple[BaselineScenario, ...]
    past: tuple[BaselineEntry, ...]
    """Earlier settings of it, the latest first; one without jobs says when it was deleted."""
    notes: tuple[str, ...]
    """Jobs that were left out, and the reasons."""


def baseline_document(
    side: Side,
    *,
    entry: BaselineEntry | None = None,
    past: Sequence[BaselineEntry] = (),
    git: object = None,
    notes: Sequence[str] = (),
) -> BaselineDocument:
    """Describe a baseline. Where it was never set, it has no `entry`, and `git` of the newest of its jobs counts."""
    known = git if isinstance(git, dict) else {}
    branch, commit = known.get("branch"), known.get("commit")
    return BaselineDocument(
        baseline=side.name,
        jobs=side.jobs,
        branch=entry.branch if entry else branch if isinstance(branch, str) else None,
        commit=entry.commit if entry else commit if isinstance(commit, str) else None,
        set_at=entry.set_at if entry else None,
        set_by=entry.set_by if entry else None,
        reason=entry.reason if entry else None,
        figures=tuple(_figures(side.cells.values())),
        scenarios=as_scenarios(side),
        past=tuple(past),
        notes=tuple(notes),
    )


def _figures(cells: Iterable[Cell]) -> Iterator[BaselineFigures]:
    groups: dict[tuple[str, str], list[Cell]] = {}
    for cell in cells:
        if cell.scores or cell.errors:
            groups.setdefault((cell.benchmark, cell.agent), []).append(cell)
    for (benchmark, agent), group in sorted(groups.items()):
        means = [cell.mean for cell in group if cell.mean is not None]
        yield BaselineFigures(
            benchmark=benchmark,
            agent=agent,
            scenarios=len(group),
            attempts=sum(len(cell.scores) for cell in group),
            passed=sum(cell.passed for cell in group),
            errors=sum(cell.errors for cell in group),
            mean=math.fsum(means) / len(means) if means else None,
        )
