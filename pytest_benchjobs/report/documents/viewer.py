"""Documents of the viewer: answers of its `/api/...`, and the data of its exports."""

from __future__ import annotations

import datetime
from typing import Any, Literal

from pydantic import Field

from ...model.base import Model
from ...model.comparison import Comparison, HighScore
from ...model.gate import GateReport
from ...model.result import TrialResult
from . import Document
from .jobs import JobItem, RunItem
from .summary import SummaryDocument


class Command(Model):
    """A command that a user may type."""

    title: str
    command: str


class ViewerChoices(Model):
    """Values that lists can be filtered by, the first 500 of each."""

    benchmarks: tuple[str, ...]
    agents: tuple[str, ...]
    models: tuple[str, ...]
    statuses: tuple[str, ...]
    branches: tuple[str, ...]
    tags: tuple[str, ...]


class ViewerColumns(Model):
    """Names of columns that lists can be sorted by."""

    runs: tuple[str, ...]
    jobs: tuple[str, ...]


class ViewerMeta(Document):
    """`/api/meta`: the results that are shown."""

    version: str
    directory: str
    live: bool
    """True if jobs are read while they run; false in an export."""
    generated_at: datetime.datetime | None = None
    """Time of the export."""
    choices: ViewerChoices
    columns: ViewerColumns
    high_scores: bool
    """True if there are high scores."""
    cut: tuple[str, ...] = ()
    """Parts that an export lacks, a line each, with the reason."""


class ViewerRun(RunItem):
    """A run, with the high score of its benchmark."""

    total_tokens: int | None
    """Input and output."""
    high_score: HighScore | None
    delta: float | None
    """`mean_score - high_score`; negative: below it."""
    tags: tuple[str, ...]
    """Of its scenarios."""


class ViewerRuns(Document):
    """`/api/runs`: a page of runs."""

    total: int
    """Runs on all pages."""
    next: str | None
    """Value of `after` for the next page; null on the last one."""
    runs: tuple[ViewerRun, ...]


class ViewerJobItem(JobItem):
    """A job, with its verdict."""

    verdict: str | None
    """Latest verdict of its gates."""
    models: tuple[str, ...]
    """In order of its runs."""
    tags: tuple[str, ...]
    """Of its scenarios."""


class ViewerJobs(Document):
    """`/api/jobs`: a page of jobs."""

    total: int
    """Jobs on all pages."""
    next: str | None
    """Value of `after` for the next page; null on the last one."""
    jobs: tuple[ViewerJobItem, ...]


class RecentScore(Model):
    """A run with a score, as a point of a chart."""

    job: str
    at: datetime.datetime | None = Field(validation_alias="started_at")
    mean_score: float
    low: float | None
    """Lower end of the 95 % interval; null: unknown, or too many trials to look at."""
    high: float | None
    selection: bool
    """Its job ran a selection of scenarios."""


class LatestScore(Model):
    """The newest score of a benchmark and agent."""

    benchmark: str
    agent: str
    run: str = Field(validation_alias="id")
    job: str
    status: str
    dead: bool
    """The run did not end, and never will: the process of its job is gone."""
    mean_score: float | None
    at: datetime.datetime | None = Field(validation_alias="started_at")
    high_score: HighScore | None
    delta: float | None
    recent: tuple[RecentScore, ...] = ()
    """The last runs of this benchmark and agent, the oldest first; of the first 60 scores."""


class ViewerBaseline(Model):
    """A named baseline."""

    name: str
    jobs: tuple[str, ...]
    branch: str | None
    commit: str | None
    set_at: datetime.datetime
    set_by: str | None
    reason: str | None


class ViewerOverview(Document):
    """`/api/overview`: totals over all runs, and the latest scores."""

    jobs: int
    runs: int
    trials: int
    benchmarks: int
    filtered: int
    """Runs that fit the filter; the next two are of those."""
    succeeded: int
    """Of completed jobs."""
    failed: int
    """Of jobs that ended in another way."""
    latest: ViewerRun | None
    latest_scores: tuple[LatestScore, ...]
    synthetic: tuple[LatestScore, ...]
    """The same of agents without a model, whose results are known in advance."""
    baselines: tuple[ViewerBaseline, ...]


class ErrorClass(Model):
    """Trials that failed, or ended in an error, for the same reason."""

    class_: str = Field(serialization_alias="class")
    outcome: str
    trials: int
    message: str | None
    """Of one of them."""


class GateLine(Model):
    """A line of a verdict as a terminal shows it."""

    text: str
    colour: str | None


class RuleFigures(Model):
    """The finding of a rule, for a drawing of its interval. All in the unit of the rule's metric."""

    expression: str
    benchmark: str | None
    agent: str | None
    verdict: str
    why: str
    change: float | None
    low: float | None
    high: float | None
    tolerance: float | None
    p_value: float | None
    detectable: float | None
    unit: str


class ViewerEvent(Model):
    """An event of a job as a whole."""

    at: datetime.datetime
    kind: str
    message: str


class ViewerJob(Document):
    """`/api/jobs/JOB`: everything about a job but its trials."""

    summary: SummaryDocument
    branch: str | None
    commit: str | None
    errors: tuple[ErrorClass, ...]
    """The most frequent first."""
    gates: tuple[GateReport, ...]
    """Reports of its gates, the newest first."""
    gate_lines: tuple[GateLine, ...]
    """The newest one, as a terminal shows it."""
    rules: tuple[RuleFigures, ...]
    """The rules of the newest one."""
    events: tuple[ViewerEvent, ...]
    commands: tuple[Command, ...]


class MatrixRows(Model):
    """Scenarios: columns of equal length."""

    benchmark: list[int]
    """Place in `benchmarks`."""
    scenario: list[str]
    tags: list[list[str]]


class MatrixTrials(Model):
    """Trials: columns of equal length. `row`, `agent`, `outcome` and `class` are places in the lists of the matrix."""

    row: list[int]
    agent: list[int]
    attempt: list[int]
    outcome: list[int | None]
    """null: it runs."""
    score: list[float | None]
    class_: list[int | None] = Field(serialization_alias="class")
    seconds: list[float]
    cost_usd: list[float | None]
    id: list[str]
    """Node ids."""
    flags: list[int]
    """Sum of 1: reused, 2: rescored, 4: known failure, 8: file system kept, 16: running."""


class KnownFailure(Model):
    """Why trials of a scenario and agent are known to fail."""

    benchmark: str
    scenario: str
    agent: str
    reason: str
    """With its link, its place and its last day."""


class ViewerMatrix(Document):
    """`/api/jobs/JOB/matrix`: all trials of a job, by scenario and agent."""

    benchmarks: list[str]
    agents: list[str]
    outcomes: list[str]
    classes: list[str]
    rows: MatrixRows
    """Sorted by benchmark and scenario."""
    trials: MatrixTrials
    left_out: int
    """Trials beyond the limit."""
    known: tuple[KnownFailure, ...] = ()


class ViewerFile(Model):
    """A file of a trial."""

    path: str
    """Relative to the directory of the trial."""
    bytes: int
    kind: Literal["text", "diff", "image", "html", "binary"]


class LogHead(Model):
    """A log of a trial."""

    name: str
    bytes: int


class RunningTrial(Model):
    """A trial that has not ended."""

    scenario: str
    agent: str
    attempt: int
    phase: str
    started_at: datetime.datetime
    phase_since: datetime.datetime


class TrialHead(Model):
    """A trial as the history has it."""

    id: str = Field(validation_alias="node_id")
    benchmark: str
    scenario: str
    agent: str
    attempt: int
    outcome: str
    score: float | None


class ViewerTrial(Document):
    """`/api/jobs/JOB/trial`: everything about a trial but its steps and the content of its files."""

    job: str
    job_name: str | None
    job_status: str
    row: TrialHead | None
    """null while it runs."""
    result: TrialResult | None
    """null: it runs, or its files are gone."""
    running: RunningTrial | None
    withheld: bool
    """True if its benchmark is confidential: texts and files are withheld."""
    statement: str | None
    """The task as the benchmark has it now. null: the benchmark is not here, or it is confidential."""
    steps: int
    """Steps of its trajectory."""
    logs: tuple[LogHead, ...]
    files: tuple[ViewerFile, ...]
    files_left_out: int
    commands: tuple[Command, ...]
    siblings: tuple[TrialHead, ...]
    """The other trials of its scenario in the job, by agent and attempt."""


class ViewerSteps(Document):
    """`/api/jobs/JOB/steps`: steps of a trajectory."""

    agent: dict[str, Any] | None
    """Name, version and model, as the agent reports them."""
    total: int
    """Steps that fit."""
    next: int | None
    """Value of `after` for the next page; null on the last one."""
    steps: list[dict[str, Any]]
    """Steps: see the schema `trajectory`."""
    notes: str | None
    final_metrics: dict[str, Any] | None


class ViewerLog(Document):
    """`/api/jobs/JOB/log`: a part of a log."""

    name: str
    bytes: int
    """Of the whole log."""
    offset: int
    next: int | None
    """Offset of the next part; null at the end."""
    text: str
    """May have escape sequences of terminals."""


class PairColumns(Model):
    """Scenarios that both sides have a score of: columns of equal length."""

    benchmark: list[str]
    scenario: list[str]
    a_agent: list[str]
    b_agent: list[str]
    a: list[float]
    """Mean score."""
    b: list[float]
    a_passed: list[int]
    b_passed: list[int]
    a_attempts: list[int]
    b_attempts: list[int]
    kind: list[Literal["broke", "fixed", "worse", "better", "same"]]


class ViewerComparison(Document):
    """`/api/compare`: two sides, compared scenario by scenario."""

    comparison: Comparison
    pairs: PairColumns
    left_out: int
    """Pairs beyond the limit."""
    a_jobs: tuple[str, ...]
    b_jobs: tuple[str, ...]
    agents_a: tuple[str, ...]
    """All agents of side A."""
    agents_b: tuple[str, ...]


class AlignedChoice(Model):
    """A trial whose steps may be aligned instead."""

    job: str
    attempt: int
    outcome: str


class AlignedTrial(TrialHead):
    """A trial of which steps are aligned."""

    job: str
    steps: int
    choices: tuple[AlignedChoice, ...]
    """Attempts of its scenario and agent in the jobs of its side, itself among them."""


class AlignedRow(Model):
    """A step of each trial, side by side."""

    kind: Literal["identical", "different", "tool_mismatch", "only_a", "only_b"]
    a: dict[str, Any] | None
    b: dict[str, Any] | None


class ViewerAlignment(Document):
    """`/api/align`: two trajectories, step by step."""

    a: AlignedTrial
    b: AlignedTrial
    counts: dict[str, int]
    """Kind -> rows, over both whole trajectories."""
    total: int
    next: int | None
    """Value of `after` for the next page; null on the last one."""
    rows: list[AlignedRow]


class AgentHistory(Model):
    """All results of an agent at a scenario."""

    agent: str
    attempts: int
    passed: int
    failed: int
    errors: int
    pass_rate: float | None
    """Share that passed among those that passed or failed."""
    low: float | None
    """Of its 95 % interval (Clopper and Pearson)."""
    high: float | None
    mean_score: float | None
    flips: int
    """Number of times that a pass followed a failure or the reverse, while the content was the same."""
    flaky: bool
    """True if one content has passed and failed."""
    contents: int
    """Number of different contents."""


class ScenarioResult(Model):
    """A result of a scenario."""

    at: datetime.datetime = Field(validation_alias="finished_at")
    job: str
    job_name: str | None
    id: str = Field(validation_alias="node_id")
    agent: str
    attempt: int
    outcome: str
    score: float | None
    seconds: float
    cost_usd: float | None
    content: str | None = Field(validation_alias="comparable")
    """Digest of everything that makes the task."""
    changed: bool
    """True if the content differs from that of the agent's result before."""
    branch: str | None
    commit: str | None


class ViewerScenario(Document):
    """`/api/scenario`: results of a scenario over time."""

    benchmark: str
    scenario: str
    first_seen: datetime.datetime | None
    last_seen: datetime.datetime | None
    agents: tuple[AgentHistory, ...]
    next: str | None
    results: tuple[ScenarioResult, ...]
    """The newest first."""


class TrendPoint(Model):
    """Results of a benchmark and agent, of one commit or day."""

    key: str
    """Commit, or day."""
    at: datetime.datetime
    benchmark: str
    agent: str
    jobs: tuple[str, ...]
    scenarios: int
    """Scenarios with a score."""
    attempts: int
    mean: float | None
    """Mean over the scenarios."""
    low: float | None
    """Of its 95 % interval; null with fewer than two scenarios."""
    high: float | None
    passed: int
    failed: int
    errors: int
    known: int
    """Scenarios that are known failures."""
    selection: bool = False
    """Its jobs ran a selection of scenarios. Such jobs are left out where another job has results of the same key."""


class ViewerTrend(Document):
    """`/api/trend`: mean scores over time, the oldest first."""

    by: Literal["commit", "day"]
    points: tuple[TrendPoint, ...]
