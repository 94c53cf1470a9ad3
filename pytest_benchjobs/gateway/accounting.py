"""State of one trial's calls: their usage, their ending, and whether the agent has to stop."""

from __future__ import annotations

import asyncio
import functools
import itertools
import math
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ..model.ending import Ending
from ..store.text import one_line
from ..system.cutting import beginning_of
from .budget import Doubt, Spending
from .client import SpendingLimits
from .failures import Failure
from .holding import Holding
from .job import Job
from .liveness import Line
from .own_call import is_answered
from .tiers import at_rate
from .tokens import NoSuchPrice, Tokens, Unpriced

_MODELS = 32
_LONGEST_MODEL = 200
_LONGEST_TOOL = 60
_REASONS = 32
_LONGEST_REASON = 300
_SILENT = "did not report what they used"
_FOR_GOOD = frozenset({Ending.BUDGET, Ending.QUOTA, Ending.TRIAL_LIMIT})
_OF_ENDPOINT = frozenset(
    {Ending.AUTHENTICATION, Ending.UNKNOWN_MODEL, Ending.RATE_LIMITED, Ending.ENDPOINT_DOWN}
)
_STOPPING = _OF_ENDPOINT | _FOR_GOOD
_NUMBERS = itertools.count()
_WORTH_ASKING = 10.0
"""Seconds of silence after which it matters whether the endpoint answers others."""
_SUFFICES = 10.0
"""Seconds for which a quota that was confirmed to suffice for others is not asked about again."""


class TrialState:
    """State of the calls on one route.

    `on_stop` is called once, when the agent has to end, `on_held` as `Holding` says. `carried` is the report of an
    earlier try, as `report` gives it; with a key `within_try` it is of an earlier turn of the same try.
    """

    def __init__(
        self,
        job: Job,
        limits: SpendingLimits,
        on_stop: Callable[[], None],
        carried: Mapping[str, Any] | None = None,
        on_held: Callable[[float, float | None], None] = lambda _seconds, _since: None,
    ) -> None:
        self._job = job
        self._on_stop = on_stop
        self.spending = Spending("trial", limits)
        self.ending: Ending | None = None
        self.message: str | None = None
        self.fault: str | None = None
        """Error that kept traffic from being recorded."""
        self.impatient = False
        """The endpoint has used up the patience, and has not answered since."""
        self.unmeterable: str | None = None
        """Reason why a limit cannot be enforced."""
        self.holding = Holding(on_held)
        self._waited, self._silent_since = 0.0, math.inf
        self._answered = 0
        self._failed: tuple[Line, float] | None = None
        """Way to the model whose call failed or was given up, and the time since when answers to others count."""
        self._answers_others = False
        self._suffices_until = 0.0
        self._number = next(_NUMBERS)
        self._confirming: asyncio.Task[None] | None = None
        self._models: dict[str, int] = {}
        self._unknown: dict[str, int] = {}
        """Reason why the cost of calls is unknown -> number of them."""
        self._refused: dict[str, None] = {}
        self._taken_out: dict[str, None] = {}
        self.changed: list[str] = []
        """Recorded files that answered a request other than the recorded one."""
        self.sent_again = 0
        """Requests that were sent again, though their endpoint may have got them."""
        self._grace: asyncio.TimerHandle | None = None
        self._late = False
        self._stopped = False
        if carried is not None:
            self.spending.carry(carried["spending"], within_try="within_try" in carried)
            self._models = dict(carried["models"])
            self._unknown = dict(carried["unknown"])
            self._refused = dict.fromkeys(carried["refused"])
            self._taken_out = dict.fromkeys(carried["taken_out"])
            self.sent_again = carried["sent_again"]
            self._answered = carried["answered"] if "within_try" in carried else 0

    def answered(
        self,
        provider: str,
        model: str | None,
        requested: str | None,
        tokens: Tokens,
        most: Doubt | None = None,
        *,
        lack: str | None = None,
        rate: str | None = None,
        public: bool = True,
        broken_off: bool = False,
    ) -> float | None:
        """Count a call that was sent and is over; return its cost in USD, None if that is unknown.

        `model` is the endpoint's name of the model, `requested` the agent's. `tokens` were reported, and are all but
        for a `lack`: what the call did instead of saying what it used. `most` is an upper bound of its usage then;
        `broken_off`: because of the endpoint. `rate` is that of the call; `public`: public prices hold.
        """
        names = [beginning_of(name, _LONGEST_MODEL) for name in (model, requested) if name]
        cost, why = self._cost(provider, names, tokens, rate, public=public)
        if names:
            self._note(self._models, at_rate(names[0], rate), _MODELS)
        silent = tokens.input is None or tokens.output is None
        if (reason := lack or (_SILENT if silent else why)) is not None:
            self._note(self._unknown, reason, _REASONS)
            most = most or Doubt(calls=0, bounded=False)
        for spending in (self.spending, self._job.spending):
            spending.add(tokens, cost, most, broken_off=broken_off)
        self._job.note_spent()
        self._job.rates.of(provider).spend(tokens.total or 0)
        if lack is None:
            self._check_meterable(silent, why, names[0] if names else "the model")
        return cost

    def _cost(
        self, provider: str, names: Iterable[str], tokens: Tokens, rate: str | None, *, public: bool
    ) -> tuple[float | None, str | None]:
        """USD of the reported tokens by the first name that a price list has; else the reason why it is unknown."""
        why: Unpriced | None = None
        for name in names:
            try:
                return self._job.prices.cost(provider, name, tokens, rate, public=public), None
            except NoSuchPrice as problem:
                why = why or problem
            except Unpriced as problem:
                why = problem
                break
        return None, one_line(str(why or "no price for a model without a name"), _LONGEST_REASON)

    @staticmethod
    def _note(calls: dict[str, int], name: str, most: int) -> None:
        if name in calls or len(calls) < most:
            calls[name] = calls.get(name, 0) + 1

    def refused(self, model: str) -> None:
        """Note a model whose call was refused, because the trial may not call it."""
        if len(self._refused) < _MODELS:
            self._refused[beginning_of(model, _LONGEST_MODEL)] = None

    def took_out(self, tools: Iterable[str]) -> None:
        """Note tools of the endpoint that a call offered, and was passed on without."""
        for tool in tools:
            if len(self._taken_out) < _MODELS:
                self._taken_out[beginning_of(tool, _LONGEST_TOOL)] = None

    def _check_meterable(self, silent: bool, why: str | None, model: str) -> None:
        limits = (self.spending.limits, self._job.spending.limits)
        if silent and any(one.max_tokens is not None or one.max_cost_usd is not None for one in limits):
            self.unmeterable = (
                f"the endpoint does not say how many tokens {model} used, so no limit can be enforced"
            )
        elif why is not None and self.limits_cost:
            self.unmeterable = without_limit(why)

    @property
    def limits_cost(self) -> bool:
        """True if a limit on cost requires prices."""
        return any(one.limits.max_cost_usd is not None for one in (self.spending, self._job.spending))

    def gave_up(self, waited: float, line: Line) -> None:
        """Record that the agent hung up after these seconds of silence of the endpoint.

        Times of calls add up, but not those of calls at the same time.
        """
        now = time.monotonic()
        self._silent_since = min(self._silent_since, now - waited)
        self._waited = min(self._waited + waited, now - self._silent_since)
        self._failed = self._failed or (line, now - waited)

    def succeeded(self, line: Line) -> None:
        """Note that a call was answered completely."""
        self._waited, self._silent_since = 0.0, math.inf
        self._answered += 1
        self._failed, self._answers_others = None, False
        self._job.liveness.note_answered(line, self._number)
        self.impatient = False
        if self.ending not in _FOR_GOOD:
            self.ending = self.message = None
            self._calm()

    def failed(self, failure: Failure, line: Line | None = None, *, for_good: bool = True) -> None:
        """Record a failed call that the agent got an error for.

        `line`: the endpoint failed it. `for_good`: no further call of the agent can succeed. It may repeat a call whose
        answer broke off.
        """
        if self.ending in _FOR_GOOD:
            return
        self.ending, self.message = failure.ending, failure.message
        self._failed = None if line is None else (line, time.monotonic())
        self.impatient |= failure.again and for_good
        # Agents use small models beside their own for titles and the like. While one model answers, they can go on.
        side_model = failure.ending is Ending.UNKNOWN_MODEL and self._answered > 0
        if for_good and failure.ending in _STOPPING and not side_model and self._grace is None:
            self._grace = asyncio.get_running_loop().call_later(self._job.grace, self._grace_over)

    async def confirm_quota(self, line: Line) -> bool:
        """Return True unless the endpoint answers others, for whom the quota suffices."""
        now = time.monotonic()
        if now >= self._suffices_until and not await self._is_answered(line, now):
            return True
        # An agent that goes on like that causes no more of the gateway's own calls.
        self._suffices_until = max(self._suffices_until, now + _SUFFICES)
        return False

    async def find_out(self) -> None:
        """Find out whether the endpoint answers others, if it failed this trial after it had answered it."""
        matters = self.ending in _OF_ENDPOINT or self._waited >= _WORTH_ASKING
        decided = self._stopped or self.ending in _FOR_GOOD
        if self._failed is not None and self._answered and matters and not decided:
            self._answers_others = await self._is_answered(*self._failed)

    async def _is_answered(self, line: Line, since: float) -> bool:
        ask = functools.partial(is_answered, self._job, line)
        return await self._job.liveness.answers(line, self._number, since, ask)

    def _grace_over(self) -> None:
        if self._answered and self.ending in _OF_ENDPOINT:
            self._confirming = asyncio.ensure_future(self._confirm())
        else:
            self._stop_soon()

    async def _confirm(self) -> None:
        """End the agent, unless the endpoint answers others: then it may answer the agent's next call."""
        await self.find_out()
        if self._answers_others:
            self._calm()
            self.impatient = False
        else:
            self._stop_soon()

    def _stop_soon(self) -> None:
        self._late = True
        self.consider_stopping()

    def consider_stopping(self) -> None:
        """End the agent if its grace period is over and no running call may still succeed."""
        if self._late and not self._stopped and (self.spending.running == 0 or self.ending in _FOR_GOOD):
            self._stopped = True
            self._on_stop()

    def _calm(self) -> None:
        self._late = False
        if self._grace is not None:
            self._grace.cancel()
            self._grace = None
        if self._confirming is not None and self._confirming is not asyncio.current_task():
            self._confirming.cancel()
            self._confirming = None

    def report(self) -> Mapping[str, Any]:
        """Report of the route, as `client.RouteReport` reads it."""
        self._calm()
        stopped, why = self._job.stopped() or (None, None)
        spent, doubtful = self.spending, self.spending.doubtful
        known = {
            "models": self._models,
            "unknown": self._unknown,
            "refused": list(self._refused),
            "taken_out": list(self._taken_out),
            "sent_again": self.sent_again,
            "answered": self._answered,
        }
        return {
            **known,
            "usage": {**spent.usage().model_dump(), "source": "gateway"},
            "ending": self.ending,
            "message": self.message,
            "unfinished": doubtful.calls,
            "at_most": round(spent.cost + doubtful.cost, 12) if doubtful.bounded else None,
            "changed": self.changed,
            "carried": {**known, "spending": self.spending.carried()},
            "job_stopped": stopped,
            "job_message": why,
            "fault": self.fault,
            "waited": round(self._waited, 1),
            "answers_others": self._answers_others,
            "held": round(self.holding.seconds, 1),
        }


def without_limit(why: str) -> str:
    """Message about a cost that cannot be limited, as its price is unknown."""
    return f"{why}, so no cost limit can be enforced; add it to a table for --bench-prices"
