"""Rows of the history: jobs, runs, trials, scores and events as plain values."""

from __future__ import annotations

import dataclasses
import datetime
import functools
import json
import operator
from collections.abc import Iterable
from typing import Generic, NamedTuple, TypeVar

from pydantic import Field

from ..model.base import Model
from ..model.job import JobRecord
from ..model.metric import MOST, Metric
from ..model.result import ScorerResult, TrialResult
from .bundle import stored
from .text import clean

_MESSAGE_LIMIT = 2000
Time = TypeVar("Time")
Tags = TypeVar("Tags")
NOT_NEEDED = "not_needed"
"""Place of grading of a trial for which no program of a scorer ran."""


class Counts(Model):
    """Trials by outcome, and their cost in US dollars. Time and cost of reused trials do not count."""

    ended: int = Field(serialization_alias="trials")
    """Trials that ended, or were reused: the sum of the next five."""
    passed: int
    failed: int
    error: int
    cancelled: int
    skipped: int
    reused: int
    """Those whose result is that of another job."""
    mean_score: float | None
    """Mean over the trials with a score. Errors have none."""
    cost_usd: float | None
    """Of what ran in this job; None: unknown for all."""


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
    """Labels, in order of their runs."""
    benchmarks: tuple[str, ...]
    parent: str | None
    """The job it was made from, by `rerun`, `rescore` or `merge`."""
    branch: str | None = None
    """Of git, where the job was started; None: unknown."""
    commit: str | None = None


class JobView(Counts, JobHead):
    """A job. While it runs, counts are of the trials that have ended. Times are UTC."""

    selection: bool = False
    """True for a shard, and for a job without a name that ran a selection of scenarios: `-k`, `-m`, `--lf`, ids."""


class JobRow(JobView):
    """A job with the mean scores of its agents."""

    scores: dict[str, float] = {}
    """Label -> mean score of its trials; agents without one are left out."""


class RunHead(Model):
    """A run: one benchmark and one agent in one job."""

    id: str
    """`JOB.N`, N from 1."""
    job: str
    job_name: str | None
    benchmark: str
    benchmark_version: str | None
    agent: str
    provider: str | None
    model: str | None
    status: str
    """Of the job."""
    started_at: datetime.datetime | None
    finished_at: datetime.datetime | None
    """None while the job runs."""


class RunRow(Counts, RunHead):
    """A run. Times are UTC.

    Cost, tokens and seconds are those spent in this job: a reused trial has none, a rescored one only seconds.
    """

    input_tokens: int | None
    output_tokens: int | None
    cached_tokens: int | None
    calls: int | None = None
    """Calls of models that were answered."""
    branch: str | None = None
    """Of git, where the job was started; None: unknown."""
    commit: str | None = None
    seconds: float
    """Sum over the trials that ran in this job."""
    median_seconds: float | None = None
    """Of the trials that passed or failed in this job."""

    @property
    def tokens(self) -> int | None:
        """Input and output."""
        known = self.input_tokens is not None and self.output_tokens is not None
        return (self.input_tokens or 0) + (self.output_tokens or 0) if known else None


class TrialView(NamedTuple, Generic[Time, Tags]):
    """A trial that ended; the whole result is in the bundle. Times are UTC, cost is in US dollars.

    A tuple, as there may be many: they are read in two thirds of the time that dataclasses take.
    """

    job: str
    node_id: str
    benchmark: str
    benchmark_version: str | None
    scenario: str
    agent: str
    model: str | None
    attempt: int
    tries: int
    outcome: str
    class_: str | None
    """Reason why it did not pass, in a word. The column of a table is called `class`."""
    message: str | None
    score: float | None
    threshold: float
    started_at: Time
    finished_at: Time
    seconds: float
    input_tokens: int | None
    output_tokens: int | None
    cost_usd: float | None
    path: str
    """Of its files, relative to the directory of its job."""
    provider: str | None
    signature: str | None
    """Of what decides its result: trials with the same one are samples of the same thing."""
    reused: str | None
    """The job whose result is reused: it did not run in this one."""
    rescored: str | None
    """The job whose trial was graded again; no agent ran in this job."""
    kept: str | None
    """Image with the file system the agent left."""
    cached_tokens: int | None
    reasoning_tokens: int | None
    comparable: str | None
    """Digest of what both sides of a comparison must have in common; None: unknown."""
    known: str | None
    """Mode of its known-failure entry."""
    tags: Tags
    """Tags of its scenario, a JSON list."""
    cluster: str | None
    """Scenarios of one cluster are not independent of each other."""
    calls: int | None
    """Calls of models that were answered."""
    metrics: str | None
    """Metrics of its scorers, JSON that `metrics_of` reads: name -> [value, unit, direction of better values]."""
    graded_in: str | None
    """A value of `GradeIn`, or `not_needed`; None: an earlier version did not say."""
    run: str
    """Id of its run."""


class TrialRow(TrialView[str, str | None]):
    """A trial in the history, with times and tags as they are there."""

    __slots__ = ()


class FigureRow(NamedTuple):
    """Sums over the trials of a run that ended alike."""

    run: str
    benchmark: str
    agent: str
    outcome: str
    class_: str | None
    here: bool
    """True if the trials ran in this job."""
    worked: bool
    """True if their agent also ran in this job, so that they were not only graded again."""
    trials: int
    scored: int
    score: float
    positive: int
    """Number of trials with a score above 0."""
    seconds: float
    priced: int
    cost_usd: float | None
    input_tokens: int | None
    output_tokens: int | None
    cached_tokens: int | None


@dataclasses.dataclass(frozen=True, slots=True)
class ScoreRow:
    """The score that one scorer gave a trial."""

    scorer: str
    type: str
    weight: float
    score: float | None
    class_: str | None
    seconds: float


@dataclasses.dataclass(frozen=True, slots=True)
class EventRow:
    """An event of a job as a whole. `at` is UTC."""

    at: datetime.datetime
    kind: str
    message: str


class PairRow(NamedTuple):
    """The columns of a trial that comparisons need, as they read all trials of two jobs."""

    benchmark: str
    scenario: str
    agent: str
    attempt: int
    outcome: str
    score: float | None
    class_: str | None
    seconds: float
    cost_usd: float | None
    input_tokens: int | None
    output_tokens: int | None
    comparable: str | None
    reused: str | None
    rescored: str | None
    known: str | None
    tags: str | None
    cluster: str | None
    threshold: float = 1.0
    metrics: str | None = None
    graded_in: str | None = None
    node_id: str | None = None


class ScenarioRow(NamedTuple):
    """A result of a scenario that was run, with what is known of its job."""

    number: int
    job: str
    job_name: str | None
    node_id: str
    agent: str
    attempt: int
    outcome: str
    score: float | None
    seconds: float
    cost_usd: float | None
    comparable: str | None
    finished_at: str
    branch: str | None
    commit: str | None


TRIAL_COLUMNS = tuple(name.rstrip("_") for name in TrialRow._fields if name != "run")
_pair_values = operator.itemgetter(*(TRIAL_COLUMNS.index(name.rstrip("_")) for name in PairRow._fields))
SCORE_COLUMNS = tuple(field.name.rstrip("_") for field in dataclasses.fields(ScoreRow))
TOTALS = ("trials", "passed", "failed", "error", "cancelled", "skipped", "reused", "mean_score", "cost_usd")
JOB_COLUMNS = (
    "id", "name", "status", "created_at", "finished_at", "planned", *TOTALS, "parent", "selection",
    "branch", '"commit"', "record",
)  # fmt: skip


def job_values(record: JobRecord) -> tuple[object, ...]:
    """Values of `JOB_COLUMNS`."""
    record = stored(record)
    return (
        record.id,
        kept_text(record.name),
        record.status.value,
        as_text(record.created_at),
        record.finished_at and as_text(record.finished_at),
        record.planned,
        *(getattr(record.totals, name) for name in TOTALS),
        kept_text(record.parent),
        record.config.shard is not None
        or (record.narrowed and not (record.name or record.config.sample or record.config.max_examples)),
        *_checkout(record),
        record.model_dump_json(by_alias=True),
    )


def _checkout(record: JobRecord) -> tuple[str | None, str | None]:
    """Return branch and commit, which a record from elsewhere may have as anything."""
    git = record.reproducibility.get("git")
    found = [git.get(name) if isinstance(git, dict) else None for name in ("branch", "commit")]
    branch, commit = (clean(value, 200) if isinstance(value, str) else None for value in found)
    return branch, commit


def trial_values(result: TrialResult) -> tuple[object, ...]:
    """Values of `TRIAL_COLUMNS`."""
    failure = result.failure
    usage = result.usage
    return (
        result.job,
        clean(result.node_id),
        clean(result.benchmark),
        kept_text(result.benchmark_version),
        clean(result.scenario),
        result.agent.label,
        kept_text(result.agent.model),
        result.attempt,
        result.tries,
        result.outcome.value,
        kept_text(failure.class_) if failure else None,
        kept_text(failure.message) if failure else None,
        result.score,
        result.threshold,
        as_text(result.started_at),
        as_text(result.finished_at),
        result.seconds,
        usage.input_tokens,
        usage.output_tokens,
        usage.cost_usd,
        clean(result.path),
        kept_text(result.agent.provider),
        result.signature.value if result.signature else None,
        kept_text(result.reused.job) if result.reused else None,
        kept_text(result.rescored.job) if result.rescored else None,
        kept_text(result.kept),
        usage.cached_tokens,
        usage.reasoning_tokens,
        result.signature.comparable if result.signature else None,
        result.known.mode.value if result.known else None,
        clean(json.dumps(result.tags)) if result.tags else None,
        kept_text(result.cluster),
        usage.calls,
        _metrics_text(result.metrics) if result.metrics else None,
        _graded_in(result),
    )


def _graded_in(result: TrialResult) -> str | None:
    if result.graded_in is not None:
        return result.graded_in.value
    # Versions that did not note the place did not sign it, either.
    return NOT_NEEDED if result.signature is not None and "place" in result.signature.parts else None


def _metrics_text(metrics: Iterable[Metric]) -> str:
    table = {
        clean(one.name, 200): [one.value, one.unit and clean(one.unit, 200), one.direction] for one in metrics
    }
    return json.dumps(table)


@functools.lru_cache(maxsize=1024)
def tags_of(text: str | None) -> tuple[str, ...]:
    """Return the tags of a row. The row may come from elsewhere: what is no list has none."""
    try:
        listed = json.loads(text or "[]")
    except (ValueError, RecursionError):
        return ()
    return tuple(map(str, listed)) if isinstance(listed, list) else ()


@functools.lru_cache(maxsize=1024)
def metrics_of(text: str | None) -> tuple[Metric, ...]:
    """Return the metrics of a row. The row may come from elsewhere: what is no metric is left out."""
    if text is None:
        return ()
    found = []
    try:
        for name, (value, unit, direction) in json.loads(text).items():
            found.append(Metric(name=name, value=value, unit=unit, direction=direction))
    except (ValueError, TypeError, AttributeError, RecursionError):
        pass  # the rest of a damaged text
    return tuple(found[:MOST])


def pair_row(result: TrialResult) -> PairRow:
    """Make a row for comparisons from a result that is not in the history."""
    return PairRow._make(_pair_values(trial_values(result)))


def score_values(scorers: Iterable[ScorerResult]) -> list[tuple[object, ...]]:
    """Yield position and values of `SCORE_COLUMNS` for each scorer."""
    return [
        (
            position,
            clean(scorer.name),
            clean(scorer.type),
            scorer.weight,
            scorer.score,
            kept_text(scorer.error.class_) if scorer.error else None,
            scorer.seconds,
        )
        for position, scorer in enumerate(scorers)
    ]


def column_of(name: str) -> str:
    """Return the column of a field in SQL, where `commit` is a keyword."""
    return {"commit": '"commit"', "ended": "trials"}.get(name, name)


def as_text(time: datetime.datetime) -> str:
    """Format a time for the history: UTC, so that texts sort like times."""
    if time.tzinfo is None:
        time = time.replace(tzinfo=datetime.UTC)
    return time.astimezone(datetime.UTC).isoformat()


def kept_text(value: str | None) -> str | None:
    """Clean a text for the history: without control characters, of bounded length."""
    return None if value is None else clean(value, _MESSAGE_LIMIT)
