"""Documents of `logs`: what it prints, and the `results.json` it writes for each trial."""

from __future__ import annotations

import datetime
from typing import Literal

from pydantic import Field

from ...model.base import Model
from . import Document


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
    """`results.json`, beside the logs of a trial."""

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
