"""Documents about jobs: of `list`, `runs`, `logs`, `run --detach`, `cancel`, `recover` and `merge`."""

from __future__ import annotations

import datetime
from typing import Any, ClassVar, Literal

from pydantic import Field

from ...model.base import Model
from ...model.gate import GateReport
from ...model.job import JobStatus, Totals
from ...store.rows import JobRow, RunRow
from . import Document, renamed


class JobItem(JobRow):
    """A job. Its `mean_score` is over all agents, one of which may be a reference: see `scores`."""

    job: ClassVar[Any] = renamed("id", str)
    dead: bool = False
    """True if its process died. The status stays that of a running job until `recover`, or the next job, closes it."""
    number_ended: ClassVar[Any] = renamed(
        "ended", int, alias="ended"
    )  # the field has the old name in JSON, `trials`


class ListDocument(Document):
    """`benchjobs list`: jobs, the oldest first."""

    jobs: tuple[JobItem, ...]
    earlier_selections: int = 0
    """Further jobs that ran a selection of scenarios, which are listed with `--selections` only."""


class RunItem(RunRow):
    """A run."""

    dead: bool = False
    """True if the process of its job died."""
    number_ended: ClassVar[Any] = renamed("ended", int, alias="ended")


class RunsDocument(Document):
    """`benchjobs runs`."""

    runs: tuple[RunItem, ...]


class JobTotals(Totals):
    """Counts of the trials of a job that ended."""

    ended: ClassVar[Any] = renamed("trials", int)


class DetachDocument(Document):
    """A job that was just started in the background."""

    job: str
    name: str | None = None
    status: JobStatus
    """`initializing` until pytest has collected the trials."""
    planned: int | None = None
    """Number of trials, once known."""
    agent_timeout: float | None = None
    """Seconds; null: each scenario's own, else the default of two hours."""
    message: str | None = None
    """Reason why it failed at once."""
    pid: int
    directory: str
    """Directory of the job."""
    log: str
    """Log with the output of pytest."""


class CancelDocument(Document):
    """`benchjobs cancel`: the state of the job now."""

    job: str
    name: str | None
    status: JobStatus
    """Still `running` if the command did not wait for the end, or not long enough."""
    changed: bool
    """False if the job had already ended."""
    planned: int | None
    totals: JobTotals


class RecoveredJob(Model):
    """A job that was recovered, and how."""

    job: str
    message: str


class RecoverDocument(Document):
    """`benchjobs recover`: the recovered jobs."""

    recovered: tuple[RecoveredJob, ...]
    repaired: tuple[RecoveredJob, ...]
    """Jobs that had ended without reports, which were completed."""
    problems: tuple[str, ...]
    """Jobs that could not be closed, and why."""


class MergedJob(Model):
    """Result of the import of one job."""

    job: str
    """Its id; for an unreadable job the name of its directory, for a history its path."""
    name: str | None
    action: Literal["added", "updated", "unchanged", "refused"]
    trials: int
    """Number of its trials here now; for a refused job, at its source."""
    message: str | None
    """Reason why the job was refused."""


class MergedJUnit(Model):
    """The JUnit file that was written."""

    path: str
    files: int
    """Number of merged files."""
    cases: int


class MergeDocument(Document):
    """`benchjobs merge`."""

    directory: str | None
    """Directory of the merged jobs; null when only JUnit files were merged."""
    jobs: tuple[MergedJob, ...]
    problems: tuple[str, ...]
    """Files that were left out, and why; shards that are missing."""
    junit: MergedJUnit | None
    gate: GateReport | None = None
    """Verdict on the job of `--as-job`; null: its parts were run without gates."""


class RemovedJob(Model):
    """A job that was removed."""

    job: str
    trials: int
    bytes: int
    """Size of its files."""


class RemovedDocument(Document):
    """`benchjobs rm`."""

    jobs: tuple[RemovedJob, ...]
    kept: int
    """Kept file systems of trials that were removed from the engine."""


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
    definition: dict[str, str]
    """What it runs: its `command` or `script`, the `path` of its files, the `model` and `criteria` of a judge."""
    output: str
    """The end of its output."""
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
    """The job that ran the trial, and has its logs."""


class CopiedTrial(Model):
    """A trial and the directory with the copy of its logs."""

    node_id: str
    run: str
    status: Literal["copied", "incomplete"]
    directory: str
    """Relative to the document's directory."""
    files: int
    bytes: int
    problem: str | None
    """The first problem of copying."""


class LogsDocument(Document):
    """`benchjobs logs`."""

    job: str
    directory: str
    copied: int
    """Trials copied without a problem."""
    trials: tuple[CopiedTrial, ...]
