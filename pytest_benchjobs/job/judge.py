"""The verdict of the gates on an ended job: computed and stored in one place."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..model.errors import InputError
from ..model.gate import GateReport
from ..model.job import JobRecord
from ..model.result import TrialResult
from ..store.bundle import JobBundle
from ..store.gates import keep_gate, kept_gates
from ..store.history import History
from ..store.project import directory_argument

if TYPE_CHECKING:
    from ..analysis.baseline.resolve import Resolved
    from ..analysis.gate.job import Judged


def judge(record: JobRecord, results: Sequence[TrialResult], baseline: Resolved | None) -> Judged | None:
    """Judge a job by its own gates; None without gates, or for a shard: all shards together are judged when merged.

    Never raises: an exception makes the job invalid.
    """
    config = record.config.gate
    if not config.judges or record.config.shard is not None:
        return None
    from ..analysis.gate.job import broken_gate, judge_job
    from ..store.rows import pair_row
    from .changed import with_details

    at = datetime.datetime.now(datetime.UTC)
    where = directory_argument(record.config.directory)
    try:
        judged = judge_job(record, map(pair_row, results), config, baseline, at=at, where=where)
        return judged._replace(report=with_details(judged.report, record.config.directory, results))
    except Exception as error:
        return broken_gate(record, config, error, at=at)


def keep(bundle: JobBundle, history: History, report: GateReport | None) -> None:
    """Store a verdict, if there is one, in the bundle (if there is one) and in the history.

    Raises:
        DiskFull, ResultsUnwritable: the directory cannot be written.
    """
    if report is None:
        return
    if bundle.root.is_dir():
        keep_gate(bundle.root, report)
    history.save_gate(report)


def last_verdict(bundle: JobBundle, record: JobRecord) -> GateReport | None:
    """Read the newest verdict on a job since it ended; None: it was not judged since."""
    try:
        kept = kept_gates(bundle.root)
    except InputError:
        return None
    since = max((record.finished_at or record.created_at, *record.resumed_at))
    return kept[-1] if kept and kept[-1].at >= since else None
