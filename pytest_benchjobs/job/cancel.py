"""Cancelling a job of another process: ask that process to stop; end the job here if the process is dead."""

from __future__ import annotations

import os
import time
from pathlib import Path

from ..model.job import JobRecord, JobStatus
from ..store.bundle import JobBundle
from ..store.files import remove_tree, writing
from ..store.history import History
from ..store.liveness import ask_to_cancel, asked_to_cancel, hold, is_dead
from ..store.reader import HistoryReader
from .end import end, is_complete
from .recover import recover

_POLL = 0.2
# Collecting a large benchmark takes seconds; only then does the process of a job listen.
_BEGINNING = 30.0
# A process of another machine that gave no sign of life for so long will not answer a request either.
_SILENCE = 60.0


def cancel(directory: Path, bundle: JobBundle, timeout: float) -> JobRecord:
    """Cancel a job that has not ended, and wait for its end so many seconds; returns its record, whatever it is then.

    Raises:
        InputError: `job.json` is missing or damaged.
        DiskFull, ResultsUnwritable, OSError: the directory refuses.
    """
    started = time.monotonic()
    requested = False
    while True:
        record = bundle.read()
        if record.status.ended:
            if requested:
                # The job may have removed the first request just before this process repeated it.
                remove_tree(bundle.layout.flight)
            return record
        if is_dead(bundle.root, record, _SILENCE):
            with History.of(directory) as history:
                recover(directory, history, _SILENCE, only=bundle.id, cancel=True)
            # Another process may be ending the job, or its workers are still alive: the next turn looks again.
            if (record := bundle.read()).status.ended:
                return record
        else:
            # A request made before the job had begun is forgotten then.
            if not asked_to_cancel(bundle.root):
                ask_to_cancel(bundle.root)
            requested = True
        waited = time.monotonic() - started
        if waited >= (timeout if record.status is JobStatus.RUNNING else max(timeout, _BEGINNING)):
            return record
        time.sleep(_POLL)


def finish(directory: Path, bundle: JobBundle) -> None:
    """Finish the end of a job that has ended, if its process was killed in the middle of it.

    Raises:
        InputError: `job.json` is missing or damaged.
        DiskFull, ResultsUnwritable: the directory refuses.
    """
    record = bundle.read()
    with HistoryReader.of(directory) as history:
        row = history.job_row(bundle.id)
    indexed = row is not None and row.status == record.status.value
    if indexed and is_complete(bundle.layout):
        return
    with writing(bundle.root):
        lock = hold(bundle.root)
    if lock is None:
        return  # another process is about to end it
    try:
        if not indexed:
            bundle.layout.junit.unlink(missing_ok=True)  # it may be a report of an earlier state
        with History.of(directory) as history:
            end(bundle, history)
    finally:
        os.close(lock)
