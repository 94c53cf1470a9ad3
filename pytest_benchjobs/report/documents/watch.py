"""The document of `watch`: a job as it stands at a moment."""

from __future__ import annotations

import datetime

from pydantic import Field

from ...analysis.live import Live, Tally
from ...model.base import Model
from ...model.event import Ended
from ...model.job import JobRecord
from ...model.result import Outcome
from ...store.text import clean
from . import Document
from .summary import InFlight

_LATELY = 10


class WatchTotals(Model):
    """Counts of trials by outcome. Of reused ones neither cost nor tokens count."""

    planned: int | None
    """Trials selected to run; null until that is known."""
    done: int
    """Trials that have ended."""
    passed: int
    failed: int
    error: int
    cancelled: int
    skipped: int
    reused: int
    before: int
    """Those that had ended before the job was resumed."""
    mean_score: float | None
    """Over the trials with a score. Errors have none."""
    cost_usd: float | None
    """null: unknown. So are tokens."""
    input_tokens: int | None
    output_tokens: int | None


class WatchAgent(WatchTotals):
    """The same for one agent."""

    agent: str


class WatchEnded(Model):
    """A trial that has ended."""

    node_id: str
    scenario: str
    agent: str
    attempt: int
    outcome: str
    score: float | None
    class_: str | None = Field(serialization_alias="class")
    seconds: float
    reused: bool


class WatchDocument(Document):
    """`benchjobs watch`: with `-o json` one on each line, the last one when the job has ended."""

    id: str
    name: str | None
    status: str
    message: str | None
    """Reason for its status, if that is not plain."""
    died: bool
    """Whoever ran it is gone, though its status says that it runs."""
    at: datetime.datetime
    created_at: datetime.datetime
    resumed_at: tuple[datetime.datetime, ...]
    finished_at: datetime.datetime | None
    elapsed: float
    """Seconds since it was begun, or last resumed, until now or its end."""
    eta: float | None
    """Seconds until the last trial ends, as far as anybody can tell; null until then, and at the end."""
    concurrency: int
    totals: WatchTotals
    agents: tuple[WatchAgent, ...]
    in_flight: tuple[InFlight, ...]
    """The oldest first."""
    lately: tuple[WatchEnded, ...]
    """The last trials that ended, the newest last."""
    log: tuple[str, ...]
    """Before the first trial: the last lines of what pytest printed."""


def watch_document(
    record: JobRecord, live: Live, now: datetime.datetime, *, died: bool = False, log: tuple[str, ...] = ()
) -> WatchDocument:
    """Return a job as it stands `now`."""
    over = died or record.status.ended
    return WatchDocument(
        id=record.id,
        name=record.name,
        status=record.status.value,
        message=record.message,
        died=died,
        at=now,
        created_at=record.created_at,
        resumed_at=record.resumed_at,
        finished_at=record.finished_at,
        elapsed=elapsed(record, now),
        eta=None if over else live.seconds_left(now.timestamp()),
        concurrency=record.config.concurrency,
        totals=WatchTotals(**_totals(live.all)),
        agents=tuple(WatchAgent(agent=label, **_totals(tally)) for label, tally in live.agents.items()),
        in_flight=tuple(
            InFlight(
                node_id=clean(trial.node_id),
                scenario=clean(trial.scenario),
                agent=trial.agent,
                attempt=trial.attempt,
                phase=clean(trial.phase),
                started_at=_time(trial.started),
                phase_since=_time(trial.since),
            )
            for trial in live.flying.values()
        ),
        lately=tuple(map(_ended, list(live.lately)[-_LATELY:])),
        log=log,
    )


def elapsed(record: JobRecord, now: datetime.datetime) -> float:
    """Seconds since the job was begun, or last resumed, until it ended."""
    begun = max((record.created_at, *record.resumed_at))
    return max(0.0, ((record.finished_at or now) - begun).total_seconds())


def _totals(tally: Tally) -> dict[str, object]:
    return {
        "planned": tally.planned,
        "done": tally.done,
        **{outcome.value: tally.of(outcome) for outcome in Outcome},
        "reused": tally.reused,
        "before": tally.before,
        "mean_score": tally.mean_score,
        "cost_usd": tally.cost_usd,
        "input_tokens": tally.input_tokens,
        "output_tokens": tally.output_tokens,
    }


def _ended(event: Ended) -> WatchEnded:
    return WatchEnded(
        node_id=clean(event.node_id),
        scenario=clean(event.scenario),
        agent=event.agent,
        attempt=event.attempt,
        outcome=event.outcome.value,
        score=event.score,
        class_=None if event.class_ is None else clean(event.class_),
        seconds=event.seconds,
        reused=event.reused,
    )


def _time(seconds: float) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC)
