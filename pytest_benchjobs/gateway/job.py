"""State that all routes of a job share."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..model.ending import Ending
from ..model.quota import OnQuota
from ..model.usage import Usage
from ..store.ledger import note
from .bodies import Bodies
from .budget import Spending, Turnstile
from .client import SpendingLimits
from .liveness import Liveness
from .prices import load_prices
from .quotas import Quotas
from .rates import Rates


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
