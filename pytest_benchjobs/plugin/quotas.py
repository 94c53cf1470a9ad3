"""Lines for the terminal about quotas of providers that are used up, while trials run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..job.quotas import describe, waiting
from ..model.quota import OnQuota
from .terminal import say

if TYPE_CHECKING:
    import pytest

    from ..model.quota import Quota
    from .state import Job


class QuotaLines:
    """Says once what trials do about a quota, and when it is back. Call it often: it looks at a file."""

    def __init__(self, config: pytest.Config, job: Job) -> None:
        self._config = config
        self._quotas = job.trials.quotas
        self._job = job.bundle.id
        self._said: dict[str, Quota] = {}

    def __call__(self) -> None:
        """Print what has changed."""
        used_up = self._quotas.used_up()
        if used_up is self._said:
            return
        for name, quota in used_up.items():
            if self._said.get(name) != quota:
                # With -q, too: a job may stand still for hours.
                say(self._config, f"bench: {self._about(quota)}", least=-1)
        for name in self._said.keys() - used_up.keys():
            say(self._config, f"bench: the quota of {self._said[name].provider} is back; its trials go on")
        self._said = used_up

    def _about(self, quota: Quota) -> str:
        if self._quotas.on_quota is OnQuota.WAIT:
            return waiting(quota)
        return (
            f"{describe(quota)}; no further trial of it begins, and the job is paused when the others have ended: "
            f"`benchjobs resume {self._job}`"
        )
