"""Permutation distribution of a sum of parts: the engine of every permutation test here.

A *part* is what one scenario, or one cluster, adds to the sum. If nothing changed, its attempts might as well have been
on the other side: a *deal* assigns them to "before" and "now" at random, in each part independently. How often is the
sum then as low as the observed one, and how often as high?

Counted, by the product of one polynomial for each part: exactly where all amounts are multiples of one unit, as pass
rates are, and where there are few deals. Where that would take long, an Edgeworth expansion is used if the sum is
nearly normal. Otherwise amounts are rounded to a unit that is coarse enough. Rounding does not know the sides, so it
causes no false alarms.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import itertools
import math
import operator
from collections.abc import Collection, Sequence
from fractions import Fraction
from statistics import NormalDist
from typing import ClassVar, NamedTuple

NOTHING = 1e-12  # smaller than any difference of scores: what is left of rounding
_FINEST = 10_000  # parts of one unit looked for; pass rates of a few attempts have far fewer
_COARSEST = 1 << 32  # units in an amount: all large numbers have a common unit, and none that helps
_FEW = 1 << 14  # deals that are listed in some milliseconds
_LEAST_WORK = 1 << 19  # bytes moved by the count: below a millisecond
_LITTLE_WORK = 1 << 22  # some milliseconds
_MOST_WORK = 1 << 26  # below a tenth of a second, where nothing else will do
_LISTING = 1 << 5  # bytes moved in the time that one more sum of attempts takes
_PRECISION = 128  # bits of the number of deals for each sum; more are exact, and say nothing
_STEPS = 1 << 20  # units in the largest amount, where there is no common one and counting takes no time
_ENOUGH = 100  # units in the typical amount: what is lost by rounding is below a hundredth of a deviation
_WIDE = 8.0  # deviation, in amounts: then it makes no difference whether the sum comes in clumps
_HUGE = 1e50  # units and moments of more are no numbers
_NEARLY_NORMAL = 0.1  # skewness and excess of a sum up to which its expansion holds to a hundredth
_HARDLY_NORMAL = 0.6  # the same, where counting tells less
_LOST = 0.1  # deviations: then counting tells less, as rounding loses more
_FAR = 5e-5  # p below which it does not hold: the far tails


@dataclasses.dataclass(frozen=True, slots=True)
class Test:
    """Result of a test."""

    __test__: ClassVar[bool] = False  # to pytest: this is not a test class

    p_value: float
    rise: float = 1.0
    """p of the opposite, that the mean is above: the p of the same test with all scores negated."""


class Counted(NamedTuple):
    """A part whose attempts have one of two values, or whose sides are exchanged as a whole."""

    attempts: int
    """Attempts of both sides."""
    drawn: int
    """Attempts of the job ("now")."""
    ones: int
    """Attempts of both sides that have the higher value."""
    rises: tuple[float, ...]
    """Gain of the sum by each further such attempt on the side "now", from the fewest possible to the most."""
    seen: int
    """Observed number of `rises`."""


class Scored(NamedTuple):
    """A part whose attempts have values of any kind."""

    gains: tuple[float, ...]
    """Gain of the sum by each attempt on the side "now"; the lowest is 0."""
    drawn: int
    seen: float
    """Observed gain."""


Part = Counted | Scored


def flipped(difference: float) -> Counted | None:
    """Make a part whose sides are exchanged as a whole; None where that makes no difference."""
    if abs(difference) <= NOTHING:
        return None
    return Counted(2, 1, 1, (2 * abs(difference),), int(difference > 0))


def dealt(before: Sequence[float], now: Sequence[float]) -> Part | None:
    """Make a part whose attempts are dealt to the sides; it adds the mean now minus that before. None: all equal."""
    a, b = len(before), len(now)
    if a == b == 1:
        rise = 2 * abs(now[0] - before[0])
        return Counted(2, 1, 1, (rise,), int(now[0] > before[0])) if rise > NOTHING else None
    values = {*before, *now}
    lowest = min(values)
    each = 1 / a + 1 / b
    if len(values) == 2:
        rise = (max(values) - lowest) * each
        has = b - now.count(lowest)
        ones = has + a - before.count(lowest)
        fewest, most = max(0, ones - a), min(b, ones)
        return Counted(a + b, b, ones, (rise,) * (most - fewest), has - fewest) if rise > NOTHING else None
    if max(values) - lowest <= NOTHING:
        return None
    gains = [(one - lowest) * each for one in (*now, *before)]
    return Scored(tuple(gains), b, math.fsum(gains[:b]))


def counted(
    before: Sequence[float], now: Sequence[float], values: tuple[Sequence[float], Sequence[float]]
) -> Part | None:
    """Make a part whose sides have the value that `values` lists for each number of 1s: before, and now."""
    was, is_now = values
    a, b, passed = len(before), len(now), round(math.fsum(now))
    ones = passed + round(math.fsum(before))
    worth = [is_now[some] - was[ones - some] for some in range(max(0, ones - a), min(b, ones) + 1)]
    rises = tuple(next_ - one for one, next_ in itertools.pairwise(worth))
    if sum(rises) <= NOTHING:
        return None
    return Counted(a + b, b, ones, rises, passed - max(0, ones - a))


def tails(parts: Sequence[Part]) -> Test:
    """Return the shares of deals whose sum is as low as the observed one, and as high. 1 if there is only one deal."""
    if not parts:
        return Test(1.0)
    unit = _unit(parts)
    if unit is None and (listed := _listed(parts)) is not None:
        return Test(*listed)
    work = math.inf if unit is None else _work(parts, unit)
    if work > _LITTLE_WORK and (found := _expanded(parts, unit)) is not None:
        return Test(*found)
    if unit is None or work > _MOST_WORK:
        rounded = _rounded(parts)
        if (found := _expanded(parts, unit, rounded)) is not None:
            return Test(*found)
        unit = rounded
    return Test(*_counted([_in_units(part, unit) for part in parts]))


def _listed(parts: Sequence[Part]) -> tuple[float, float] | None:
    """Count deals one by one, exactly whatever the amounts are; None if they are too many for that."""
    if math.prod(_ways(part) for part in parts) > _FEW:
        return None
    sums = [(0.0, 1)]
    for part in parts:
        if isinstance(part, Counted):
            ways = _hypergeometric(part.attempts, part.drawn, part.ones)
            gains = list(zip(itertools.accumulate(part.rises, initial=0.0), ways, strict=True))
        else:
            gains = [(math.fsum(some), 1) for some in itertools.combinations(part.gains, part.drawn)]
        sums = [(total + gain, deals * some) for total, deals in sums for gain, some in gains]
    seen = math.fsum(map(_seen, parts))
    slack = NOTHING * max(1.0, seen)
    every = sum(deals for _, deals in sums)
    low = sum(deals for total, deals in sums if total <= seen + slack)
    high = sum(deals for total, deals in sums if total >= seen - slack)
    return low / every, high / every


def _ways(part: Part) -> int:
    return len(part.rises) + 1 if isinstance(part, Counted) else math.comb(len(part.gains), part.drawn)


def _amounts(part: Part) -> tuple[float, ...]:
    return part.rises if isinstance(part, Counted) else part.gains


def variance(part: Part) -> float:
    """Return the variance of a part over all its deals."""
    return _moments(part)[1]


# Counted in units


def _unit(parts: Sequence[Part]) -> float | None:
    """Return the largest common unit of all amounts; None if none is coarse enough."""
    amounts: set[float] = set()
    for part in parts:
        amounts.update(_amounts(part))
        if len(amounts) > _FINEST:
            return None
    least = min(one for one in amounts if one > 0)
    return _common(amounts) or (_common({one / least for one in amounts}) or 0.0) * least or None


def _common(amounts: Collection[float]) -> float | None:
    """Return the largest unit of these amounts that divides 1; None if none is coarse enough."""
    denominator = 1
    if max(amounts) > _HUGE:
        return None
    for amount in amounts:
        # A multiple of the unit so far; for larger amounts another fraction may be as near.
        if amount <= 1 and abs(round(amount * denominator) / denominator - amount) <= NOTHING:
            continue
        near = Fraction(amount).limit_denominator(_FINEST)
        if abs(float(near) - amount) > NOTHING * max(1.0, amount):
            return None
        denominator = math.lcm(denominator, near.denominator)
        if denominator > _FINEST:
            return None
    multiples = [round(amount * denominator) for amount in amounts]
    common = math.gcd(*multiples)
    return common / denominator if max(multiples) // common <= _COARSEST else None


def _rounded(parts: Sequence[Part]) -> float:
    """Return the unit to which amounts without a common one are rounded: the finest that is fast, or fine enough."""
    amounts = list(itertools.chain.from_iterable(map(_amounts, parts)))
    unit = max(amounts) / _STEPS
    enough = math.hypot(*amounts) / math.sqrt(len(amounts)) / _ENOUGH
    while (work := _work(parts, unit)) > _MOST_WORK or (work > _LEAST_WORK and unit < enough):
        unit *= 2
    return unit


class _Whole(NamedTuple):
    """A part in units: the number of deals for each gain."""

    ways: dict[int, int]
    seen: int


def _work(parts: Sequence[Part], unit: float) -> float:
    """Estimate the bytes that counting in this unit moves."""
    span = sums = listing = bits = most = 0.0
    for part in parts:
        reach = math.fsum(_amounts(part)) / unit
        if isinstance(part, Counted):
            deals = math.log2(sum(_hypergeometric(part.attempts, part.drawn, part.ones)))
            ways = len(part.rises) + 1.0
        else:
            attempts = len(part.gains)
            every = _ways(part)
            deals, ways = math.log2(every), min(every, reach)
            listing += attempts * part.drawn * ways
        span += reach
        sums += ways
        bits += deals
        most = max(most, deals)
    return sums * span * min(bits, _PRECISION + most) / 32 + listing * _LISTING


def _in_units(part: Part, unit: float) -> _Whole:
    amounts = [round(amount / unit) for amount in _amounts(part)]
    if isinstance(part, Scored):
        return _Whole(_subsets(tuple(sorted(amounts)), part.drawn), sum(amounts[: part.drawn]))
    sums = list(itertools.accumulate(amounts, initial=0))
    ways: collections.Counter[int] = collections.Counter()
    for total, some in zip(sums, _hypergeometric(part.attempts, part.drawn, part.ones), strict=True):
        ways[total] += some
    return _Whole(ways, sums[part.seen])


@functools.lru_cache(maxsize=4096)
def _hypergeometric(attempts: int, drawn: int, ones: int) -> tuple[int, ...]:
    """Return the number of deals for each number of ones, from the fewest to the most; without common factors."""
    fewest, most = max(0, ones + drawn - attempts), min(drawn, ones)
    ways = [
        math.comb(ones, some) * math.comb(attempts - ones, drawn - some) for some in range(fewest, most + 1)
    ]
    common = math.gcd(*ways)
    return tuple(some // common for some in ways)


@functools.lru_cache(maxsize=4096)
def _subsets(gains: tuple[int, ...], drawn: int) -> dict[int, int]:
    """Return the number of ways to reach each sum by drawing `drawn` of the gains."""
    sums: list[collections.Counter[int]] = [collections.Counter() for _ in range(drawn + 1)]
    sums[0][0] = 1
    for done, gain in enumerate(gains):
        for size in range(min(done + 1, drawn), 0, -1):
            for total, ways in sums[size - 1].items():
                sums[size][total + gain] += ways
    common = math.gcd(*sums[drawn].values())
    return {total: ways // common for total, ways in sums[drawn].items()}


def _counted(parts: Sequence[_Whole]) -> tuple[float, float]:
    """Count the shares of deals whose sum is as low as the observed one, and as high.

    One long integer holds the number of deals for each sum, as digits wide enough for the number of all deals; adding
    a part multiplies it, by a few shifts and additions (the shift algorithm of Pagano and Tritchler). Of numbers that
    become too long, the lowest bits are dropped.
    """
    known = sorted(parts, key=lambda part: len(part.ways))
    lows = [min(part.ways) for part in known]
    span = sum(max(part.ways) for part in known) - sum(lows)
    deals = [sum(part.ways.values()) for part in known]
    width = min(sum(map(int.bit_length, deals)), _PRECISION + max(deals).bit_length()) + 1
    below = sum(part.seen for part in known) - sum(lows)
    mirrored = 2 * below > span  # the shorter tail is counted
    most = span - below if mirrored else below
    mask = (1 << ((most + 1) * width)) - 1
    kept = mask // ((1 << width) - 1) * ((1 << _PRECISION) - 1)
    counts = total = 1
    for part, low, some in zip(known, lows, deals, strict=True):
        start = max(part.ways) if mirrored else low
        before, counts = counts, 0
        for place, ways in part.ways.items():
            shifted = before << (abs(place - start) * width)
            counts += shifted if ways == 1 else shifted * ways
        counts &= mask
        total *= some
        if (long := total.bit_length() - _PRECISION) > 0:
            counts, total = counts >> long & kept, total >> long
    # The sum of all digits in base 2^width is the number modulo 2^width - 1 (casting out nines).
    tail = max(1, counts % ((1 << width) - 1))
    rest = total - tail + (counts >> (most * width))  # with the observed sum, too
    return (rest / total, tail / total) if mirrored else (tail / total, rest / total)


# Many parts


def _seen(part: Part) -> float:
    return math.fsum(part.rises[: part.seen]) if isinstance(part, Counted) else part.seen


@functools.lru_cache(maxsize=4096)
def _moments(part: Part) -> tuple[float, float, float, float]:
    """Return the mean and the second to fourth central moments of a part's gain."""
    if isinstance(part, Counted):
        if part.attempts == 2:  # one on either side
            half = part.rises[0] / 2
            return half, half**2, 0.0, half**4
        ways = _hypergeometric(part.attempts, part.drawn, part.ones)
        gains = list(itertools.accumulate(part.rises, initial=0.0))
        total = sum(ways)
        mean = math.fsum(map(operator.mul, gains, ways)) / total
        two, three, four = (
            math.fsum((gain - mean) ** power * some for gain, some in zip(gains, ways, strict=True)) / total
            for power in (2, 3, 4)
        )
        return mean, two, three, four
    n, b = len(part.gains), part.drawn
    middle = math.fsum(part.gains) / n
    off = [gain - middle for gain in part.gains]
    squares = math.fsum([one * one for one in off])
    cubes = math.fsum([one**3 for one in off])
    fourths = math.fsum([one**4 for one in off])
    # Chance that one, two, three and four given attempts are all drawn, without replacement.
    one = b / n
    pair = one * (b - 1) / (n - 1)
    triple = pair * (b - 2) / (n - 2)
    four_of = triple * (b - 3) / (n - 3) if n > 3 else 0.0
    return (
        b * middle,
        squares * (one - pair),
        cubes * (one - 3 * pair + 2 * triple),
        fourths * (one - 7 * pair + 12 * triple - 6 * four_of)
        + squares**2 * 3 * (pair - 2 * triple + four_of),
    )


def _expanded(parts: Sequence[Part], unit: float | None, rounded: float = 0.0) -> tuple[float, float] | None:
    """Compute both tails by the Edgeworth expansion of the sum; None if it is too far from normal, or not smooth.

    `rounded` is the unit in which the deals would be counted otherwise: many attempts with a few huge values only fit
    a coarse one.
    """
    if max(map(max, map(_amounts, parts))) > _HUGE:
        return None
    moments = list(map(_moments, parts))
    two = math.fsum(of[1] for of in moments)
    if unit is None:
        clumps = [(part, of[1]) for part, of in zip(parts, moments, strict=True) if isinstance(part, Counted)]
        rises = [rise for part, _ in clumps for rise in part.rises]
        wide = two > _WIDE**2 * math.fsum([rise * rise for rise in rises]) / max(1, len(rises))
        if not wide and math.fsum(of for _, of in clumps) > two / 2:
            return None
    deviation = math.sqrt(two)
    skew = math.fsum(of[2] for of in moments) / two**1.5
    excess = math.fsum(of[3] - 3 * of[1] ** 2 for of in moments) / two**2
    lost = rounded * math.sqrt(sum(len(_amounts(part)) for part in parts) / 12)
    if max(abs(skew), abs(excess)) > (_HARDLY_NORMAL if lost > _LOST * deviation else _NEARLY_NORMAL):
        return None
    off = math.fsum(_seen(part) - of[0] for part, of in zip(parts, moments, strict=True))
    half = 0.0 if unit is None else unit / 2

    def below(at: float, skewed: float) -> float:
        z = at / deviation
        hermite = skewed / 6 * (z * z - 1) + excess / 24 * (z**3 - 3 * z)
        hermite += skewed**2 / 72 * (z**5 - 10 * z**3 + 15 * z)
        density = math.exp(-z * z / 2) / math.sqrt(2 * math.pi)
        return min(1.0, max(_FAR, NormalDist().cdf(z) - density * hermite))

    return below(off + half, skew), below(half - off, -skew)
