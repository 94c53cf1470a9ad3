"""State that all routes of a job share, such as the quotas of its providers that are used up."""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ..model.ending import Ending
from ..model.quota import QUOTA_OF, OnQuota, Quota
from ..model.usage import Usage
from ..store.ledger import note
from ..store.quotas import account, write
from .bodies import Bodies
from .budget import Spending, Turnstile
from .client import SpendingLimits, Upstream
from .failures import Failure
from .liveness import Liveness
from .prices import load_prices
from .rates import Rates

_FIRST_PAUSE = 60.0
LONGEST_PAUSE = 900.0
"""Seconds until the next try of a quota whose provider does not say when it is back."""
_MARGIN = 1.0
"""Seconds added to a time that a provider names, since clocks differ."""


class Quotas:
    """Quotas that are used up, one for each account: a provider, its address and a key.

    With `wait`, calls are refused until the time of the next try, and that try decides: it doubles the pause, or ends
    it. Otherwise calls are refused for good. Each change is written to `file`. `clock` is in seconds since the epoch.
    """

    def __init__(self, on_quota: OnQuota, file: Path | None, clock: Callable[[], float] = time.time) -> None:
        self._on_quota = on_quota
        self._file = file
        self._clock = clock
        self._used_up: dict[str, Quota] = {}

    @property
    def ends_job(self) -> bool:
        """True if a used-up quota ends the job."""
        return self._on_quota is OnQuota.FAIL

    def refusal(self, target: Upstream) -> Failure | None:
        """Return the failure of a call that is not made, since the quota is known to be used up."""
        quota = self._used_up.get(_account(target))
        if quota is None or self._is_due(quota, self._clock()):
            return None
        return Failure(Ending.QUOTA, quota.message)

    def note_used_up(self, target: Upstream, failure: Failure) -> None:
        """Note that an endpoint refused a call because the quota is used up."""
        now, name = self._clock(), _account(target)
        known = self._used_up.get(name)
        if known is not None and not self._is_due(known, now):
            return  # the call was under way when another one found it out
        times = 1 if known is None else known.times + 1
        told = failure.back_at is not None and failure.back_at > now
        until = failure.back_at if told else None
        if until is not None:
            until += _MARGIN
        elif self._on_quota is OnQuota.WAIT:
            until = now + min(_FIRST_PAUSE * 2 ** min(times - 1, 30), LONGEST_PAUSE)
        self._used_up[name] = Quota(
            provider=target.endpoint.provider,
            message=failure.message,
            since=_time(now) if known is None else known.since,
            until=None if until is None else _time(until),
            told=told,
            times=times,
        )
        self._write()

    def note_answered(self, target: Upstream, asked_at: float) -> None:
        """Note an answer to a call that was made at `asked_at`: a used-up quota is back, if it was due by then."""
        name = _account(target)
        quota = self._used_up.get(name)
        if quota is not None and self._is_due(quota, asked_at):
            del self._used_up[name]
            self._write()

    def stopped(self) -> str | None:
        """Return why the whole job has to end, with `fail`."""
        if not self.ends_job or not self._used_up:
            return None
        quota = next(iter(self._used_up.values()))
        return f"{QUOTA_OF}{quota.provider} is used up: {quota.message}"

    def _is_due(self, quota: Quota, now: float) -> bool:
        """Return whether the quota may be tried again."""
        return self._on_quota is OnQuota.WAIT and quota.until is not None and now >= quota.until.timestamp()

    def _write(self) -> None:
        if self._file is not None:
            write(self._file, self._used_up)


def _account(target: Upstream) -> str:
    return account(target.endpoint.provider, target.endpoint.base_url, target.key)


def _time(seconds: float) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC)


class Job:
    """Settings, as `client` wrote them, and the spending of the job."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self.patience: float = settings["patience"]
        self.grace: float = settings["grace"]
        self.silence: float = settings["silence"]
        self.longest: float = settings["longest"]
        self.secrets: Mapping[str, str] = settings["secrets"]
        self.prices = load_prices(_path(settings["prices"]))
        self.record = _path(settings["record"])
        self.replay = _path(settings["replay"])
        self.replay_exact: bool = settings["replay_exact"]
        self.rates = Rates({provider: (rate[0], rate[1]) for provider, rate in settings["rates"].items()})
        self.spending = Spending("job", SpendingLimits(**settings["limits"]), Usage(**settings["spent"]))
        self.turnstile = Turnstile(self.spending)
        self.liveness = Liveness()
        self.bodies = Bodies()
        self.ledger = _path(settings["ledger"])
        self.quotas = Quotas(OnQuota(settings["on_quota"]), _path(settings["quotas"]))

    def note_spent(self) -> None:
        """Write the spending so far to the ledger."""
        if self.ledger is not None:
            note(self.ledger, self.spending.counted())

    def stopped(self) -> tuple[Ending, str] | None:
        """Ending and message if the whole job has to end."""
        if (why := self.quotas.stopped()) is not None:
            return Ending.QUOTA, why
        reached = self.spending.reached()
        return None if reached is None else (Ending.BUDGET, reached)


def _path(text: str | None) -> Path | None:
    return None if text is None else Path(text)
