"""Forecast for trials that have not run yet: bounds of time, and expectations from earlier runs."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence


@dataclasses.dataclass(frozen=True, slots=True)
class Earlier:
    """Time and cost of a trial in an earlier run. None: unknown."""

    seconds: float | None = None
    cost_usd: float | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Forecast:
    """Expected time and cost of a set of trials."""

    at_most_seconds: float
    """However slow they are: when all of them use all their time."""
    expected_seconds: float | None
    """Of those that ran before; None: none did."""
    unknown_times: int
    """Those that did not."""
    expected_usd: float | None
    """Of those whose cost is known; None: of none."""
    unknown_costs: int


def at_most(seconds: Sequence[float], lanes: int) -> float:
    """The longest that trials of these lengths can take, at most `lanes` at a time and never fewer while any waits.

    In the worst order the longest begins last, when all others have just ended (R. L. Graham, Bounds on
    multiprocessing timing anomalies, 1969).
    """
    if len(seconds) <= lanes:
        return max(seconds, default=0.0)
    return sum(seconds) / lanes + max(seconds) * (1 - 1 / lanes)


def expected(seconds: Sequence[float], lanes: int) -> float:
    """Time of trials of these lengths when no lane is idle: no less than the longest."""
    if not seconds:
        return 0.0
    return max(sum(seconds) / max(1, lanes), max(seconds))


def forecast(
    timeouts: Sequence[float], earlier: Iterable[Earlier], lanes: int, limit: float | None
) -> Forecast:
    """Sum it up. `timeouts` are seconds each trial has, `limit` those the whole job has."""
    known = list(earlier)
    times = [one.seconds for one in known if one.seconds is not None]
    costs = [one.cost_usd for one in known if one.cost_usd is not None]
    bound = at_most(timeouts, lanes)
    return Forecast(
        at_most_seconds=bound if limit is None else min(bound, limit),
        expected_seconds=expected(times, lanes) if times else None,
        unknown_times=len(known) - len(times),
        expected_usd=sum(costs) if costs else None,
        unknown_costs=len(known) - len(costs),
    )
