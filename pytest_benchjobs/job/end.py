"""End of a job. `end` is the only function that writes it, in any process.

An end has five steps: `job.json`, the history, the gates, the reports, and the removal of the signs of life. Calling
`end` again completes an end whose process was killed in between; `is_complete` tells whether that is needed. The bundle
is the truth, so results, history and reports agree even if different processes wrote them.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from ..model.errors import DiskFull, ResultsUnwritable
from ..model.gate import RoundReport
from ..model.job import Decisions, JobConfig, JobRecord, JobStatus
from ..model.result import TrialResult
from ..model.usage import Usage
from ..report.write import write_reports
from ..store import ledger
from ..store.bundle import BundleWarning, JobBundle, stored
from ..store.checksum import checksum_of
from ..store.files import remove_leftovers, remove_tree, writing
from ..store.history import History
from ..store.index import index_job
from ..store.layout import JobLayout
from ..store.liveness import clear_heartbeat, has_beaten
from ..store.outline import whole
from ..store.rows import pair_row
from ..store.totals import most, spent_by, totals
from ..system.paths import is_file
from .judge import keep, last_verdict

if TYPE_CHECKING:
    from ..analysis.gate.job import Judged
    from ..report.ci import Host

NO_ROOM = (DiskFull.code, ResultsUnwritable.code)
"""Classes of failures of trials whose result could not be stored."""
Gate = Callable[[JobRecord, Sequence[TrialResult]], "Judged | None"]
Noting = Callable[[str], AbstractContextManager[None]]
"""Makes a context for one step of an end from the step's name. The context may swallow exceptions."""


@dataclasses.dataclass(frozen=True, slots=True)
class Ending:
    """Facts about the end of a job that only the caller knows."""

    status: JobStatus
    message: str | None
    finished_at: datetime.datetime | None = None
    """None: the end of its last trial."""
    planned: int | None = None
    """None: as in `job.json`; likewise for the other fields."""
    spent: Usage | None = None
    rounds: tuple[RoundReport, ...] | None = None
    decisions: Decisions | None = None


@dataclasses.dataclass(slots=True)
class Ended:
    """Result of `end`."""

    record: JobRecord | None = None
    """The final record; None: `job.json` cannot be read any more."""
    is_written: bool = False
    """True if `job.json` is the final record."""
    trials: int = 0
    """Number of results of the job."""
    removed: int = 0
    """Number of unfinished trials that were removed."""
    judged: Judged | None = None
    """The verdict of the gates; None: there are no gates, or nothing could be judged."""
    warnings: list[BundleWarning] = dataclasses.field(default_factory=list)
    """Problems of results that cannot be read."""


def end(
    bundle: JobBundle,
    history: History,
    ending: Ending | None = None,
    *,
    record: JobRecord | None = None,
    results: Sequence[TrialResult] | None = None,
    saved: Mapping[str, datetime.datetime] | None = None,
    gate: Gate | None = None,
    host: Host | None = None,
    event: tuple[str, str] | None = None,
    merged: bool = False,
    noting: Noting = lambda _step: contextlib.nullcontext(),
) -> Ended:
    """End a job, or complete an end whose process was killed. No other process may write its trials meanwhile.

    `ending` is how the job ended; None: its record says so. `record` replaces that of `job.json`, and `results` are all
    results, where the caller has them. `saved` are trials in the history, each with the end of the result there; None:
    all are indexed again. `gate` judges the job; None: it is not judged now, and the reports have its last verdict, if
    any. Reports are written for the CI system `host`. `event` is kind and message of an event for the history. `merged`
    is true if results came in since `record` was made; else its checksum, which is of where the job ran, stays. Each
    step runs in `noting`.

    Raises:
        InputError: `job.json` is missing or damaged.
        DiskFull, ResultsUnwritable: the directory cannot be written.
    """
    ended = Ended()
    with noting("results"):
        if record is None:
            record = bundle.read()
            merged = merged or record.checksum is not None
        if results is None:
            ended.removed = bundle.sweep()
            results = in_order(bundle.outlines(record.config, ended.warnings), record.config)
        ended.record = record = _ended(bundle, record, ending, results, merged=merged)
        ended.trials = len(results)
        _write(bundle, record)
        ended.is_written = True
        ledger.close(bundle.root)  # the ending is in the record from here on
        with noting("history"):
            _index(bundle, history, record, results, saved, event)
        if gate is not None:
            ended.judged = gate(record, results)
            with noting("gate"):
                keep(bundle, history, ended.judged and ended.judged.shown)
        with noting("reports"):
            if not is_file(bundle.layout.junit):  # an existing report is of this record
                report = ended.judged and ended.judged.shown if gate else last_verdict(bundle, record)
                write_reports(bundle, record, results, report, host)
    _remove_signs_of_life(bundle)
    return ended


def is_complete(layout: JobLayout) -> bool:
    """Return whether nothing of an end is missing, except perhaps in the history.

    Raises:
        InputError: the files of the job belong to another user.
    """
    return is_file(layout.junit) and not layout.flight.exists() and not has_beaten(layout.root)


def in_order(results: Iterable[TrialResult], config: JobConfig) -> list[TrialResult]:
    """Sort results in the order of the job's agents."""
    order = {agent.label: place for place, agent in enumerate(config.agents)}
    return sorted(results, key=lambda result: order.get(result.agent.label, len(order)))


def _ended(
    bundle: JobBundle,
    record: JobRecord,
    ending: Ending | None,
    results: Sequence[TrialResult],
    *,
    merged: bool,
) -> JobRecord:
    """Return the record of the ended job, with these results."""
    if merged or ending is not None:
        record = record.model_copy(update={"checksum": checksum_of(map(pair_row, results))})
    if ending is None:
        return record.model_copy(update={"totals": totals(results)})
    last = max((result.finished_at for result in results), default=record.created_at)
    spent = most(record.spent, spent_by(results)) if ending.spent is None else ending.spent
    return record.model_copy(
        update={
            "status": ending.status,
            "message": ending.message,
            "finished_at": ending.finished_at or max(last, record.created_at),
            "planned": record.planned if ending.planned is None else ending.planned,
            "totals": totals(results),
            # Only the ledger has the cost of trials that were stopped.
            "spent": most(spent, ledger.noted(bundle.root)),
            "rounds": record.rounds if ending.rounds is None else ending.rounds,
            "decisions": ending.decisions or record.decisions,
        }
    )


def _write(bundle: JobBundle, record: JobRecord) -> None:
    """Write `job.json`, unless it is unchanged. Reports of an earlier state are removed first."""
    if not is_file(bundle.layout.record) or bundle.read() != stored(record):
        with writing(bundle.root):
            for path in bundle.layout.reports:
                path.unlink(missing_ok=True)
        bundle.write(record)


def _index(
    bundle: JobBundle,
    history: History,
    record: JobRecord,
    results: Sequence[TrialResult],
    saved: Mapping[str, datetime.datetime] | None,
    event: tuple[str, str] | None,
) -> None:
    if saved is None:
        index_job(bundle, history)
    else:
        new = (result for result in results if saved.get(result.node_id) != result.finished_at)
        history.save_trials(whole(bundle.root, result) for result in new)
        history.save_job(record)
    if event is not None:
        history.add_event(record.id, *event)


def _remove_signs_of_life(bundle: JobBundle) -> None:
    """Remove the files that only a running job has. The heartbeat goes last: it marks an unfinished end."""
    for path in (bundle.layout.record, bundle.layout.gates, *bundle.layout.reports):
        remove_leftovers(path)
    remove_tree(bundle.layout.flight)
    clear_heartbeat(bundle.root)
