"""Work of a session: the trials that a job begins with, counted by the process that collected them."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import pytest

from ..agents.answering import can_answer
from ..job.ticket import SourceTicket
from ..model.errors import BenchError
from ..scoring.needs import asks_model, grades_answers
from .items import TrialItem
from .job_settings import settings_of
from .registry import agents_of, scorers_of

if TYPE_CHECKING:
    from ..job.interactive import DrivenTicket
    from ..model.agent import AgentSpec


class Work(NamedTuple):
    """The trials to run, in plain values, which xdist can send."""

    planned: Mapping[str, int] = {}
    """Number of trials by label of the agent."""
    scenarios: int = 0
    benchmarks: Sequence[str] = ()
    chosen: Mapping[str, str] = {}
    """Benchmarks of the trials by node id; only for a resumed job, which may have others."""
    sandboxes: bool = True
    """True if a trial is known to need a sandbox. Else the engine is not contacted until one does."""
    models_for_scorers: bool = False
    """True if a scorer is known to ask a model."""


def work_of(config: pytest.Config, trials: Sequence[TrialItem], tests: Sequence[DrivenTicket]) -> Work:
    """Return the work of a session; `tests` are its interactive ones."""
    planned = Counter(test.agent.label for test in tests)
    for item in trials:
        planned[item.agent.label] += item.attempts
    scenarios = {(id(item.source), item.ref.id) for item in trials}
    tickets: list[SourceTicket] = []
    if settings_of(config).resume is not None:
        tickets = [*(ticket for item in trials for ticket in item.tickets()), *tests]
    return Work(
        planned=dict(planned),
        scenarios=len(scenarios | {(id(test.source), test.scenario) for test in tests}),
        benchmarks=sorted({item.source.benchmark for item in trials} | {test.benchmark for test in tests}),
        chosen={ticket.node_id: ticket.benchmark for ticket in tickets},
        sandboxes=bool(tests) or _need_sandboxes(config, trials),
        models_for_scorers=_need_models(config, trials, tests),
    )


def _need_sandboxes(config: pytest.Config, trials: Iterable[TrialItem]) -> bool:
    """Return whether any trial needs a sandbox, as far as known before scenarios are read."""
    agents, scorers = agents_of(config), scorers_of(config)

    def answers(source: str, agent: AgentSpec) -> bool:
        params = {**settings_of(config).job.of(source).params, **agent.params}
        return can_answer(agents.get(agent.name), params)

    kinds = {
        (item.ref.scorers, item.ref.needs_container, item.source.benchmark, item.agent.label): item
        for item in trials
    }
    return not all(
        item.ref.scorers
        and not item.ref.needs_container
        and grades_answers(item.ref.scorers, scorers)
        and answers(item.source.benchmark, item.agent)
        for item in kinds.values()
    )


def _need_models(config: pytest.Config, trials: Iterable[TrialItem], tests: Iterable[DrivenTicket]) -> bool:
    """Return whether a scorer of any trial asks a model, as far as known before scenarios are read."""
    kinds = {kind for item in trials for kind in item.ref.scorers}
    for test in tests:
        with contextlib.suppress(BenchError):  # its trial reports it
            kinds |= {scorer.type for scorer in test.source.load(test.scenario).scorers}
    return bool(kinds) and asks_model(kinds, scorers_of(config))
