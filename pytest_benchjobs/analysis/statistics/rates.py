"""A test of one pass rate against another."""

from __future__ import annotations

import math


def fisher(before_passed: int, before_n: int, now_passed: int, now_n: int) -> float:
    """Fisher's exact test, one-sided: p of "attempts pass less often now", of one scenario. 1 when a side has none.

    R. A. Fisher, J. R. Stat. Soc. 85, 1922: the hypergeometric chance of no more passes now than were seen, with
    all passes of both sides dealt at random.

    Raises:
        ValueError: not 0 <= passed <= n on a side.
    """
    checked_count(before_passed, before_n)
    checked_count(now_passed, now_n)
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


def checked_count(passed: int, n: int) -> None:
    """Raise ValueError if this number of n attempts cannot have passed."""
    if not 0 <= passed <= n:
        raise ValueError(f"{passed} of {n} attempts passed: needs 0 <= passed <= n")
