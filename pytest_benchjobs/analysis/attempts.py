"""Estimators for k attempts: pass@k and pass^k."""

from __future__ import annotations

import math
from collections.abc import Iterable

from ..model.base import Model


def pass_at_k(n: int, c: int, k: int) -> float | None:
    """Unbiased estimate of the chance that at least one of k attempts passes, from n attempts of which c passed.

    1 - C(n-c, k) / C(n, k), as in Chen et al. 2021 (arXiv:2107.03374), equation 1. None when n < k: no unbiased
    estimate exists.

    Raises ValueError: not 0 <= c <= n, or k < 1.
    """
    _check(n, c, k)
    return None if n < k else 1 - math.comb(n - c, k) / math.comb(n, k)


def pass_hat_k(n: int, c: int, k: int) -> float | None:
    """Unbiased estimate of the chance that all of k attempts pass, from n attempts of which c passed.

    C(c, k) / C(n, k): pass^k of Yao et al. 2024, tau-bench (arXiv:2406.12045), section 4. None when n < k.

    Raises ValueError: not 0 <= c <= n, or k < 1.
    """
    _check(n, c, k)
    return None if n < k else math.comb(c, k) / math.comb(n, k)


class AtK(Model):
    """Unbiased estimates for k attempts, from all attempts; means over scenarios."""

    k: int
    pass_at_k: float | None
    """Chance that at least one of k attempts passes. null: no scenario has k attempts that passed or failed."""
    pass_hat_k: float | None
    """Chance that all of k attempts pass: pass^k."""
    scenarios: int
    """Scenarios with k attempts that passed or failed; the others do not count."""


def at_k(scenarios: Iterable[tuple[int, int]], up_to: int) -> list[AtK]:
    """pass@k and pass^k for k = 1 .. `up_to`, from (n, c) of each scenario: attempts, and those that passed.

    An attempt that ended in an error tells nothing about the agent: leave it out of n.
    """
    sums = [[0.0, 0.0, 0] for _ in range(up_to)]
    for n, c in scenarios:
        _check(n, c, 1)
        # C(n-c, k) / C(n, k) and C(c, k) / C(n, k), each from its predecessor.
        none_pass = all_pass = 1.0
        for k in range(1, min(n, up_to) + 1):
            none_pass *= max(n - c - k + 1, 0) / (n - k + 1)
            all_pass *= max(c - k + 1, 0) / (n - k + 1)
            of_k = sums[k - 1]
            of_k[0] += 1 - none_pass
            of_k[1] += all_pass
            of_k[2] += 1
    return [
        AtK(
            k=k,
            pass_at_k=at / count if count else None,
            pass_hat_k=hat / count if count else None,
            scenarios=int(count),
        )
        for k, (at, hat, count) in enumerate(sums, 1)
    ]


def shown(up_to: int) -> list[int]:
    """Values of k for a table: all up to four, else 1, 2, 4, 8, ... and the last."""
    return [k for k in range(1, up_to + 1) if up_to <= 4 or k & (k - 1) == 0 or k == up_to]


def _check(n: int, c: int, k: int) -> None:
    if not 0 <= c <= n or k < 1:
        raise ValueError(f"{c} of {n} attempts, k = {k}: needs 0 <= c <= n and k >= 1")
