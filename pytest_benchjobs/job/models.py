"""Agents of a job and their models: check programs, keys and prices, start the gateway if one is needed."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from ..settings.agents import WITHOUT_MODEL

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from ..agents.protocol import Agent
    from ..gateway.client import Gateway
    from ..model.job import JobConfig
    from ..model.usage import Usage
    from ..trial.connection import Models


_PATIENCE = 60.0


def needed(job: JobConfig, agents: Mapping[str, Agent], secrets: Mapping[str, str]) -> bool:
    """Return whether any agent of the job may call a model."""
    from ..trial.secrets import split

    named = [(agents[spec.name], spec) for spec in job.agents if spec.name in agents]
    return bool(split(secrets).keys) or any(
        agent.needs_model or (spec.model is not None and hasattr(agent, "endpoints"))
        for agent, spec in named
        if agent.name not in WITHOUT_MODEL
    )


def check_programs(job: JobConfig, agents: Mapping[str, Agent]) -> None:
    """Check the programs of agents in this checkout.

    Raises:
        InputError: one is missing, or cannot be started.
    """
    from ..agents.described import DescribedAgent
    from ..agents.starting import start_fault
    from ..model.errors import InputError

    for spec in job.agents:
        agent = agents.get(spec.name)
        if isinstance(agent, DescribedAgent) and (fault := start_fault(agent)) is not None:
            raise InputError(fault)


def make_ready(
    job: JobConfig,
    agents: Mapping[str, Agent],
    secrets: Mapping[str, str],
    tell: Callable[[str], None],
    machine: Callable[[], str | None],
) -> None:
    """Fetch every agent, and check its key, before anything is spent, if one may call a model.

    `tell` shows a line of progress, `machine` is that of the sandboxes (`Supplies.machine`).

    Raises:
        BenchError: an agent cannot be fetched, lacks a key, or has an address of a model that is none.
    """
    if not needed(job, agents, secrets):
        return
    from ..agents.given_keys import with_given_keys
    from ..agents.protocol import AgentCommand
    from ..agents.readiness import ensure, missing_keys
    from ..model.environ import HOST
    from ..model.errors import InputError
    from ..settings.secret_store import lookup

    for spec in job.agents if job.replay is None else ():
        lacks = missing_keys(
            agents[spec.name],
            spec,
            lambda variable: secrets.get(variable) or lookup(variable),
            {**job.params, **spec.params},
        )
        if lacks is not None:
            raise InputError(lacks)
        if not hasattr(agents[spec.name], "endpoints") and not agents[spec.name].trusted:
            with_given_keys(AgentCommand(()), secrets, HOST)
    ensure(agents, job.agents, tell, machine)


def start_gateway(
    job: JobConfig, secrets: Mapping[str, str], spent: Usage, ledger: Path, quotas: Path | None = None
) -> Gateway:
    """Start the gateway between agents and their models.

    `spent` is the usage of the job before it was resumed, `ledger` the file that records further usage,
    and `quotas` the file that lists used-up quotas of providers.

    Raises:
        InputError: the prices or the recorded traffic cannot be read.
    """
    from ..gateway.client import Gateway, GatewaySettings, SpendingLimits
    from ..trial.secrets import env_file_secrets, together

    return Gateway.start(
        GatewaySettings(
            limits=SpendingLimits(job.max_cost, job.max_tokens, job.max_calls),
            spent=spent,
            ledger=ledger,
            prices=job.prices,
            rates={name: (job.rpm.get(name), job.tpm.get(name)) for name in {*job.rpm, *job.tpm}},
            record=job.record,
            replay=job.replay,
            replay_exact=job.replay_exact,
            secrets=together(secrets, env_file_secrets()),
            on_quota=job.on_quota,
            quotas=quotas,
            patience=_PATIENCE if job.model_patience is None else job.model_patience,
        )
    )


def models_of(job: JobConfig, secrets: Mapping[str, str], gateway: str) -> Models:
    """Return the access to models for trials of this process, through the gateway at this address."""
    from ..gateway.client import SpendingLimits
    from ..settings.secret_store import lookup
    from ..trial.connection import Models
    from ..trial.secrets import known_keys

    return Models(
        address=gateway,
        key_of=lambda variable: secrets.get(variable) or lookup(variable),
        limits=SpendingLimits(job.trial_max_cost, job.trial_max_tokens, job.trial_max_calls),
        replayed=job.replay is not None,
        allowed_models=job.allow_model,
        known_keys=known_keys(secrets),
    )


def why_stopped(gateway: Gateway) -> str | None:
    """Return the limit of the whole job that was reached, if any. Workers do not say why they stopped."""
    from ..gateway.client import Terms, open_route
    from ..model.errors import InfrastructureError

    with contextlib.suppress(InfrastructureError), open_route(gateway.address, "end", (), Terms()) as route:
        report = route.close()
        if report.job_stopped is not None:
            return report.job_message or "a limit of the job was reached"
    return None
