"""Named metrics: what scorers measure beside the score, such as seconds, cost or findings of a security check.

A metric is kept apart from the score. It has a part in it only where the scenario gives it a weight.
"""

from __future__ import annotations

import math
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from .base import Model

Direction = Literal["higher", "lower"]
"""Direction of better values."""
METRIC_NAME = r"[A-Za-z][A-Za-z0-9_.-]{0,63}"
MetricName = Annotated[str, Field(pattern=rf"^{METRIC_NAME}$")]
Unit = Annotated[str, Field(pattern=r"^[^\s\x00-\x1f\x7f-\x9f]{1,20}$")]
"""A short word: `s`, `USD`, `MiB`, `%`."""
Weight = Annotated[float, Field(gt=0, le=1e9)]
OWN_SCORE = "score"
"""Name by which a scorer's own score takes part in a score made of metrics."""
LARGEST = 1e15
"""The largest absolute value."""
MOST = 50
"""The most metrics of one scorer, and of one trial."""


class MetricSpec(Model):
    """A metric that a scorer reports, as its scenario describes it."""

    unit: Unit | None = None
    direction: Direction | None = None
    """Direction of better values; default: as `worst` and `best` say, else `higher`."""
    worst: float | None = None
    """Value that is worth 0, where the metric has a weight. With `best`; default: 0, or 1 if lower is better."""
    best: float | None = None
    """Value that is worth 1. Beyond the two it stays 0 or 1."""
    weight: Weight | None = None
    """Part in the scorer's score; None: it has none."""

    @model_validator(mode="after")
    def _agree(self) -> Self:
        if (self.worst is None) is not (self.best is None):
            raise ValueError("worst and best are given together")
        if self.worst is None or self.best is None:
            return self
        if self.worst == self.best or not math.isfinite(self.best - self.worst):
            raise ValueError("worst and best have to be two different values")
        if self.direction not in (None, "lower" if self.best < self.worst else "higher"):
            raise ValueError(f"direction is {self.direction}, but best and worst say otherwise")
        return self

    @property
    def better(self) -> Direction:
        """Direction of better values."""
        if self.worst is not None and self.best is not None:
            return "lower" if self.best < self.worst else "higher"
        return self.direction or "higher"

    def share(self, value: float) -> float | None:
        """Return the value as a score from 0 to 1; None for one outside of that without `worst` and `best`."""
        if self.worst is not None and self.best is not None:
            return min(1.0, max(0.0, (value - self.worst) / (self.best - self.worst)))
        if not 0 <= value <= 1:
            return None
        return 1 - value if self.better == "lower" else value


class Metric(Model):
    """A measured value."""

    name: Annotated[str, Field(max_length=200)]
    value: Annotated[float, Field(ge=-LARGEST, le=LARGEST)]
    unit: Annotated[str, Field(max_length=200)] | None = None
    direction: Direction = "higher"
    """Direction of better values."""
