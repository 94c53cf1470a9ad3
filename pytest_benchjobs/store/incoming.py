"""Reader of bundles from elsewhere, which are untrusted.

Only regular files of reasonable size below the bundle's directory are read: no link and no pipe.
"""

from __future__ import annotations

import dataclasses
import datetime
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

from ..model.errors import InputError
from ..model.job import JobRecord
from ..model.result import Origin, Outcome, TrialResult
from .bundle import BundleWarning, JobBundle, another_job, trial_directories
from .layout import RESULT, JobLayout, Layout
from .trials import AnyModel, Found, genuine, parsed

_LIMIT = 256 << 20
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_REAL = (Outcome.PASSED, Outcome.FAILED)
Action = Literal["added", "updated", "unchanged", "refused"]


@dataclasses.dataclass(frozen=True, slots=True)
class FoundTrial:
    """A trial of a bundle."""

    directory: Path
    node_id: str
    benchmark: str
    outcome: Outcome
    finished_at: datetime.datetime
    origin: Origin | None = None
    """The trial whose result it reuses, if it is to be marked as reused."""

    def beats(self, other: FoundTrial) -> bool:
        """Return whether it is the one to keep: the newest that passed or failed, else the newest."""
        return (self.outcome in _REAL, self.finished_at) > (other.outcome in _REAL, other.finished_at)


@dataclasses.dataclass(frozen=True, slots=True)
class IncomingJob:
    """A job to merge."""

    record: JobRecord
    trials: dict[str, FoundTrial]
    """Trials by node id."""
    root: Path | None
    """Its bundle; None for a job made of several, whose trials have their own places."""


@dataclasses.dataclass(frozen=True, slots=True)
class MergeResult:
    """Result of merging a job."""

    job: str
    name: str | None
    action: Action
    trials: int
    """Number of its trials here now."""
    message: str = ""
    """Reason why the job was refused, or left as it is."""


def ended_at(record: JobRecord) -> datetime.datetime:
    """Return when a job ended, else when it was created."""
    return record.finished_at or record.created_at


def read_job(root: Path, warnings: list[BundleWarning]) -> IncomingJob:
    """Read the bundle in a directory of any name. Damaged trials go to `warnings`.

    Raises InputError: its `job.json` is missing, damaged, names an impossible job, or that of the directory beside it.
    """
    path = JobLayout(root).record
    record = read_model(JobRecord, path)
    try:
        JobBundle(root, record.id)
    except InputError as error:
        raise InputError(error.message, path=path) from None
    if (
        root.parent == Layout(root.parent.parent).jobs
        and root.name != record.id
        and (root.parent / record.id).is_dir()
    ):
        raise another_job(root, record.id)

    def refuse(directory: str, why: str) -> None:
        warnings.append(BundleWarning(root / directory / RESULT, why))

    trials = {
        result.node_id: FoundTrial(
            root / directory, result.node_id, result.benchmark, result.outcome, result.finished_at
        )
        for directory, result in incoming_results(root, record.id, refuse)
    }
    return IncomingJob(record, trials, root)


def incoming_results(root: Path, job: str, refuse: Callable[[str, str], None]) -> Iterator[Found]:
    """Yield the results of the job in a directory. `refuse` is called with damaged or misplaced ones, and why."""

    def read() -> Iterator[Found]:
        for directory in () if JobLayout(root).trials.is_symlink() else trial_directories(root):
            try:
                yield directory, read_model(TrialResult, root / directory / RESULT)
            except InputError as error:
                refuse(directory, error.message)

    return genuine(read(), job, refuse)


def read_model(model: type[AnyModel], path: Path) -> AnyModel:
    """Read a regular file with a model in JSON. Raises InputError: it is not a regular file, or damaged."""
    try:
        descriptor = os.open(path, _READ)
    except OSError as error:
        reason = "is a link" if path.is_symlink() else f"cannot be read: {error.strerror}"
        raise InputError(reason, path=path) from error
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise InputError("is not a regular file", path=path)
        if status.st_size > _LIMIT:
            raise InputError(f"is larger than {_LIMIT >> 20} MB", path=path)
        content = file.read()
    return parsed(model, content, path)
