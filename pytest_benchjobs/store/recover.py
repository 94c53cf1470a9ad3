"""Making sense of jobs whose process died: what had ended is kept and indexed, what had not is removed."""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from ..model.errors import BenchError, InputError
from ..model.job import JobRecord, JobStatus
from ..model.owner import is_alive
from .bundle import BundleWarning, JobBundle
from .database import NewerHistory
from .files import remove_tree, writing
from .history import FILE, History
from .text import clean
from .totals import totals

_LOCK = ".recover.lock"
_ABANDONED_SECONDS = 3600.0
Ended = Callable[[JobBundle, JobRecord], None]


def index_job(bundle: JobBundle, history: History, warnings: list[BundleWarning] | None = None) -> int:
    """Bring the history in line with a bundle; returns how many trials it has.

    Raises:
        InputError: `job.json` is missing or damaged.
        DiskFull, ResultsUnwritable: the history refuses.

    """
    return history.replace_job(bundle.read(), bundle.results(warnings))


def recover(directory: Path, history: History, ended: Ended | None = None) -> list[str]:
    """Close the jobs whose process died without closing them; returns a line for the user for each.

    Jobs which the history knows to have ended are not looked at. While another process does the same, nothing
    is done. `ended` is called with each job that was closed, to write its reports; what it raises is told in the
    line of the job.

    Raises:
        DiskFull, ResultsUnwritable: the directory refuses.

    """
    if not (directory / "jobs").is_dir():
        return []
    lines: list[str] = []
    with _alone(directory) as alone:
        if not alone:
            return []
        known = history.ended_jobs()
        for bundle in JobBundle.all(directory):
            if bundle.id in known:
                continue
            try:
                line = _recover_job(bundle, history, ended)
            except BenchError as error:
                line = f"job {bundle.id} could not be recovered: {error}"
            if line is not None:
                lines.append(line)
        _remove_abandoned(directory / "jobs")
    return lines


def rebuild(directory: Path) -> tuple[int, int, list[BundleWarning]]:
    """Index all bundles anew; returns the number of jobs and of trials, and what could not be read.

    Each job is replaced in one commit, so jobs that run meanwhile lose nothing. A damaged history is moved
    aside.

    Raises:
        InputError: a newer version of this package wrote the history; it stays as it is.
        DiskFull, ResultsUnwritable: the directory refuses.

    """
    warnings: list[BundleWarning] = []
    jobs = trials = 0
    with _open_or_set_aside(directory / FILE, warnings) as history:
        gone = history.job_ids()
        for bundle in JobBundle.all(directory):
            gone.discard(bundle.id)
            try:
                trials += index_job(bundle, history, warnings)
                jobs += 1
            except InputError as error:
                warnings.append(BundleWarning(bundle.root / "job.json", error.message))
        for job_id in gone:
            history.forget(job_id)
    return jobs, trials, warnings


def _recover_job(bundle: JobBundle, history: History, ended: Ended | None) -> str | None:
    record = bundle.read()
    if is_alive(record.owner):
        return None
    if record.status.ended:
        # It ended properly; only the history missed it.
        index_job(bundle, history)
        return None
    removed = bundle.sweep()
    warnings: list[BundleWarning] = []
    record = _closed(bundle, record, warnings)
    bundle.write(record)
    trials = index_job(bundle, history)
    planned = f" of {record.planned}" if record.planned is not None else ""
    line = f"job {record.id} died while it ran (process {record.owner.pid}): kept {trials}{planned} trials"
    if removed:
        line += f", removed {removed} unfinished"
    if warnings:
        line += f"; {len(warnings)} results are damaged: {warnings[0]}"
    if ended is not None:
        try:
            ended(bundle, record)
        except Exception as error:
            # Reports can be made again from the bundle; the session that recovers has trials of its own to run.
            why = clean(str(error) or type(error).__name__, 500)
            line += f"; its reports could not be written: {why}"
    return line


def _closed(bundle: JobBundle, record: JobRecord, warnings: list[BundleWarning]) -> JobRecord:
    results = list(bundle.results(warnings))
    last = max((result.finished_at for result in results), default=record.created_at)
    return record.model_copy(
        update={"status": JobStatus.FAILED, "finished_at": last, "totals": totals(results)}
    )


@contextlib.contextmanager
def _alone(directory: Path) -> Iterator[bool]:
    """Whether no other process recovers the same directory. The kernel lets go of the lock if we die."""
    path = directory / "jobs" / _LOCK
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


def _open_or_set_aside(path: Path, warnings: list[BundleWarning]) -> History:
    try:
        return History(path)
    except InputError as error:
        if isinstance(error, NewerHistory):
            raise
        aside = path.with_name(f"{path.name}.damaged-{secrets.token_hex(3)}")
        with writing(path):
            for suffix in ("", "-wal", "-shm"):
                with contextlib.suppress(FileNotFoundError):
                    path.with_name(path.name + suffix).rename(aside.with_name(aside.name + suffix))
        warnings.append(BundleWarning(path, f"was damaged; moved to {aside.name}"))
        return History(path)
