"""Results of a job as gates and comparisons read them from the history, checked against `job.json`."""

from __future__ import annotations

import contextlib
from typing import NamedTuple

from ..model.errors import BenchError, InputError
from ..model.job import JobRecord
from .bundle import JobBundle
from .checksum import differs, is_checked
from .history import History
from .index import index_job
from .reader import HistoryReader
from .rows import PairRow, pair_row


class Checked(NamedTuple):
    """Results of a job."""

    record: JobRecord
    rows: list[PairRow]
    note: str | None = None
    """Line about the history, where it was wrong and the files of the job are right."""
    wrong: str | None = None
    """Reason why these are not the results that the job ended with."""


def checked(history: HistoryReader, job_id: str) -> Checked:
    """Return the results of a job; read them from its files, and index these again, where the history differs.

    A job that has not ended, or that an earlier version wrote, is not checked. Raises InputError: the history does not
    know the job, or is damaged, or of another version.
    """
    record, rows = history.record(job_id), history.paired_rows(job_id)
    filed: JobRecord | None = None
    with contextlib.suppress(InputError):  # without files, or with damaged ones
        filed = JobBundle.open(history.directory, job_id).read()
    truth = filed or record
    if not is_checked(truth):
        return Checked(record, rows)
    if filed is None:
        wrong = "its results in the history are not those it ended with, and its files are not here"
        cure = "restore them and run `benchjobs db rebuild`, or merge the job again"
        return Checked(record, rows, wrong=f"{wrong}: {cure}" if differs(truth, rows) else None)
    if filed == record and not differs(truth, rows):
        return Checked(record, rows)
    rows, note = _from_files(history, job_id)
    if not differs(filed, rows):
        return Checked(filed, rows, note)
    wrong = "its results are not those it ended with: restore its files and run `benchjobs db rebuild`"
    return Checked(filed, rows, wrong=wrong)


def _from_files(history: HistoryReader, job_id: str) -> tuple[list[PairRow], str]:
    """Return the results in the files of a job, which are indexed again if possible, and a line that says so."""
    bundle = JobBundle(history.directory, job_id)
    about = f"job {job_id}: the history differed from its files"
    if history.mends:
        try:
            with History(history.path) as writer:
                index_job(bundle, writer)
            return history.paired_rows(job_id), f"{about}, and was made of them again"
        except BenchError:
            pass  # the files can be read even so
    return list(
        map(pair_row, bundle.results())
    ), f"{about}, which were read; `benchjobs db rebuild` puts it right"
