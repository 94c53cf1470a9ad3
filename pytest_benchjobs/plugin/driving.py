"""Hooks of interactive tests: the trial of each, from its fixture to its report.

    the function returns, and never called `score`    the work is scored; the verdict is that of the test
    it called `score` and returns                      the test passes: the function has judged; the score stays
    it raises                                          the test fails; the agent has crashed, so the trial fails
    it calls `pytest.skip`, or a mark skips it         the trial is skipped
    `cancel`, Ctrl-C                                   no result

The trial ends after the function, and after `--pdb`, which therefore meets the live sandbox.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any, cast

import pytest

from ..job.interactive import InteractiveTrial, TrialFailed, described
from ..job.trials import next_landed
from ..model.errors import FixtureFailed
from ..model.result import Failure, Outcome, TrialResult
from ..store.text import clean, harmless
from . import status_words
from .interactive import case_of, ticket_of
from .items import TrialError, Unsolved
from .progress import say
from .provided import GIVING, Providing
from .registry import agents_of
from .session import begin_job
from .state import is_worker, state_of
from .status_words import TOLD

if TYPE_CHECKING:
    from ..agents.interactive import InteractiveAgent
    from ..job.interactive import DrivenTicket
    from ..job.running import RunningJob
    from ..job.ticket import Provided

_NAME = "benchjobs-driving"
_PATIENCE = 86_400.0
"""Seconds for which a sandbox outlives its timeouts with `--pdb` or `--trace`."""


@dataclasses.dataclass(slots=True)
class Driving:
    """The trial of a running interactive test."""

    trial: InteractiveTrial
    gave_up: str | None = None
    """What the function raised."""
    is_over: bool = False
    """True once the function has ended without raising, or the trial was cancelled."""


_DRIVING = pytest.StashKey[Driving]()
_MADE = pytest.StashKey[TrialResult]()
"""Result of a trial that did not run."""


def activate(config: pytest.Config) -> None:
    """Register the hooks below, once."""
    if not config.pluginmanager.has_plugin(_NAME):
        config.pluginmanager.register(sys.modules[__name__], _NAME)


def drive(request: pytest.FixtureRequest) -> Iterator[InteractiveTrial]:
    """Start the trial of a test; end it when the test has ended."""
    providing = Providing()
    try:
        item = cast("pytest.Item", request.node)
        yield from _drive(item, dataclasses.replace(ticket_of(item), provided=_provided(request, providing)))
    finally:
        providing.close()


def _provided(request: Any, providing: Providing) -> Provided | None:
    """Return what `bench_env` and `bench_files` provide, where the project has them."""
    defined = request.session._fixturemanager.getfixturedefs
    return providing.of(
        {name: request.getfixturevalue(name) for name in GIVING if defined(name, request.node)}
    )


def _drive(item: pytest.Item, ticket: DrivenTicket) -> Iterator[InteractiveTrial]:
    config = item.config
    if _MADE in item.stash:  # a plugin runs the test again
        del item.stash[_MADE]
    if config.option.setuponly:
        pytest.skip("no trial is started by --setup-only")
    job = cast("RunningJob[Any]", state_of(config).job or begin_job(config))
    agent = cast("InteractiveAgent", agents_of(config)[ticket.agent.name])
    patience = _PATIENCE if config.option.usepdb or config.option.trace else 0.0
    trial = InteractiveTrial(job, ticket, agent, patience)
    driving = item.stash[_DRIVING] = Driving(trial)
    try:
        if not trial.wait():
            driving.is_over = True
            _refuse(trial.result)
        config.stash[_DRIVING] = driving
        yield trial
    finally:
        config.stash[_DRIVING] = Driving(trial, is_over=True)
        if driving.gave_up is not None:
            trial.give_up(driving.gave_up)
        elif not driving.is_over:
            trial.cancel()


def _refuse(result: TrialResult | None) -> None:
    """Raise what pytest reports for a trial that ended before its function began."""
    assert result is not None  # noqa: S101  it has ended
    why = result.failure.message if result.failure else result.outcome.value
    if result.outcome is Outcome.ERROR:
        raise TrialError(why, pytrace=False)
    if result.outcome is Outcome.FAILED:
        raise Unsolved(f"score {result.score} (its function was not run)", pytrace=False)
    if result.outcome is Outcome.PASSED:
        pytest.skip(f"it has its result: passed, score {result.score}")
    pytest.skip(why)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """End the trial after its function, unless the function raised."""
    driving = item.stash.get(_DRIVING, None)
    if driving is None:
        return (yield)
    try:
        returned = yield
    except TrialFailed as error:
        driving.is_over = True
        raise TrialError(str(error), pytrace=False) from None
    except (pytest.skip.Exception, pytest.exit.Exception, KeyboardInterrupt):
        driving.is_over = True
        driving.trial.cancel()
        raise
    except BaseException as error:
        driving.gave_up = described(error)  # it ends after a debugger has looked at it
        raise
    driving.is_over = True
    _judge(driving.trial)
    return returned


def _judge(trial: InteractiveTrial) -> None:
    """Complete a trial; raise its verdict, unless its function has judged by itself."""
    has_judged = trial.was_scored
    result = trial.complete()
    if result.outcome is Outcome.ERROR:
        why = result.failure.message if result.failure else "error"
        raise TrialError(why, pytrace=False)
    if result.outcome is Outcome.FAILED and not has_judged:
        raise Unsolved(f"score {result.score}", pytrace=False)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Put the result of an interactive test's trial into its report."""
    report = yield
    if case_of(item) is not None and state_of(item.config).job is not None:
        _dress(item, call, report)
    return report


def _dress(item: pytest.Item, call: pytest.CallInfo[None], report: pytest.TestReport) -> None:
    error = call.excinfo.value if call.excinfo is not None else None
    result = _landed(item, report, error)
    if TOLD in item.stash:
        status_words.add_properties(item, report, None)
        return
    failed_itself = report.failed and not isinstance(error, Unsolved | TrialError)
    if result is None or (failed_itself and report.when != "teardown"):
        return  # an assertion of the test, which counts whatever the gate says; the report of the teardown tells more
    status_words.add_properties(item, report, result)
    job = state_of(item.config).job
    vars(report)["bench"] = status_words.brief(result, (result,), job)
    if isinstance(error, Unsolved) and not hasattr(report, "wasxfail"):
        report.longrepr = harmless(status_words.explained(item.config, result, (result,)))
    if job is not None and not is_worker(item.config):
        job.record(result)


def _landed(item: pytest.Item, report: pytest.TestReport, error: BaseException | None) -> TrialResult | None:
    """Return the result of the trial, if there is one; make one for a test that did not begin, or skips itself."""
    driving = item.stash.get(_DRIVING, None)
    result = item.stash.get(_MADE, None) or (None if driving is None else driving.trial.result)
    if result is not None and result.outcome is not Outcome.CANCELLED:
        return result
    began = report.when == "call"
    if report.skipped and error is not None and not hasattr(report, "wasxfail"):
        return _without(item, Failure(class_="marked", message=clean(str(error), 2000)), skips=True)
    if report.when == "setup" and report.failed and not began and error is not None:
        if driving is not None:
            driving.is_over = True
            driving.trial.cancel()
        why = clean(f"a fixture failed: {described(error)}", 2000)
        return _without(item, Failure(class_=FixtureFailed.code, message=why, phase="setup"), skips=False)
    return None


def _without(item: pytest.Item, why: Failure, *, skips: bool) -> TrialResult:
    """Return the stored result of a trial that does not run."""
    job = cast("RunningJob[Any]", state_of(item.config).job)
    flight = job.trials.flight()
    try:
        job.trials.refuse(flight, ticket_of(item), why, skips=skips)
        result = item.stash[_MADE] = next_landed(flight)[1]
        return result
    finally:
        flight.close()


def pytest_enter_pdb(config: pytest.Config) -> None:
    """Stop the clock of the trial at hand, and say where its sandbox is."""
    driving = config.stash.get(_DRIVING, None)
    if driving is None or driving.is_over:
        return
    driving.trial.pause()
    say(config, f"bench: the sandbox of this trial is alive: {driving.trial.container}")


def pytest_leave_pdb(config: pytest.Config) -> None:
    """Let the clock run again."""
    driving = config.stash.get(_DRIVING, None)
    if driving is not None and not driving.is_over:
        driving.trial.resume()
