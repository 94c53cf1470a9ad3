"""A job: one invocation, its configuration, and who runs it."""

from __future__ import annotations

import datetime
import enum
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from .agent import AgentSpec
from .base import Model, Score, Seconds

SCHEMA_VERSION = 1
DEFAULT_CONCURRENCY = 10


class JobStatus(enum.StrEnum):
    """Where a job is."""

    INITIALIZING = "initializing"
    QUEUED = "queued"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    TIMEOUT = "timeout"

    @property
    def ended(self) -> bool:
        """Whether it will never change again."""
        return self not in (JobStatus.INITIALIZING, JobStatus.QUEUED, JobStatus.RUNNING)


class JobConfig(Model):
    """Everything a user can say about a job; the same for every process that works on it."""

    agents: tuple[AgentSpec, ...] = (AgentSpec(name="oracle"),)
    scenarios: tuple[str, ...] = ()
    attempts: Annotated[int, Field(ge=1, le=10_000)] = 1
    concurrency: Annotated[int, Field(ge=1, le=10_000)] = DEFAULT_CONCURRENCY
    agent_timeout: Seconds | None = None
    scorer_timeout: Seconds | None = None
    timeout_multiplier: Annotated[float, Field(gt=0, le=1000)] = 1.0
    threshold: Score = 1.0
    retry_errors: Annotated[int, Field(ge=0, le=100)] = 0
    env: dict[str, str] = {}
    """For agents."""
    image_map: dict[str, str] = {}
    """Base image -> replacement, for images out of reach."""
    build_args: dict[str, str] = {}
    keep_processes: tuple[str, ...] = ()
    """Patterns of scenario ids whose agents' background processes live on while they are graded."""
    sandbox: str = "docker"
    directory: Path
    """Where `jobs/` and `history.sqlite` are."""
    name: str | None = None
    metadata: dict[str, str] = {}


class Owner(Model):
    """A process, named so that nobody mistakes a later one for it. See `pytest_benchjobs.store.owner`."""

    host: str
    boot: str
    pid: int
    started: str
    """Kernel start time of the process; a recycled pid has another one."""

    def __str__(self) -> str:
        return f"{self.boot}/{self.pid}/{self.started}"


class Totals(Model):
    """Counts of outcomes, and the mean score over the trials that have one."""

    trials: int = 0
    passed: int = 0
    failed: int = 0
    error: int = 0
    cancelled: int = 0
    skipped: int = 0
    mean_score: float | None = None


class JobRecord(Model):
    """`job.json`: what a job is and how it stands."""

    schema_version: int = SCHEMA_VERSION
    id: str
    name: str | None = None
    status: JobStatus
    created_at: datetime.datetime
    finished_at: datetime.datetime | None = None
    owner: Owner
    config: JobConfig
    planned: int | None = None
    """Trials selected to run."""
    totals: Totals = Totals()
    reproducibility: dict[str, Any] = {}
    """argv, git commit and state, versions, platform."""
