"""Tests of paired differences, for a drop of the mean.

All of them flip signs. If nothing changed, then for each scenario "now minus before" might as well have come out the
other way round. Of all the ways to flip the differences, how many have a mean as low as the one seen? That share is p.
"""

from __future__ import annotations

import dataclasses
import math
import random
from collections.abc import Hashable, Sequence
from fractions import Fraction
from typing import ClassVar

from .numbers import finite, grouped

_NOTHING = 1e-12  # smaller than any difference of scores: what is left of rounding
_FINEST = 10_000  # parts of one unit looked for; pass rates of a few attempts have far fewer
_COARSEST = 1 << 32  # units in a difference: all large numbers have a common unit, and none that helps
_MOST_WORK = 1 << 26  # bytes moved by the exact count: below a tenth of a second
_MOST_ENUMERATED = 28  # differences of any size whose 2^n signs are counted, half by half
_FIXED_POINT = 1 << 20  # parts of the largest difference, for those that have no common unit
_MOST_BITS = 1 << 26  # random signs held at a time, of all resamples that are added up together


@dataclasses.dataclass(frozen=True, slots=True)
class Test:
    """What a test found."""

    __test__: ClassVar[bool] = False  # to pytest: this is not a test class

    p_value: float
    exact: bool
    """Counted over all signs rather than over a random sample of them."""
    resamples: int
    """Size of that sample; 0 when exact."""
    rise: float = 1.0
    """p of the opposite, that the mean is above: what the same test says of all differences negated."""


def sign_flip(
    differences: Sequence[float],
    *,
    seed: int = 0,
    resamples: int = 20_000,
    shift: float = 0.0,
    clusters: Sequence[Hashable] | None = None,
) -> Test:
    """One-sided paired sign-flip permutation test: p of "the mean is below `shift`", that is, of a drop.

    Each difference is now minus before, of one scenario, in any unit. Differences that equal `shift` say nothing and
    do not count; p is 1 when there are no others. The test assumes that without a change differences are
    symmetric about `shift`. For 0 that holds by construction if both sides have as many attempts, and nearly if not:
    see docs/statistics.md. With `clusters`, the signs of a cluster flip together.

    Exact where all differences are multiples of one unit, as pass rates of few attempts are (by counting how many
    choices of signs give each sum), and for at most 28 differences of any size. Otherwise p is (b + 1) / (m + 1)
    over m random choices of signs, of which b were as low.

    R. A. Fisher, The Design of Experiments, 1935, section 21; the exact count is the shift algorithm of Pagano and
    Tritchler, J. Am. Stat. Assoc. 78, 1983; (b + 1) / (m + 1) is of Phipson and Smyth, Stat. Appl. Genet. Mol.
    Biol. 9(1), 2010.

    Raises:
        ValueError: a difference is not a finite number, or `clusters` has another length.

    """
    (at,) = finite([shift])
    moved = [one - at for one in finite(differences)]
    if clusters is not None:
        moved = [math.fsum(group) for group in grouped(moved, clusters)]
    moved = [one for one in moved if abs(one) > _NOTHING]
    if not moved:
        return Test(1.0, exact=True, resamples=0)
    units = _in_units(moved)
    if units is not None and _work(units) <= _MOST_WORK:
        drop, rise = _count_sums(units)
        return Test(drop, exact=True, resamples=0, rise=rise)
    if len(moved) <= _MOST_ENUMERATED:
        drop, rise = _enumerate(moved)
        return Test(drop, exact=True, resamples=0, rise=rise)
    slack = 0
    if units is None:  # close enough, and sums that differ by no more than rounding did are taken for equal
        largest = max(map(abs, moved))
        units = [round(one / largest * _FIXED_POINT) for one in moved]
        slack = len(units)
    low, high = _sample(units, slack, random.Random(seed), resamples)  # noqa: S311 - a simulation
    drop, rise = ((some + 1) / (resamples + 1) for some in (low, high))
    return Test(drop, exact=False, resamples=resamples, rise=rise)


def mcnemar(broke: int, fixed: int) -> float:
    """Exact one-sided McNemar test: p of "more broke than were fixed", of scenarios whose verdict changed.

    The binomial tail of `broke` or more in `broke + fixed` fair throws; equals `sign_flip` of so many -1 and +1.

    Q. McNemar, Psychometrika 12, 1947; exact as in Fagerland, Lydersen and Laake, BMC Med. Res. Methodol. 13:91, 2013.

    Raises:
        ValueError: a count is negative.

    """
    if broke < 0 or fixed < 0:
        raise ValueError(f"{broke} broke and {fixed} fixed: counts cannot be negative")
    throws = broke + fixed
    ways = tail = 1
    for lost in range(fixed):  # C(n, 0) + .. + C(n, fixed), each from the one before
        ways = ways * (throws - lost) // (lost + 1)
        tail += ways
    return tail / (1 << throws)


def non_inferiority(
    differences: Sequence[float],
    margin: float,
    *,
    seed: int = 0,
    resamples: int = 20_000,
    clusters: Sequence[Hashable] | None = None,
) -> float:
    """One-sided test for non-inferiority: p of "the mean dropped by less than `margin`"; 1 when nothing says so.

    Small p: shown to be no worse than the margin. The sign-flip test of the mean above -margin, so it assumes that
    differences are symmetric about their mean; with few scenarios and a small margin it says no more than "not shown".

    Piaggio et al., CONSORT for non-inferiority trials, JAMA 308(24), 2012; test as in `sign_flip`.

    Raises:
        ValueError: a difference or the margin is not a finite number, the margin is negative, or `clusters` has
            another length.

    """
    if margin < 0:
        raise ValueError(f"margin {margin:g}: it is the drop that would be tolerated, and cannot be negative")
    negated = [-one for one in differences]
    return sign_flip(negated, shift=margin, seed=seed, resamples=resamples, clusters=clusters).p_value


def _in_units(values: Sequence[float]) -> list[int] | None:
    """The values as multiples of their largest common unit. None: they have none that is coarse enough to matter."""
    parts = 1
    for value in set(values):
        near = Fraction(value).limit_denominator(_FINEST)
        if abs(float(near) - value) > _NOTHING * max(1.0, abs(value)):
            return None
        parts = math.lcm(parts, near.denominator)
        if parts > _FINEST:
            return None
    multiples = [round(value * parts) for value in values]
    unit = math.gcd(*multiples)
    if max(map(abs, multiples)) // unit > _COARSEST:
        return None
    return [one // unit for one in multiples]


def _work(units: Sequence[int]) -> int:
    """Bytes that `_count_sums` moves, roughly: a number of n bits for every sum, shifted n times."""
    return len(units) ** 2 * sum(map(abs, units)) // 32


def _count_sums(units: Sequence[int]) -> tuple[float, float]:
    """Shares of all 2^n choices of signs whose sum is no higher than that of `units`, and no lower.

    A choice is the set of magnitudes left positive, and its sum twice theirs less the sum of all. So: how many subsets
    have each sum? One long integer holds all counts, n + 1 bits for each sum, and another magnitude is a shift and an
    addition: the product of (1 + z^a) at z = 2^(n+1).
    """
    magnitudes = sorted(map(abs, units))
    width = len(units) + 1
    whole = sum(magnitudes)
    highest = (sum(units) + whole) // 2  # of the subsets that are no higher
    mirrored = highest > whole - highest
    most = min(highest, whole - highest)  # the shorter tail, as the counts are symmetric
    counts = 1
    for magnitude in magnitudes:
        counts += counts << (magnitude * width)
        counts &= (1 << ((most + 1) * width)) - 1
    # The sum of all digits in base 2^width is the number modulo 2^width - 1, as nines are cast out. It is at most 2^n.
    tail = counts % ((1 << width) - 1)
    total = 1 << len(units)
    # The other tail has the subsets of this very sum as well.
    rest = total - tail + (counts >> (most * width))
    return (rest / total, tail / total) if mirrored else (tail / total, rest / total)


def _enumerate(values: Sequence[float]) -> tuple[float, float]:
    """The same of values of any size: all sums of either half, sorted, and how many pairs of them are low enough."""
    middle = len(values) // 2
    left, right = (_all_sums(half) for half in (values[:middle], values[middle:]))
    slack = _NOTHING * math.fsum(map(abs, values))
    total = 1 << len(values)
    # The sums of either half are the same with all signs turned round, and so are those that are high enough.
    low, high = (_no_higher(left, right, seen + slack) for seen in (math.fsum(values), -math.fsum(values)))
    return low / total, high / total


def _no_higher(left: Sequence[float], right: Sequence[float], limit: float) -> int:
    low = 0
    within = len(right)
    for one in left:
        while within and one + right[within - 1] > limit:
            within -= 1
        low += within
    return low


def _all_sums(values: Sequence[float]) -> list[float]:
    """Sums of the values under all choices of signs, sorted."""
    sums = [0.0]
    for value in values:
        sums = [one - value for one in sums] + [one + value for one in sums]
    return sorted(sums)


def _sample(units: Sequence[int], slack: int, chance: random.Random, resamples: int) -> tuple[int, int]:
    """Of so many random choices of signs, those whose sum is no higher than that of `units`, or `slack` above.

    And those that are as low for all differences negated. Again by the magnitudes left positive.
    """
    magnitudes = [abs(one) for one in units]
    limits = [(seen + sum(magnitudes) + slack) // 2 for seen in (sum(units), -sum(units))]
    low = high = 0
    block = min(resamples, max(512, _MOST_BITS // len(units)))
    for done in range(0, resamples, block):
        size = min(block, resamples - done)
        sums = _added(magnitudes, chance, size)
        low += _up_to(limits[0], sums, size)
        high += _up_to(limits[1], sums, size)
    return low, high


def _added(magnitudes: Sequence[int], chance: random.Random, size: int) -> list[int]:
    """So many sums of magnitudes drawn at random. Each number holds one bit of all of them, the lowest first.

    Added up as a processor does it, for all at once: three bits of the same weight are one of it, and a carry.
    """
    columns: list[list[int]] = [[] for _ in range(max(magnitudes).bit_length())]
    for magnitude in magnitudes:
        drawn = chance.getrandbits(size)
        for weight, column in enumerate(columns):
            if magnitude >> weight & 1:
                column.append(drawn)
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
    """How many of the sums are no higher than the limit."""
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
