"""Quotas of providers as the trials of one process see them: which trials have to wait, and which do not run."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ..model.quota import QUOTA_OF, OnQuota, Quota
from ..store.quotas import account, read
from ..trial.flight import Tokens

if TYPE_CHECKING:
    from ..model.result import Trial
    from ..store.layout import JobLayout
    from ..trial.prepare import Prepared, Services

_LOOK = 30.0
"""Longest time until a waiting trial looks again, in seconds."""
_PROBED = 2.0
"""The same while another trial tries the quota again."""


_NONE: dict[str, Quota] = {}


class Quotas:
    """Reads the file that the gateway writes. Safe for threads.

    When the time of the next try has come, one trial of the whole job begins; the others follow once the gateway has
    seen an answer. So a quota that is still used up costs one start of a trial for each try.
    """

    def __init__(self, layout: JobLayout, on_quota: OnQuota) -> None:
        self.on_quota = on_quota
        self._layout = layout
        self._lock = threading.Lock()
        self._stamp: tuple[int, int] | None = None
        self._used_up: dict[str, Quota] = {}
        self._probes: dict[Path, Tokens] = {}

    def used_up(self) -> dict[str, Quota]:
        """Return the quotas that are used up, by account."""
        if self.on_quota is OnQuota.FAIL:
            return _NONE  # the gateway ends the job
        try:
            stat = self._layout.quotas.stat()
        except OSError:
            return _NONE
        stamp = (stat.st_ino, stat.st_mtime_ns)
        with self._lock:
            if stamp != self._stamp:
                self._used_up, self._stamp = read(self._layout.quotas), stamp
            return self._used_up

    def of(self, accounts: Collection[str]) -> list[Quota]:
        """Return the quotas of these accounts that are used up."""
        used_up = self.used_up()
        return [used_up[name] for name in accounts if name in used_up]

    @contextlib.contextmanager
    def turn(self, accounts: Collection[str]) -> Iterator[float | None]:
        """Take a turn to run a trial of these accounts; held until the end of the context.

        Yields None if the trial may begin, else the seconds until it should ask again.
        """
        used_up = self.used_up() if self.on_quota is OnQuota.WAIT else {}
        with contextlib.ExitStack() as held:
            for name in accounts:
                quota = used_up.get(name)
                if quota is None or quota.until is None:
                    continue
                left = quota.until.timestamp() - time.time()
                if left > 0:
                    yield min(left, _LOOK)
                    return
                if not self._probes_alone(name, held):
                    yield _PROBED
                    return
            yield None

    def _probes_alone(self, name: str, held: contextlib.ExitStack) -> bool:
        directory = self._layout.probes / name
        with self._lock:
            tokens = self._probes.get(directory)
            if tokens is None:
                tokens = self._probes[directory] = Tokens(directory, 1)
            token = tokens.take()
        if token is None:
            return False
        held.callback(tokens.give_back, token)
        return True


def accounts_of(trial: Trial, prepared: Prepared, services: Services) -> frozenset[str]:
    """Return the accounts that a trial uses: those of its agent, and of the models that its scorers ask."""
    # With the gateway's client, which a job that only reuses has no need of.
    from ..trial.connection import key_of
    from ..trial.scorer_models import judging_model

    models, command = services.models, prepared.command
    if models is None:
        return frozenset()
    params = {**services.config.of(trial.scenario.benchmark).params, **trial.agent.params}
    judges = (judging_model(spec, services.scorers, params) for spec in trial.scenario.scorers)
    keyed = [(one, prepared.keys) for one in (() if command is None else command.endpoints)]
    keyed += [(judge.endpoint, {}) for judge in judges if judge is not None]
    return frozenset(
        account(one.provider, one.base_url, (key_of(one, models, given) or "").strip() or None)
        for one, given in keyed
    )


def describe(quota: Quota) -> str:
    """Describe a quota in one line."""
    until = ""
    if quota.until is not None:
        until = f" until {quota.until:%Y-%m-%d %H:%M:%S} UTC" if quota.told else ""
    return f"{QUOTA_OF}{quota.provider} is used up{until}: {quota.message}"


def waiting(quota: Quota) -> str:
    """Describe a quota that trials wait for, with the time of the next try."""
    assert quota.until is not None  # noqa: S101  trials wait for a time
    when = (
        ""
        if quota.told
        else (
            f"; it does not say when it is back, so one trial tries again at {quota.until:%Y-%m-%d %H:%M:%S} UTC, "
            "and then after pauses of up to 15 minutes"
        )
    )
    return f"{describe(quota)}; its trials wait{when}"
