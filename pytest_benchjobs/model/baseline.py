"""Baselines: named results that jobs are judged against, in the history or in a file that is committed."""

from __future__ import annotations

import datetime
import math
from typing import Annotated, Literal, Self

from pydantic import ConfigDict, Field, model_validator

from .base import Model, Name
from .metric import LARGEST, MOST, Direction

DEFAULT_NAME = "default"
"""Of the baseline that is meant where none is named."""
RESERVED = frozenset({"last", "none", "job", "branch", "file"})
"""Words with another meaning in place of a baseline's name."""

_Text = Annotated[str, Field(max_length=2000)]
_Id = Annotated[str, Field(min_length=1, max_length=1000)]
_Amount = Annotated[float, Field(ge=0, le=1e15)]


class BaselineEntry(Model, defer_build=True):
    """One setting of a baseline. The latest entry of a name counts, earlier entries are its history."""

    name: Name
    jobs: tuple[str, ...]
    """Ids, the newest first; none: it was deleted."""
    branch: str | None = None
    """Of git, where the newest of the jobs ran."""
    commit: str | None = None
    set_at: datetime.datetime
    set_by: str | None = None
    """Name of the git user, else the login."""
    reason: str | None = None


class BaselineMetric(Model, defer_build=True):
    """A metric of all attempts of an agent at a scenario."""

    model_config = ConfigDict(**{**Model.model_config, "strict": True})

    mean: Annotated[float, Field(ge=-LARGEST, le=LARGEST)]
    unit: _Text | None = None
    direction: Direction = "higher"


class BaselineScenario(Model, defer_build=True):
    """All attempts of an agent at a scenario: a line of the file."""

    model_config = ConfigDict(**{**Model.model_config, "strict": True})

    benchmark: _Id
    scenario: _Id
    agent: _Id
    """Label."""
    scores: Annotated[
        tuple[Annotated[float, Field(ge=0, le=1)], ...], Field(max_length=100_000, strict=False)
    ] = ()
    """Of the attempts that passed or failed, six digits."""
    passed: Annotated[int, Field(ge=0)] = 0
    """Those of `scores` that passed."""
    errors: Annotated[int, Field(ge=0, le=10**9)] = 0
    """Attempts that ended in an error. They have no score."""
    comparable: Annotated[str, Field(max_length=100)] | None = None
    """Digest of what both sides of a comparison must have in common."""
    tags: Annotated[tuple[_Text, ...], Field(max_length=1000, strict=False)] = ()
    cluster: _Text | None = None
    cost_usd: _Amount | None = None
    """Mean per attempt, as are tokens and seconds; None: unknown."""
    tokens: _Amount | None = None
    seconds: _Amount | None = None
    metrics: Annotated[dict[_Id, BaselineMetric], Field(max_length=MOST)] = {}
    """Metrics of scorers: mean per attempt."""
    graded_in: Annotated[
        tuple[Literal["agent_container", "fresh", "unknown"], ...], Field(max_length=3, strict=False)
    ] = ("unknown",)
    """Places in which the attempts in `scores` were graded, as far as programs of scorers ran."""

    @model_validator(mode="after")
    def _agree(self) -> Self:
        if self.passed > len(self.scores):
            raise ValueError(f"passed is {self.passed}, but there are {len(self.scores)} scores")
        return self

    @property
    def key(self) -> tuple[str, str, str]:
        """Benchmark, agent and scenario."""
        return self.benchmark, self.agent, self.scenario


class BaselineChecksum(Model, defer_build=True):
    """Checksum of the scenarios of a file."""

    model_config = ConfigDict(**{**Model.model_config, "strict": True})

    scenarios: Annotated[int, Field(ge=0)]
    """Their number."""
    digest: Annotated[str, Field(max_length=100)]


class BaselineFile(Model, defer_build=True):
    """`baseline.json`: a baseline that is small enough to be committed."""

    model_config = ConfigDict(**{**Model.model_config, "strict": True})

    format: Literal["pytest-benchjobs baseline"] = "pytest-benchjobs baseline"
    schema_version: Literal[1] = 1
    name: _Id
    jobs: Annotated[tuple[_Id, ...], Field(max_length=10_000, strict=False)] = ()
    """Ids of those it was made of, the newest first. They need not be at hand."""
    branch: _Text | None = None
    commit: _Text | None = None
    reason: _Text | None = None
    ran_on: Annotated[tuple[_Text, ...] | None, Field(max_length=1000, strict=False)] = None
    """Sandboxes, runtimes and headroom of the jobs; None: an earlier version did not say."""
    checksum: BaselineChecksum | None = None
    """Of `scenarios`, as they were written. None: they are taken as they are."""
    scenarios: Annotated[tuple[BaselineScenario, ...], Field(max_length=1_000_000, strict=False)] = ()
    """By benchmark, agent and scenario, in the order of their names; each once."""


def rounded(value: float | None, digits: int) -> float | None:
    """Round a number for a file; None for one that is not finite."""
    return None if value is None or not math.isfinite(value) else round(value, digits)
