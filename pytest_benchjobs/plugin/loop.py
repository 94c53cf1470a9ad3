"""The run loop of one process: many trials in flight, one report at a time.

Trials run in threads (see `trial.flight`). pytest stays serial in the main thread: when a trial lands, the ordinary
`pytest_runtest_protocol` runs for its item, which replays the result. So capture, `-x`, `--maxfail`, `--lf`, JUnit and
every plugin keep working, without any concurrency. Running the protocol itself in threads breaks at once (pytest has
one stack of set-ups, one `PYTEST_CURRENT_TEST`, one capture), and waiting for trials in the order of their items delays
reports by the slowest trial and makes `-x` late.

Reports come in the order trials end. `nextitem=None` is right for trials: their nodes set nothing up, and their
fixtures are not in pytest's stack (see `fixtures`). Ordinary tests of the same session run first, with their real
`nextitem`, so that their fixtures live as long as usual.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from ..job.rounds import Rounds
from ..job.trials import next_landed
from ..model.result import Outcome, TrialResult
from ..store.text import clean, harmless
from ..trial.flight import Flight
from . import interactive
from . import terminal as reporting
from .fixtures import Fixtures
from .interrupts import ending_flight
from .items import ItemTicket, TrialItem
from .private import SetupState, setup_state
from .progress import WaitLines, say, waiting
from .session import begin_job, submit
from .state import interrupts_of, state_of
from .work import work_of

if TYPE_CHECKING:
    from .state import Job

_CLEANUP_SECONDS = 120.0


def run(session: pytest.Session) -> bool:
    """Run every item of the session."""
    if session.testsfailed and not session.config.option.continue_on_collection_errors:
        many = "s" if session.testsfailed != 1 else ""
        raise session.Interrupted(f"{session.testsfailed} error{many} during collection")
    ordinary = [item for item in session.items if not isinstance(item, TrialItem)]
    trials = [item for item in session.items if isinstance(item, TrialItem)]
    work = work_of(session.config, trials, interactive.driven(ordinary))
    interrupts = interrupts_of(session.config)
    interrupts.take()
    try:
        job = begin_job(session.config, work)
        try:
            reporting.announce(session.config, job, work)
            tickets = [ticket for item in trials for ticket in item.tickets()]
            fixtures = Fixtures(session, tickets)
            _announce_alone(session.config, fixtures, tickets)
            # If trials have fixtures, session fixtures must outlive the last ordinary test: they may be shared.
            first = fixtures.first(trials)
            for item, following in zip(ordinary, [*ordinary[1:], first], strict=False):
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
                stop_if_asked(session)
            with quiet_trial_threads(session.config), around(session, fixtures), apart(session, fixtures):
                _fly(session, job, tickets, fixtures)
        finally:
            job.disarm()
    finally:
        interrupts.closing()
    return True


def _announce_alone(config: pytest.Config, fixtures: Fixtures, tickets: Iterable[ItemTicket]) -> None:
    """Print which trials cannot run concurrently, and why."""
    count, names = fixtures.alone(tickets) if fixtures.any else (0, ())
    if count:
        several = f"{count} trials run one at a time" if count > 1 else "1 trial runs alone"
        listed = ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")
        say(config, f"bench: {several}, because of fixtures with scope function, class or module: {listed}")


def _fly(session: pytest.Session, job: Job, tickets: list[ItemTicket], fixtures: Fixtures) -> None:
    config, policy = session.config, job.config.attempt_policy
    rounds: Rounds[ItemTicket] = Rounds(
        job.bundle.id,
        job.config,
        job.gate,
        job.baseline,
        decided=job.trials.fates.decided,
        reports=job.rounds,
        say=lambda line: say(config, line),
    )

    def report(landed: tuple[ItemTicket, TrialResult]) -> None:
        item = landed[0].item
        rounds.saw(landed[1])
        if item.land(landed[1], policy):
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
            stop_if_asked(session)

    quota_lines, wait_lines = reporting.QuotaLines(config, job), WaitLines(config, job)

    def meanwhile() -> None:
        quota_lines()
        wait_lines()

    if rounds.confirms:
        fixtures.keep_open()
    ending = waiting(config, "waiting for trials and containers to end")
    with ending_flight(job.trials, _CLEANUP_SECONDS, ending) as flight:
        for batch in rounds.batches(tickets):
            _fly_batch(job, flight, batch, report, fixtures, meanwhile)
        fresh = rounds.fresh(tickets, ItemTicket.another)
        state_of(config).planned += job.missing(fresh)
        fixtures.expect(fresh)
        _fly_batch(job, flight, fresh, lambda landed: job.record(landed[1]), fixtures, meanwhile)


def _fly_batch(
    job: Job,
    flight: Flight[ItemTicket],
    tickets: Iterable[ItemTicket],
    report: Callable[[tuple[ItemTicket, TrialResult]], None],
    fixtures: Fixtures,
    meanwhile: Callable[[], None],
) -> None:
    """Run trials, and report each as it lands. Those that fly alone come last, one after the other.

    `meanwhile` is called while none lands.
    """

    def landed(one: tuple[ItemTicket, TrialResult]) -> None:
        if fixtures.any:
            fixtures.leave(one[0], passed=one[1].outcome is Outcome.PASSED)
        report(one)

    waiting = 0
    alone: list[ItemTicket] = []
    for ticket in tickets:
        if fixtures.any and fixtures.flies_alone(ticket):
            alone.append(ticket)
            continue
        submit(job, flight, ticket, fixtures)
        waiting += 1
        while one := flight.next(timeout=0):
            landed(one)
            waiting -= 1
    for _ in range(waiting):
        landed(next_landed(flight, meanwhile))
    for ticket in alone:
        submit(job, flight, ticket, fixtures)
        landed(next_landed(flight, meanwhile))


@contextlib.contextmanager
def around(session: pytest.Session, fixtures: Fixtures) -> Iterator[None]:
    """Tear down all fixtures at the end, including those shared with ordinary tests."""
    if not fixtures.any:
        yield
        return
    try:
        yield
    finally:
        failed = fixtures.close()
        inside: Any = session
        try:
            inside._setupstate.teardown_exact(None)
        except Exception as error:
            failed.append(f"{type(error).__name__}: {error}")
        for line in failed:
            _report_teardown(session, fixtures.last, f"a fixture failed when it was torn down: {line}")


@contextlib.contextmanager
def apart(session: pytest.Session, fixtures: Fixtures) -> Iterator[None]:
    """Prevent pytest from tearing down fixtures of ordinary tests, which trials in flight may share."""
    if not fixtures.any:
        yield
        return
    with setup_state(session, SetupState()):
        yield


def _report_teardown(session: pytest.Session, last: pytest.Item | None, why: str) -> None:
    """Report an error after the last trial as pytest does: as an error of the last test."""
    if last is None:
        session.testsfailed += 1
        state_of(session.config).notes.append(clean(why, 500))
        return
    report = pytest.TestReport(
        nodeid=last.nodeid,
        location=last.location,
        keywords={},
        outcome="failed",
        longrepr=harmless(clean(why, 2000)),
        when="teardown",
    )
    session.config.hook.pytest_runtest_logreport(report=report)


def stop_if_asked(session: pytest.Session) -> None:
    """Raise the exception of pytest's own loop after `-x`, `--maxfail` or `session.shouldstop`."""
    if session.shouldfail:
        raise session.Failed(session.shouldfail)
    if session.shouldstop:
        raise session.Interrupted(session.shouldstop)


@contextlib.contextmanager
def quiet_trial_threads(config: pytest.Config) -> Iterator[None]:
    """Keep log records of trial threads out of the report of the current item."""
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
