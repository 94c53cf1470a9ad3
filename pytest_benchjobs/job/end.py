"""The end of a job, whoever ends it: `end` is the only writer.

An end has five steps: `job.json`, the history, the gates, the reports, and last the signs of life are removed. A job
which `job.json` calls ended, and which still lacks `junit.xml` or shows a sign of life, was killed in between: `end`
called once more finishes it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from ..model.errors import BudgetSpent, DiskFull, ResultsUnwritable
from ..model.gate import RoundReport
from ..model.job import JobRecord, JobStatus
from ..model.result import TrialResult
from ..model.usage import Usage
from ..report import write_reports
from ..store import ledger
from ..store.bundle import JobBundle
from ..store.files import remove_tree
from ..store.history import History
from ..store.liveness import clear_heartbeat
from ..store.outline import whole
from ..store.text import clean
from ..store.totals import most, totals
from .judge import judge, keep

if TYPE_CHECKING:
    from ..analysis.baseline import Resolved
    from ..analysis.job_gate import Judged
    from ..report.ci import Host

NO_ROOM = (DiskFull.code, ResultsUnwritable.code)
"""Classes of failures of trials whose result could not be kept."""
Noting = Callable[[str], AbstractContextManager[None]]
"""Makes a context in which one step of an end runs; told the name of the step, and free to swallow what it raises."""


@dataclasses.dataclass(frozen=True, slots=True)
class Ending:
    """How a job ended, as far as its caller knows and its files do not."""

    status: JobStatus
    message: str | None
    finished_at: datetime.datetime
    planned: int | None
    spent: Usage
    rounds: tuple[RoundReport, ...] = ()


@dataclasses.dataclass(slots=True)
class Ended:
    """What became of an end."""

    record: JobRecord | None = None
    """What `job.json` says now; None: the file cannot be read any more."""
    judged: Judged | None = None
    """The verdict of the gates; None: there are none, or nothing could be judged."""


def settle(
    job: str,
    planned: int,
    results: Sequence[TrialResult],
    *,
    spent: str | None,
    full: str | None,
    stopped_by: JobStatus | None,
    stopped: str | None,
    timeout: float | None,
) -> tuple[JobStatus, str | None]:
    """Decide the status of a job whose trials have ended, and the message with it.

    Args:
        job: Its id.
        planned: Trials it should have.
        results: Those it has.
        spent: Why nothing more may be spent, if so.
        full: Why no more results can be kept, if so.
        stopped_by: The status for which the heartbeat stopped the job, if it did.
        stopped: Why not everything was run, where pytest knows.
        timeout: The seconds the job was given.

    """
    missing = planned - len(results)
    cut = any(one.failure is not None and one.failure.class_ == BudgetSpent.code for one in results)
    if spent is not None and (missing > 0 or cut):
        again = f"finish it with `benchjobs resume {job}` and a higher limit"
        return JobStatus.BUDGET, f"{spent}; {again}"
    if missing <= 0:
        return JobStatus.COMPLETED, None  # even if it was the last one that pytest stopped after
    full = full or next(
        (one.failure.message for one in results if one.failure and one.failure.class_ in NO_ROOM), None
    )
    if full is not None:
        return JobStatus.CANCELLED, (
            f"{missing} trials did not run: {clean(full, 500)}; then finish it with `benchjobs resume {job}`"
        )
    if stopped_by is JobStatus.TIMEOUT:
        return stopped_by, f"it took longer than {timeout:g} s"
    if stopped_by is JobStatus.CANCELLED:
        return stopped_by, "somebody asked it to stop"
    return JobStatus.CANCELLED, stopped or f"{missing} trials did not run"


def end(
    bundle: JobBundle,
    history: History,
    ending: Ending,
    results: Sequence[TrialResult],
    *,
    saved: Mapping[str, datetime.datetime],
    baseline: Resolved | None = None,
    host: Host | None = None,
    noting: Noting = lambda _step: contextlib.nullcontext(),
) -> Ended:
    """End a job.

    Args:
        bundle: Its files.
        history: Where it is indexed.
        ending: How it ended.
        results: All its results.
        saved: Trials that are in the history, and when the result that is there had ended.
        baseline: What its gates judge it against.
        host: The CI system that will read the reports.
        noting: What each step runs in.

    Raises:
        InputError: `job.json` is missing or damaged.
        DiskFull, ResultsUnwritable: the directory refuses.

    """
    ended = Ended()
    with noting("results"):
        ended.record = record = bundle.read().model_copy(
            update={
                "status": ending.status,
                "message": ending.message,
                "finished_at": ending.finished_at,
                "planned": ending.planned,
                "totals": totals(results),
                # Of trials that were stopped in flight only the ledger knows.
                "spent": most(ending.spent, ledger.noted(bundle.root)),
                "rounds": ending.rounds,
            }
        )
        bundle.write(record)
        with noting("history"):
            history.save_trials(
                whole(bundle.root, result)
                for result in results
                if saved.get(result.node_id) != result.finished_at
            )
            history.save_job(record)
        ended.judged = judge(record, results, baseline)
        report = None if ended.judged is None else ended.judged.shown
        if report is not None:
            with noting("gate"):
                keep(bundle, history, report)
        write_reports(bundle, record, results, report, host)
    remove_signs_of_life(bundle)
    return ended


def remove_signs_of_life(bundle: JobBundle) -> None:
    """Remove the files that only a running job has. The last step of an end."""
    remove_tree(bundle.layout.flight)
    clear_heartbeat(bundle.root)
    ledger.close(bundle.root)
