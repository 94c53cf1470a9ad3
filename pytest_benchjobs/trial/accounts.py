"""Accounts with providers that a trial uses: those of its agent, and of the models that its scorers ask."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..model.endpoint import Endpoint
from ..scoring.needs import model_needed
from ..store.quotas import account
from .connection import key_of
from .scorer_models import judging_model

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..model.result import Trial
    from .prepare import Prepared, Services


def accounts_of_agent(prepared: Prepared, services: Services) -> frozenset[str]:
    """Return the accounts of a trial's agent, as `store.quotas.account` names them."""
    command = prepared.command
    if command is None or services.models is None:
        return frozenset()
    return frozenset(_accounts(((one, prepared.keys) for one in command.endpoints), services))


def accounts_of_scorers(trial: Trial, services: Services) -> frozenset[str]:
    """Return the accounts of the models that a trial's scorers ask."""
    if services.models is None:
        return frozenset()
    params = {**services.config.of(trial.scenario.benchmark).params, **trial.agent.params}
    endpoints = (
        judging_model(spec, need, params)[0]
        for spec in trial.scenario.scorers
        if (need := model_needed(spec, services.scorers)) is not None
    )
    return frozenset(_accounts(((one, {}) for one in endpoints), services))


def _accounts(endpoints: Iterator[tuple[Endpoint, Mapping[str, str]]], services: Services) -> Iterator[str]:
    assert services.models is not None  # noqa: S101  callers have looked
    for endpoint, given in endpoints:
        key = (key_of(endpoint, services.models, given) or "").strip() or None
        yield account(endpoint.provider, endpoint.base_url, key)
