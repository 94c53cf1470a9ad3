"""The hooks for trials. They are registered with the first benchmark, so other sessions do not pay for them."""

from __future__ import annotations

import gc
import sys
from collections.abc import Generator, Sequence

import pytest

from ..system.garbage import gc_rarely
from . import aliases, collect, gate, interactive, selection, shards
from .items import TrialItem
from .job_settings import settings_of
from .state import is_worker, state_of

_NAME = "benchjobs-trials"


def activate(config: pytest.Config) -> None:
    """Register the hooks below, once."""
    if not config.pluginmanager.has_plugin(_NAME):
        config.pluginmanager.register(sys.modules[__name__], _NAME)
        config.pluginmanager.register(gate.FailedTrials(), gate.FailedTrials.NAME)
        config.pluginmanager.register(collect.FilesOfScenarios())
        config.pluginmanager.register(shards.LastSelection())


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Add the benchmarks that `--bench` names to the session's collection."""
    if isinstance(collector, pytest.Session):
        collect.load_conftests_of_named(collector.config)
        aliases.open_every_file_for(collector.config)
    report = yield
    if isinstance(collector, pytest.Session) and report.passed:
        report.result = [*report.result, *collect.named_collectors(collector, report.result)]
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect trials that are archived, or not requested."""
    collect.choose(config, items)


def pytest_report_collectionfinish(config: pytest.Config) -> list[str]:
    """Tell which files and scenarios are left to others, so that no test is missed without a word."""
    return [*selection.left_to_scenarios(config), *shards.told(config)]


def pytest_deselected(items: Sequence[pytest.Item]) -> None:
    """Note that the job has only a part of its benchmarks."""
    selection.note_deselected(items)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """Check for contradictions between the options and the collected items."""
    collect.check(session)
    interactive.prepare(session, others=any(isinstance(item, TrialItem) for item in session.items))
    # A stable sort, after plugins that shuffle. Ordinary tests go first, so that they can share fixtures.
    session.items.sort(key=lambda item: isinstance(item, TrialItem))
    if (
        any(isinstance(item, TrialItem) for item in session.items)
        and settings_of(session.config).job.interleave
    ):
        selection.interleave(session.items)
    if is_worker(session.config):
        from .worker import leave_word

        leave_word(session)


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Run our loop, if there are trials."""
    option, plans = session.config.option, settings_of(session.config).plan
    trials = any(isinstance(item, TrialItem) or interactive.case_of(item) for item in session.items)
    if option.collectonly or option.setuponly or not (trials or (plans and shards.is_empty(session.config))):
        return None
    if plans:
        from .planning import plan

        return plan(session)
    with gc_rarely():
        if is_worker(session.config):
            from .worker import run_worker

            return run_worker(session)
        from .loop import run

        return run(session)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Run a trial that has not run yet: in another plugin's loop, or for a plugin that runs an item again."""
    if isinstance(item, TrialItem) and item.result is None and not item.config.option.setuponly:
        from .session import run_now

        run_now(item)


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> Generator[None, object, object]:
    """End the job. Runs last, after the xdist workers have ended, even if other hooks fail."""
    try:
        return (yield)
    finally:
        _finish(session)


def _finish(session: pytest.Session) -> None:
    if all(isinstance(item, TrialItem) for item in session.items):
        # Skip the last garbage collections of pytest and Python: there is nothing for them to close.
        gc.freeze()
    config = session.config
    job = state_of(config).job
    if job is None:
        if shards.is_empty(config) and session.exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED:
            session.exitstatus = pytest.ExitCode.OK
        return
    from . import terminal as reporting
    from .session import finish_job

    finish_job(config, job, reporting.planned(session), reporting.why_stopped(session, session.exitstatus))
    if not is_worker(config):
        from . import ci

        gate.set_exit_status(job, session)
        ci.write_files(config, job)
        state_of(config).session = session


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print the summary: results of the agents, problems, and the directory of the results."""
    job = state_of(config).job
    if job is not None:
        from . import terminal as reporting

        gate.summarise(job, terminalreporter)
        reporting.summarise(job, terminalreporter)
    selection.tell_left_out(terminalreporter, config, () if job is None else job.results)


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    """Write for the CI system, after all other output."""
    job = state_of(config).job
    if job is not None and not is_worker(config):
        from . import ci

        ci.tell(config, job)
