"""The run loop of one process: many trials in flight, one report at a time.

Trials run in threads (see `trial.flight`). pytest stays serial in the main thread: when a trial lands, the ordinary
`pytest_runtest_protocol` runs for its item, which replays the result. So capture, `-x`, `--maxfail`, `--lf`, JUnit and
every plugin keep working, and none of them ever meets concurrency. Running the protocol itself in threads breaks at
once (pytest has one stack of set-ups, one `PYTEST_CURRENT_TEST`, one capture), and waiting for trials in the order of
their items delays reports by the slowest trial and makes `-x` late.

Reports come in the order trials end. `nextitem=None` is right for trials: their nodes set nothing up. Ordinary tests of
the same session run first, with their real `nextitem`, so that their fixtures live as long as always.
"""

from __future__ import annotations

import contextlib
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

import pytest

from ..agents.answering import can_answer
from ..job.rounds import Rounds
from ..job.trials import ending_flight, next_landed
from ..model.policy import Policy
from ..model.result import TrialResult
from ..scoring.needs import grades_answers
from ..trial.flight import Flight
from . import terminal as reporting
from .items import ItemTicket, TrialItem
from .registry import agents_of, scorers_of
from .session import begin_job
from .state import interrupts_of, state_of
from .wanted import asked as read

if TYPE_CHECKING:
    from ..model.agent import AgentSpec
    from .state import Job

_CLEANUP_SECONDS = 120.0


def run(session: pytest.Session) -> bool:
    """Run every item of the session."""
    if session.testsfailed and not session.config.option.continue_on_collection_errors:
        many = "s" if session.testsfailed != 1 else ""
        raise session.Interrupted(f"{session.testsfailed} error{many} during collection")
    ordinary = [item for item in session.items if not isinstance(item, TrialItem)]
    trials = [item for item in session.items if isinstance(item, TrialItem)]
    state_of(session.config).benchmarks = benchmarks(trials)
    interrupts = interrupts_of(session.config)
    interrupts.take()
    try:
        job = begin_job(
            session.config,
            by_agent(trials),
            chosen(session.config, trials),
            sandboxes=need_sandboxes(session.config, trials),
        )
        try:
            reporting.announce(session.config, job, trials)
            for index, item in enumerate(ordinary):
                following = ordinary[index + 1] if index + 1 < len(ordinary) else None
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
                stop_if_asked(session)
            with quiet_trial_threads(session.config):
                _fly(session, job, trials)
        finally:
            job.disarm()
    finally:
        interrupts.closing()
    return True


def by_agent(trials: Iterable[TrialItem]) -> dict[str, int]:
    """Number of trials, by label of the agent."""
    counts: Counter[str] = Counter()
    for item in trials:
        counts[item.agent.label] += item.attempts
    return dict(counts)


def need_sandboxes(config: pytest.Config, trials: Iterable[TrialItem]) -> bool:
    """Tell whether any of them needs a sandbox, as far as that can be known before scenarios are read."""
    agents, scorers = agents_of(config), scorers_of(config)

    def answers(source: str, agent: AgentSpec) -> bool:
        params = {**read(config).job.of(source).params, **agent.params}
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


def benchmarks(trials: Iterable[TrialItem]) -> frozenset[str]:
    """Names of the benchmarks they are of."""
    return frozenset(item.source.benchmark for item in trials)


def chosen(config: pytest.Config, trials: Iterable[TrialItem]) -> frozenset[str]:
    """Node ids of the selected trials. Only for a resumed job, which may have others."""
    if read(config).resume is None:
        return frozenset()
    return frozenset(item.trial_id(ticket.attempt) for item in trials for ticket in item.tickets())


def _fly(session: pytest.Session, job: Job, trials: list[TrialItem]) -> None:
    config, policy = session.config, job.config.attempt_policy
    rounds: Rounds[ItemTicket] = Rounds(
        job.bundle.id,
        job.config,
        job.gate,
        job.baseline,
        decided=job.trials.fates.decided,
        reports=job.rounds,
        say=lambda line: reporting.say(config, line),
    )

    def report(landed: tuple[ItemTicket, TrialResult]) -> None:
        rounds.saw(landed[1])
        _report(session, landed, policy)

    tickets = [ticket for item in trials for ticket in item.tickets()]
    with ending_flight(job.trials, _CLEANUP_SECONDS) as flight:
        for batch in rounds.batches(tickets):
            _fly_batch(job, flight, batch, report)
        fresh = rounds.fresh(tickets, ItemTicket.another)
        state_of(config).planned += job.missing(fresh)
        _fly_batch(job, flight, fresh, lambda landed: job.record(landed[1]))


def _fly_batch(
    job: Job,
    flight: Flight[ItemTicket],
    tickets: Iterable[ItemTicket],
    report: Callable[[tuple[ItemTicket, TrialResult]], None],
) -> None:
    """Run trials, and report each as it lands."""
    waiting = 0
    for ticket in tickets:
        job.trials.submit(flight, ticket)
        waiting += 1 - _report_landed(flight, report)
    for _ in range(waiting):
        report(next_landed(flight))


def _report_landed(
    flight: Flight[ItemTicket], report: Callable[[tuple[ItemTicket, TrialResult]], None]
) -> int:
    """Report what has landed; how many that were."""
    count = 0
    while landed := flight.next(timeout=0):
        report(landed)
        count += 1
    return count


def _report(session: pytest.Session, landed: tuple[ItemTicket, TrialResult], policy: Policy) -> None:
    (item, _attempt), result = landed
    if item.land(result, policy):
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
        stop_if_asked(session)


def stop_if_asked(session: pytest.Session) -> None:
    """Raise what pytest's own loop raises after `-x`, `--maxfail` or `session.shouldstop`."""
    if session.shouldfail:
        raise session.Failed(session.shouldfail)
    if session.shouldstop:
        raise session.Interrupted(session.shouldstop)


@contextlib.contextmanager
def quiet_trial_threads(config: pytest.Config) -> Iterator[None]:
    """Keep what trial threads log out of the report of whichever item is being reported meanwhile."""
    plugin = config.pluginmanager.get_plugin("logging-plugin")
    handlers = [
        handler
        for name in ("caplog_handler", "report_handler")
        if isinstance(handler := getattr(plugin, name, None), logging.Handler)
    ]
    for handler in handlers:
        handler.addFilter(_not_of_a_trial)
    try:
        yield
    finally:
        for handler in handlers:
            handler.removeFilter(_not_of_a_trial)


def _not_of_a_trial(record: logging.LogRecord) -> bool:
    return not (record.threadName or "").startswith("bench-")
