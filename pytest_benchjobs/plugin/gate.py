"""The gates at the end of a session: the section in the terminal, and the exit status."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ..model.exit_status import ExitStatus, first_of
from ..model.gate import GateExit
from ..model.job import JobStatus
from ..store.text import harmless
from .state import state_of

if TYPE_CHECKING:
    from .state import Job

_FIRST = frozenset(
    {
        pytest.ExitCode.INTERRUPTED,
        pytest.ExitCode.INTERNAL_ERROR,
        pytest.ExitCode.USAGE_ERROR,
        pytest.ExitCode.NO_TESTS_COLLECTED,
    }
)
"""pytest's own exit statuses that override the verdict on a job."""


class FailedTrials:
    """Counts failures of trials in a session. With a gate they do not decide the exit status."""

    NAME = "benchjobs-failed-trials"

    def __init__(self) -> None:
        self.count = 0

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count a failed trial. A pass against a strict `xfail` is not counted, and fails the session."""
        bench = getattr(report, "bench", None)
        if bench is not None and report.failed and not hasattr(report, "wasxfail"):
            self.count += bench["outcome"] != "passed"


def set_exit_status(job: Job, session: pytest.Session) -> None:
    """Set the exit status of the session."""
    session.exitstatus = state_of(session.config).exit_status = _exit_status(job, session)


def _exit_status(job: Job, session: pytest.Session) -> int:
    """Return the exit status of an ended session: 2, 3, 4 and 5 of pytest, then an `ExitStatus`, then 1, 2 or 0.

    Other failures, such as of ordinary tests, always count. 0 means that all planned trials have run.
    """
    status = int(session.exitstatus)
    if status in _FIRST:
        return status
    gated = job.gate.judges
    exit_by = job.gate.exit or (GateExit.GATE if gated else GateExit.TESTS)
    # A job whose results could not be written has no verdict, and counts as invalid.
    found = ExitStatus.INVALID if job.judged is None else job.judged.status
    by_job = first_of(
        found if gated and job.shard is None and exit_by is not GateExit.TESTS else 0,
        ExitStatus.BUDGET_SPENT if job.trials.spent is not None else 0,
        ExitStatus.PAUSED if job.ended is not None and job.ended.status is JobStatus.PAUSED else 0,
    )
    if by_job:
        return by_job
    if status == pytest.ExitCode.TESTS_FAILED and exit_by is GateExit.GATE:
        failed = session.config.pluginmanager.get_plugin(FailedTrials.NAME)
        status = int(failed is None or session.testsfailed > failed.count)
    return status or (0 if job.is_whole else pytest.ExitCode.INTERRUPTED)


def summarise(job: Job, terminal: pytest.TerminalReporter) -> None:
    """Print the section of the terminal summary about gates, of which pytest's own last line knows nothing."""
    if not job.gate.judges or (job.judged is not None and job.judged.shown is None):
        return
    from ..report.gate_text import terminal_lines

    terminal.write_sep("=", "gate")
    if (shard := job.shard) is not None:
        terminal.write_line(
            f"not judged: this is shard {shard}; `benchjobs merge --as-job NAME` makes one job of all, and judges it"
        )
    elif job.judged is None:
        terminal.write_line("invalid: the job was not judged: its results could not be written", red=True)
    else:
        for text, colour in terminal_lines(job.judged.report):
            terminal.write_line(harmless(text), **({} if colour is None else {colour: True}))
    status = state_of(terminal.config).exit_status
    terminal.write_line(f"exit status {ExitStatus.INVALID if status is None else status}")
