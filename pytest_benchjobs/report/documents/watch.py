"""The document of `watch`: a snapshot of a job."""

from __future__ import annotations

import datetime
from typing import Any, ClassVar

from pydantic import Field

from ...analysis.live import Live, Tally
from ...model.base import Model
from ...model.job import JobRecord
from ...model.quota import Quota
from ...model.result import Outcome
from . import Document, mirror, renamed
from .summary import InFlight

_LATELY = 10


class WatchTotals(Model):
    """Counts of trials by outcome. Cost and tokens of reused trials do not count."""

    planned: int | None
    """Trials selected to run; null until known."""
    done: int
    """Trials that have ended."""
    ended: ClassVar[Any] = renamed("done", int)
    passed: int
    failed: int
    error: int
    cancelled: int
    skipped: int
    reused: int
    before: int
    """Trials that ended before the job was resumed."""
    mean_score: float | None
    """Mean over the trials with a score. Errors have none."""
    cost_usd: float | None
    """null: unknown; tokens likewise."""
    input_tokens: int | None
    output_tokens: int | None


class WatchAgent(WatchTotals):
    """Counts for one agent."""

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
    job: ClassVar[Any] = renamed("id", str)
    name: str | None
    status: str
    message: str | None
    """Reason for the status, where it needs one."""
    died: bool
    """True if its process is dead, though its status is that of a running job."""
    at: datetime.datetime
    created_at: datetime.datetime
    resumed_at: tuple[datetime.datetime, ...]
    finished_at: datetime.datetime | None
    elapsed: float
    """Seconds from its start, or last resume, until now or its end."""
    eta: float | None
    """Estimated seconds until the last trial ends; null while unknown, and at the end."""
    concurrency: int
    totals: WatchTotals
    agents: tuple[WatchAgent, ...]
    in_flight: tuple[InFlight, ...]
    """Running trials, the oldest first."""
    quotas: tuple[Quota, ...]
    """Quotas of providers that are used up, which trials wait for, or which pause the job."""
    lately: tuple[WatchEnded, ...]
    """The trials that ended last, the newest at the end."""
    log: tuple[str, ...]
    """Last lines of pytest's output, before the first trial."""


def watch_document(
    record: JobRecord,
    live: Live,
    now: datetime.datetime,
    *,
    died: bool = False,
    log: tuple[str, ...] = (),
    quotas: tuple[Quota, ...] = (),
) -> WatchDocument:
    """Return a snapshot of a job. Texts of agents in it are raw: clean them before they are shown."""
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
        quotas=quotas,
    )


def elapsed(record: JobRecord, now: datetime.datetime) -> float:
    """Return the seconds from the job's start, or last resume, until now or its end."""
    begun = max((record.created_at, *record.resumed_at))
    return max(0.0, ((record.finished_at or now) - begun).total_seconds())


def _outcomes(tally: Tally) -> dict[str, int]:
    return {outcome.value: tally.of(outcome) for outcome in Outcome}
