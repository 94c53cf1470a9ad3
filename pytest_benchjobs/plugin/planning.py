"""Dry run of `--bench-plan`: trials that would run, and reused results. Runs nothing, and writes nothing."""

from __future__ import annotations

import contextlib
import json
import os
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from ..job.fate import Fates, Run, Skip, Take
from ..job.reuse import Reuse
from ..model.errors import BenchError, InputError
from ..model.result import Trial
from ..model.scenario import Validation
from ..report.documents import mirror
from ..report.documents.plan import PlannedTrial
from ..sandbox.late import LateProvider
from ..sandbox.protocol import SandboxProvider
from ..sources.protocol import Unsupported
from ..store.bundle import JobBundle, new_job_id, stored_config
from ..store.layout import Layout
from ..store.text import clean
from ..trial.limits import Limits
from ..trial.prepare import Services, prepare
from .items import ItemTicket, TrialItem
from .registry import agents_of, provider_of, scorers_of
from .state import is_worker
from .wanted import asked as read

OUT = "BENCHJOBS_PLAN_OUT"
"""Variable with the path of a file for the plan, as JSON lines: the configuration, then a line for each trial.
Without it the plan is printed."""


def plan(session: pytest.Session) -> bool:
    """Decide about every trial of the session.

    Raises:
        pytest.UsageError: under xdist; there is no such sandbox.
    """
    if is_worker(session.config):
        raise pytest.UsageError("--bench-plan runs nothing, so it needs no workers: leave -n out")
    items = [item for item in session.items if isinstance(item, TrialItem)]
    out = os.environ.get(OUT)
    if out:
        with Path(out).open("w", encoding="utf-8") as file:
            config = stored_config(read(session.config).job)
            file.write(json.dumps({"config": config.model_dump(mode="json")}) + "\n")
            file.writelines(row.model_dump_json() + "\n" for row in _rows(session.config, items))
        return True
    terminal = session.config.pluginmanager.get_plugin("terminalreporter")
    counts: Counter[str] = Counter()
    for row in _rows(session.config, items):
        word = "skipped" if row.incompatible else "reused" if row.reused else "runs"
        counts[word] += 1
        if terminal is not None:
            why = row.incompatible or row.why
            terminal.write_line(clean(f"{word}: {row.node_id}" + (f": {why}" if why else "")))
    if terminal is not None:
        skipped = f", {counts['skipped']} would be skipped" if counts["skipped"] else ""
        terminal.write_line(f"{counts['runs']} trials would run, {counts['reused']} would be reused{skipped}")
    return True


def _rows(config: pytest.Config, items: list[TrialItem]) -> Iterator[PlannedTrial]:
    with _look(config) as look:
        for item in items:
            for ticket in item.tickets():
                try:
                    trial = ticket.trial()
                except Unsupported as error:
                    yield _unsupported(ticket, error)
                    continue
                except InputError as error:
                    # It was valid when it was collected, so the file has changed since.
                    raise pytest.UsageError(f"--bench-plan: {error}") from None
                scenario = trial.scenario
                limits = Limits(scenario, read(config).job.of(scenario.benchmark))
                seen = look(ticket, trial)
                yield mirror(
                    PlannedTrial,
                    ticket,
                    agent=ticket.agent.label,
                    **seen.told(),
                    image=None if seen.is_question else _image(trial),
                    validation=scenario.validation,
                    has_reference=scenario.has_reference,
                    timeout=limits.deadline(scorers_of(config)),
                )


def _unsupported(ticket: ItemTicket, error: Unsupported) -> PlannedTrial:
    return mirror(
        PlannedTrial,
        ticket,
        agent=ticket.agent.label,
        reused=False,
        why=f"it would end in an error: {error}",
        problem=clean(str(error), 2000),
        image=None,
        image_state=None,
        validation=Validation.FORWARD,
        has_reference=False,
        timeout=0.0,
    )


def _image(trial: Trial) -> str | None:
    environment = trial.scenario.environment
    return environment.image or (str(environment.dockerfile) if environment.dockerfile else None)


class _Seen(NamedTuple):
    """Facts about a trial before it runs, as `PlannedTrial` has them."""

    reused: bool = False
    why: str = ""
    problem: str | None = None
    image_state: str | None = None
    incompatible: str | None = None
    is_question: bool = False
    """True if it would need no container."""

    def told(self) -> dict[str, object]:
        """Fields that are shown as they are."""
        return {name: value for name, value in self._asdict().items() if name != "is_question"}


def _image_state(provider: SandboxProvider, trial: Trial, key: str | None) -> str:
    environment = trial.scenario.environment
    if key is None:
        return "pull" if environment.image is not None else "build"
    # What is built has its recipe for a key, and that for a name.
    built = environment.dockerfile is not None and environment.image is None
    named = environment.model_copy(update={"image": key, "dockerfile": None, "context": None})
    return "here" if not built or provider.identify(named, {}, {}) is not None else "build"


@contextlib.contextmanager
def _look(config: pytest.Config) -> Iterator[Callable[[ItemTicket, Trial], _Seen]]:
    """Open the engine and the history; yields a function that looks at a trial."""
    asked = read(config)
    job = asked.job
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
        secrets=asked.secrets,
    )
    try:
        if job.reuse and Layout(job.directory).history.is_file():
            reuse = Reuse(job.directory, bundle.id, job)
        fates = Fates(job, bundle, agents, services=services, reuse=reuse)

        def look(ticket: ItemTicket, trial: Trial) -> _Seen:
            fate = fates.decide(ticket, trial)
            if isinstance(fate, Skip):
                return _Seen(incompatible=fate.why.message)
            problem = fate.problem if isinstance(fate, Run) else None
            key, why, state = fate.image_key, fate.why, None
            if problem is None:
                try:
                    if reuse is None:
                        why = "it has never run here" if job.reuse else ""
                        prepare(trial, services)
                        key = fates.image_key(trial)
                    state = None if fates.is_question(trial) else _image_state(provider, trial, key)
                except (BenchError, OSError) as error:
                    problem = clean(str(error), 2000)
            why = why or "" if problem is None else f"it would end in an error: {problem}"
            return _Seen(isinstance(fate, Take), why, problem, state, is_question=fates.is_question(trial))

        yield look
    except InputError as error:
        raise pytest.UsageError(str(error)) from None
    finally:
        if reuse is not None:
            reuse.close()
        provider.close()
