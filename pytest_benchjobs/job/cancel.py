"""Cancellation of a job of another process: request a stop; end the job here if that process is dead."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

from ..model.job import JobRecord, JobStatus
from ..store.bundle import JobBundle
from ..store.files import remove_tree
from ..store.history import History
from ..store.liveness import ask_to_cancel, asked_to_cancel, holding, is_dead
from ..store.reader import HistoryReader
from .dead_jobs import recover
from .end import end, is_complete

_POLL = 0.2
# A process listens only after collection, which takes seconds for a large benchmark.
_BEGINNING = 30.0
# A process of another machine without a heartbeat for so long will not answer a request either.
_SILENCE = 60.0


def cancel(directory: Path, bundle: JobBundle, timeout: float) -> JobRecord:
    """Cancel a job, and wait up to `timeout` seconds for its end; return its record, ended or not.

    Raises:
        InputError: `job.json` is missing or damaged.
        DiskFull, ResultsUnwritable, OSError: the directory cannot be written.
    """
    started = time.monotonic()
    requested = False
    while True:
        record = bundle.read()
        if record.status.ended:
            if requested:
                # The job may have removed the first request just before this one.
                remove_tree(bundle.layout.flight)
            return record
        if is_dead(bundle.root, record, _SILENCE):
            with History.of(directory) as history:
                recover(directory, history, _SILENCE, only=bundle.id, cancel=True)
            # Another process may be ending the job, or its workers are still alive: try again.
            if (record := bundle.read()).status.ended:
                return record
        else:
            # A job that begins removes earlier requests, so repeat it. One that ends removes their directory meanwhile.
            with contextlib.suppress(FileNotFoundError):
                if not asked_to_cancel(bundle.root):
                    ask_to_cancel(bundle.root)
            requested = True
        waited = time.monotonic() - started
        if waited >= (timeout if record.status is JobStatus.RUNNING else max(timeout, _BEGINNING)):
            return record
        time.sleep(_POLL)


def finish(directory: Path, bundle: JobBundle) -> None:
    """Complete the end of a job whose process was killed in the middle of it.

    Raises:
        InputError: `job.json` is missing or damaged.
        DiskFull, ResultsUnwritable: the directory cannot be written.
    """
    record = bundle.read()
    with HistoryReader.of(directory) as history:
        row = history.job_row(bundle.id)
    indexed = row is not None and row.status == record.status.value
    if indexed and is_complete(bundle.layout):
        return
    with holding(bundle.root) as is_ours:
        if not is_ours:
            return  # another process is ending it
        if not indexed:
            bundle.layout.junit.unlink(missing_ok=True)  # the report may be of an earlier state
        with History.of(directory) as history:
            end(bundle, history)
