"""Progress of a trial through its steps, where the scenario has several."""

from __future__ import annotations

import dataclasses

from ..agents.protocol import Conversation
from ..model.result import AgentEnd, ScorerResult
from .limits import Limits


@dataclasses.dataclass(frozen=True, slots=True)
class StepEnd:
    """End of the agent in one step."""

    step: str
    end: AgentEnd
    limits: Limits


@dataclasses.dataclass(slots=True)
class Progress:
    """The step that a trial is at, and what is known of the earlier ones."""

    number: int = 0
    """Number of the step, counted from 0."""
    started: float = 0.0
    """Start of the step, in seconds since the trial began."""
    conversation: Conversation = dataclasses.field(default_factory=Conversation)
    """Messages and replies so far."""
    said: str | None = None
    """Reply that the agent gave in this step, as it is known before the agent's end is judged."""
    reply: str | None = None
    """Reply to grade. None: the agent did not run, or did not end by itself."""
    scorers: list[ScorerResult] = dataclasses.field(default_factory=list)
    """Results of the scorers of all ended steps."""
    ends: list[StepEnd] = dataclasses.field(default_factory=list)
    """Ends of the agent in all ended steps."""
