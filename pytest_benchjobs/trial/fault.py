"""Whose fault it is that the calls of an agent failed, or were not answered. It is decided here, and nowhere else.

    what became of the last call            calls answered   the endpoint answers others   whose fault
    it was answered, or there was none      any              -                             the agent's
    the gateway broke, or held it           any              -                             the gateway's
    it failed, or got no answer for long    none             -                             the endpoint's
    it failed, or got no answer for long    some             no                            the endpoint's
    it failed, or got no answer for long    some             yes                           the agent's

An agent that reports success has got on without that call, so it is graded; but one of which no call was ever answered
cannot know. An agent that the gateway stopped was stopped because the endpoint answered nobody.
"""

from __future__ import annotations

import dataclasses
import enum

_LEAST, _LONG = 10.0, 120.0
_AT_ALL = 5.0
_SLACK = 1.0


class Fault(enum.Enum):
    """Whose fault it is."""

    AGENT = "agent"
    ENDPOINT = "endpoint"
    GATEWAY = "gateway"


@dataclasses.dataclass(frozen=True, slots=True)
class Evidence:
    """Facts about an agent, and its calls, up to its end. Times in seconds."""

    answered: int = 0
    """Calls that were answered completely."""
    failed: bool = False
    """The endpoint failed a call, and answered none since."""
    broke: bool = False
    """The gateway itself failed the last call, or held it, for a reason of its own, until the agent gave it up."""
    unanswered: float = 0.0
    """Time for which the endpoint was silent, up to the moment when the agent gave up or was ended."""
    answers_others: bool = False
    """Since then the endpoint has answered another trial, or the gateway's own small call."""
    seconds: float = 0.0
    """Time that the agent had, without that for which the gateway held its calls, and that needed to end it."""
    timeout: float = 0.0
    """Time that it should have had."""
    timed_out: bool = False
    stopped: bool = False
    """The gateway had it stopped."""
    succeeded: bool = False
    """It reports success."""


def fault(seen: Evidence) -> Fault:
    """Return whose fault the end of an agent is."""
    if seen.timed_out and not seen.stopped and seen.seconds < seen.timeout - _SLACK:
        return Fault.ENDPOINT if seen.failed else Fault.GATEWAY
    if seen.broke and not seen.succeeded:
        return Fault.GATEWAY
    if not (seen.failed or _got_no_answer(seen)):
        return Fault.AGENT
    if seen.answered == 0 or seen.stopped:
        return Fault.ENDPOINT
    return Fault.AGENT if seen.answers_others or seen.succeeded else Fault.ENDPOINT


def _got_no_answer(seen: Evidence) -> bool:
    """Return True if the endpoint was silent for so long that a call counts as failed.

    Where it has answered before, that is half of the agent's time, and minutes if the agent gave up by itself: so it
    cannot blame the endpoint at will.
    """
    if seen.answered == 0:
        return seen.unanswered >= _AT_ALL
    return seen.unanswered >= max(_LEAST if seen.timed_out else _LONG, seen.seconds / 2)
