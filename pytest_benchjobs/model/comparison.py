"""A comparison of two sides: what it found, as it is stored and printed."""

from __future__ import annotations

import datetime
from typing import Annotated, Literal

from pydantic import Field

from .base import Model, Score
from .gate import Change, ScenarioRef
from .metric import Direction


class HighScore(Model):
    """The best that is known of a benchmark, from elsewhere."""

    score: Score
    """As a share of 1, whatever unit it was written in."""
    unit: Literal["score", "%"] = "score"
    """It was written in. Differences to it are shown in it."""
    direction: Literal["higher"] = "higher"
    """Direction of better results. Scores have one only."""
    source: str | None = None
    """Source of the score."""


class ComparedSide(Model):
    """One of the two."""

    spec: str
    """As requested."""
    jobs: tuple[str, ...] = ()
    """Ids, the newest first; empty for a file."""
    agents: tuple[str, ...] = ()
    """Labels."""


class ComparedMetric(Model):
    """A metric that scorers report, over the scenarios that have it on both sides."""

    name: str
    unit: str | None = None
    direction: Direction = "higher"
    """Direction of better values."""
    scenarios: int
    a: float
    b: float
    delta: float
    """`b - a`."""
    winner: Literal["a", "b"] | None = None
    """Side with the better mean. None: the means are the same."""
    p_value: float | None = None
    """Two-sided, of no difference, adjusted for all metrics of all rows (Holm), and for the rows."""


class ComparedRow(Model):
    """One benchmark and a pair of agents. Means are over the scenarios that both sides have a score of."""

    benchmark: str
    a_agent: str
    b_agent: str
    scenarios: int
    """Pairs: n."""
    clusters: int | None = None
    """Clusters that they are in, each of which counts as one value; None: no cluster has several."""
    a: float | None = None
    """Mean score."""
    b: float | None = None
    delta: float | None = None
    """`b - a`."""
    low: float | None = None
    """Of the interval of the delta, adjusted as p is."""
    high: float | None = None
    p_value: float | None = None
    """Two-sided, of no difference, adjusted for the number of rows (Holm), and for the metrics if there are any."""
    p_worse: float | None = None
    """One-sided, of side B being worse, adjusted alike: what the rule `mean` of a gate finds of B beside A."""
    detectable: float | None = None
    """The smallest difference it would have seen four times of five."""
    winner: Literal["a", "b"] | None = None
    """Side with the higher mean. None: the means are the same."""
    significant: bool = False
    """Chance does not explain the difference, at the level of the comparison."""
    a_pass_rate: float | None = None
    """Mean over the pairs of the share of attempts that passed."""
    b_pass_rate: float | None = None
    a_cost: float | None = None
    """USD per attempt, over the attempts of which it is known."""
    b_cost: float | None = None
    a_tokens: float | None = None
    """Input and output, per attempt."""
    b_tokens: float | None = None
    a_seconds: float | None = None
    """Per attempt."""
    b_seconds: float | None = None
    a_errors: int = 0
    """Attempts that ended in an error. They have no score."""
    b_errors: int = 0
    high_score: HighScore | None = None
    a_to_high: float | None = None
    """`a - high_score`; negative: below it."""
    b_to_high: float | None = None
    metrics: tuple[ComparedMetric, ...] = ()


class AgentRank(Model):
    """The ranks that an agent of a benchmark may have, 1 being the best. Agents that are too close share ranks."""

    benchmark: str
    agent: str
    first: int
    """One more than the number of agents that are significantly better."""
    last: int
    """Number of agents, without those that are significantly worse."""


class Comparison(Model):
    """Two sides, compared scenario by scenario; or each two agents of one job."""

    schema_version: int = 1
    id: Annotated[str, Field(pattern=r"^cmp_\d{8}T\d{6}Z_[0-9a-f]{8}$")]
    at: datetime.datetime
    a: ComparedSide
    b: ComparedSide
    level: Annotated[float, Field(gt=0.5, lt=1)] = 0.95
    """Of the intervals, and one minus the p-value below which a difference is called significant."""
    rows: tuple[ComparedRow, ...] = ()
    ranks: tuple[AgentRank, ...] = ()
    """Of each two agents of one job: all of them, the best of a benchmark first. Else empty."""
    newly_failing: tuple[Change, ...] = ()
    """Passed on side A in most attempts, and on B in fewer than half. `before` is A."""
    newly_passing: tuple[Change, ...] = ()
    suspects: tuple[Change, ...] = ()
    """Others, worse on B in a way that is worth a closer look, after Benjamini and Hochberg at 10 %."""
    added: tuple[ScenarioRef, ...] = ()
    """On B only."""
    removed: tuple[ScenarioRef, ...] = ()
    """On A only."""
    changed: tuple[ScenarioRef, ...] = ()
    """Not the same task on both sides, so left out."""
    unscored: tuple[ScenarioRef, ...] = ()
    """Nothing but errors on a side, so left out."""
    notes: tuple[str, ...] = ()
