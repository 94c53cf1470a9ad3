"""Tokens of a model call, and their prices."""

from __future__ import annotations

import dataclasses

MILLION = 1_000_000


@dataclasses.dataclass(frozen=True, slots=True)
class Tokens:
    """Tokens of one call. None: not reported."""

    input: int | None = None
    """Tokens sent."""
    output: int | None = None
    """Tokens received."""
    cached: int | None = None
    """Of `input`, read from a cache."""
    cache_write: int | None = None
    """Of `input`, written to a cache."""
    cache_write_1h: int | None = None
    """Of `cache_write`, kept for an hour, which costs more."""
    reasoning: int | None = None
    """Of `output`."""

    @property
    def total(self) -> int | None:
        """Tokens sent and received; None if neither was reported."""
        if self.input is None and self.output is None:
            return None
        return (self.input or 0) + (self.output or 0)


@dataclasses.dataclass(frozen=True, slots=True)
class Price:
    """USD per million tokens. None: not known."""

    input: float
    output: float
    cached: float | None = None
    cache_write: float | None = None
    cache_write_1h: float | None = None

    def cost(self, tokens: Tokens) -> float | None:
        """USD for the reported tokens; None if some of them have no price."""
        cached, written, hour = tokens.cached or 0, tokens.cache_write or 0, tokens.cache_write_1h or 0
        parts = (
            (max((tokens.input or 0) - cached - written, 0), self.input),
            (tokens.output or 0, self.output),
            (cached, self.cached),
            (max(written - hour, 0), self.cache_write),
            (hour, self.cache_write_1h),
        )
        total = 0.0
        for count, price in parts:
            if count and price is None:
                return None
            total += count * (price or 0.0)
        return total / MILLION
