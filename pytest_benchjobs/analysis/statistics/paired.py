"""Tests of paired differences, for a drop of the mean.

If nothing changed, the attempts at a scenario might as well have been on the other side. Of all the ways to deal them
anew, in each scenario for itself, how many have a mean as low as the one seen? That share is p.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Hashable, Iterable, Sequence

from .numbers import finite
from .permutations import NOTHING, Part, Test, counted, dealt, flipped, tails

Values = Sequence[float]
Worth = Callable[[int, int], float]
"""Function: value of a side with n attempts of which c are 1."""


def permutation(
    before: Sequence[Values],
    now: Sequence[Values],
    *,
    clusters: Sequence[Hashable] | None = None,
    worth: Worth | None = None,
    alpha: float = 0.05,
) -> Test:
    """One-sided permutation test: p of "the mean over scenarios dropped", from the attempts of both sides.

    `before` and `now` hold the scores of each scenario's attempts, in the same order of scenarios, one at least. A
    scenario counts by the mean of its attempts. Nothing is assumed but that without a change the attempts at a
    scenario are exchangeable: any number of them on either side, any distribution of scores. With one attempt on both
    sides it is the sign-flip test, and of 0/1 scores exact McNemar; of one scenario and 0/1 scores it is Fisher's.
    With `worth`, attempts are 0 or 1, and a side counts by `worth(attempts, those that are 1)`.

    With `clusters`, scenarios of one cluster depend on each other: see `_clustered`. `alpha` is what p is judged by,
    and tells how many clusters are too few.

    Exact where scores are multiples of one unit, as `permutations` explains.

    R. A. Fisher, The Design of Experiments, 1935, section 21; E. J. G. Pitman, Suppl. J. R. Stat. Soc. 4, 1937;
    stratified: P. Good, Permutation, Parametric and Bootstrap Tests of Hypotheses, 2005, section 3.7; the exact count:
    Pagano and Tritchler, J. Am. Stat. Assoc. 78, 1983.

    Raises ValueError: a score is not a finite number, a scenario has no attempts on a side, or the sides or `clusters`
    differ in length.
    """
    if len(before) != len(now):
        raise ValueError(f"{len(before)} scenarios before and {len(now)} now: they are compared in pairs")
    for side in (before, now):
        if not all(side):
            raise ValueError("a scenario without attempts on a side cannot be compared")
        finite(itertools.chain.from_iterable(side))
    if clusters is not None and len(clusters) != len(now):
        raise ValueError(f"{len(now)} scenarios in {len(clusters)} clusters: each scenario needs one")
    if clusters is None or len(set(clusters)) == len(clusters):
        return tails(_parts(before, now, worth))
    return _clustered(before, now, clusters, worth, alpha)


def _clustered(
    before: Sequence[Values],
    now: Sequence[Values],
    clusters: Sequence[Hashable],
    worth: Worth | None,
    alpha: float,
) -> Test:
    """The test where scenarios of one cluster depend on each other.

    What they share may be of the side (a repository that was broken that day) or of each attempt. The sides of a
    cluster are exchanged as a whole, which allows for both where both sides have as many attempts. Where they have
    not, differences need not be symmetric, so the drop must show in the attempts of a cluster too, dealt together.
    These also decide where clusters are too few for any exchange of sides to reach alpha, and all of them fell.
    """
    members: dict[Hashable, list[int]] = {}
    for place, cluster in enumerate(clusters):
        members.setdefault(cluster, []).append(place)
    alone, several = (
        [places for places in members.values() if (len(places) > 1) is many] for many in (False, True)
    )
    single = _parts([before[one] for (one,) in alone], [now[one] for (one,) in alone], worth)
    worths = [value_of(new, worth) - value_of(old, worth) for old, new in zip(before, now, strict=True)]
    sums = [math.fsum(worths[place] for place in places) for places in several]
    flips = [*single, *(part for one in sums if (part := flipped(one)) is not None)]
    exchanged = tails(flips)
    few = 0.5 ** len(members) > alpha
    if not few and all(len(before[place]) == len(now[place]) for places in several for place in places):
        return exchanged
    deals = (
        dealt(*(_together([side[one] for one in places]) for side in (before, now))) for places in several
    )
    together = tails([*single, *(part for part in deals if part is not None)])
    every = [*sums, *(worths[one] for (one,) in alone)]
    p_value, rise = (
        one if few and all(way * of > NOTHING for of in every) else max(one, other)
        for way, one, other in ((-1, together.p_value, exchanged.p_value), (1, together.rise, exchanged.rise))
    )
    return Test(p_value, rise)


def value_of(scores: Values, worth: Worth | None) -> float:
    """Return the value of a side: the mean of its attempts, or what they are worth."""
    return math.fsum(scores) / len(scores) if worth is None else worth(len(scores), round(math.fsum(scores)))


def tables_of(worth: Worth, sides: Iterable[Values]) -> dict[int, list[float]]:
    """Return number of attempts -> the worth of each number of those that are 1."""
    return {n: [worth(n, some) for some in range(n + 1)] for n in set(map(len, sides))}


def _parts(before: Sequence[Values], now: Sequence[Values], worth: Worth | None) -> list[Part]:
    pairs = zip(before, now, strict=True)
    if worth is None:
        return [part for pair in pairs if (part := dealt(*pair)) is not None]
    tables = tables_of(worth, itertools.chain(before, now))
    found = [counted(old, new, (tables[len(old)], tables[len(new)])) for old, new in pairs]
    return [part for part in found if part is not None]


def _together(scenarios: Sequence[Values]) -> list[float]:
    """Combine the scenarios of a cluster into attempts at the whole cluster: sums of the lowest, of the next, ...

    There are as many as the scenario with the fewest attempts has, and they are as dependent as possible. A scenario
    with more attempts contributes shares of them, so that its mean stays the same.
    """
    fewest = min(map(len, scenarios))
    sums = [0.0] * fewest
    for scores in scenarios:
        ordered, n = sorted(scores), len(scores)
        for place in range(fewest):
            start, end = place * n / fewest, (place + 1) * n / fewest
            shares = (
                score * (min(end, at + 1) - max(start, at))
                for at, score in enumerate(ordered)
                if at + 1 > start and at < end
            )
            sums[place] += math.fsum(shares) * fewest / n
    return sums


def mcnemar(broke: int, fixed: int) -> float:
    """Exact one-sided McNemar test: p of "more broke than were fixed", of scenarios whose verdict changed.

    The binomial tail of `broke` or more in `broke + fixed` fair throws; equals `permutation` of single attempts.

    Q. McNemar, Psychometrika 12, 1947; exact as in Fagerland, Lydersen and Laake, BMC Med. Res. Methodol. 13:91, 2013.

    Raises ValueError: a count is negative.
    """
    if broke < 0 or fixed < 0:
        raise ValueError(f"{broke} broke and {fixed} fixed: counts cannot be negative")
    throws = broke + fixed
    ways = tail = 1
    for lost in range(fixed):  # C(n, 0) + .. + C(n, fixed), each from the one before
        ways = ways * (throws - lost) // (lost + 1)
        tail += ways
    return tail / (1 << throws)
