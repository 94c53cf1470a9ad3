"""Rate limits of calls to a provider."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping


class Rate:
    """Rate limit of one provider: the most `requests` and `tokens` per minute. None: no limit.

    The tokens of a call are known afterwards, so later calls wait for them. `clock` is in seconds.
    """

    def __init__(
        self, requests: int | None, tokens: int | None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._clock = clock
        self._requests = None if requests is None else _Bucket(requests, clock())
        self._tokens = None if tokens is None else _Bucket(tokens, clock())
        self._paused_until = clock()

    def reserve(self) -> float:
        """Take a turn, and return the seconds until it comes."""
        now = self._clock()
        delay = 0.0
        if self._requests is not None:
            self._requests.take(1, now)
            delay = self._requests.until(0.0, now)
        if self._tokens is not None:
            delay = max(delay, self._tokens.until(1.0, now))
        return delay

    def spend(self, tokens: int) -> None:
        """Count the tokens of a call."""
        if self._tokens is not None:
            self._tokens.take(tokens, self._clock())

    def pause(self, seconds: float) -> None:
        """Hold back all calls to the provider for these seconds."""
        self._paused_until = max(self._paused_until, self._clock() + seconds)

    def paused(self) -> float:
        """Seconds until the pause is over."""
        return max(self._paused_until - self._clock(), 0.0)


class _Bucket:
    """Token bucket that fills steadily, with a capacity of a twelfth of a minute's worth.

    It fills so slowly that the first burst and what follows stay within a minute's worth in any minute.
    """

    def __init__(self, per_minute: int, now: float) -> None:
        self._capacity = max(1.0, per_minute // 12)
        self._speed = (per_minute + 1 - self._capacity) / 60
        self._level = self._capacity
        self._at = now

    def take(self, amount: float, now: float) -> None:
        self._fill(now)
        self._level -= amount

    def until(self, level: float, now: float) -> float:
        """Seconds until it holds `level`."""
        self._fill(now)
        return max((level - self._level) / self._speed, 0.0)

    def _fill(self, now: float) -> None:
        self._level = min(self._capacity, self._level + (now - self._at) * self._speed)
        self._at = now


class Rates:
    """Rate limits of all providers. The limit of `*` applies to each provider that is not named, separately."""

    def __init__(self, rates: Mapping[str, tuple[int | None, int | None]]) -> None:
        self._limits = rates
        self._rates: dict[str, Rate] = {}

    def of(self, provider: str) -> Rate:
        """Rate of a provider; one without limits still has pauses."""
        rate = self._rates.get(provider)
        if rate is None:
            nothing = (None, None)
            own, every = self._limits.get(provider, nothing), self._limits.get("*", nothing)
            requests, tokens = (every[at] if own[at] is None else own[at] for at in range(2))
            rate = self._rates[provider] = Rate(requests, tokens)
        return rate
