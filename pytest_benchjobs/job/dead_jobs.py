"""Recovery of jobs whose process died: finished trials are kept and indexed, unfinished ones removed."""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import fcntl
import math
import os
import time
from collections.abc import Iterator
from pathlib import Path

from ..model.errors import BenchError, InputError
from ..model.job import JobRecord, JobStatus
from ..model.owner import current_owner
from ..store.bundle import JobBundle
from ..store.files import remove_tree, writing
from ..store.history import History
from ..store.index import index_job
from ..store.layout import Layout
from ..store.listing import JOBS, Wanted, each
from ..store.liveness import STALE_SECONDS, holding, is_dead, last_beat
from ..store.text import clean
from ..system.paths import is_file
from .end import Ending, Noting, end, is_complete

DIED = "died while it ran"
NEVER_BEGAN = "ended before its first trial"
CANCELLED = "cancelled after its process had died"
_ABANDONED_SECONDS = 3600.0


class Kind(enum.Enum):
    """A kind of recovery."""

    CLOSED = "closed"
    """The process of the job had died."""
    FINISHED = "finished"
    """The job had ended without reports."""
    FORGOTTEN = "forgotten"
    """The files of the job are gone."""
    FAILED = "failed"
    """The job could not be recovered."""


@dataclasses.dataclass(frozen=True, slots=True)
class Recovered:
    """A job that was recovered, or could not be."""

    job: str
    kind: Kind
    message: str
    """A line for the user."""


def recover(
    directory: Path,
    history: History,
    stale_seconds: float = STALE_SECONDS,
    *,
    only: str | None = None,
    cancel: bool = False,
) -> list[Recovered]:
    """End jobs whose process died, and complete ends that were killed.

    A process of this machine is known to live or not, whatever the age of its heartbeat. One of another machine counts
    as dead after `stale_seconds` without a heartbeat. Jobs that ended with all their reports are skipped. While another
    process recovers the same directory, nothing is done. With `only`, no other job is touched; with `cancel`, a dead
    job gets the status `cancelled`, as the user wants.

    Raises:
        DiskFull, ResultsUnwritable: the directory cannot be written.
    """
    if not Layout(directory).jobs.is_dir():
        return []
    done: list[Recovered] = []
    with _alone(directory) as alone:
        if not alone:
            return []
        indexed = history.ended_jobs()
        for bundle in JobBundle.all(directory) if only is None else (JobBundle(directory, only),):
            try:
                if bundle.id in indexed and is_complete(bundle.layout):
                    continue
                found = _recover_job(bundle, history, stale_seconds, cancel=cancel)
            except (BenchError, OSError) as error:
                message = f"job {bundle.id} could not be recovered: {error}"
                found = Recovered(bundle.id, Kind.FAILED, message)
            if found is not None:
                done.append(found)
        if only is None:
            done += _forget_gone(directory, history)
            _remove_abandoned(Layout(directory).jobs)
    return done


def _recover_job(
    bundle: JobBundle, history: History, stale_seconds: float, *, cancel: bool
) -> Recovered | None:
    record = _record(bundle, history)
    dead = is_dead(bundle.root, record, stale_seconds)
    if not dead and not (record.status.ended and record.owner.host == current_owner().host):
        return None
    with holding(bundle.root) as is_ours:
        if not is_ours:
            return None  # another process is resuming it
        lost = not is_file(bundle.layout.record)
        record = _record(bundle, history)
        if not record.status.ended:
            found = _close(bundle, record, history, cancel=cancel)
            name = bundle.layout.record.name
            more = f"; its {name} was missing, and was restored from the history" if lost else ""
            return dataclasses.replace(found, message=found.message + more)
        if dead:
            return _finish(bundle, history)
        # Its process is alive: it runs another job or, on a file system without locks, writes the reports of this one.
        if record.id not in history.ended_jobs():
            index_job(bundle, history)
        return None


def _record(bundle: JobBundle, history: History) -> JobRecord:
    """Read the record of a job; from the history if its files were removed while it ran.

    Raises:
        InputError: it is missing or damaged, and the history cannot replace it.
    """
    path = bundle.layout.record
    if is_file(path):
        return bundle.read()
    known = history.job(bundle.id)
    here = known is not None and known.owner.host == current_owner().host
    # Refuse a bundle of an ended job, or of another machine without a heartbeat.
    if known is None or known.status.ended or not (here or math.isfinite(last_beat(bundle.root))):
        raise InputError(f"is missing; remove {bundle.root}, or restore the file", path=path)
    return known


def _finish(bundle: JobBundle, history: History) -> Recovered | None:
    """Complete the end of a job that its process did not complete."""
    reported = is_file(bundle.layout.junit)
    problems: list[str] = []
    end(bundle, history, noting=_noting(problems))
    if reported:
        return None
    what = "".join(problems) or "; they were written"
    return Recovered(bundle.id, Kind.FINISHED, f"job {bundle.id} had no reports{what}")


def _close(bundle: JobBundle, record: JobRecord, history: History, *, cancel: bool) -> Recovered:
    """End a job whose process died."""
    began = record.status is JobStatus.RUNNING
    owner = record.owner
    where = "" if owner.host == current_owner().host else f" of {clean(owner.host, 100)}"
    what = DIED if began else NEVER_BEGAN
    line = f"{what} (process {owner.pid}{where})"
    if cancel:
        ending, event = Ending(JobStatus.CANCELLED, CANCELLED), ("cancelled", CANCELLED)
    else:
        ending, event = Ending(JobStatus.FAILED, record.message or what), ("recovered", line)
    problems: list[str] = []
    ended = end(bundle, history, ending, record=record, event=event, noting=_noting(problems))
    if began:
        planned = f" of {record.planned}" if record.planned is not None else ""
        line += f": kept {ended.trials}{planned} trials"
    if ended.removed:
        line += f", removed {ended.removed} unfinished"
    if ended.warnings:
        line += f"; {len(ended.warnings)} results are damaged: {ended.warnings[0]}"
    return Recovered(record.id, Kind.CLOSED, f"job {record.id} {line}{''.join(problems)}")


def _noting(problems: list[str]) -> Noting:
    """Note reports that cannot be written instead of raising: they can be made again, and a run must not stop."""

    @contextlib.contextmanager
    def noting(step: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            if step != "reports":
                raise
            why = clean(str(error) or type(error).__name__, 500)
            problems.append(f"; its reports could not be written: {why}")

    return noting


def _forget_gone(directory: Path, history: History) -> Iterator[Recovered]:
    """Delete running jobs from the history whose bundle was removed."""
    unended = tuple(status.value for status in JobStatus if not status.ended)
    for job in each(history, JOBS, Wanted(statuses=unended)):
        if not JobBundle(directory, job.id).root.exists():
            history.forget(job.id)
            message = f"job {job.id} was removed while it ran; it was deleted from the history"
            yield Recovered(job.id, Kind.FORGOTTEN, message)


@contextlib.contextmanager
def _alone(directory: Path) -> Iterator[bool]:
    """Lock the directory for recovery; yield whether that succeeded. The kernel releases it if this process dies."""
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
    """Remove bundles whose process died before it wrote `job.json`, which takes milliseconds."""
    oldest = time.time() - _ABANDONED_SECONDS
    for path in jobs.glob(".tmp-*"):
        with contextlib.suppress(OSError):
            if path.stat().st_mtime < oldest:
                remove_tree(path)
