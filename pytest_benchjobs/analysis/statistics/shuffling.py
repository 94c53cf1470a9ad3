"""Permutation distribution of a sum of parts: the engine of every permutation test here.

A *part* is what one scenario, or one cluster, adds to the sum. If nothing changed, its attempts might as well have been
on the other side: a *deal* assigns them to "before" and "now" at random, in each part independently. How often is the
sum then as low as the observed one, and how often as high?

- Counted, where all amounts are multiples of one unit, as pass rates are: the product of one polynomial for each part.
- By an Edgeworth expansion, where that would take long, and sixteen parts or more make the sum nearly normal.
- Counted half by half, where there are few deals of amounts of any size.
- Otherwise by random deals, always the same ones.
"""

from __future__ import annotations

import bisect
import collections
import dataclasses
import functools
import itertools
import math
import operator
import random
from collections.abc import Sequence
from fractions import Fraction
from statistics import NormalDist
from typing import ClassVar, NamedTuple

NOTHING = 1e-12  # smaller than any difference of scores: what is left of rounding
_FINEST = 10_000  # parts of one unit looked for; pass rates of a few attempts have far fewer
_COARSEST = 1 << 32  # units in an amount: all large numbers have a common unit, and none that helps
_LITTLE_WORK = 1 << 22  # bytes moved by the exact count: some milliseconds
_MOST_WORK = 1 << 26  # below a tenth of a second, where nothing else will do
_MOST_LISTED = 300  # deals of one part that are listed one by one
_MOST_ENUMERATED = 1 << 20  # deals of all parts that are counted half by half
_FIXED_POINT = 1 << 16  # parts of the largest amount, for those that have no common unit
_MOST_BITS = 1 << 26  # random bits held at a time, of all deals that are added up together
_FIRST = 4096  # random deals after which a p is clear that is
_CLEAR = 400  # of them as low, and as high: p is neither below 0.1 nor above 0.9
_EXCHANGES = 24  # rounds of them, after which any deal is as likely as any other
_MANY_PARTS = 16
_HUGE = 1e50  # the fourth power of more is no number
_NEARLY_NORMAL = 0.1  # skewness and excess of a sum up to which its expansion holds to a hundredth


@dataclasses.dataclass(frozen=True, slots=True)
class Test:
    """Result of a test."""

    __test__: ClassVar[bool] = False  # to pytest: this is not a test class

    p_value: float
    exact: bool
    """Counted over all deals rather than over a random sample of them, or by an expansion."""
    resamples: int
    """Size of that sample; 0 when there is none."""
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
    # Sorted, so that the order in which attempts ended makes no difference to random deals.
    gains = [(one - lowest) * each for one in (*sorted(now), *sorted(before))]
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


def tails(parts: Sequence[Part], *, resamples: int = 20_000) -> Test:
    """Return the shares of deals whose sum is as low as the observed one, and as high. 1 if there is only one deal."""
    if not parts:
        return Test(1.0, exact=True, resamples=0)
    unit = _unit(parts)
    whole = [] if unit is None else _in_units(parts, unit)
    if whole and (found := _counted(whole, _LITTLE_WORK)) is not None:
        return Test(found[0], exact=True, resamples=0, rise=found[1])
    if len(parts) >= _MANY_PARTS and (found := _expanded(parts, unit, resamples)) is not None:
        return Test(found[0], exact=False, resamples=0, rise=found[1])
    if (whole and (found := _counted(whole, _MOST_WORK)) is not None) or (found := _enumerated(parts)):
        return Test(found[0], exact=True, resamples=0, rise=found[1])
    low, high, drawn = _sampled(parts, unit, random.Random(0), resamples)  # noqa: S311 - a simulation
    drop, rise = ((some + 1) / (drawn + 1) for some in (low, high))
    return Test(drop, exact=False, resamples=drawn, rise=rise)


def _amounts(part: Part) -> tuple[float, ...]:
    return part.rises if isinstance(part, Counted) else part.gains


def variance(part: Part) -> float:
    """Return the variance of a part over all its deals."""
    return _moments(part)[1]


# All amounts are multiples of one unit


def _unit(parts: Sequence[Part]) -> float | None:
    """Return the largest common unit of all amounts; None if none is coarse enough."""
    amounts: set[float] = set()
    for part in parts:
        amounts.update(_amounts(part))
        if len(amounts) > _FINEST:
            return None
    denominator = 1
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


class _Whole(NamedTuple):
    """A part in units: the number of deals for each gain."""

    ways: dict[int, int]
    seen: int


def _in_units(parts: Sequence[Part], unit: float) -> list[_Whole]:
    """Return all parts in units; none if any has too many deals to list."""
    gains = [
        () if isinstance(part, Counted) else tuple([round(gain / unit) for gain in part.gains])
        for part in parts
    ]
    # Checked before any part is listed, which may take longer than the whole test.
    if any(len(some) * sum(some) > _FINEST for some in gains):
        return []
    return [_in_unit(part, some, unit) for part, some in zip(parts, gains, strict=True)]


def _in_unit(part: Part, gains: tuple[int, ...], unit: float) -> _Whole:
    if isinstance(part, Counted):
        ways = _hypergeometric(part.attempts, part.drawn, part.ones)
        if part.rises.count(part.rises[0]) == len(part.rises):
            step = round(part.rises[0] / unit)
            return _Whole({place * step: some for place, some in enumerate(ways)}, part.seen * step)
        sums = [0, *itertools.accumulate(round(rise / unit) for rise in part.rises)]
        return _Whole(dict(zip(sums, ways, strict=True)), sums[part.seen])
    return _Whole(_subsets(tuple(sorted(gains)), part.drawn), sum(gains[: part.drawn]))


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


def _counted(parts: Sequence[_Whole], most_work: int) -> tuple[float, float] | None:
    """Count the shares of deals whose sum is as low as the observed one, and as high; None if it would take too long.

    One long integer holds the number of deals for each sum, as digits wide enough for the number of all deals; adding
    a part multiplies it, by a few shifts and additions (the shift algorithm of Pagano and Tritchler).
    """
    known = sorted(parts, key=lambda part: len(part.ways))
    lows = [min(part.ways) for part in known]
    span = sum(max(part.ways) for part in known) - sum(lows)
    total = math.prod(sum(part.ways.values()) for part in known)
    width = total.bit_length() + 1
    if sum(len(part.ways) for part in known) * span * width // 32 > most_work:
        return None
    below = sum(part.seen for part in known) - sum(lows)
    mirrored = 2 * below > span  # the shorter tail is counted
    most = span - below if mirrored else below
    mask = (1 << ((most + 1) * width)) - 1
    counts = 1
    for part, low in zip(known, lows, strict=True):
        start = max(part.ways) if mirrored else low
        before, counts = counts, 0
        for place, ways in part.ways.items():
            shifted = before << (abs(place - start) * width)
            counts += shifted if ways == 1 else shifted * ways
        counts &= mask
    # The sum of all digits in base 2^width is the number modulo 2^width - 1 (casting out nines).
    tail = counts % ((1 << width) - 1)
    rest = total - tail + (counts >> (most * width))  # with the observed sum, too
    return (rest / total, tail / total) if mirrored else (tail / total, rest / total)


# Few deals


def _listed(part: Part) -> list[tuple[float, int]]:
    """Return the possible gains of a part, and the number of ways to each."""
    if isinstance(part, Counted):
        ways = _hypergeometric(part.attempts, part.drawn, part.ones)
        return list(zip(itertools.accumulate(part.rises, initial=0.0), ways, strict=True))
    return [(math.fsum(some), 1) for some in itertools.combinations(part.gains, part.drawn)]


def _enumerated(parts: Sequence[Part]) -> tuple[float, float] | None:
    """Count both tails for amounts of any size, where there are few deals; None if there are too many.

    Lists the sums of either half of the parts, sorted, and counts the pairs that are as low.
    """
    if len(parts) > _MOST_ENUMERATED.bit_length() or any(
        isinstance(part, Scored) and math.comb(len(part.gains), part.drawn) > _MOST_LISTED for part in parts
    ):
        return None
    lists = sorted(map(_listed, parts), key=len)
    if math.prod(map(len, lists)) > _MOST_ENUMERATED:
        return None
    seen = math.fsum(_seen(part) for part in parts)
    slack = NOTHING * max(1.0, math.fsum(abs(listed[-1][0]) for listed in lists))
    if all(some == 1 for listed in lists for _, some in listed):
        return _halved([[gain for gain, _ in listed] for listed in lists], seen, slack)
    halves: list[list[tuple[float, int]]] = [[(0.0, 1)], [(0.0, 1)]]
    for listed in reversed(lists):
        halves.sort(key=len)
        halves[0] = [(total + gain, ways * some) for total, ways in halves[0] for gain, some in listed]
    left, right = map(sorted, halves)
    sums = [total for total, _ in right]
    ways = [0, *itertools.accumulate(some for _, some in right)]
    low = sum(some * ways[bisect.bisect_right(sums, seen + slack - one)] for one, some in left)
    lower = sum(some * ways[bisect.bisect_left(sums, seen - slack - one)] for one, some in left)
    total = ways[-1] * sum(some for _, some in left)
    return low / total, (total - lower) / total


def _halved(lists: Sequence[Sequence[float]], seen: float, slack: float) -> tuple[float, float]:
    """Count both tails where each gain comes about in one way, as with exchanged sides."""
    halves = [[0.0], [0.0]]
    for gains in reversed(lists):
        halves.sort(key=len)
        halves[0] = [total + gain for total in halves[0] for gain in gains]
    left, right = map(sorted, halves)
    up_to, below = seen + slack, seen - slack
    places = [bisect.bisect_right(right, up_to - one) for one in left]
    # Nearly always the same places: few sums besides the observed one are within the slack.
    lower = sum(
        [
            place
            if not place or right[place - 1] < below - one
            else bisect.bisect_left(right, below - one, 0, place)
            for one, place in zip(left, places, strict=True)
        ]
    )
    total = len(left) * len(right)
    return sum(places) / total, (total - lower) / total


def _seen(part: Part) -> float:
    return math.fsum(part.rises[: part.seen]) if isinstance(part, Counted) else part.seen


# Many parts


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


def _expanded(parts: Sequence[Part], unit: float | None, resamples: int) -> tuple[float, float] | None:
    """Compute both tails by the Edgeworth expansion of the sum; None if it is too far from normal, or not smooth."""
    if max(map(max, map(_amounts, parts))) > _HUGE:
        return None
    moments = list(map(_moments, parts))
    two = math.fsum(of[1] for of in moments)
    if unit is None:
        coarse = math.fsum(
            of[1] for part, of in zip(parts, moments, strict=True) if isinstance(part, Counted)
        )
        if coarse > two / 2:
            return None
    deviation = math.sqrt(two)
    skew = math.fsum(of[2] for of in moments) / two**1.5
    excess = math.fsum(of[3] - 3 * of[1] ** 2 for of in moments) / two**2
    if max(abs(skew), abs(excess)) > _NEARLY_NORMAL:
        return None
    off = math.fsum(_seen(part) - of[0] for part, of in zip(parts, moments, strict=True))
    half = 0.0 if unit is None else unit / 2
    least = 1 / (resamples + 1)  # the expansion does not hold in the far tails

    def below(at: float, skewed: float) -> float:
        z = at / deviation
        hermite = skewed / 6 * (z * z - 1) + excess / 24 * (z**3 - 3 * z)
        hermite += skewed**2 / 72 * (z**5 - 10 * z**3 + 15 * z)
        density = math.exp(-z * z / 2) / math.sqrt(2 * math.pi)
        return min(1.0, max(least, NormalDist().cdf(z) - density * hermite))

    return below(off + half, skew), below(half - off, -skew)


# Random deals


def _sampled(
    parts: Sequence[Part], unit: float | None, chance: random.Random, resamples: int
) -> tuple[int, int, int]:
    """Return the numbers of random deals whose sum is as low as the observed one, as high, and of all made.

    All deals are made at once: each bit of a long integer is one of them. Sampling stops early when p is clear after
    the first few thousand (Besag and Clifford 1991).
    """
    amounts = list(map(_amounts, parts))
    scale = 1 / unit if unit is not None else _FIXED_POINT / max(map(max, amounts))
    whole = [[round(one * scale) for one in some] for some in amounts]
    seen = sum(
        sum(some[: part.seen if isinstance(part, Counted) else part.drawn])
        for part, some in zip(parts, whole, strict=True)
    )
    # Sums that differ by no more than rounding errors count as equal.
    slack = 0 if unit is not None else sum(map(len, whole)) // 2
    size = max(1, min(resamples, _MOST_BITS // sum(map(len, whole))))
    low = high = done = 0
    while done < resamples:
        now = min(size, resamples - done, _FIRST if not done else resamples)
        columns = _columns(parts, whole, chance, now)
        low += _up_to(seen + slack, columns, now)
        high += now - _up_to(seen - slack - 1, columns, now)
        done += now
        if min(low, high) >= _CLEAR and done <= _FIRST:
            break
    return low, high, done


def _columns(
    parts: Sequence[Part], amounts: Sequence[Sequence[int]], chance: random.Random, size: int
) -> list[int]:
    """Return `size` random sums, bit-sliced: each number holds one bit of all of them, the lowest first."""
    columns: list[list[int]] = [[] for _ in range(max(map(max, amounts)).bit_length())]
    pools: dict[tuple[int, int], list[int]] = {}
    full = (1 << size) - 1
    turns = list(map(_turned, parts))
    first_turn = next((turned for turned in turns if turned is not None), False)
    for part, some, told in zip(parts, amounts, turns, strict=True):
        attempts = part.attempts if isinstance(part, Counted) else len(part.gains)
        turned = first_turn if told is None else told
        key = attempts, attempts - part.drawn if turned else part.drawn
        if attempts == 2:
            first = chance.getrandbits(size)
            drawn = [first, full ^ first]
        else:
            if key not in pools:
                pools[key] = _pool(*key, chance, size)
            # One pool serves many parts: attempts are permuted and deals rotated for each.
            turn = chance.randrange(size)
            drawn = [
                (one << turn | one >> (size - turn)) & full for one in chance.sample(pools[key], attempts)
            ]
        if turned:
            drawn = [full ^ bits for bits in drawn]
        if isinstance(part, Counted):
            drawn = _reached(drawn[: part.ones])[max(0, part.ones + part.drawn - attempts) :]
        elif turned:
            drawn = drawn[-part.drawn :] + drawn[: -part.drawn]
        for amount, bits in zip(some, drawn, strict=False):
            for weight, column in enumerate(columns):
                if amount >> weight & 1:
                    column.append(bits)
    return _added(columns)


def _turned(part: Part) -> bool | None:
    """Return whether to draw the attempts of the baseline, so that swapped sides get the same deals.

    None: the sides of this part are alike, so the first part whose sides differ decides.
    """
    if isinstance(part, Counted):
        had = max(0, part.ones + part.drawn - part.attempts) + part.seen
        before, now = (part.attempts - part.drawn, part.ones - had), (part.drawn, had)
        return None if before == now else before < now
    is_now, was = part.gains[: part.drawn], part.gains[part.drawn :]
    return None if is_now == was else (len(was), was) < (len(is_now), is_now)


def _pool(attempts: int, drawn: int, chance: random.Random, size: int) -> list[int]:
    """Return for each attempt the random deals in which it is drawn, by a network of random exchanges."""
    columns = [(1 << size) - 1] * drawn + [0] * (attempts - drawn)
    for _ in range(_EXCHANGES):
        order = chance.sample(range(attempts), attempts)
        for one, other in zip(order[::2], order[1::2], strict=False):
            swapped = (columns[one] ^ columns[other]) & chance.getrandbits(size)
            columns[one] ^= swapped
            columns[other] ^= swapped
    return columns


def _reached(drawn: Sequence[int]) -> list[int]:
    """Return the deals in which one or more of the attempts are drawn, two or more, and so on."""
    reached: list[int] = []
    for bits in drawn:
        carried = bits
        for place, some in enumerate(reached):
            reached[place], carried = some | carried, some & carried
        reached.append(carried)
    return reached


def _added(columns: list[list[int]]) -> list[int]:
    """Add numbers given as columns of bits of one weight, the lowest first; for all deals at once.

    Works like a full adder: three bits of one weight give one bit of it and a carry.
    """
    sums = []
    for weight, column in enumerate(columns):
        total = 0
        carries: list[int] = []
        rest = iter(column)
        for one in rest:
            other = next(rest, 0)
            either = one ^ other
            carries.append(one & other | either & total)
            total ^= either
        sums.append(total)
        if len(columns) > weight + 1:
            columns[weight + 1] += carries
        elif any(carries):
            columns.append(carries)
    return sums


def _up_to(limit: int, sums: Sequence[int], size: int) -> int:
    """Return the number of sums that are no higher than the limit."""
    if limit < 0 or limit.bit_length() > len(sums):
        return 0 if limit < 0 else size
    equal, below = (1 << size) - 1, 0
    for weight in range(len(sums) - 1, -1, -1):
        if limit >> weight & 1:
            below |= equal & ~sums[weight]
            equal &= sums[weight]
        else:
            equal &= ~sums[weight]
    return (below | equal).bit_count()
