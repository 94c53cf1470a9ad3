"""Rows of the history: jobs, runs, trials, scores and events as plain values."""

from __future__ import annotations

import dataclasses
import datetime
import json
from collections.abc import Iterable
from typing import NamedTuple

from ..model.job import JobRecord
from ..model.result import ScorerResult, TrialResult
from .bundle import stored
from .text import clean

_MESSAGE_LIMIT = 2000


@dataclasses.dataclass(frozen=True, slots=True)
class JobRow:
    """A job. While it runs, the counts are of what has ended so far. Times are UTC."""

    id: str
    name: str | None
    status: str
    created_at: datetime.datetime
    finished_at: datetime.datetime | None
    planned: int | None
    trials: int
    passed: int
    failed: int
    error: int
    cancelled: int
    skipped: int
    reused: int
    """Those of `trials` that did not run in this job."""
    mean_score: float | None
    cost_usd: float | None
    """Of what ran in this job; None when it is unknown of all trials."""
    agents: tuple[str, ...]
    """Labels, in order of their runs."""
    scores: dict[str, float]
    """Label -> mean score of its trials; without the agents that have none."""
    benchmarks: tuple[str, ...]
    parent: str | None
    selection: bool
    """It has no name and ran a selection of scenarios (`-k`, `-m`, `--lf`, ids), as one does while developing."""


@dataclasses.dataclass(frozen=True, slots=True)
class RunRow:
    """A run: one benchmark and one agent in one job. Times are UTC; `finished_at` is None while the job runs.

    Cost, tokens and seconds are those spent in this job: nothing for what was reused; for what was rescored, seconds.
    """

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
    trials: int
    passed: int
    failed: int
    error: int
    cancelled: int
    skipped: int
    reused: int
    mean_score: float | None
    cost_usd: float | None
    input_tokens: int | None
    output_tokens: int | None
    cached_tokens: int | None
    seconds: float
    started_at: datetime.datetime | None
    finished_at: datetime.datetime | None


class TrialRow(NamedTuple):
    """A trial in the history; the whole result is in the bundle, at `path` of its job.

    A tuple, since there may be many: they are read in two thirds of the time that dataclasses take.
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
    message: str | None
    score: float | None
    threshold: float
    started_at: str
    finished_at: str
    seconds: float
    input_tokens: int | None
    output_tokens: int | None
    cost_usd: float | None
    path: str
    provider: str | None
    signature: str | None
    reused: str | None
    """The job it was reused from: it did not run in this one."""
    rescored: str | None
    """The job whose trial was graded anew: no agent ran in this one."""
    kept: str | None
    cached_tokens: int | None
    reasoning_tokens: int | None
    comparable: str | None
    """Digest of what both sides of a comparison must have in common."""
    known: str | None
    """Mode of the known failure it was."""
    tags: str | None
    """Of its scenario, a JSON list."""
    cluster: str | None
    run: str
    """Id of its run."""


class FigureRow(NamedTuple):
    """Sums over the trials of a run that ended alike."""

    run: str
    benchmark: str
    agent: str
    outcome: str
    class_: str | None
    here: bool
    """They ran in this job."""
    worked: bool
    """And so did their agent: they were not only graded anew."""
    trials: int
    scored: int
    score: float
    positive: int
    """Those with a score above 0."""
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
    """Something that happened to a job as a whole. `at` is UTC."""

    at: datetime.datetime
    kind: str
    message: str


class PairRow(NamedTuple):
    """A trial as comparisons need it; light, since a comparison reads all of two jobs."""

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
    """Digest of what both sides of a comparison must have in common; None: unknown."""
    reused: str | None
    """The job it was reused from: no new sample."""
    rescored: str | None
    known: str | None
    tags: str | None
    """A JSON list."""
    cluster: str | None


TRIAL_COLUMNS = tuple(name.rstrip("_") for name in TrialRow._fields if name != "run")
SCORE_COLUMNS = tuple(field.name.rstrip("_") for field in dataclasses.fields(ScoreRow))
TOTALS = ("trials", "passed", "failed", "error", "cancelled", "skipped", "reused", "mean_score", "cost_usd")
JOB_COLUMNS = (
    "id", "name", "status", "created_at", "finished_at", "planned", *TOTALS, "parent", "selection", "record",
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
        record.narrowed and not (record.name or record.config.sample or record.config.max_examples),
        record.model_dump_json(by_alias=True),
    )


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
    )


def pair_row(result: TrialResult) -> PairRow:
    """Make a row for comparing of a trial that is not in the history."""
    values = dict(zip(TRIAL_COLUMNS, trial_values(result), strict=True))
    return PairRow._make(values[name.rstrip("_")] for name in PairRow._fields)


def score_values(scorers: Iterable[ScorerResult]) -> list[tuple[object, ...]]:
    """For each scorer its position, and values of `SCORE_COLUMNS`."""
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


def as_text(time: datetime.datetime) -> str:
    """A time as the history keeps it: UTC, so that texts sort as times do."""
    if time.tzinfo is None:
        time = time.replace(tzinfo=datetime.UTC)
    return time.astimezone(datetime.UTC).isoformat()


def as_time(text: str | None) -> datetime.datetime | None:
    """The time that `as_text` wrote."""
    return None if text is None else datetime.datetime.fromisoformat(text)


def kept_text(value: str | None) -> str | None:
    """A text as the history keeps it: without control characters, of bounded length."""
    return None if value is None else clean(value, _MESSAGE_LIMIT)
