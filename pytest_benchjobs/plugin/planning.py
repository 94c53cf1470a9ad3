"""Dry run of `--bench-plan`: the trials that would run, and results that would be reused. Runs and writes nothing."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from _pytest.outcomes import Failed  # `pytest.fail.Exception`, for type checkers
from _pytest.skipping import evaluate_skip_marks

from ..job.fate import Fates, Skip, Take
from ..job.reuse import Reuse
from ..model.errors import BenchError, InputError
from ..model.image import ImageSize
from ..model.job import placed
from ..model.result import Trial
from ..model.scenario import Validation
from ..report.documents import mirror
from ..report.documents.plan import PlannedTrial
from ..sandbox.late import LateProvider
from ..sources.protocol import Unsupported
from ..store.bundle import JobBundle, new_job_id, stored_config
from ..store.layout import Layout
from ..store.text import clean
from ..trial.limits import Limits
from ..trial.prepare import Services, prepare
from . import interactive
from .items import TrialItem
from .job_settings import settings_of
from .options import usage_error
from .registry import agents_of, provider_of, scorers_of

if TYPE_CHECKING:
    from ..job.interactive import DrivenTicket
    from ..job.ticket import Ticket
    from ..model.job import JobConfig

OUT = "BENCHJOBS_PLAN_OUT"
"""Variable with the path of a file for the plan, as JSON lines: the configuration, then a line for each trial.
Without it the plan is printed."""


def plan(session: pytest.Session) -> bool:
    """Decide the fate of every trial of the session.

    Raises:
        pytest.UsageError: there is no such sandbox.
    """
    tickets = [ticket for item in planned_items(session) for ticket in item.tickets()]
    tests = [_of_test(item) for item in session.items if interactive.case_of(item) is not None]
    out = os.environ.get(OUT)
    if out:
        with Path(out).open("w", encoding="utf-8") as file:
            config = stored_config(settings_of(session.config).job)
            file.write(json.dumps({"config": config.model_dump(mode="json")}) + "\n")
            file.writelines(row.model_dump_json() + "\n" for row in _rows(session.config, [*tests, *tickets]))
        return True
    terminal = session.config.pluginmanager.get_plugin("terminalreporter")
    counts: Counter[str] = Counter()
    for row in _rows(session.config, [*tests, *tickets]):
        word = "skipped" if row.incompatible else "reused" if row.reused else "runs"
        counts[word] += 1
        if terminal is not None:
            why = row.incompatible or row.why
            terminal.write_line(clean(f"{word}: {row.node_id}" + (f": {why}" if why else "")))
    if terminal is not None:
        skipped = f", {counts['skipped']} would be skipped" if counts["skipped"] else ""
        terminal.write_line(f"{counts['runs']} trials would run, {counts['reused']} would be reused{skipped}")
    return True


def planned_items(session: pytest.Session) -> list[TrialItem]:
    """Return the items of a dry run."""
    return [item for item in session.items if isinstance(item, TrialItem)]


def _of_test(item: pytest.Item) -> DrivenTicket:
    """Return the ticket of an interactive test, with the mark that skips it."""
    ticket = interactive.ticket_of(item)
    try:
        skipped = evaluate_skip_marks(item)
    except Failed as error:
        return dataclasses.replace(ticket, unwanted_because=f"its marker is invalid: {error}")
    return ticket if skipped is None else dataclasses.replace(ticket, unwanted_because=skipped.reason)


def trial_of(ticket: Ticket, job: JobConfig) -> Trial:
    """Read the scenario of a trial.

    Raises:
        pytest.UsageError: its file has changed since it was collected.
        Unsupported: it needs an unsupported feature.
    """
    try:
        return placed(ticket.trial(), job)
    except Unsupported:
        raise
    except InputError as error:
        raise usage_error(f"--bench-plan: {error}") from None


@dataclasses.dataclass(frozen=True, slots=True)
class Seen:
    """Facts about a trial before it runs, as `PlannedTrial` has them."""

    reused: bool = False
    why: str = ""
    problem: str | None = None
    images: tuple[ImageSize, ...] = ()
    incompatible: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Look:
    """Access to everything known about a trial before it runs."""

    job: JobConfig
    provider: LateProvider
    services: Services
    fates: Fates
    _weighed: dict[object, ImageSize | None] = dataclasses.field(default_factory=dict)

    def see(self, ticket: Ticket, trial: Trial) -> Seen:
        """Return the facts about a trial."""
        fate = self.fates.decide(ticket, trial)
        if isinstance(fate, Skip):
            return Seen(incompatible=fate.why.message)
        if isinstance(fate, Take):
            return Seen(reused=True, why=fate.why or "")
        problem, why = fate.problem, fate.why or ""
        images: tuple[ImageSize, ...] = ()
        if problem is None:
            try:
                if self.fates.reuse is None:
                    why = "it has never run here" if self.job.reuse else ""
                if ticket.is_driven:
                    why = "a test drives it"
                if self.fates.reuse is None or ticket.is_driven:
                    prepare(trial, self.services)
                images = self._images(trial)
            except (BenchError, OSError) as error:
                problem = clean(str(error), 2000)
        return Seen(
            why=why if problem is None else f"it would end in an error: {problem}",
            problem=problem,
            images=images,
        )

    def _images(self, trial: Trial) -> tuple[ImageSize, ...]:
        """Return the images of a trial with their known sizes; each is looked up once."""
        found = []
        for environment in self.fates.environments(trial):
            source = environment.image_source
            if source not in self._weighed:
                job = self.job
                self._weighed[source] = self.provider.weigh(environment, job.image_map, job.build_args)
            found.append(self._weighed[source])
        return tuple(dict.fromkeys(size for size in found if size is not None))


@contextlib.contextmanager
def looking(config: pytest.Config) -> Iterator[Look]:
    """Open the engine and the history for a dry run.

    Raises:
        pytest.UsageError: one of them has a problem.
    """
    settings = settings_of(config)
    job = settings.job
    provider = LateProvider(lambda: provider_of(config, job.sandbox))
    reuse: Reuse | None = None
    bundle = JobBundle(job.directory, new_job_id())  # never written
    agents = agents_of(config)
    services = Services(
        config=job,
        bundle=bundle,
        provider=provider,
        agents=agents,
        scorers=scorers_of(config),
        secrets=settings.secrets,
    )
    try:
        if job.reuse and Layout(job.directory).history.is_file():
            reuse = Reuse(job.directory, bundle.id, job)
        yield Look(job, provider, services, Fates(job, bundle, agents, services=services, reuse=reuse))
    except InputError as error:
        raise usage_error(str(error)) from None
    finally:
        if reuse is not None:
            reuse.close()
        provider.close()


def _rows(config: pytest.Config, tickets: Iterable[Ticket]) -> Iterator[PlannedTrial]:
    with looking(config) as look:
        for ticket in tickets:
            try:
                trial = trial_of(ticket, look.job)
            except Unsupported as error:
                yield _unsupported(ticket, error)
                continue
            scenario = trial.scenario
            limits = Limits(scenario, settings_of(config).job.of(scenario.benchmark))
            seen = look.see(ticket, trial)
            yield PlannedTrial(
                node_id=ticket.node_id,
                benchmark=ticket.benchmark,
                scenario=ticket.scenario,
                agent=ticket.agent.label,
                attempt=ticket.attempt,
                reused=seen.reused,
                why=seen.why,
                incompatible=seen.incompatible,
                problem=seen.problem,
                images=seen.images,
                validation=scenario.validation,
                has_reference=scenario.has_reference,
                timeout=limits.deadline(scorers_of(config)),
            )


def _unsupported(ticket: Ticket, error: Unsupported) -> PlannedTrial:
    return mirror(
        PlannedTrial,
        ticket,
        agent=ticket.agent.label,
        reused=False,
        why=f"it would end in an error: {error}",
        problem=clean(str(error), 2000),
        validation=Validation.FORWARD,
        has_reference=False,
        timeout=0.0,
    )
