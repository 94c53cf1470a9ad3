"""Spending of a trial or job, and its limits."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any

from ..model.ending import Ending
from ..model.usage import Usage
from .client import SpendingLimits
from .tokens import Tokens

_COUNTS = ("input", "output", "cached", "cache_write", "reasoning")


@dataclasses.dataclass(frozen=True, slots=True)
class Doubt:
    """Upper bound of the usage of calls that did not report it."""

    calls: int = 0
    tokens: int = 0
    cost: float = 0.0
    """USD."""
    bounded: bool = True
    """The cost can be no more. If not, one of them has no price."""

    def plus(self, most: Doubt, tokens: int, cost: float) -> Doubt:
        """Sum with the bound `most` of another call, less what that call reported."""
        return Doubt(
            self.calls + most.calls,
            self.tokens + max(most.tokens - tokens, 0),
            self.cost + max(most.cost - cost, 0.0),
            self.bounded and most.bounded,
        )


class Spending:
    """Spending of a trial, or of a whole job, as `whose` says. `spent`: before the job was resumed."""

    def __init__(self, whose: str, limits: SpendingLimits, spent: Usage | None = None) -> None:
        self._whose = whose
        self.limits = limits
        spent = spent or Usage()
        self._tokens: dict[str, int | None] = {name: getattr(spent, f"{name}_tokens") for name in _COUNTS}
        self.calls = spent.calls or 0
        self.cost = spent.cost_usd or 0.0
        """The known part."""
        self.cost_known = True
        self.doubtful = Doubt()
        """Upper bound of what incomplete calls used beside what they reported."""
        self._broken_off = Doubt()
        """The part of it that is of calls which their endpoints broke off."""
        self.running = 0
        """Calls under way."""
        self.carries = False
        """True if an earlier try has used part of the limit."""
        self._largest: tuple[float, int] | None = None

    @property
    def tokens(self) -> int:
        """Tokens sent and received, as far as known."""
        return (self._tokens["input"] or 0) + (self._tokens["output"] or 0)

    def add(
        self, tokens: Tokens, cost: float | None, most: Doubt | None = None, *, broken_off: bool = False
    ) -> None:
        """Add a call that is over, with the tokens it reported; `cost` is None if unknown.

        `most` is an upper bound of its usage, if it was not answered completely: the report is incomplete then.
        `broken_off`: the endpoint is the reason.
        """
        self.calls += 1
        for name in _COUNTS:
            count = getattr(tokens, name)
            if count is not None:
                self._tokens[name] = (self._tokens[name] or 0) + count
        self.cost += cost or 0.0
        self.cost_known &= cost is not None and most is None
        if most is not None:
            self.doubtful = self.doubtful.plus(most, tokens.total or 0, cost or 0.0)
            if broken_off:
                self._broken_off = self._broken_off.plus(most, tokens.total or 0, cost or 0.0)
        cost_before, tokens_before = self._largest or (0.0, 0)
        self._largest = max(cost_before, cost or 0.0), max(tokens_before, tokens.total or 0)

    def usage(self) -> Usage:
        """Known usage. Without any call it is known to be 0."""
        if self.calls == 0:
            return Usage(calls=0, input_tokens=0, output_tokens=0, cost_usd=0.0)
        counts = {f"{name}_tokens": self._tokens[name] for name in _COUNTS}
        cost = round(self.cost, 12) if self.cost_known else None
        return Usage(calls=self.calls, cost_usd=cost, **counts)

    def counted(self) -> Usage:
        """Usage that counts against limits: the known one, and the upper bound of the unknown one."""
        cost = round(self.cost + self.doubtful.cost, 12)
        return self.usage().model_copy(update={"cost_usd": cost})

    def carried(self) -> dict[str, Any]:
        """State for `carry` in the next try of the same trial."""
        return {
            "tokens": self._tokens,
            "calls": self.calls,
            "cost": self.cost,
            "cost_known": self.cost_known,
            "doubtful": dataclasses.asdict(self.doubtful),
            "broken_off": dataclasses.asdict(self._broken_off),
            "carries": self.carries,
        }

    def carry(self, before: Mapping[str, Any], *, within_try: bool = False) -> None:
        """Continue an earlier try, or an earlier turn (`within_try`): a trial has one limit for all its tries."""
        self._tokens = {name: before["tokens"][name] for name in _COUNTS}
        self.calls, self.cost, self.cost_known = before["calls"], before["cost"], before["cost_known"]
        self.doubtful, self._broken_off = Doubt(**before["doubtful"]), Doubt(**before["broken_off"])
        self.carries = before["carries"] if within_try else self.calls > 0 or self.doubtful.calls > 0

    def reached(self) -> str | None:
        """Message about a limit that is used up; None: there is none."""
        limits, doubt = self.limits, self.doubtful
        perhaps = (
            f", counting the most that {doubt.calls} unfinished calls can have used" if doubt.calls else ""
        )
        cost, tokens = self.cost + doubt.cost, self.tokens + doubt.tokens
        if limits.max_cost_usd is not None and cost >= limits.max_cost_usd:
            spent = f"{cost:.4f} USD spent{perhaps}"
            return f"the {self._whose}'s limit of {limits.max_cost_usd:g} USD is reached: {spent}"
        if limits.max_tokens is not None and tokens >= limits.max_tokens:
            return (
                f"the {self._whose}'s limit of {limits.max_tokens} tokens is reached: {tokens} used{perhaps}"
            )
        if limits.max_calls is not None and self.calls >= limits.max_calls:
            return f"the {self._whose}'s limit of {limits.max_calls} calls is reached"
        return None

    @property
    def reached_by_doubt(self) -> bool:
        """True if a limit is used up only by what calls may have used that their endpoints broke off."""
        limits, known = self.limits, self.doubtful
        cost = self.cost + known.cost - self._broken_off.cost
        tokens = self.tokens + known.tokens - self._broken_off.tokens
        return (
            self.reached() is not None
            and (limits.max_cost_usd is None or cost < limits.max_cost_usd)
            and (limits.max_tokens is None or tokens < limits.max_tokens)
            and (limits.max_calls is None or self.calls < limits.max_calls)
        )

    def has_room(self, ours: int) -> bool:
        """True unless one more call now might break a limit that waiting would keep.

        Args:
            ours: Running calls of the same trial. The cost of a call is known when it is over, so a trial near its
                limit makes one call at a time.
        """
        limits = self.limits
        if limits.max_calls is not None and self.calls + self.running >= limits.max_calls:
            return False
        if ours == 0 or (limits.max_cost_usd is None and limits.max_tokens is None):
            return True
        if self._largest is None:
            return False
        cost, tokens = self._largest
        spent = self.cost + self.doubtful.cost
        used = self.tokens + self.doubtful.tokens
        return (limits.max_cost_usd is None or spent + self.running * cost < limits.max_cost_usd) and (
            limits.max_tokens is None or used + self.running * tokens < limits.max_tokens
        )


class Turnstile:
    """Lets calls of all trials through as far as limits allow."""

    def __init__(self, job: Spending) -> None:
        self._job = job
        self._waiting: list[asyncio.Future[None]] = []

    async def enter(
        self, trial: Spending, held: Callable[[], AbstractContextManager[None]] = contextlib.nullcontext
    ) -> tuple[Ending, str] | None:
        """Wait until the call may be made, and count it as running; or return the limit that is reached.

        The agent is responsible for reaching the trial's own limit, unless an earlier try, which ended in an error,
        used part of it, or calls that endpoints broke off may have. Each call that entered has to `leave`. `held` is
        the context of the wait.
        """
        while True:
            if reached := self._job.reached():
                return Ending.BUDGET, reached
            if reached := trial.reached():
                excused = trial.carries or trial.reached_by_doubt
                return Ending.BUDGET if excused else Ending.TRIAL_LIMIT, reached
            if self._job.has_room(trial.running) and trial.has_room(trial.running):
                trial.running += 1
                self._job.running += 1
                return None
            change = asyncio.get_running_loop().create_future()
            self._waiting.append(change)
            with held():
                await change

    def leave(self, trial: Spending) -> None:
        """Note that a call is over and its cost is counted."""
        trial.running -= 1
        self._job.running -= 1
        waiting, self._waiting = self._waiting, []
        for change in waiting:
            if not change.done():
                change.set_result(None)
