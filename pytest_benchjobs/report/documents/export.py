"""The rows of `export`."""

from __future__ import annotations

import datetime

from pydantic import Field

from . import Document


class ExportRow(Document):
    """A trial: a line of JSON, or a row of CSV, where `scores` is JSON in a cell and nothing stands for null."""

    job: str
    job_name: str | None
    run: str
    benchmark: str
    benchmark_version: str | None
    scenario: str
    attempt: int
    tries: int
    agent: str
    model: str | None
    provider: str | None
    node_id: str
    group: str
    """The same for all attempts of a scenario by an agent in a job, and for no other trial."""
    outcome: str
    class_: str | None = Field(serialization_alias="class")
    message: str | None
    score: float | None
    threshold: float
    scores: dict[str, float | None]
    """Scorer -> score; null for one that broke. A second scorer of a name is `name#2`."""
    started_at: datetime.datetime
    finished_at: datetime.datetime
    seconds: float
    input_tokens: int | None
    output_tokens: int | None
    cached_tokens: int | None
    reasoning_tokens: int | None
    cost_usd: float | None
    signature: str | None
    reused: str | None
    """The job that ran it: then it is no new sample, and its time and cost were spent there."""
    rescored: str | None
    log: str | None
    """Path of agent.log relative to the job's directory, where there is one."""
    trajectory: str | None
    """Path of trajectory.jsonl relative to the job's directory, where there is one."""
