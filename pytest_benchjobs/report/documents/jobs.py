"""Documents about jobs: of `list`, `runs`, `logs`, `run --detach`, `cancel`, `recover` and `merge`."""

from __future__ import annotations

import datetime
from typing import Literal

from pydantic import Field

from ...model.base import Model
from ...model.job import JobStatus, Totals
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
    """A job. Its `mean_score` is over all agents, of which one may be a reference: see `scores`."""

    selection: bool = False
    """It has no name and ran a selection of scenarios: `-k`, `-m`, `--lf`, ids."""
    scores: dict[str, float] = {}
    """Agent -> mean score of its trials; without agents that have none."""
    dead: bool = False
    """Its process died: it has the status of a job that goes on until `recover`, or the next job, closes it."""


class ListDocument(Document):
    """`benchjobs list`: jobs, the oldest first."""

    jobs: tuple[JobItem, ...]
    earlier_selections: int = 0
    """Further jobs that ran a selection of scenarios, which are listed with `--selections` only."""


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


class DetachDocument(Document):
    """A job that was just started in the background."""

    job: str
    name: str | None = None
    status: JobStatus
    """`initializing` until pytest has found out what there is to run."""
    planned: int | None = None
    """Trials, once that is known."""
    agent_timeout: float | None = None
    """Seconds; None: each scenario's own, else 7200."""
    message: str | None = None
    """Reason why it failed at once."""
    pid: int
    directory: str
    """The files of the job."""
    log: str
    """Log with the output of pytest."""


class CancelDocument(Document):
    """`benchjobs cancel`: how the job stands now."""

    job: str
    name: str | None
    status: JobStatus
    """Still `running` when its end was not waited for, or not long enough."""
    changed: bool
    """False: it had ended before."""
    planned: int | None
    totals: Totals


class RecoveredJob(Model):
    """A job for which something was done, and what."""

    job: str
    message: str


class RecoverDocument(Document):
    """`benchjobs recover`: what was closed."""

    recovered: tuple[RecoveredJob, ...]
    repaired: tuple[RecoveredJob, ...]
    """Jobs that had ended, and lacked something."""
    problems: tuple[str, ...]
    """Jobs that could not be closed, and why."""


class MergedJob(Model):
    """Fate of a job that came in."""

    job: str
    """Its id; of one that cannot be read the name of its directory, of a history its path."""
    name: str | None
    action: Literal["added", "updated", "unchanged", "refused"]
    trials: int
    """That it has here now; of a refused one, that it has where it comes from."""
    message: str | None
    """Reason why it was refused."""


class MergedJUnit(Model):
    """The JUnit file that was written."""

    path: str
    files: int
    """That were merged."""
    cases: int


class MergeDocument(Document):
    """`benchjobs merge`."""

    directory: str | None
    """Directory of the jobs now; None when only JUnit files were merged."""
    jobs: tuple[MergedJob, ...]
    problems: tuple[str, ...]
    """Files that were left out, and why."""
    junit: MergedJUnit | None


class RemovedJob(Model):
    """A job that was removed."""

    job: str
    trials: int
    bytes: int
    """Of its files."""


class RemovedDocument(Document):
    """`benchjobs rm`."""

    jobs: tuple[RemovedJob, ...]
    kept: int
    """File systems of their trials that were removed from the engine."""


class Reason(Model):
    """Reason why a trial did not pass, or a scorer has no score."""

    class_: str = Field(serialization_alias="class")
    message: str


class ScorerLog(Model):
    """Output and score of one scorer."""

    name: str
    type: str
    weight: float
    score: float | None
    status: Literal["complete", "error"]
    output: str
    """The tail of what it printed."""
    error: Reason | None


class TrialLog(Document):
    """`results.json`, which `logs` writes beside the logs of a trial."""

    job: str
    run: str
    node_id: str
    benchmark: str
    scenario: str
    agent: str
    model: str | None
    attempt: int
    outcome: str
    score: float | None
    seconds: float
    started_at: datetime.datetime
    finished_at: datetime.datetime
    failure: Reason | None
    scorers: tuple[ScorerLog, ...]
    reused: str | None
    """The job that ran it; its logs are those of that one."""


class CopiedTrial(Model):
    """A trial and where its logs are now."""

    node_id: str
    run: str
    status: Literal["copied", "incomplete"]
    directory: str
    """Relative to the document's."""
    files: int
    bytes: int
    problem: str | None
    """The first thing that could not be copied."""


class LogsDocument(Document):
    """`benchjobs logs`."""

    job: str
    directory: str
    copied: int
    """Trials of which everything is there."""
    trials: tuple[CopiedTrial, ...]
