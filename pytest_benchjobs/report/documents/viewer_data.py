"""Documents in the form of the viewer of elizaOS' orchestrator: `viewer_data.json`, and trajectories.

A run is one of ours, a run group a job, a harness an agent, and a task a scenario.
"""

from __future__ import annotations

import datetime
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from ...model.base import Model
from ...model.job import JobStatus
from . import Document

Status = Literal["succeeded", "failed", "running", "queued"]


_STATUSES: dict[str, Status] = {
    JobStatus.COMPLETED.value: "succeeded",
    JobStatus.INITIALIZING.value: "queued",
    JobStatus.QUEUED.value: "queued",
    JobStatus.RUNNING.value: "running",
}
"""Status of a job -> status there; any other is `failed`."""
_Status = Annotated[Status, BeforeValidator(lambda status: _STATUSES.get(status, "failed"))]


class DataRun(Model):
    """A run: one benchmark and one agent in one job."""

    run_id: str = Field(validation_alias="id")
    run_group_id: str = Field(validation_alias="job")
    benchmark_id: str = Field(validation_alias="benchmark")
    benchmark_version: str | None
    benchmarks_commit: str | None = Field(validation_alias="commit")
    status: _Status
    agent: str
    provider: str | None
    model: str | None
    score: float | None = Field(validation_alias="mean_score")
    """Mean score, from 0 to 1."""
    unit: Literal["ratio"] = "ratio"
    higher_is_better: Literal[True] = True
    high_score_label: str | None
    high_score_value: float | None
    delta_to_high_score: float | None
    started_at: datetime.datetime | None
    ended_at: datetime.datetime | None = Field(validation_alias="finished_at")
    duration_seconds: float | None = Field(validation_alias="seconds")
    llm_call_count: int | None = Field(validation_alias="calls")
    total_prompt_tokens: int | None = Field(validation_alias="input_tokens")
    total_completion_tokens: int | None = Field(validation_alias="output_tokens")
    total_tokens: int | None = Field(validation_alias="tokens")
    total_cache_read_input_tokens: int | None = Field(validation_alias="cached_tokens")
    cost_usd: float | None
    metrics: dict[str, int]
    """Counts of trials by outcome."""


class RunGroup(Model):
    """A job."""

    run_group_id: str = Field(validation_alias="id")
    name: str | None
    created_at: datetime.datetime | None
    finished_at: datetime.datetime | None
    status: _Status
    benchmarks: tuple[str, ...]
    agents: tuple[str, ...]
    repo_meta: dict[str, str | None]
    """Branch and commit."""


class _Counts(Model):
    runs: int
    succeeded_runs: int
    best_score: float | None


class _Latest(_Counts):
    latest_run_id: str
    latest_status: Status
    latest_score: float | None
    latest_agent: str
    latest_started_at: datetime.datetime | None


class BenchmarkSummary(_Latest):
    """The listed runs of a benchmark."""

    benchmark_id: str


class CalibrationSummary(_Latest):
    """The listed runs of a benchmark and an agent whose results are known in advance, such as `oracle`."""

    benchmark_id: str
    agent: str


class ModelSummary(_Counts):
    """The listed runs of a model."""

    model_key: str
    """`PROVIDER:MODEL`, with `-` for an unknown one."""
    average_score: float | None


class AgentSummary(_Counts):
    """The listed runs of an agent."""

    agent: str
    average_score: float | None


class ViewerData(Document):
    """`/api/viewer-data`, and `viewer_data.json`: the newest runs and jobs, with summaries of these runs."""

    generated_at: datetime.datetime
    runs: tuple[DataRun, ...]
    run_groups: tuple[RunGroup, ...]
    latest_scores: tuple[DataRun, ...]
    benchmark_summary: tuple[BenchmarkSummary, ...]
    model_summary: tuple[ModelSummary, ...]
    agent_summary: tuple[AgentSummary, ...]
    calibration_summary: tuple[CalibrationSummary, ...]


class TrajectoriesData(Document):
    """`/api/trajectories/JOB/BENCHMARK/SCENARIO`: trajectories of a scenario, by agent."""

    harnesses: dict[str, tuple[dict[str, Any], ...]]
    """Agent -> its steps, as in `trajectory.jsonl`; none where it has no trajectory, or nothing may be shown."""
    paths: dict[str, str | None]
    """Agent -> path of its trajectory below the results."""
    task_ids: tuple[str, ...]
    """The scenarios of the benchmark in the job."""
