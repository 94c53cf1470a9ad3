"""The document of `summary`."""

from __future__ import annotations

import datetime
from typing import Any

from ...analysis.live import Flying
from ...model.base import Model
from ...model.job import JobConfig, Totals
from . import Document, mirror
from .jobs import Reason, RunHead


class AtK(Model):
    """Worth of k attempts, estimated without bias from all attempts; a mean over scenarios."""

    k: int
    pass_at_k: float | None
    """Chance that at least one of k attempts passes. None: no scenario has k attempts that passed or failed."""
    pass_hat_k: float | None
    """Chance that all of k attempts pass: pass^k."""
    scenarios: int
    """Those with k attempts that passed or failed; the others do not count."""


class VerdictFigures(Model):
    """Scenarios by their verdict, where the attempt policy makes one of several attempts."""

    total: int
    passed: int
    failed: int
    partial: int
    """Those of `failed` with a mean score above 0."""
    zero: int
    """The others of `failed`."""
    error: int
    """Open: errors, or attempts that did not run, might have changed the verdict."""
    skipped: int
    mean_score: float | None
    """Over the scenarios that passed or failed, of the mean over their attempts."""


class Figures(Model):
    """Figures of a set of trials. Time, tokens and cost are those spent in this job."""

    scenarios: int
    total: int
    passed: int
    failed: int
    partial: int
    """Those of `failed` with a score above 0."""
    zero: int
    """The others of `failed`."""
    error: int
    timeouts: int
    """Those of `failed` whose agent did not end in time."""
    cancelled: int
    skipped: int
    reused: int
    pass_rate: float | None
    """Passed among those that passed or failed."""
    mean_scored: float | None
    """Mean score of the trials that have one."""
    mean_all: float | None
    """Sum of scores over all trials but skipped ones: what is certain even if every error hides a 0."""
    cost_usd: float | None
    unpriced: int
    """Trials whose agent worked here at an unknown cost; `cost_usd` is without them."""
    input_tokens: int | None
    output_tokens: int | None
    cached_tokens: int | None
    seconds: float
    p50_seconds: float | None
    """Of the trials that passed or failed here; so is p95."""
    p95_seconds: float | None
    classes: dict[str, int]
    """Class of failure or error -> trials."""
    at_k: tuple[AtK, ...]
    """For k = 1, 2, ... up to the number of attempts, where that is above 1."""
    flaky: tuple[str, ...]
    """Node ids of scenarios with attempts that passed and attempts that failed."""
    verdicts: VerdictFigures | None
    """With an attempt policy other than `each`."""


class AgentHead(Model):
    """An agent, and how far it is."""

    agent: str
    planned: int | None
    """Trials that are to run, while the job runs."""
    ended: int
    """Trials that ended; while the job runs, the history may not have the latest yet, and so `total`."""
    running: int
    """Trials in flight."""


class AgentFigures(Figures, AgentHead):
    """An agent over all benchmarks."""


class SummaryTrial(Model):
    """A trial of a run."""

    node_id: str
    scenario: str
    attempt: int
    outcome: str
    score: float | None
    threshold: float
    seconds: float
    cost_usd: float | None
    failure: Reason | None
    reused: str | None
    """The job it was taken over from."""
    rescored: str | None
    """The job whose trial was graded anew."""
    kept: str | None
    """Image with the file system the agent left."""
    known: str | None
    """Mode of the known failure it is: `expected-fail`, `quarantine` or `skip`."""
    path: str
    """Of its files, relative to the job's directory."""


class SummaryScenario(Model):
    """All attempts of a scenario in a run."""

    node_id: str
    """Of the attempts, without their number."""
    scenario: str
    outcome: str
    """The verdict of the attempt policy; with `each`, passed only if every attempt did; `error` while it is open."""
    attempts: int
    """That were meant to run; `trials` are those that ended."""
    passed: int
    failed: int
    error: int
    mean_score: float | None
    flaky: bool
    trials: tuple[str, ...]
    """Node ids of its attempts, in order."""


class RunFigures(Figures, RunHead):
    """A run: one benchmark and one agent."""

    by_scenario: tuple[SummaryScenario, ...] | None
    """With `--extended`: each scenario over all its attempts."""
    trials: tuple[SummaryTrial, ...] | None
    """With `--extended`."""


class InFlight(Model):
    """A trial that runs now."""

    node_id: str
    scenario: str
    agent: str
    attempt: int
    phase: str
    started_at: datetime.datetime
    phase_since: datetime.datetime

    @classmethod
    def of(cls, trial: Flying) -> InFlight:
        """Describe a trial that runs."""
        started, since = (
            datetime.datetime.fromtimestamp(seconds, datetime.UTC) for seconds in (trial.started, trial.since)
        )
        return mirror(cls, trial, started_at=started, phase_since=since)


class SummaryDocument(Document):
    """`benchjobs summary`."""

    id: str
    name: str | None
    status: str
    message: str | None
    """Reason for its status, if that is not plain."""
    created_at: datetime.datetime
    finished_at: datetime.datetime | None
    resumed_at: tuple[datetime.datetime, ...]
    parent: str | None
    metadata: dict[str, str]
    directory: str
    """Of its files."""
    planned: int | None
    attempts: int
    """The most of any benchmark."""
    attempt_policy: str
    totals: Totals
    agents: tuple[AgentFigures, ...]
    runs: tuple[RunFigures, ...]
    left_out: int
    """Scenarios beyond `--limit`."""
    silent_seconds: float | None
    """While it runs: since its process last said that it is alive."""
    dead: bool = False
    """Its process died: it has the status of a job that goes on until `recover`, or the next job, closes it."""
    in_flight: tuple[InFlight, ...]
    rescored: str | None = None
    """Of a job that graded a part of another one anew: the means of the same trials, then and now."""
    config: JobConfig
    reproducibility: dict[str, Any]
    """argv, git commit and state, versions, platform."""
