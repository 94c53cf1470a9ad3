"""Tokens of a model call, and their prices."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

MILLION = 1_000_000
_COUNTS = ("input", "output", "cached", "cache_write", "cache_write_1h", "reasoning")
SEARCHES = "web_searches"
LIKE_TEXT = frozenset({"input_image", "input_video", "cached_image", "cached_video"})
"""Media at the price of text where a list has no price of their own. Sound and made pictures are always dearer."""


class Unpriced(LookupError):
    """The cost of a call is unknown; the message says why."""


class NoSuchPrice(Unpriced):
    """No list of prices has the model, at this rate."""


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
    apart: Mapping[str, int] = dataclasses.field(default_factory=dict)
    """Those that are no text: `input_audio`, `output_image`, `cached_audio` (of `cached` and `input_audio`) ..., and
    `web_searches`, which are no tokens."""
    steps: tuple[tuple[str | None, Tokens], ...] = ()
    """Usages to add up, each with its model if it is another, where an endpoint charges for steps separately."""

    @property
    def total(self) -> int | None:
        """Tokens sent and received; None if neither was reported."""
        if self.input is None and self.output is None:
            return None
        return (self.input or 0) + (self.output or 0)

    def with_each(self, other: Tokens, combine: Callable[[int, int], int]) -> Tokens:
        """Combine each count with that of `other`, where both have it."""
        counts: dict[str, Any] = {
            name: _combined(getattr(self, name), getattr(other, name), combine) for name in _COUNTS
        }
        apart = {
            name: _combined(self.apart.get(name), other.apart.get(name), combine) or 0
            for name in {**self.apart, **other.apart}
        }
        return Tokens(**counts, apart=apart)

    def charged(self) -> dict[str, int]:
        """Number of tokens for each price, each token in one of them."""
        left = {name: getattr(self, name) or 0 for name in _COUNTS if name != "reasoning"}
        left["cache_write"] -= left["cache_write_1h"]
        left["input"] -= left["cached"] + (self.cache_write or 0)
        apart = dict(self.apart)
        for name, count in self.apart.items():
            part, _, medium = name.partition("_")
            if part in left:
                left[part] -= count
            if part == "cached" and (sent := f"input_{medium}") in apart:
                apart[sent] -= count
                left["input"] += count
        return {name: count for name, count in (left | apart).items() if count > 0}


def in_words(name: str) -> str:
    """Return what one of the counts of `Tokens` counts."""
    return name.replace("_", " ") if name == SEARCHES else f"{name} tokens"


def _combined(one: int | None, other: int | None, combine: Callable[[int, int], int]) -> int | None:
    if one is None or other is None:
        return other if one is None else one
    return combine(one, other)


@dataclasses.dataclass(frozen=True, slots=True)
class Price:
    """USD per million tokens. None: not known."""

    input: float
    output: float
    cached: float | None = None
    cache_write: float | None = None
    cache_write_1h: float | None = None
    apart: Mapping[str, float] = dataclasses.field(default_factory=dict)
    """Of `Tokens.apart`."""

    def cost(self, tokens: Tokens) -> float:
        """USD for the reported tokens. Raises Unpriced: some of them have no price."""
        total = 0.0
        for name, count in tokens.charged().items():
            price = self.apart.get(name) if name in tokens.apart else getattr(self, name)
            if price is None and name in LIKE_TEXT:
                price = self.input if name.startswith("input") else self.cached
            if price is None:
                raise Unpriced(f"no price for {in_words(name)}")
            total += count * price
        return total / MILLION
