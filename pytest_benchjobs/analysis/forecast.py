"""Forecast for trials that have not run yet: an upper bound of the time, and expectations from earlier runs."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from math import fsum
from statistics import fmean


@dataclasses.dataclass(frozen=True, slots=True)
class Earlier:
    """Time and cost of a trial in an earlier run. None: unknown."""

    seconds: float | None = None
    cost_usd: float | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Forecast:
    """Expected time and cost of a set of trials."""

    at_most_seconds: float
    """Upper bound of the time, if all trials use their whole timeout."""
    expected_seconds: float | None
    """Expected time from trials that ran before; None if none did."""
    unknown_times: int
    """Number of trials without an earlier run."""
    expected_usd: float | None
    """Expected cost from trials whose cost is known; None if none is."""
    unknown_costs: int


def at_most(seconds: Sequence[float], lanes: int) -> float:
    """Return an upper bound of the time for trials of these lengths, with `lanes` of them at a time.

    In the worst order the longest begins last, when all others have just ended (R. L. Graham, Bounds on
    multiprocessing timing anomalies, 1969).
    """
    if len(seconds) <= lanes:
        return max(seconds, default=0.0)
    return sum(seconds) / lanes + max(seconds) * (1 - 1 / lanes)


def expected(seconds: Sequence[float], lanes: int) -> float:
    """Return the time for trials of these lengths when no lane is idle: at least that of the longest."""
    if not seconds:
        return 0.0
    return max(sum(seconds) / max(1, lanes), max(seconds))


def scenario_seconds(
    trials: Mapping[tuple[str, str], Sequence[str]], known: Mapping[tuple[str, str, str], float]
) -> dict[tuple[str, str], float]:
    """Return the sum of the expected times of each scenario's trials, given the labels of their agents.

    `known` has seconds by benchmark, scenario and agent. An unknown agent takes as long as others at the scenario, an
    unknown scenario as long as others; where none is known, each trial counts as one second.
    """
    of_scenarios: dict[tuple[str, str], list[float]] = {}
    for (benchmark, scenario, _), seconds in known.items():
        of_scenarios.setdefault((benchmark, scenario), []).append(seconds)
    means = {key: fmean(times) for key, times in of_scenarios.items() if key in trials}
    usual = fmean(means.values()) if means else 1.0
    return {
        key: fsum(known.get((*key, label), means.get(key, usual)) for label in labels)
        for key, labels in trials.items()
    }


def forecast(
    timeouts: Sequence[float], earlier: Iterable[Earlier], lanes: int, limit: float | None
) -> Forecast:
    """Make the forecast. `timeouts` are the seconds of each trial, `limit` those of the whole job."""
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
