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
    """`benchjobs baseline list`: baselines, sorted by name."""

    baselines: tuple[BaselineEntry, ...]


class BaselineFigures(Model):
    """Figures of a baseline for one benchmark and agent."""

    benchmark: str
    agent: str
    scenarios: int
    attempts: int
    """Attempts that passed or failed."""
    passed: int
    errors: int
    """Attempts that ended in an error; they do not count."""
    mean: float | None
    """Mean over the mean scores of the scenarios; null: no scenario has a score."""


class BaselineDocument(Document):
    """`benchjobs baseline show`: the results that a job would be judged against."""

    baseline: str
    """The spec as given."""
    jobs: tuple[str, ...]
    """Ids of the jobs it is made of, the newest first."""
    branch: str | None
    commit: str | None
    set_at: datetime.datetime | None
    """null for a baseline that was never set: the last job, those of a branch, a file."""
    set_by: str | None
    reason: str | None
    figures: tuple[BaselineFigures, ...]
    scenarios: tuple[BaselineScenario, ...]
    past: tuple[BaselineEntry, ...]
    """Earlier jobs of this baseline, the latest first; an entry without jobs is a deletion."""
    notes: tuple[str, ...]
    """Jobs that were left out, and the reasons."""
    ran_on: tuple[str, ...] | None = None
    """Sandboxes, runtimes and headroom of the jobs; null: unknown."""


def baseline_document(
    side: Side,
    *,
    entry: BaselineEntry | None = None,
    past: Sequence[BaselineEntry] = (),
    git: object = None,
    notes: Sequence[str] = (),
) -> BaselineDocument:
    """Describe a baseline. One that was never set has no `entry`; `git` of its newest job counts then."""
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
        ran_on=tuple(sorted(side.ran_on)) or None,
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
