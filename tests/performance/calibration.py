"""Whether the statistics keep what they promise: false alarms, power, attempts saved, on simulated benchmarks.

Unless a setting says otherwise, a scenario passes an attempt with a chance that is drawn from Beta(1/2, 1/2): most are
nearly always or nearly never solved. A drop takes the same from every scenario's chance, but no more than it has, and as much as makes the mean fall by so
many points. Figures are percentages of repetitions; the seed is fixed, so that they are the same each time.
"""

from __future__ import annotations

import dataclasses
import datetime
import functools
import math
import random
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Literal

from pytest_benchjobs.analysis.gate.judge import judge
from pytest_benchjobs.analysis.sides import Cell, Side
from pytest_benchjobs.analysis.statistics.intervals import clopper_pearson, clustered_error, fisher
from pytest_benchjobs.analysis.statistics.inversion import Units, bounds
from pytest_benchjobs.analysis.statistics.multiple import benjamini_hochberg, holm
from pytest_benchjobs.analysis.statistics.paired import mcnemar, permutation
from pytest_benchjobs.analysis.statistics.permutations import flipped, tails
from pytest_benchjobs.analysis.statistics.power import detectable_drop
from pytest_benchjobs.analysis.statistics.sequential import look
from pytest_benchjobs.model.gate import GateConfig, GateVerdict
from pytest_benchjobs.settings.rules import parse_rule

ALPHA = 0.05
BUDGET_SECONDS = 0.5
ROUNDS = 5
MOST_ALARMS, LEAST_SAVED, LEAST_SAVED_BY_A_DROP = 0.05, 0.4, 0.5

# Power for a drop of ten points, in percent: scenarios, attempts now, in the baseline. These were measured before this
# package was written. The simulation here agrees with them, to so many points, if few differences are judged by signs
# alone; by how much ours, which counts their sizes as well, may be below.
POWER = {(20, 1, 1): 8, (20, 5, 5): 49, (89, 1, 1): 51, (89, 3, 3): 91, (89, 1, 5): 76, (500, 1, 1): 100}
POINTS = 3
FEW = 14  # differences

Rates = Sequence[float]
Sides = tuple[list[list[float]], list[list[float]]]
"""Scores of the attempts at each scenario: before, and now."""


@dataclasses.dataclass(frozen=True, slots=True)
class Setting:
    """A kind of benchmark in which nothing changed."""

    name: str
    scenarios: int
    now: int
    before: int
    rate: Callable[[random.Random], float]
    """Of passing, of one scenario."""
    partial: bool = False
    """What passes has a score from 0 to 1."""
    size: int = 1
    """Scenarios of a cluster."""
    shared: Literal["side", "attempt"] | None = None
    """What scenarios of a cluster share: their luck on a side, or in an attempt; eight times of ten."""
    level: float = 0.95

    def sides(self, chance: random.Random) -> Sides:
        """Make one."""
        rates = [self.rate(chance) for _ in range(self.scenarios)]
        return self._side(chance, rates, self.before), self._side(chance, rates, self.now)

    def _side(self, chance: random.Random, rates: Rates, attempts: int) -> list[list[float]]:
        luck: dict[tuple[int, int], float] = {}
        found = []
        for place, rate in enumerate(rates):
            scores = []
            for attempt in range(attempts):
                drawn = chance.random()
                if self.shared is not None and chance.random() < 0.8:
                    drawn = luck.setdefault((place // self.size, attempt * (self.shared == "attempt")), drawn)
                score = chance.random() if self.partial else 1.0
                scores.append(score if drawn < rate else 0.0)
            found.append(scores)
        return found

    @property
    def clusters(self) -> list[int] | None:
        """As they are declared."""
        return [place // self.size for place in range(self.scenarios)] if self.size > 1 else None


def _unequal() -> Iterator[Setting]:
    for n in (20, 89):
        for level in (0.95, 0.99):
            at = f" @{100 * level:.0f}" if level > 0.95 else ""
            yield Setting(f"all pass 5 %{at}", n, 1, 15, lambda _: 0.05, level=level)
        yield Setting("Beta(1, 9)", n, 1, 15, lambda chance: chance.betavariate(1, 9))
        yield Setting("Beta(1, 4)", n, 1, 5, lambda chance: chance.betavariate(1, 4))
        yield Setting("Beta(.5, .5)", n, 3, 15, half)
        yield Setting("rare partial scores", n, 1, 5, lambda _: 0.1, partial=True)
        yield Setting("rare partial scores", n, 1, 15, lambda _: 0.1, partial=True)
        yield Setting("all pass 95 %", n, 5, 1, lambda _: 0.95)
        yield Setting("Beta(9, 1)", n, 5, 1, lambda chance: chance.betavariate(9, 1))


def _clustered() -> Iterator[Setting]:
    for n, size in ((20, 5), (40, 5), (88, 4)):
        shares: tuple[Literal["side", "attempt"], ...] = ("side", "attempt")
        for shared in shares:
            for now, before in ((1, 1), (3, 3), (1, 5)):
                yield Setting("Beta(.5, .5)", n, now, before, half, size=size, shared=shared)


def half(chance: random.Random) -> float:
    """Pass rate from Beta(1/2, 1/2), the arcsine distribution."""
    return math.sin(chance.random() * math.pi / 2) ** 2


UNEQUAL, CLUSTERED = tuple(_unequal()), tuple(_clustered())


def alarms_in(setting: Setting, repetitions: int, *, declared: bool = True, seed: int = 1) -> float:
    """Share of comparisons that are called regressed though nothing changed."""
    chance = random.Random(seed)
    clusters = setting.clusters if declared else None
    alpha = 1 - setting.level
    found = 0
    for _ in range(repetitions):
        test = permutation(*setting.sides(chance), clusters=clusters, alpha=alpha)
        found += test.p_value < alpha
    return found / repetitions


@functools.cache
def shift(drop: float) -> float:
    """What to take from every pass rate, down to 0, for the mean to fall by `drop`."""
    rates = [math.sin((place + 0.5) / 20_000 * math.pi / 2) ** 2 for place in range(20_000)]
    low, high = 0.0, 1.0
    for _ in range(50):
        middle = (low + high) / 2
        fallen = statistics.fmean(min(rate, middle) for rate in rates)
        low, high = (middle, high) if fallen < drop else (low, middle)
    return low


def made(chance: random.Random, rates: Rates, attempts: int) -> list[list[float]]:
    """So many attempts at each scenario."""
    return [[float(chance.random() < rate) for _ in range(attempts)] for rate in rates]


def dealt(before: Sequence[Sequence[float]], now: Sequence[Sequence[float]]) -> float:
    """P of a drop, as this package has it."""
    return permutation(before, now).p_value


def by_signs(before: Sequence[Sequence[float]], now: Sequence[Sequence[float]]) -> float:
    """P of a drop, by how many got worse and how many better where few differ; else by flipped signs."""
    differences = [
        statistics.fmean(new) - statistics.fmean(old) for old, new in zip(before, now, strict=True)
    ]
    worse = sum(one < 0 for one in differences)
    better = sum(one > 0 for one in differences)
    if worse + better <= FEW:
        return mcnemar(worse, better)
    return tails([part for one in differences if (part := flipped(one)) is not None]).p_value


def alarms(
    scenarios: int,
    now: int,
    before: int,
    drop: float,
    repetitions: int,
    seed: int = 1,
    test: Callable[[Sequence[Sequence[float]], Sequence[Sequence[float]]], float] = dealt,
) -> float:
    """Share of comparisons that are called regressed, all attempts having been run."""
    chance = random.Random(seed)
    found = 0
    for _ in range(repetitions):
        rates = [half(chance) for _ in range(scenarios)]
        later = [max(0.0, rate - shift(drop)) for rate in rates]
        attempts = made(chance, later, now)
        found += test(made(chance, rates, before), attempts) < ALPHA
    return found / repetitions


def until_decided(
    scenarios: int,
    before: int,
    drop: float,
    repetitions: int,
    seed: int = 1,
    rate: Callable[[random.Random], float] = half,
) -> tuple[float, float, float]:
    """Of comparisons in rounds: share called regressed, share of attempts saved, share called so had all been run."""
    chance = random.Random(seed)
    found = rounds = fixed = 0
    for _ in range(repetitions):
        rates = [rate(chance) for _ in range(scenarios)]
        later = [max(0.0, rate - shift(drop)) for rate in rates]
        baseline = made(chance, rates, before)
        now = made(chance, later, ROUNDS)
        for done in range(1, ROUNDS + 1):
            seen = look(baseline, [some[:done] for some in now], round=done, rounds=ROUNDS, alpha=ALPHA)
            rounds += 1
            if seen.stop is not None:
                break
        found += seen.stop == "regressed"
        fixed += dealt(baseline, now) < ALPHA
    return found / repetitions, 1 - rounds / repetitions / ROUNDS, fixed / repetitions


METRICS, AGENTS, TAGS = ("mean", "pass_rate", "cost", "tokens", "duration"), 3, 4


def many_rules(
    scenarios: int, attempts: int, repetitions: int, *, alone: bool = False, seed: int = 1
) -> float:
    """Share of unchanged jobs that a gate calls regressed with a rule for each metric and tag, and several agents.

    A trial's cost, tokens and time vary by a factor of e^0.5, and by as much again with the scenario.
    """
    chance = random.Random(seed)
    keys = ",alone=yes" if alone else ""
    rules = tuple(parse_rule(f"{metric}[tag=t{tag}{keys}]") for metric in METRICS for tag in range(TAGS))
    config = GateConfig(rules=rules)
    at = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    found = 0
    for _ in range(repetitions):
        now, before = _with_amounts(chance, scenarios, attempts)
        found += judge(now, before, config, job="j", at=at).verdict is GateVerdict.REGRESSED
    return found / repetitions


def _with_amounts(chance: random.Random, scenarios: int, attempts: int) -> tuple[Side, Side]:
    cells: tuple[dict[tuple[str, str, str], Cell], ...] = ({}, {})
    for place in range(scenarios):
        for agent in range(AGENTS):
            rate, size = half(chance), chance.gauss(0, 0.5)
            for side in cells:
                scores = tuple(float(chance.random() < rate) for _ in range(attempts))
                costs, seconds, tokens = (
                    tuple(math.exp(chance.gauss(size, 0.5)) for _ in range(attempts)) for _ in range(3)
                )
                used = tuple(round(10_000 * one) for one in tokens)
                cell = Cell(
                    "b", f"s{place}", f"a{agent}", scores, round(sum(scores)), 0, seconds, costs, used
                )
                side[cell.key] = cell._replace(comparable="same", tags=(f"t{place % TAGS}",))
    return Side("now", ("now",), cells[0]), Side("before", ("before",), cells[1])


Shape = Literal["all alike", "in proportion", "some to 0"]
SHAPES: tuple[Shape, ...] = ("all alike", "in proportion", "some to 0")
LEAST_FOUND = 0.78


def fallen(
    chance: random.Random, rates: Rates, drop: float, shape: Shape, value: Callable[[float], float] = float
) -> list[float]:
    """Pass rates of which the mean value is lower by so much; as for pass^3, a rate may not be its own value."""
    worth = math.fsum(map(value, rates)) / len(rates)
    if shape == "some to 0":
        share = min(1.0, drop / worth)
        return [0.0 if chance.random() < share else rate for rate in rates]

    def lower(by: float) -> list[float]:
        if shape == "in proportion":
            return [rate * (1 - by) for rate in rates]
        return [max(0.0, rate - by) for rate in rates]

    low, high = 0.0, 1.0
    for _ in range(16):
        middle = (low + high) / 2
        short = worth - math.fsum(map(value, lower(middle))) / len(rates) < drop
        low, high = (middle, high) if short else (low, middle)
    return lower(high)


def found_at_printed(
    scenarios: int, attempts: int, shape: Shape, repetitions: int, seed: int = 1
) -> tuple[float, float]:
    """Of drops as large as an unchanged job said it could have seen: the share that is found; and their mean size."""
    chance = random.Random(seed)
    drops = []
    found = 0
    for _ in range(repetitions):
        rates = [half(chance) for _ in range(scenarios)]
        before = made(chance, rates, attempts)
        drop = detectable_drop(before, made(chance, rates, attempts))
        if drop is None:
            continue
        drops.append(drop)
        found += dealt(before, made(chance, fallen(chance, rates, drop, shape), attempts)) < ALPHA
    return found / len(drops), statistics.fmean(drops)


def everything(scenarios: int, attempts: int) -> Callable[[], None]:
    """One of each statistic, as a comparison of that size needs them. Scores between 0 and 1 are the slowest."""
    chance = random.Random(1)
    before, now = ([[chance.random() for _ in range(attempts)] for _ in range(scenarios)] for _ in range(2))
    means = [[statistics.fmean(scores) for scores in side] for side in (before, now)]
    differences = [one - was for was, one in zip(*means, strict=True)]
    clusters = [place // 5 for place in range(scenarios)]

    def compute() -> None:
        permutation(before, now)
        bounds(Units.of(differences, ends=(-1.0, 1.0)))
        clustered_error(differences, clusters)
        detectable_drop(before, now)
        p_values = [fisher(attempts, attempts, round(mean * attempts), attempts) for mean in means[1]]
        holm(p_values)
        benjamini_hochberg(p_values)
        for _ in range(scenarios):
            clopper_pearson(1, attempts)

    return compute


Figure = tuple[str, float, str, str]
"""What was measured, over what it may be, that, and details."""


def _alarms(name: str, found: float, detail: str, most: float = MOST_ALARMS) -> Figure:
    return name, found / most, f"<= {most:.0%}", detail


def _settings(repetitions: int) -> Iterator[Figure]:
    """False alarms where attempts are unequal, and where scenarios depend on each other."""
    for setting in UNEQUAL:
        found, most = alarms_in(setting, repetitions), 1 - setting.level
        name = f"alarms, {setting.name}, n = {setting.scenarios}, k = {setting.now}, {setting.before} before"
        yield _alarms(name, found, f"{found:.1%} of {repetitions}", most)
    for setting in CLUSTERED:
        found, undeclared = (alarms_in(setting, repetitions, declared=declared) for declared in (True, False))
        name = f"alarms, clusters of {setting.size} by {setting.shared}, n = {setting.scenarios}, k = {setting.now}, {setting.before} before"
        yield _alarms(name, found, f"{found:.1%} of {repetitions}; {undeclared:.1%} undeclared")
    for scenarios, attempts in ((40, 3), (88, 1)):
        jobs = repetitions // 4
        found, apart = (many_rules(scenarios, attempts, jobs, alone=alone) for alone in (False, True))
        rules = f"{len(METRICS)} metrics x {AGENTS} agents x {TAGS} tags"
        detail = f"{found:.1%} of {jobs}; {apart:.1%} if each rule stood alone"
        yield _alarms(f"alarms, {rules}, n = {scenarios}, k = {attempts}", found, detail)
    for scenarios in (20, 89):
        skewed = functools.partial(until_decided, rate=lambda chance: chance.betavariate(1, 4))
        found, _, fixed = skewed(scenarios, ROUNDS, 0.0, repetitions)
        detail = f"{found:.1%} regressed in rounds, {fixed:.1%} by all {ROUNDS}"
        yield _alarms(f"rounds, Beta(1, 4), n = {scenarios}", found, detail)


def _printed(repetitions: int) -> Iterator[Figure]:
    """How often the drop that a report prints is found."""
    for scenarios in (20, 89):
        for attempts in (1, 3, 5):
            for shape in SHAPES:
                found, drop = found_at_printed(scenarios, attempts, shape, repetitions)
                name = f"printed drop, n = {scenarios}, k = {attempts}, {shape}"
                detail = f"{found:.1%} of {repetitions} find {100 * drop:.1f} points"
                yield name, LEAST_FOUND / found, f">= {LEAST_FOUND:.0%}", detail


def measure(repetitions: int = 2000) -> Iterator[Figure]:
    """Each promise, over what it may be."""
    compute = everything(500, 5)
    seconds = []
    for _ in range(5):
        # One thread that waits for nothing: what else the machine does is left out.
        started = time.process_time()
        compute()
        seconds.append(time.process_time() - started)
    whole = statistics.median(seconds)
    most = f"<= {BUDGET_SECONDS:g} s"
    yield "every statistic of 500 scenarios", whole / BUDGET_SECONDS, most, f"{whole:.2f} s"
    for scenarios in (20, 89, 500):
        for attempts in (1, 3, 5):
            found = alarms(scenarios, attempts, attempts, 0.0, repetitions)
            name = f"false alarms, n = {scenarios}, k = {attempts}"
            yield _alarms(name, found, f"{found:.1%} of {repetitions}")
    yield from _settings(repetitions)
    yield from _printed(repetitions)
    for (scenarios, now, before), percent in POWER.items():
        found = alarms(scenarios, now, before, 0.1, repetitions)
        yield (
            f"power, n = {scenarios}, k = {now}, {before} before",
            (percent - POINTS) / 100 / found,
            f">= {percent - POINTS} %",
            f"{found:.1%} of {repetitions} find a drop of 10 points; the table has {percent} %",
        )
        found = alarms(scenarios, now, before, 0.1, repetitions, test=by_signs)
        yield (
            f"by signs, n = {scenarios}, k = {now}, {before} before",
            abs(100 * found - percent) / POINTS,
            f"{percent} +- {POINTS} %",
            f"{found:.1%} of {repetitions}, where at most {FEW} differ by signs alone",
        )
    for scenarios in (20, 89):
        for drop, least in ((0.0, LEAST_SAVED), (0.1, None), (0.2, LEAST_SAVED_BY_A_DROP)):
            found, saved, fixed = until_decided(scenarios, ROUNDS, drop, repetitions)
            detail = f"saves {saved:.0%} of attempts; {found:.1%} regressed, {fixed:.1%} by all {ROUNDS}"
            name = f"rounds, n = {scenarios}, drop {100 * drop:.0f}"
            if least is None:
                yield name, (fixed - 0.05) / found, "power - 5", detail
            else:
                yield name, least / saved, f"saves {least:.0%}", detail
            if not drop:
                yield _alarms(f"{name}: alarms", found, detail)
