"""Whether the statistics keep what they promise: false alarms, power, attempts saved, on simulated benchmarks.

A scenario passes an attempt with a chance that is drawn from Beta(1/2, 1/2): most are nearly always or nearly never solved. A
drop takes the same from every scenario's chance, but no more than it has, and as much as makes the mean fall by so
many points. Figures are percentages of repetitions; the seed is fixed, so that they are the same each time.
"""

from __future__ import annotations

import functools
import math
import random
import statistics
import time
from collections.abc import Callable, Iterator, Sequence

from pytest_benchjobs.analysis.statistics import (
    benjamini_hochberg,
    bootstrap_mean,
    clustered_error,
    detectable_drop,
    fisher,
    holm,
    look,
    mcnemar,
    mean_interval,
    non_inferiority,
    sign_flip,
    wilson,
)

ALPHA = 0.05
BUDGET_SECONDS = 0.5
ROUNDS = 5
MOST_ALARMS_SKEWED = 0.08  # see docs/statistics.md: where attempts differ in number and nearly all fail
MOST_ALARMS, LEAST_SAVED, LEAST_SAVED_BY_A_DROP = 0.05, 0.4, 0.5

# Power for a drop of ten points, in percent: scenarios, attempts now, in the baseline. These were measured before this
# package was written. The simulation here agrees with them, to so many points, if few differences are judged by signs
# alone; by how much ours, which counts their sizes as well, may be below.
POWER = {(20, 1, 1): 8, (20, 5, 5): 49, (89, 1, 1): 51, (89, 3, 3): 91, (89, 1, 5): 76, (500, 1, 1): 100}
POINTS = 3
FEW = 14  # differences

Rates = Sequence[float]


def difficulties(chance: random.Random, scenarios: int, hard: bool = False) -> list[float]:
    """Pass rates from Beta(1/2, 1/2), the arcsine distribution; hard ones from Beta(1, 4), of which 20 % pass."""
    if hard:
        return [chance.betavariate(1, 4) for _ in range(scenarios)]
    return [math.sin(chance.random() * math.pi / 2) ** 2 for _ in range(scenarios)]


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


def rates_of(chance: random.Random, rates: Rates, attempts: int) -> list[float]:
    """Share of so many attempts that pass."""
    return [sum(chance.random() < rate for _ in range(attempts)) / attempts for rate in rates]


def flipped(differences: Sequence[float]) -> float:
    """P of a drop, as this package has it."""
    return sign_flip(differences, resamples=4000).p_value


def by_signs(differences: Sequence[float]) -> float:
    """P of a drop, by how many got worse and how many better where few differ."""
    worse = sum(one < 0 for one in differences)
    better = sum(one > 0 for one in differences)
    return mcnemar(worse, better) if worse + better <= FEW else flipped(differences)


def alarms(
    scenarios: int,
    now: int,
    before: int,
    drop: float,
    repetitions: int,
    seed: int = 1,
    hard: bool = False,
    test: Callable[[Sequence[float]], float] = flipped,
) -> float:
    """Share of comparisons that are called regressed, all attempts having been run."""
    chance = random.Random(seed)
    found = 0
    for _ in range(repetitions):
        rates = difficulties(chance, scenarios, hard)
        later = [max(0.0, rate - shift(drop)) for rate in rates]
        pairs = zip(rates_of(chance, later, now), rates_of(chance, rates, before), strict=True)
        found += test([one - other for one, other in pairs]) < ALPHA
    return found / repetitions


def until_decided(
    scenarios: int, before: int, drop: float, repetitions: int, seed: int = 1
) -> tuple[float, float, float]:
    """Of comparisons in rounds: share called regressed, share of attempts saved, share called so had all been run."""
    chance = random.Random(seed)
    found = rounds = fixed = 0
    for _ in range(repetitions):
        rates = difficulties(chance, scenarios)
        later = [max(0.0, rate - shift(drop)) for rate in rates]
        baseline = rates_of(chance, rates, before)
        passed = [0] * scenarios
        stop = None
        for done in range(1, ROUNDS + 1):
            passed = [count + (chance.random() < rate) for count, rate in zip(passed, later, strict=True)]
            differences = [count / done - was for count, was in zip(passed, baseline, strict=True)]
            if stop is None:
                seen = look(
                    differences,
                    round=done,
                    rounds=ROUNDS,
                    alpha=ALPHA,
                    baseline=baseline,
                    baseline_attempts=before,
                )
                stop = seen.stop
                rounds += 1
        found += stop == "regressed"
        fixed += flipped(differences) < ALPHA
    return found / repetitions, 1 - rounds / repetitions / ROUNDS, fixed / repetitions


def everything(scenarios: int, attempts: int) -> Callable[[], None]:
    """One of each statistic, as a comparison of that size needs them. Scores between 0 and 1 are the slowest."""
    chance = random.Random(1)
    before, now = ([[chance.random() for _ in range(attempts)] for _ in range(scenarios)] for _ in range(2))
    means = [[statistics.fmean(scores) for scores in side] for side in (before, now)]
    differences = [one - was for was, one in zip(*means, strict=True)]
    clusters = [place // 5 for place in range(scenarios)]

    def compute() -> None:
        sign_flip(differences)
        non_inferiority(differences, 0.05)
        bootstrap_mean(differences)
        bootstrap_mean(differences, clusters=clusters)
        mean_interval(differences)
        clustered_error(differences, clusters)
        detectable_drop(before, now)
        p_values = [fisher(attempts, attempts, round(mean * attempts), attempts) for mean in means[1]]
        holm(p_values)
        benjamini_hochberg(p_values)
        for _ in range(scenarios):
            wilson(1, attempts)

    return compute


def measure(repetitions: int = 2000) -> Iterator[tuple[str, float, str, str]]:
    """Each promise, over what it may be."""
    compute = everything(500, 5)
    seconds = []
    for _ in range(5):
        started = (
            time.process_time()
        )  # one thread that waits for nothing: what else the machine does is left out
        compute()
        seconds.append(time.process_time() - started)
    whole = statistics.median(seconds)
    yield (
        "every statistic of 500 scenarios",
        whole / BUDGET_SECONDS,
        f"<= {BUDGET_SECONDS:g} s",
        f"{whole:.2f} s",
    )
    for scenarios in (20, 89, 500):
        for attempts in (1, 3, 5):
            found = alarms(scenarios, attempts, attempts, 0.0, repetitions)
            yield (
                f"false alarms, n = {scenarios}, k = {attempts}",
                found / MOST_ALARMS,
                f"<= {MOST_ALARMS:.0%}",
                f"{found:.1%} of {repetitions}",
            )
    for scenarios in (20, 89):
        found = alarms(scenarios, 1, 5, 0.0, repetitions, hard=True)
        yield (
            f"alarms, hard, n = {scenarios}, k = 1, 5 before",
            found / MOST_ALARMS_SKEWED,
            f"<= {MOST_ALARMS_SKEWED:.0%}",
            f"{found:.1%} of {repetitions}: attempts differ in number, differences are skewed",
        )
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
                yield f"{name}: alarms", found / MOST_ALARMS, f"<= {MOST_ALARMS:.0%}", detail
