"""Job of a pytest session: begin, run, end; translates between pytest and the running job."""

from __future__ import annotations

import contextlib
import functools
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ..job import models, rounds
from ..job.begin import Begun, Request, begin
from ..job.running import RunningJob
from ..job.trials import Supplies, next_landed
from ..model.errors import BenchError
from ..model.owner import current_owner
from ..model.result import Failure, Outcome
from ..sandbox.late import LateProvider
from ..store.bundle import JobBundle
from . import status_words
from .items import ItemTicket, TrialItem
from .job_settings import call_arguments, settings_of
from .options import usage_error
from .progress import show, waiting
from .registry import agents_of, sandbox_of, scorers_of
from .selection import is_named, is_narrowed, is_partial, unselected_agents
from .state import interrupts_of, state_of
from .work import Work

if TYPE_CHECKING:
    from ..trial.flight import Flight
    from .fixtures import Fixtures
    from .state import Job


def begin_job(config: pytest.Config, work: Work | None = None) -> Job:
    """Begin or resume a job: close dead jobs, make a bundle, check that the engine answers.

    Without `work`, trials come one by one.

    Raises pytest.UsageError: there is no such sandbox or job; the results directory cannot be written, or belongs to a
    newer version; another process runs the job.
    """
    settings = settings_of(config)
    work = work or Work()
    try:
        rounds.check(settings.job, settings.job.gate, distributed=_is_distributed(config))
        supplies = supplies_of(config)
        models.check_programs(settings.job, supplies.agents)
        tell = functools.partial(show, config)
        with contextlib.ExitStack() as undo:
            undo.callback(supplies.provider.close)
            models.make_ready(settings.job, supplies.agents, supplies.secrets, tell, supplies.machine)
            with (
                waiting(config, "waiting for the results directory and the locks of jobs in it"),
                interrupts_of(config).held(),
            ):
                # These two fail before the directory of the job is made.
                sandbox_of(config)
                if work.sandboxes:
                    supplies.check_runtime(settings.job)
                begun = begin(_request(config, work))
                job = _enter(config, begun.bundle, supplies, begun)
            undo.pop_all()
        with waiting(config, "starting the gateway and looking at the container engine"):
            job.start(work.planned, sandboxes=work.sandboxes, models_for_scorers=work.models_for_scorers)
    except BenchError as error:
        raise usage_error(str(error)) from None
    return job


def join_job(
    config: pytest.Config, job_id: str, engine_problem: str | None, gateway: str | None, *, sandboxes: bool
) -> Job:
    """Join, as a worker, a job that another process began."""
    bundle = JobBundle.open(settings_of(config).job.directory, job_id)
    job = _enter(config, bundle, supplies_of(config))
    problem = None if engine_problem is None else Failure.model_validate_json(engine_problem)
    job.join(gateway, problem, sandboxes=sandboxes)
    return job


def _enter(config: pytest.Config, bundle: JobBundle, supplies: Supplies, begun: Begun | None = None) -> Job:
    """Make the job that of the session, and register its reports."""
    settings = settings_of(config)
    job = state_of(config).job = RunningJob[ItemTicket](
        settings.job, bundle, supplies, begun, resumed=settings.resume is not None, rescore=settings.rescore
    )
    config.pluginmanager.register(status_words, "benchjobs-reports")
    return job


def run_now(item: TrialItem) -> None:
    """Run all trials of an item at once, for another plugin's loop; begin a job if there is none."""
    from .fixtures import Fixtures

    job = state_of(item.config).job or begin_job(item.config)
    tickets = item.tickets()
    fixtures = Fixtures(item.session, tickets, captures=False)
    flight = job.trials.flight()

    def land() -> None:
        ticket, result = next_landed(flight)
        fixtures.leave(ticket, passed=result.outcome is Outcome.PASSED)
        item.land(result, job.config.attempt_policy)

    try:
        for ticket in tickets:
            submit(job, flight, ticket, fixtures)
            if fixtures.any:
                land()
        while item.result is None:
            land()
    finally:
        flight.cancel()
        flight.close()
        fixtures.close()


def submit(job: Job, flight: Flight[ItemTicket], ticket: ItemTicket, fixtures: Fixtures) -> None:
    """Submit a trial inside its fixtures, if it has any."""
    hindrance = fixtures.enter(ticket) if fixtures.any else None
    if hindrance is None:
        job.trials.submit(flight, ticket)
    else:
        job.trials.refuse(flight, ticket, hindrance.failure, skips=hindrance.skips)


def finish_job(config: pytest.Config, job: Job, planned: int, stopped: str | None) -> None:
    """End the job of the session. Never raises. `stopped` is the reason why pytest stopped early, if it did."""
    from .ci import host_of  # imports reports, which no trial needs

    interrupts = interrupts_of(config)
    interrupts.take()
    interrupts.closing()
    with (
        waiting(config, "waiting for containers to end"),
        contextlib.suppress(KeyboardInterrupt),  # the next job removes what is left
    ):
        job.trials.close()
    with waiting(config, "writing results, reports and the verdict"), interrupts.deaf():
        job.finish(planned, stopped, host_of(config))


def supplies_of(config: pytest.Config) -> Supplies:
    """Return the agents, scorers, sandboxes and secrets of this session."""
    settings = settings_of(config)
    return Supplies(
        agents=agents_of(config),
        scorers=scorers_of(config),
        provider=LateProvider(lambda: sandbox_of(config)(current_owner())),
        secrets=settings.secrets,
    )


def _request(config: pytest.Config, work: Work) -> Request:
    return Request(
        settings=settings_of(config),
        planned=work.planned,
        arguments=tuple(call_arguments(config)),
        directory=Path(config.invocation_params.dir),
        root=config.rootpath,
        benchmarks=work.benchmarks,
        partial=is_partial(config),
        narrowed=is_narrowed(config),
        split=state_of(config).split,
        unselected_agents=unselected_agents(config),
        named=is_named(config),
        distributed=_is_distributed(config),
        chosen=work.chosen,
    )


def _is_distributed(config: pytest.Config) -> bool:
    return bool(getattr(config.option, "numprocesses", None))
