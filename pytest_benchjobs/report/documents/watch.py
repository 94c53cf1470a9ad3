"""The document of `watch`: a job as it stands at a moment."""

from __future__ import annotations

import datetime

from pydantic import Field

from ...analysis.live import Live, Tally
from ...model.base import Model
from ...model.job import JobRecord
from ...model.result import Outcome
from . import Document, mirror
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
    """Return a job as it stands `now`. Texts of agents are in it as they came: clean them before they are shown."""
    over = died or record.status.ended
    return mirror(
        WatchDocument,
        record,
        status=record.status.value,
        died=died,
        at=now,
        elapsed=elapsed(record, now),
        eta=None if over else live.seconds_left(now.timestamp()),
        concurrency=record.config.concurrency,
        totals=mirror(WatchTotals, live.all, **_outcomes(live.all)),
        agents=tuple(
            mirror(WatchAgent, tally, agent=label, **_outcomes(tally)) for label, tally in live.agents.items()
        ),
        in_flight=tuple(map(InFlight.of, live.flying.values())),
        lately=tuple(
            mirror(WatchEnded, event, outcome=event.outcome.value) for event in list(live.lately)[-_LATELY:]
        ),
        log=log,
    )


def elapsed(record: JobRecord, now: datetime.datetime) -> float:
    """Seconds since the job was begun, or last resumed, until it ended."""
    begun = max((record.created_at, *record.resumed_at))
    return max(0.0, ((record.finished_at or now) - begun).total_seconds())


def _outcomes(tally: Tally) -> dict[str, int]:
    return {outcome.value: tally.of(outcome) for outcome in Outcome}
