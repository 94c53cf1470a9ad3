"""Exit statuses besides pytest's own, of sessions and commands alike."""

from __future__ import annotations

import enum


class ExitStatus(enum.IntEnum):
    """Reason why a job is not simply good, as an exit status."""

    REGRESSED = 10
    INCONCLUSIVE = 11
    """Only under the policy `strict`."""
    INVALID = 12
    BUDGET_SPENT = 13
    """A limit on money, tokens or calls stopped the job."""
    PAUSED = 75
    """The job waits for the quota of a provider: the status of `sysexits.h` for "try again later"."""
