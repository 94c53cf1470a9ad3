"""Usage of models by an agent."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from .base import Model


class Usage(Model):
    """Usage of models by an agent, in the same units for every agent. Unknown is None, never 0."""

    input_tokens: Annotated[int, Field(ge=0)] | None = None
    """All that was sent, cached or not."""
    output_tokens: Annotated[int, Field(ge=0)] | None = None
    """All that came back, reasoning included."""
    cached_tokens: Annotated[int, Field(ge=0)] | None = None
    """Those of `input_tokens` that were read from a cache."""
    cache_write_tokens: Annotated[int, Field(ge=0)] | None = None
    """Those of `input_tokens` that were written to one, where that has a price of its own."""
    reasoning_tokens: Annotated[int, Field(ge=0)] | None = None
    """Those of `output_tokens` that are reasoning."""
    cost_usd: Annotated[float, Field(ge=0)] | None = None
    calls: Annotated[int, Field(ge=0)] | None = None
    """Calls of a model that were answered."""
    source: Literal["gateway", "agent"] | None = None
    """Source of the numbers. Those of the agent are not proven. None: no source, or a sum."""


FIGURES = tuple(name for name in Usage.model_fields if name != "source")
"""The fields that are numbers."""
