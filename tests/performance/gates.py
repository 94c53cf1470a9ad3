"""Whether the verdicts of gates are what docs/gates.md says, on simulated jobs: `make simulate`.

Jobs are judged by `judge`, as a pipeline does it. Each setting has a fixed seed, and a share is shown with the 95 %
interval of its simulation. docs/statistics.md has the table.
"""

from __future__ import annotations

import dataclasses
import datetime
import math
import random
from collections.abc import Callable

from pytest_benchjobs.analysis.gate.judge import judge
from pytest_benchjobs.analysis.sides import Cell, Side
from pytest_benchjobs.model.gate import GateConfig, GatePolicy, GateVerdict, RuleReport
from pytest_benchjobs.settings.rules import parse_rule

from .calibration import SHAPES, Rates, Shape, fallen, half

AT = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
Rate = Callable[[random.Random], float]
"""Function: the pass rate of a scenario."""


def always(rate: float) -> Rate:
    """Return the same pass rate for all scenarios."""

    def of(_: random.Random) -> float:
        return rate

    of.__name__ = f"all pass {100 * rate:g} %"
    return of


def mostly(rate: float) -> Rate:
    """Return this pass rate for half of the scenarios, and one half for the others."""

    def of(chance: random.Random) -> float:
        return rate if chance.random() < 0.5 else 0.5

    of.__name__ = f"half pass {100 * rate:g} %"
    return of


@dataclasses.dataclass(frozen=True, slots=True)
class Jobs:
    """A kind of benchmark, and how often it is run."""

    n: int
    now: int
    before: int
    rate: Rate = half
    size: int = 1
    """Scenarios of a declared cluster."""
    shared: float = 0.0
    """Share of its luck that a cluster has in common on a side."""

    def __str__(self) -> str:
        """Format as in the table: `n = 89, 3 and 3`."""
        clusters = f" in {self.n // self.size} clusters" if self.size > 1 else ""
        alone = " that share nothing" if clusters and not self.shared else ""
        rate = "" if self.rate is half else f", {self.rate.__name__}"
        return f"n = {self.n}{clusters}{alone}, {self.now} and {self.before}{rate}"

    def rates(self, chance: random.Random) -> list[float]:
        """Draw the pass rates of the baseline."""
        return [self.rate(chance) for _ in range(self.n)]

    def side(self, chance: random.Random, name: str, rates: Rates, attempts: int) -> Side:
        """Run all attempts of a side."""
        cells = {}
        luck: dict[int, float] = {}
        for place, rate in enumerate(rates):
            passed = 0
            for _ in range(attempts):
                drawn = chance.random()
                if self.shared and chance.random() < self.shared:
                    drawn = luck.setdefault(place // self.size, drawn)
                passed += drawn < rate
            scores = (1.0,) * passed + (0.0,) * (attempts - passed)
            cluster = f"c{place // self.size}" if self.size > 1 else None
            cell = Cell("b", f"s{place:05}", "a:m", scores, passed, comparable="same", cluster=cluster)
            cells[cell.key] = cell
        return Side(name, (name,), cells)

    def pair(self, chance: random.Random, drop: float, shape: Shape) -> tuple[Side, Side, float]:
        """Run a baseline and a job of which all rates fell; also return the change of their mean."""
        rates = self.rates(chance)
        later = fallen(chance, rates, drop, shape) if drop > 0 else rates
        sides = (self.side(chance, "before", rates, self.before), self.side(chance, "now", later, self.now))
        return *sides, math.fsum(later) / self.n - math.fsum(rates) / self.n


def judged(now: Side, before: Side, rule: str, policy: str = "evidence") -> RuleReport:
    """Judge a job by one rule."""
    config = GateConfig(rules=(parse_rule(rule),), policy=GatePolicy(policy))
    return next(one for one in judge(now, before, config, job="now", at=AT).rules if one.test != "floor")


@dataclasses.dataclass(slots=True)
class Counts:
    """Verdicts of many gates."""

    gates: int = 0
    regressed: int = 0
    ok: int = 0
    covered: int = 0
    bounded: int = 0
    contradictions: int = 0

    def add(self, found: RuleReport, change: float, policy: str) -> None:
        """Count a report under a policy, of jobs whose mean truly changed by so much."""
        self.gates += 1
        self.regressed += found.verdict is GateVerdict.REGRESSED
        self.ok += found.verdict is GateVerdict.OK
        if found.low is not None or found.high is not None:
            low, high = (
                (-math.inf if found.low is None else found.low),
                (math.inf if found.high is None else found.high),
            )
            self.bounded += 1
            self.covered += low - 1e-9 <= change <= high + 1e-9
            self.contradictions += contradicts(found, low, high, policy)


def contradicts(found: RuleReport, low: float, high: float, policy: str) -> bool:
    """Return whether p, bounds and verdict of a line say different things."""
    assert found.p_value is not None
    assert found.change is not None
    assert found.tolerance is not None
    worse = high < (-found.tolerance if policy == "shown" else 0)
    small, regressed = found.p_value < found.rule.alpha, found.verdict is GateVerdict.REGRESSED
    if low == -math.inf or found.change < -found.tolerance - 1e-9:  # by the test for a worsening
        return small is not worse or (regressed and not worse) or not low <= found.change <= high
    within = low > -found.tolerance
    return small is not within or within is not (found.verdict is GateVerdict.OK) or regressed


def simulated(
    jobs: Jobs, rule: str, drop: float, repetitions: int, *, policy: str = "evidence", shape: Shape = "all alike",
    seed: int = 1,
) -> Counts:  # fmt: skip
    """Judge so many jobs whose mean fell by `drop`."""
    chance = random.Random(seed)
    counts = Counts()
    for _ in range(repetitions):
        before, now, change = jobs.pair(chance, drop, shape)
        counts.add(judged(now, before, rule, policy), change, policy)
    return counts


def found_at_printed(
    jobs: Jobs, rule: str, repetitions: int, *, policy: str = "evidence", seed: int = 1,
    value: Callable[[float], float] = float,
) -> tuple[dict[Shape, Counts], float]:  # fmt: skip
    """Judge jobs that fell by as much as an unchanged job said it could find; also return the mean of those drops.

    `value` is what a pass rate counts for, as for pass^3.
    """
    chance = random.Random(seed)
    found, drops = {shape: Counts() for shape in SHAPES}, []
    for _ in range(repetitions):
        rates = jobs.rates(chance)
        before = jobs.side(chance, "before", rates, jobs.before)
        drop = judged(jobs.side(chance, "now", rates, jobs.now), before, rule, policy).detectable
        if drop is None:
            continue
        drops.append(drop)
        for shape, counts in found.items():
            now = jobs.side(chance, "now", fallen(chance, rates, drop, shape, value), jobs.now)
            counts.add(judged(now, before, rule, policy), 0.0, policy)
    return found, math.fsum(drops) / len(drops)
