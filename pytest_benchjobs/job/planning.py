"""Dry runs: what would become of the trials of a job. Runs and writes nothing."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from ..model.errors import BenchError, InputError
from ..model.image import ImageSize
from ..model.job import placed
from ..model.result import Trial
from ..model.scenario import Validation
from ..report.documents.plan import PlannedTrial
from ..sandbox.late import LateProvider
from ..sandbox.protocol import ImageRequest
from ..sources.protocol import Unsupported
from ..store.bundle import JobBundle, new_job_id
from ..store.layout import Layout
from ..store.text import clean
from ..trial.limits import Limits
from ..trial.prepare import Services, prepare
from .reuse import Reuse
from .trial_fate import Fates, Skip, Take

if TYPE_CHECKING:
    from ..model.job import JobConfig, Split
    from .ticket import Ticket
    from .trials import Supplies

_REASON = 2000


@dataclasses.dataclass(frozen=True, slots=True)
class Look:
    """Access to everything known about a trial before it runs."""

    job: JobConfig
    provider: LateProvider
    services: Services
    fates: Fates
    split: Split | None = None
    """All shards, if the trials are those of one."""
    _weighed: dict[object, ImageSize | None] = dataclasses.field(default_factory=dict)

    def trial(self, ticket: Ticket) -> Trial:
        """Read the scenario of a trial. Unsupported: it needs an unsupported feature."""
        try:
            return placed(ticket.trial(), self.job)
        except Unsupported:
            raise
        except InputError as error:  # its file has changed since it was collected
            raise InputError(f"--bench-plan: {error}") from None

    def plan(self, ticket: Ticket) -> PlannedTrial:
        """Return what would become of a trial."""
        try:
            trial = self.trial(ticket)
        except Unsupported as error:
            return self._planned(ticket, None, **_error(str(error)))
        fate = self.fates.decide(ticket, trial)
        if isinstance(fate, Skip):
            return self._planned(ticket, trial, incompatible=fate.why.message)
        if isinstance(fate, Take):
            return self._planned(ticket, trial, reused=True, why=fate.why or "")
        if fate.problem is not None:
            return self._planned(ticket, trial, **_error(fate.problem))
        why = fate.why or ""
        if self.fates.reuse is None:
            why = "it has never run here" if self.job.reuse else ""
        if ticket.is_driven:
            why = "a test drives it"
        try:
            if self.fates.reuse is None or ticket.is_driven:
                prepare(trial, self.services)
            return self._planned(ticket, trial, why=why, images=self._images(trial))
        except (BenchError, OSError) as error:
            return self._planned(ticket, trial, **_error(str(error)))

    def _planned(self, ticket: Ticket, trial: Trial | None, **fate: Any) -> PlannedTrial:
        scenario = None if trial is None else trial.scenario
        limits = None if scenario is None else Limits(scenario, self.job.of(scenario.benchmark))
        return PlannedTrial(
            node_id=ticket.node_id,
            benchmark=ticket.benchmark,
            scenario=ticket.scenario,
            agent=ticket.agent.label,
            attempt=ticket.attempt,
            place=None if scenario is None else scenario.place,
            validation=Validation.FORWARD if scenario is None else scenario.validation,
            has_reference=scenario is not None and scenario.has_reference,
            timeout=0.0 if limits is None else limits.deadline(self.services.scorers),
            **{"reused": False, "why": "", "problem": None, **fate},
        )

    def _images(self, trial: Trial) -> tuple[ImageSize, ...]:
        """Return the images of a trial with their known sizes; each is looked up once."""
        found = []
        for environment in self.fates.environments(trial):
            source = environment.image_source
            if source not in self._weighed:
                self._weighed[source] = self.provider.weigh(ImageRequest.of(environment, self.job))
            found.append(self._weighed[source])
        return tuple(dict.fromkeys(size for size in found if size is not None))


def _error(problem: str) -> dict[str, str]:
    problem = clean(problem, _REASON)
    return {"problem": problem, "why": f"it would end in an error: {problem}"}


Planner = Callable[[Look, "Sequence[Ticket]"], None]
"""Takes the trials of a dry run, those of interactive tests first."""
PLANNER: ContextVar[Planner] = ContextVar("PLANNER")
"""The planner of a command that runs pytest in its process. Without one, the plan is printed."""


@contextlib.contextmanager
def looking(job: JobConfig, supplies: Supplies, split: Split | None = None) -> Iterator[Look]:
    """Open the engine and the history for a dry run."""
    bundle = JobBundle(job.directory, new_job_id())  # never written
    services = Services(
        config=job,
        bundle=bundle,
        provider=supplies.provider,
        agents=supplies.agents,
        scorers=supplies.scorers,
        secrets=supplies.secrets,
    )
    with contextlib.ExitStack() as stack:
        stack.callback(supplies.provider.close)
        reuse: Reuse | None = None
        if job.reuse and Layout(job.directory).history.is_file():
            reuse = Reuse(job.directory, bundle.id, job)
            stack.callback(reuse.close)
        fates = Fates(job, bundle, supplies.agents, services=services, reuse=reuse)
        yield Look(job, supplies.provider, services, fates, split)
