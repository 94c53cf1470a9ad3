"""Tokens of a call of a model."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True, slots=True)
class Tokens:
    """Of one call. None: not reported."""

    input: int | None = None
    """All that was sent."""
    output: int | None = None
    """All that came back."""
    cached: int | None = None
    """Of `input`, read from a cache."""
    cache_write: int | None = None
    """Of `input`, written to a cache."""
    cache_write_1h: int | None = None
    """Of `cache_write`, to be kept for an hour, which costs more."""
    reasoning: int | None = None
    """Of `output`."""

    @property
    def total(self) -> int | None:
        """Sent and received; None if neither was reported."""
        if self.input is None and self.output is None:
            return None
        return (self.input or 0) + (self.output or 0)
