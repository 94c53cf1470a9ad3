"""That verdicts are what docs/gates.md says they are, on thousands of simulated jobs: `make simulate`.

`SIMULATE_REPORT=FILE` appends a row for each setting to a file, of which the tables in docs/statistics.md are made. A
share may miss its limit by some standard errors of the simulation.
"""

from __future__ import annotations

import math
import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_benchjobs.analysis.comparison import compare_agents
from pytest_benchjobs.analysis.sides import Side
from pytest_benchjobs.analysis.statistics.intervals import clopper_pearson
from pytest_benchjobs.analysis.statistics.inversion import mean_interval
from tests.performance.calibration import Shape, half
from tests.performance.gates import AT, Jobs, always, found_at_printed, mostly, simulated

pytestmark = [pytest.mark.slow, pytest.mark.extended, pytest.mark.when_changed]
ALIKE: Shape = "all alike"
SOME: Shape = "some to 0"


def row(what: str, setting: str, times: int, of: int, detail: str = "") -> float:
    """Print a row of the table, and return the share."""
    low, high = (100 * end for end in clopper_pearson(times, of))
    line = (
        f"| {what} | {setting} | {100 * times / of:.1f} % | {low:.1f} to {high:.1f} | {of:,} | {detail} |\n"
    )
    if (path := os.environ.get("SIMULATE_REPORT")) is not None:
        with Path(path).open("a") as file:
            file.write(line)
    return times / of


def noise(limit: float, of: int, errors: float = 2.6) -> float:
    """Return standard errors of a share: a true share at the limit misses it by 2.6 in one of 200 simulations."""
    return errors * math.sqrt(limit * (1 - limit) / of)


@pytest.mark.parametrize(
    ("jobs", "drop"),
    [
        (Jobs(5, 1, 1, always(1.0)), 0.02), (Jobs(20, 1, 1, always(1.0)), 0.02), (Jobs(20, 3, 3, always(1.0)), 0.05),
        (Jobs(60, 1, 1, always(1.0)), 0.02), (Jobs(60, 1, 1, always(1.0)), 0.05), (Jobs(60, 3, 3, always(1.0)), 0.05),
        (Jobs(80, 1, 1, always(1.0)), 0.05), (Jobs(200, 1, 1, always(1.0)), 0.02), (Jobs(200, 1, 1, always(0.99)), 0.02),
        (Jobs(89, 1, 15, always(0.97)), 0.05), (Jobs(60, 3, 3, always(0.97)), 0.05), (Jobs(89, 3, 3, half), 0.05),
        (Jobs(300, 1, 1, mostly(0.95)), 0.05), (Jobs(80, 1, 1, always(1.0)), 0.1),
    ],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("shape", [ALIKE, SOME])
def test_strict_says_ok_of_a_drop_as_large_as_the_tolerance_in_one_of_twenty(
    jobs: Jobs, drop: float, shape: Shape
) -> None:
    found = simulated(jobs, f"mean:{100 * drop:g}pp", drop, 300, policy="strict", shape=shape)
    share = row(
        "`ok` under `strict` at a drop as large as the tolerance",
        f"{jobs}, {100 * drop:g} points, {shape}",
        found.ok,
        found.gates,
    )
    assert share <= 0.05 + noise(0.05, found.gates, 2)
    assert found.contradictions == 0


TIMES = [0.0, 0.5, 1.0, 2.0]


@pytest.mark.parametrize("policy", ["evidence", "shown"])
@pytest.mark.parametrize("times", TIMES)
@pytest.mark.parametrize("jobs", [Jobs(89, 3, 3), Jobs(300, 1, 1), Jobs(300, 3, 3)], ids=str)
def test_drops_in_units_of_the_tolerance(jobs: Jobs, times: float, policy: str) -> None:
    gates = 600 if policy == "shown" and times == 1 else 200  # at the limit that it promises
    found = simulated(jobs, "mean:5pp", 0.05 * times, gates, policy=policy)
    share = row(
        f"regressed under `{policy}`, `mean:5pp`",
        f"{jobs}, drop of {5 * times:g} points",
        found.regressed,
        found.gates,
    )
    if times == 0 or (policy == "shown" and times <= 1):
        assert share <= 0.05 + noise(0.05, found.gates)
    assert found.contradictions == 0


@pytest.mark.parametrize(
    ("jobs", "rule", "policy", "value"),
    [
        (Jobs(89, 3, 3), "mean:5pp", "evidence", float), (Jobs(300, 1, 1), "mean:10pp", "evidence", float),
        (Jobs(89, 3, 3), "mean:5pp", "shown", float), (Jobs(300, 3, 3), "mean:5pp", "shown", float),
        (Jobs(90, 3, 3, size=9, shared=0.3), "mean:any", "evidence", float),
        (Jobs(100, 3, 3, size=5, shared=0.3), "mean:any", "evidence", float),
        (Jobs(30, 3, 3, size=5, shared=0.3), "mean:any", "evidence", float),
        (Jobs(90, 3, 3, size=9), "mean:any", "evidence", float), (Jobs(30, 3, 3, size=5), "mean:any", "evidence", float),
        (Jobs(89, 5, 5), "pass^3", "evidence", lambda rate: rate**3),
        (Jobs(30, 5, 5), "pass^3", "evidence", lambda rate: rate**3),
    ],
    ids=lambda one: str(one) if isinstance(one, Jobs | str) else "",
)  # fmt: skip
def test_a_detectable_drop_is_found_four_times_of_five_in_its_least_favourable_shape(
    jobs: Jobs, rule: str, policy: str, value: Callable[[float], float]
) -> None:
    found, drop = found_at_printed(jobs, rule, 250, policy=policy, value=value)
    shares = [
        row(
            f"detectable drop found, `{policy}`",
            f"{jobs}, `{rule}`, {shape}",
            counts.regressed,
            counts.gates,
            f"{100 * drop:.1f} points",
        )
        for shape, counts in found.items()
    ]
    gates = found[ALIKE].gates
    assert 0.78 - noise(0.78, gates) <= min(shares) <= 0.92 + noise(0.92, gates)
    assert sum(counts.contradictions for counts in found.values()) == 0


@pytest.mark.parametrize("policy", ["evidence", "shown", "strict"])
@pytest.mark.parametrize(
    ("jobs", "drop"),
    [
        (Jobs(20, 1, 1, always(1.0)), 0.03), (Jobs(60, 1, 1, always(1.0)), 0.03), (Jobs(20, 1, 5, always(0.99)), 0.04),
        (Jobs(60, 1, 1, always(0.99)), 0.05), (Jobs(20, 3, 3, always(0.97)), 0.0), (Jobs(89, 1, 15, always(0.97)), 0.0),
        (Jobs(20, 3, 3), 0.0), (Jobs(89, 3, 3), 0.0), (Jobs(89, 3, 3), 0.1), (Jobs(300, 1, 1), 0.05),
        (Jobs(89, 1, 15, mostly(0.95)), 0.05), (Jobs(90, 3, 3, size=9, shared=0.3), 0.0),
    ],
    ids=str,
)  # fmt: skip
def test_bounds_cover_the_change_and_agree_with_the_verdict(jobs: Jobs, drop: float, policy: str) -> None:
    found = simulated(jobs, "mean:5pp", drop, 200, policy=policy)
    share = row(
        f"bound covers the change, `{policy}`",
        f"{jobs}, drop of {100 * drop:g} points",
        found.covered,
        found.bounded,
    )
    assert share >= 0.93 - noise(0.93, found.bounded)
    assert (found.bounded, found.contradictions) == (found.gates, 0)


@pytest.mark.parametrize(
    ("n", "attempts", "rate"),
    [(20, 3, 0.97), (20, 1, 0.992), (60, 3, 0.99), (20, 3, 0.99), (20, 5, 0.5), (20, 3, 1.0), (89, 3, None)],
)
def test_the_interval_of_a_mean_covers_it(n: int, attempts: int, rate: float | None) -> None:
    """As floors, JUnit and the viewer print it. None: pass rates of Beta(1/2, 1/2), whose mean is one half."""
    chance = random.Random(3)
    covered = 0
    for _ in range(2000):
        rates = [half(chance) if rate is None else rate for _ in range(n)]
        found = mean_interval(
            [sum(chance.random() < one for _ in range(attempts)) / attempts for one in rates]
        )
        assert found is not None
        covered += found.low - 1e-9 <= (0.5 if rate is None else rate) <= found.high + 1e-9
    share = row("interval covers the mean", f"n = {n}, {attempts}, {rate}", covered, 2000)
    assert share >= 0.93 - noise(0.93, 2000)


@pytest.mark.parametrize(("shape", "least"), [(ALIKE, 0.87), (SOME, 0.82)])
def test_a_drop_of_ten_points_is_found(shape: Shape, least: float) -> None:
    found = simulated(Jobs(89, 3, 3), "mean:any", 0.1, 300, shape=shape)
    share = row(
        "regressed, `mean:any`, drop of 10 points", f"{Jobs(89, 3, 3)}, {shape}", found.regressed, found.gates
    )
    assert share >= least - noise(least, found.gates)


def test_equal_agents_share_all_ranks() -> None:
    chance = random.Random(1)
    jobs = Jobs(30, 1, 1)
    apart = 0
    for _ in range(100):
        rates = jobs.rates(chance)
        cells = {
            (benchmark, scenario, f"a{agent}:m"): cell._replace(agent=f"a{agent}:m")
            for agent in range(10)
            for (benchmark, scenario, _), cell in jobs.side(chance, "now", rates, 1).cells.items()
        }
        comparison = compare_agents(
            Side("now", ("now",), cells), comparison_id="cmp_20260101T000000Z_00000000", at=AT
        )
        apart += any((rank.first, rank.last) != (1, 10) for rank in comparison.ranks)
    assert row("an agent ranks before another", "ten equal agents, n = 30, 1 attempt", apart, 100) <= 0.05
