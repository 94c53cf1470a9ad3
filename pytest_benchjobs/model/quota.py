"""Quotas of providers: what a job does when one is used up, and the record of it.

A quota is hard: no credit, a usage limit, a cap of a day or a month. It is not a rate limit, which the gateway waits
for within a call.
"""

from __future__ import annotations

import enum

from pydantic import AwareDatetime

from .base import Model

QUOTA_OF = "the quota of "
"""Beginning of messages about quotas that are used up."""


class OnQuota(enum.StrEnum):
    """Reaction of a job to a used-up quota of a provider."""

    FAIL = "fail"
    """End the job; its trials under way are errors."""
    WAIT = "wait"
    """Trials of that provider wait until the quota is back; those of others go on."""
    PAUSE = "pause"
    """No further trial of that provider begins. When all others have ended, the job is paused."""


class Quota(Model):
    """A quota that is used up, for one provider and key."""

    provider: str
    message: str
    """The provider's own words, in one line."""
    since: AwareDatetime
    until: AwareDatetime | None = None
    """Time of the next try, with `wait`; otherwise the time when the quota is back, if the provider named one."""
    told: bool = False
    """True if the provider named the time."""
    times: int = 1
    """Number of times in a row that the quota was found used up."""
