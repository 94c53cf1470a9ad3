"""Events that a running job reports to `watch` and other observers."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from .base import Model
from .result import Outcome


class Planned(Model):
    """The first event: how many trials there will be, by label of the agent."""

    event: Literal["planned"] = "planned"
    at: float
    """Seconds since the epoch, here and below."""
    agents: dict[str, int]


class PhaseBegan(Model):
    """A trial in flight entered a phase: queued is none, the first is `prepare`."""

    event: Literal["phase"] = "phase"
    at: float
    node_id: str
    scenario: str
    agent: str
    attempt: int
    phase: str
    benchmark: str = ""
    confidential: bool = False
    """True if nothing of the trial may be quoted."""


class Ended(Model):
    """A trial has ended. `cancelled` ones have too: they are in flight no more."""

    event: Literal["ended"] = "ended"
    at: float
    node_id: str
    scenario: str
    agent: str
    attempt: int
    outcome: Outcome
    score: float | None
    seconds: float
    """0 for one that did not run now."""
    class_: str | None
    cost_usd: float | None
    """None: unknown, or spent in another job. So are tokens."""
    input_tokens: int | None = None
    output_tokens: int | None = None
    reused: bool
    """Taken over from an earlier job."""
    before: bool = False
    """It had ended before this job was resumed."""


Event = Annotated[Planned | PhaseBegan | Ended, Field(discriminator="event")]
