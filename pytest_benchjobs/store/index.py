"""Indexing of bundles into the history: one job, or all of them."""

from __future__ import annotations

import contextlib
import secrets
from pathlib import Path

from ..model.errors import InputError
from .bundle import BundleWarning, JobBundle
from .database import NewerHistory, is_sound
from .files import writing
from .gates import kept_gates
from .history import History
from .layout import Layout


def index_job(bundle: JobBundle, history: History, warnings: list[BundleWarning] | None = None) -> int:
    """Index a bundle into the history; return its number of trials.

    Raises InputError: `job.json` is missing or damaged; DiskFull, ResultsUnwritable: the history cannot be written.
    """
    # Read under the write lock: the job may have ended while this process waited for it.
    trials = history.replace_job(bundle.read, bundle.results(warnings))
    try:
        history.replace_gates(bundle.id, kept_gates(bundle.root))
    except InputError as error:
        if warnings is not None:
            warnings.append(BundleWarning(bundle.layout.gates, error.message))
    return trials


def rebuild(directory: Path) -> tuple[int, int, list[BundleWarning]]:
    """Index all bundles again; return the numbers of jobs and trials, and problems.

    Baselines are kept, and those that only `baselines.json` has are restored. Each job is replaced in one commit, so
    running jobs lose nothing. A damaged history is moved aside.

    Raises InputError: a newer version of this package wrote the history; it stays as it is; DiskFull,
    ResultsUnwritable: the directory cannot be written.
    """
    warnings: list[BundleWarning] = []
    jobs = trials = 0
    with _open_or_set_aside(Layout(directory).history, warnings) as history:
        gone = history.job_ids()
        for bundle in JobBundle.all(directory):
            gone.discard(bundle.id)
            try:
                trials += index_job(bundle, history, warnings)
                jobs += 1
            except InputError as error:
                warnings.append(BundleWarning(bundle.layout.record, error.message))
        for job_id in gone:
            history.forget(job_id)
        from .baselines import restore_baselines  # with models that take time to build

        try:
            restore_baselines(history)
        except InputError as error:
            warnings.append(BundleWarning(Layout(directory).baselines, error.message))
    return jobs, trials, warnings


def _open_or_set_aside(path: Path, warnings: list[BundleWarning]) -> History:
    try:
        history = History(path)
        if is_sound(history.connection):
            return history
        history.close()
    except NewerHistory:
        raise
    except InputError:
        pass
    aside = path.with_name(f"{path.name}.damaged-{secrets.token_hex(3)}")
    with writing(path):
        for suffix in ("", "-wal", "-shm"):
            with contextlib.suppress(FileNotFoundError):
                path.with_name(path.name + suffix).rename(aside.with_name(aside.name + suffix))
    warnings.append(BundleWarning(path, f"was damaged; moved to {aside.name}"))
    return History(path)
