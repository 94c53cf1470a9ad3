"""The models of a job's agents: whether there are any, and how trials reach them."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pytest

from ..settings.agents import WITHOUT_MODEL
from ..store.text import clean
from .asked import asked as read
from .registry import agents_of

if TYPE_CHECKING:
    from pathlib import Path

    from ..gateway.client import Gateway
    from ..model.usage import Usage
    from ..trial.connection import Models


_PATIENCE = 60.0


def needed(config: pytest.Config) -> bool:
    """Whether any agent of the job may want to talk to a model."""
    from ..trial.secrets import split

    asked = read(config)
    known = agents_of(config)
    named = (known[spec.name] for spec in asked.job.agents if spec.name in known)
    return any(agent.needs_model and agent.name not in WITHOUT_MODEL for agent in named) or bool(
        split(asked.secrets).keys
    )


def check_prices(config: pytest.Config) -> None:
    """See that the table of prices can be read, whether or not any agent of the job will need it.

    Raises:
        pytest.UsageError: with the line of what is wrong in it.

    """
    prices = read(config).job.prices
    if prices is not None:
        from ..gateway.prices import load_prices
        from ..model.errors import InputError

        try:
            load_prices(prices)
        except InputError as error:
            raise pytest.UsageError(str(error)) from None


def make_ready(config: pytest.Config) -> None:
    """Have every agent here, and see that it has a key, before anything is spent.

    Raises:
        pytest.UsageError: an agent cannot be had, or lacks a key.
    """
    from ..agents.readiness import ensure, missing_keys
    from ..model.errors import BenchError
    from ..settings.secret_store import lookup

    asked = read(config)
    known = agents_of(config)
    terminal = config.pluginmanager.get_plugin("terminalreporter")

    def tell(line: str) -> None:
        if terminal is not None:
            terminal.ensure_newline()
            terminal.write_line(clean(line))

    try:
        for spec in asked.job.agents if asked.job.replay is None else ():
            lacks = missing_keys(
                known[spec.name],
                spec,
                lambda variable: asked.secrets.get(variable) or lookup(variable),
                {**asked.job.params, **spec.params},
            )
            if lacks is not None:
                raise pytest.UsageError(lacks)
        ensure(known, asked.job.agents, tell)
    except BenchError as error:
        raise pytest.UsageError(str(error)) from None


def start_gateway(config: pytest.Config, spent: Usage, ledger: Path) -> Gateway:
    """Start what stands between agents and their models.

    `spent` is what the job did before it was taken up again, `ledger` the file for what it spends.

    Raises:
        InputError: the prices or the recorded traffic cannot be read.

    """
    from ..gateway.client import Gateway, GatewaySettings, Limits
    from ..trial.secrets import env_file_secrets, together

    asked = read(config)
    job = asked.job
    return Gateway.start(
        GatewaySettings(
            limits=Limits(job.max_cost, job.max_tokens, job.max_calls),
            spent=spent,
            ledger=ledger,
            prices=job.prices,
            rates={name: (job.rpm.get(name), job.tpm.get(name)) for name in {*job.rpm, *job.tpm}},
            record=job.record,
            replay=job.replay,
            replay_exact=job.replay_exact,
            secrets=together(asked.secrets, env_file_secrets()),
            patience=_PATIENCE if job.model_patience is None else job.model_patience,
        )
    )


def models(config: pytest.Config, gateway: str) -> Models:
    """How trials of this process reach models, through the gateway at this address."""
    from ..gateway.client import Limits
    from ..settings.secret_store import lookup
    from ..trial.connection import Models
    from ..trial.secrets import known_keys

    asked = read(config)
    job = asked.job
    return Models(
        address=gateway,
        key_of=lambda variable: asked.secrets.get(variable) or lookup(variable),
        limits=Limits(job.trial_max_cost, job.trial_max_tokens, job.trial_max_calls),
        replayed=job.replay is not None,
        allowed_models=job.allow_model,
        known_keys=known_keys(asked.secrets),
    )


def why_stopped(gateway: Gateway) -> str | None:
    """The limit of the whole job that was reached, if one was. Workers do not say why they stopped; this does."""
    from ..gateway.client import Terms, open_route
    from ..model.errors import InfrastructureError

    with contextlib.suppress(InfrastructureError), open_route(gateway.address, "end", (), Terms()) as route:
        report = route.close()
        if report.job_stopped is not None:
            return report.job_message or "a limit of the job was reached"
    return None
