"""Documents of `baseline list` and `baseline show`."""

from __future__ import annotations

import datetime

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
