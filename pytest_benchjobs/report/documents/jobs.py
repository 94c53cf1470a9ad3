"""Documents of `list` and `runs`."""

from __future__ import annotations

import datetime

from ...model.base import Model
from . import Document

# Fields of the last base class come first.


class Counts(Model):
    """Counts of trials by outcome, and their cost. Of reused ones neither time nor cost counts."""

    trials: int
    """Those that ended, or were reused."""
    passed: int
    failed: int
    error: int
    cancelled: int
    skipped: int
    reused: int
    mean_score: float | None
    """Over the trials with a score. Errors have none."""
    cost_usd: float | None
    """None: unknown."""


class JobHead(Model):
    """A job: id, name, status and times."""

    id: str
    name: str | None
    status: str
    created_at: datetime.datetime
    finished_at: datetime.datetime | None
    planned: int | None
    """Trials selected to run."""
    agents: tuple[str, ...]
    benchmarks: tuple[str, ...]
    parent: str | None
    """The job it was made from, by `rerun`, `rescore` or `merge`."""


class JobItem(Counts, JobHead):
    """A job."""

    dead: bool = False
    """Its process died: it has the status of a job that goes on until `recover`, or the next job, closes it."""


class ListDocument(Document):
    """`benchjobs list`: jobs, the oldest first."""

    jobs: tuple[JobItem, ...]


class RunHead(Model):
    """A run: one benchmark and one agent in one job."""

    id: str
    job: str
    job_name: str | None
    benchmark: str
    benchmark_version: str | None
    agent: str
    provider: str | None
    model: str | None
    status: str
    started_at: datetime.datetime | None
    finished_at: datetime.datetime | None


class RunItem(Counts, RunHead):
    """A run."""

    input_tokens: int | None
    output_tokens: int | None
    cached_tokens: int | None
    seconds: float
    """Sum over the trials that ran in this job."""
    dead: bool = False
    """The process of its job died."""


class RunsDocument(Document):
    """`benchjobs runs`."""

    runs: tuple[RunItem, ...]
