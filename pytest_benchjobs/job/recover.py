"""Making sense of jobs whose process died: what had ended is kept and indexed, what had not is removed."""

from __future__ import annotations

import contextlib
import fcntl
import math
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from ..model.errors import BenchError, InputError
from ..model.job import JobRecord, JobStatus
from ..model.owner import current_owner
from ..store import ledger
from ..store.bundle import BundleWarning, JobBundle
from ..store.files import is_file, remove_tree, writing
from ..store.history import History
from ..store.index import index_job
from ..store.layout import JobLayout, Layout
from ..store.liveness import STALE_SECONDS, clear_heartbeat, has_beaten, hold, is_dead, last_beat
from ..store.text import clean
from ..store.totals import most, spent_by, totals

DIED = "died while it ran"
NEVER_BEGAN = "ended before its first trial"
_ABANDONED_SECONDS = 3600.0
Ended = Callable[[JobBundle, JobRecord], None]


def recover(
    directory: Path,
    history: History,
    ended: Ended | None = None,
    stale_seconds: float = STALE_SECONDS,
    *,
    only: str | None = None,
) -> list[str]:
    """Close the jobs whose process died without closing them; returns a line for the user for each.

    Whether a process of this machine is alive is known, and its age does not matter. One of another machine counts as
    dead when it gave no sign of life for `stale_seconds`. Jobs which have ended with all their reports are not looked
    at. While another process does the same, nothing is done. `ended` is called with each job that was closed or lacks
    reports, to write them; what it raises is told in the line of the job. With `only`, no other job is touched.

    Raises:
        DiskFull, ResultsUnwritable: the directory refuses.

    """
    if not Layout(directory).jobs.is_dir():
        return []
    lines: list[str] = []
    with _alone(directory) as alone:
        if not alone:
            return []
        known = history.ended_jobs()
        for bundle in JobBundle.all(directory) if only is None else (JobBundle(directory, only),):
            try:
                if bundle.id in known and _is_complete(bundle.layout):
                    continue
                line = _recover_job(bundle, history, ended, stale_seconds)
            except (BenchError, OSError) as error:
                line = f"job {bundle.id} could not be recovered: {error}"
            if line is not None:
                lines.append(line)
        if only is None:
            lines += _forget_gone(directory, history)
            _remove_abandoned(Layout(directory).jobs)
    return lines


def _is_complete(job: JobLayout) -> bool:
    """Whether a job that has ended left all it should, and nothing else.

    Raises:
        InputError: somebody else keeps its files to themselves.

    """
    return is_file(job.junit) and not job.flight.exists() and not has_beaten(job.root)


def _recover_job(
    bundle: JobBundle, history: History, ended: Ended | None, stale_seconds: float
) -> str | None:
    record = _record(bundle, history)
    if not is_dead(bundle.root, record, stale_seconds):
        if not record.status.ended or record.owner.host != current_owner().host:
            return None
        ended = (
            None  # its process lives on, to run others or to write the reports of this one: they are its own
        )
    with writing(bundle.root):
        lock = hold(bundle.root)
    if lock is None:
        return None  # just now somebody takes it up again
    try:
        lost = not is_file(bundle.layout.record)
        record = _record(bundle, history)
        if record.status.ended:
            return _complete(bundle, record, history, ended)
        line = _close(bundle, record, history, ended)
        return (
            f"{line}; its {bundle.layout.record.name} was gone, and is made of the history now"
            if lost
            else line
        )
    finally:
        os.close(lock)


def _record(bundle: JobBundle, history: History) -> JobRecord:
    """The record of a job. Of one whose files somebody removed while it ran, it is what the history knows.

    Raises:
        InputError: it is missing or damaged, and the history cannot stand in for it.

    """
    path = bundle.layout.record
    if is_file(path):
        return bundle.read()
    known = history.job(bundle.id)
    here = known is not None and known.owner.host == current_owner().host
    # Nobody takes a part of a job that had ended for a job, nor one of another machine which may be about to beat.
    if known is None or known.status.ended or not (here or math.isfinite(last_beat(bundle.root))):
        raise InputError(f"is missing; remove {bundle.root}, or put a copy of the file back", path=path)
    return known


def _complete(bundle: JobBundle, record: JobRecord, history: History, ended: Ended | None) -> str | None:
    """Do what was left to do for a job that ended properly: of what its process did last, something may be missing."""
    _remove_signs_of_life(bundle.root)
    if record.id not in history.ended_jobs():
        index_job(bundle, history)
    if ended is None or is_file(bundle.layout.junit):
        return None
    trouble = _reported(bundle, record, ended)
    return f"job {record.id} had no reports{trouble or '; they were written'}"


def _close(bundle: JobBundle, record: JobRecord, history: History, ended: Ended | None) -> str:
    removed = bundle.sweep()
    warnings: list[BundleWarning] = []
    began = record.status is JobStatus.RUNNING
    record = _closed(bundle, record, warnings)
    _remove_signs_of_life(bundle.root)
    bundle.write(record)
    ledger.close(bundle.root)
    trials = index_job(bundle, history)
    owner = record.owner
    where = "" if owner.host == current_owner().host else f" of {clean(owner.host, 100)}"
    planned = f" of {record.planned}" if began and record.planned is not None else ""
    what = DIED if began else NEVER_BEGAN
    line = f"job {record.id} {what} (process {owner.pid}{where})"
    history.add_event(record.id, "recovered", line.partition(record.id)[2].strip())
    if began:
        line += f": kept {trials}{planned} trials"
    if removed:
        line += f", removed {removed} unfinished"
    if warnings:
        line += f"; {len(warnings)} results are damaged: {warnings[0]}"
    if ended is not None:
        line += _reported(bundle, record, ended)
    return line


def _reported(bundle: JobBundle, record: JobRecord, ended: Ended) -> str:
    """Write the reports of a job; returns what went wrong, to be put behind a line."""
    try:
        ended(bundle, record)
    except Exception as error:
        # Reports can be made again from the bundle; the session that recovers has trials of its own to run.
        return f"; its reports could not be written: {clean(str(error) or type(error).__name__, 500)}"
    return ""


def _closed(bundle: JobBundle, record: JobRecord, warnings: list[BundleWarning]) -> JobRecord:
    results = bundle.outlines(record.config, warnings)
    last = max((result.finished_at for result in results), default=record.created_at)
    began = record.status is JobStatus.RUNNING
    return record.model_copy(
        update={
            "status": JobStatus.FAILED,
            "message": record.message or (DIED if began else NEVER_BEGAN),
            "finished_at": max(last, record.created_at),
            "totals": totals(results),
            "spent": most(record.spent, most(spent_by(results), ledger.noted(bundle.root))),
        }
    )


def _remove_signs_of_life(root: Path) -> None:
    remove_tree(JobLayout(root).flight)
    clear_heartbeat(root)


def _forget_gone(directory: Path, history: History) -> list[str]:
    """Forget jobs that seem to go on, and whose bundle somebody has removed."""
    lines = []
    for job in history.job_page(statuses=[status.value for status in JobStatus if not status.ended]):
        if not JobBundle(directory, job.id).root.exists():
            history.forget(job.id)
            lines.append(f"job {job.id} was removed while it ran; the history has forgotten it")
    return lines


@contextlib.contextmanager
def _alone(directory: Path) -> Iterator[bool]:
    """Whether no other process recovers the same directory. The kernel lets go of the lock if we die."""
    path = Layout(directory).recover_lock
    with writing(path):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield False
        else:
            yield True
    finally:
        os.close(descriptor)


def _remove_abandoned(jobs: Path) -> None:
    """Remove bundles whose maker died before they had a `job.json`. Making one takes milliseconds."""
    oldest = time.time() - _ABANDONED_SECONDS
    for path in jobs.glob(".tmp-*"):
        with contextlib.suppress(OSError):
            if path.stat().st_mtime < oldest:
                remove_tree(path)
