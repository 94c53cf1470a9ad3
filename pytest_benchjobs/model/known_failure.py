"""A failure that the team knows of: a line of `bench-known.toml`."""

from __future__ import annotations

import datetime
import enum

from .base import Model

KNOWN_FILE = "bench-known.toml"
"""In the rootdir."""


class KnownMode(enum.StrEnum):
    """Treatment of a trial with a known failure."""

    EXPECTED_FAIL = "expected-fail"
    """It runs; a failure is expected. It counts in the mean and in gates."""
    QUARANTINE = "quarantine"
    """It runs and is shown, and is out of every gate."""
    SKIP = "skip"
    """It does not run."""


class Known(Model):
    """A known failure: why a trial may fail, and until when."""

    mode: KnownMode
    reason: str
    issue: str | None = None
    """A link."""
    until: datetime.date | None = None
    """The last day it holds."""
    place: str | None = None
    """Place of the entry, such as `bench-known.toml:12`."""
    strict: bool = False
    """A pass is a failure: with `expected-fail` alone."""

    @property
    def text(self) -> str:
        """The reason, and where to look, in a line: `reason (https://...; bench-known.toml:12; until 2027-01-31)`."""
        about = [self.issue, self.place, None if self.until is None else f"until {self.until}"]
        return f"{self.reason} ({'; '.join(filter(None, about))})" if any(about) else self.reason
