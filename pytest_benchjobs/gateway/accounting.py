"""State of one trial's calls: their usage, their ending, and whether the agent has to stop."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ..model.ending import Ending
from .budget import Doubt, Spending
from .client import SpendingLimits
from .failures import Failure
from .job import Job
from .tokens import Tokens

_MODELS = 32
_LONGEST_MODEL = 200
_LONGEST_TOOL = 60
_FOR_GOOD = frozenset({Ending.BUDGET, Ending.QUOTA, Ending.TRIAL_LIMIT})
_STOPPING = frozenset(
    {Ending.AUTHENTICATION, Ending.UNKNOWN_MODEL, Ending.RATE_LIMITED, Ending.ENDPOINT_DOWN, *_FOR_GOOD}
)


@dataclasses.dataclass(slots=True)
class _Model:
    """A model that was called."""

    calls: int = 0
    priced: bool = True


class TrialState:
    """State of the calls on one route.

    `on_stop` is called once, when the agent has to end. `carried` is the report of an earlier try, as `report` gives
    it; with a key `within_try` it is of an earlier turn of the same try.
    """

    def __init__(
        self,
        job: Job,
        limits: SpendingLimits,
        on_stop: Callable[[], None],
        carried: Mapping[str, Any] | None = None,
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
        self._waited = 0.0
        self._succeeded = False
        self._models: dict[str, _Model] = {}
        self._refused: dict[str, None] = {}
        self._taken_out: dict[str, None] = {}
        self.changed: list[str] = []
        """Recorded files that answered a request other than the recorded one."""
        self._grace: asyncio.TimerHandle | None = None
        self._late = False
        self._stopped = False
        if carried is not None:
            self.spending.carry(carried["spending"], within_try="within_try" in carried)
            self._models = {name: _Model(**model) for name, model in carried["models"].items()}
            self._refused = dict.fromkeys(carried["refused"])
            self._taken_out = dict.fromkeys(carried["taken_out"])

    def answered(
        self,
        provider: str,
        model: str | None,
        asked: str | None,
        tokens: Tokens,
        most: Doubt | None = None,
    ) -> None:
        """Count a call that was sent and is over.

        `model` is the endpoint's name of the model, `asked` the agent's. `tokens` were reported; `most` is an upper
        bound of the usage, if the call was not answered completely.
        """
        names = [name[:_LONGEST_MODEL] for name in (model, asked) if name]
        cost = next(
            (c for name in names if (c := self._job.prices.cost(provider, name, tokens)) is not None), None
        )
        if names and (names[0] in self._models or len(self._models) < _MODELS):
            called = self._models.setdefault(names[0], _Model())
            called.calls += 1
            called.priced &= cost is not None or tokens.total is None
        for spending in (self.spending, self._job.spending):
            spending.add(tokens, cost, most)
        self._job.note_spent()
        self._job.rates.of(provider).spend(tokens.total or 0)
        if most is None:
            self._check_meterable(tokens, cost, names[0] if names else "the model")

    def refused(self, model: str) -> None:
        """Note a model whose call was refused, because the trial may not call it."""
        if len(self._refused) < _MODELS:
            self._refused[model[:_LONGEST_MODEL]] = None

    def took_out(self, tools: Iterable[str]) -> None:
        """Note tools of the endpoint that a call offered, and was passed on without."""
        for tool in tools:
            if len(self._taken_out) < _MODELS:
                self._taken_out[tool[:_LONGEST_TOOL]] = None

    def _check_meterable(self, tokens: Tokens, cost: float | None, model: str) -> None:
        limits = (self.spending.limits, self._job.spending.limits)
        if tokens.total is None and any(
            one.max_tokens is not None or one.max_cost_usd is not None for one in limits
        ):
            self.unmeterable = (
                f"the endpoint does not say how many tokens {model} used, so no limit can be enforced"
            )
        elif cost is None and self.limits_cost:
            self.unmeterable = self.without_price(model)

    @property
    def limits_cost(self) -> bool:
        """True if a limit on cost requires prices."""
        return any(one.limits.max_cost_usd is not None for one in (self.spending, self._job.spending))

    def without_price(self, model: str) -> str:
        """Message about a model whose cost cannot be limited."""
        return f"{model} has no (full) price, so no cost limit can be enforced; add it to a table for --bench-prices"

    def gave_up(self, waited: float) -> None:
        """Note that the agent hung up after so many seconds of silence of the endpoint."""
        self._waited = max(self._waited, waited)

    def succeeded(self) -> None:
        """Note that a call was answered completely."""
        self._waited = 0.0
        self._succeeded = True
        self.impatient = False
        if self.ending not in _FOR_GOOD:
            self.ending = self.message = None
            self._calm()

    def failed(self, failure: Failure, *, for_good: bool = True) -> None:
        """Note a failed call, of which the agent was told.

        `for_good`: no further call of the agent can succeed. It may repeat a call whose answer broke off.
        """
        if self.ending in _FOR_GOOD:
            return
        self.ending, self.message = failure.ending, failure.message
        self.impatient |= failure.again and for_good
        # Agents use small models beside their own for titles and the like. While one model answers, they can go on.
        side_model = failure.ending is Ending.UNKNOWN_MODEL and self._succeeded
        if for_good and failure.ending in _STOPPING and not side_model and self._grace is None:
            self._grace = asyncio.get_running_loop().call_later(self._job.grace, self._grace_over)

    def _grace_over(self) -> None:
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

    def report(self) -> Mapping[str, Any]:
        """Report of the route, as `client.RouteReport` reads it."""
        self._calm()
        stopped, why = self._job.stopped() or (None, None)
        spent, doubtful = self.spending, self.spending.doubtful
        return {
            "usage": {**spent.usage().model_dump(), "source": "gateway"},
            "ending": self.ending,
            "message": self.message,
            "models": {name: model.calls for name, model in self._models.items()},
            "unpriced": [name for name, model in self._models.items() if not model.priced],
            "refused": list(self._refused),
            "taken_out": list(self._taken_out),
            "unfinished": doubtful.calls,
            "at_most": round(spent.cost + doubtful.cost, 12) if doubtful.bounded else None,
            "changed": self.changed,
            "carried": {
                "spending": self.spending.carried(),
                "models": {name: dataclasses.asdict(model) for name, model in self._models.items()},
                "refused": list(self._refused),
                "taken_out": list(self._taken_out),
            },
            "job_stopped": stopped,
            "job_message": why,
            "fault": self.fault,
            "waited": round(self._waited, 1),
        }
