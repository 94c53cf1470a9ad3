"""What was spent, and whether another call may be made."""

from __future__ import annotations

import asyncio

from ..model.usage import Usage
from .client import Limits
from .prices import Tokens

_COUNTS = ("input", "output", "cached", "cache_write", "reasoning")


class Spending:
    """Of a trial, or of a whole job."""

    def __init__(self, whose: str, limits: Limits, spent: Usage | None = None) -> None:
        self._whose = whose
        self.limits = limits
        spent = spent or Usage()
        self._tokens: dict[str, int | None] = {name: getattr(spent, f"{name}_tokens") for name in _COUNTS}
        self.calls = spent.calls or 0
        self.cost = spent.cost_usd or 0.0
        self.cost_known = True
        self.running = 0
        """Calls under way."""
        self._largest: tuple[float, int] | None = None

    @property
    def tokens(self) -> int:
        """Sent and received."""
        return (self._tokens["input"] or 0) + (self._tokens["output"] or 0)

    def add(self, tokens: Tokens, cost: float | None, complete: bool) -> None:
        """A call was answered.

        Args:
            tokens: What was reported.
            cost: None if that is unknown.
            complete: Whether it was answered to the end. Of one that was cut, what was reported is all there is.

        """
        self.calls += 1
        for name in _COUNTS:
            count = getattr(tokens, name)
            if count is not None:
                self._tokens[name] = (self._tokens[name] or 0) + count
        if cost is not None:
            self.cost += cost
        elif complete or tokens.total is not None:
            self.cost_known = False
        cost_before, tokens_before = self._largest or (0.0, 0)
        self._largest = max(cost_before, cost or 0.0), max(tokens_before, tokens.total or 0)

    def usage(self) -> Usage:
        """All of it. Nothing was called: nothing was spent, which is known."""
        if self.calls == 0:
            return Usage(calls=0, input_tokens=0, output_tokens=0, cost_usd=0.0)
        counts = {f"{name}_tokens": self._tokens[name] for name in _COUNTS}
        cost = round(self.cost, 12) if self.cost_known else None
        return Usage(calls=self.calls, cost_usd=cost, **counts)

    def known(self) -> Usage:
        """All of it, with the cost as far as it is known."""
        return self.usage().model_copy(update={"cost_usd": round(self.cost, 12)})

    def reached(self) -> str | None:
        """The limit that leaves nothing to spend, in words."""
        limits = self.limits
        if limits.max_cost_usd is not None and self.cost >= limits.max_cost_usd:
            return f"the {self._whose}'s limit of {limits.max_cost_usd:g} USD is reached: {self.cost:.4f} USD spent"
        if limits.max_tokens is not None and self.tokens >= limits.max_tokens:
            return f"the {self._whose}'s limit of {limits.max_tokens} tokens is reached: {self.tokens} used"
        if limits.max_calls is not None and self.calls >= limits.max_calls:
            return f"the {self._whose}'s limit of {limits.max_calls} calls is reached"
        return None

    def has_room(self, ours: int) -> bool:
        """Whether one more call now could not break a limit that waiting would keep.

        Args:
            ours: Calls of the same trial that are under way. What one call costs is known when it is over, so a
                trial near its limit makes one at a time.

        """
        limits = self.limits
        if limits.max_calls is not None and self.calls + self.running >= limits.max_calls:
            return False
        if ours == 0 or (limits.max_cost_usd is None and limits.max_tokens is None):
            return True
        if self._largest is None:
            return False
        cost, tokens = self._largest
        return (limits.max_cost_usd is None or self.cost + self.running * cost < limits.max_cost_usd) and (
            limits.max_tokens is None or self.tokens + self.running * tokens < limits.max_tokens
        )


class Turnstile:
    """Lets calls of all trials through as far as limits allow."""

    def __init__(self, job: Spending) -> None:
        self._job = job
        self._waiting: list[asyncio.Future[None]] = []

    async def enter(self, trial: Spending) -> str | None:
        """Wait until the call may be made, and count it as running; or say which limit is reached.

        Every call that entered has to `leave`.
        """
        while True:
            if reached := self._job.reached() or trial.reached():
                return reached
            if self._job.has_room(trial.running) and trial.has_room(trial.running):
                trial.running += 1
                self._job.running += 1
                return None
            change = asyncio.get_running_loop().create_future()
            self._waiting.append(change)
            await change

    def leave(self, trial: Spending) -> None:
        """The call is over, and what it cost is known."""
        trial.running -= 1
        self._job.running -= 1
        waiting, self._waiting = self._waiting, []
        for change in waiting:
            if not change.done():
                change.set_result(None)
