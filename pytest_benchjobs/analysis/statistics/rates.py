"""Pass rates: the interval of one, and a test of one against another."""

from __future__ import annotations

import math
from statistics import NormalDist


def wilson(passed: int, n: int, level: float = 0.95) -> tuple[float, float]:
    """Wilson score interval of a pass rate, (low, high) within [0, 1]; (0, 1) of no attempts at all.

    For independent attempts: of one scenario, or one of each scenario.

    E. B. Wilson, J. Am. Stat. Assoc. 22, 1927; recommended for small n and rates near 0 or 1 by Brown, Cai and
    DasGupta, Stat. Sci. 16(2), 2001.

    Raises:
        ValueError: not 0 <= passed <= n, or the level is not between 0 and 1.

    """
    _check(passed, n)
    z = NormalDist().inv_cdf((1 + checked_level(level)) / 2)
    if n == 0:
        return 0.0, 1.0
    rate = passed / n
    spread = z * z / n
    middle = (rate + spread / 2) / (1 + spread)
    half = z * math.sqrt(rate * (1 - rate) / n + spread / (4 * n)) / (1 + spread)
    low = 0.0 if passed == 0 else max(0.0, middle - half)
    high = 1.0 if passed == n else min(1.0, middle + half)
    return low, high


def fisher(before_passed: int, before_n: int, now_passed: int, now_n: int) -> float:
    """Fisher's exact test, one-sided: p of "attempts pass less often now", of one scenario. 1 when a side has none.

    R. A. Fisher, J. R. Stat. Soc. 85, 1922: the hypergeometric chance of no more passes now than were seen, with
    all passes of both sides dealt at random.

    Raises:
        ValueError: not 0 <= passed <= n on a side.

    """
    _check(before_passed, before_n)
    _check(now_passed, now_n)
    passed, n = before_passed + now_passed, before_n + now_n
    fewest = max(0, passed - before_n)
    ways = sum(
        math.comb(now_n, some) * math.comb(before_n, passed - some) for some in range(fewest, now_passed + 1)
    )
    return ways / math.comb(n, passed)


def checked_level(level: float) -> float:
    """The level itself.

    Raises:
        ValueError: it is not between 0 and 1.

    """
    if not 0 < level < 1:
        raise ValueError(f"level {level:g}: a confidence level is between 0 and 1, 0.95 for instance")
    return level


def _check(passed: int, n: int) -> None:
    if not 0 <= passed <= n:
        raise ValueError(f"{passed} of {n} attempts passed: needs 0 <= passed <= n")
