"""How a job begins: new, as the one a detached start has announced, or as one that is taken up again."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import os
import shutil
import time
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ..job.recover import recover
from ..model.errors import BenchError, InputError
from ..model.gate import GateConfig
from ..model.job import Invocation, JobConfig, JobRecord, JobStatus, Totals
from ..model.owner import current_owner
from ..store.bundle import JobBundle, new_job_id
from ..store.files import remove_tree
from ..store.history import History
from ..store.liveness import hold, is_dead
from ..store.reproducibility import redact_arguments, reproducibility
from ..store.results import find_bundle
from . import rounds
from .asked import Asked
from .asked import asked as read
from .registry import sandbox_of
from .said import call_arguments
from .selection import is_named, is_narrowed, is_partial
from .state import state_of

if TYPE_CHECKING:
    from ..analysis.baseline import Resolved

_WAIT_SECONDS = 30.0
"""How long workers of a killed process may take to notice. xdist ends them after some ten seconds."""
_POLL_SECONDS = 0.1


@dataclasses.dataclass(frozen=True, slots=True)
class Begun:
    """A job that is ours until this process ends."""

    bundle: JobBundle
    history: History
    recovered: tuple[str, ...]
    """A line for each job whose process had died."""
    lock: int | None
    besides: int = 0
    """Results of trials that are not selected now, in a job that was taken up again. They stay."""
    gate: GateConfig = dataclasses.field(default_factory=GateConfig)
    """What the job is judged by. A job that is taken up again keeps what it had, unless gates are given anew."""
    baseline: Resolved | None = None
    """The baseline of it, as it was when the job began; None: nothing was asked for."""

    def release(self) -> None:
        """Let others take it up."""
        if self.lock is not None:
            with contextlib.suppress(OSError):
                os.close(self.lock)


def begin(config: pytest.Config, planned: int, chosen: Collection[str] = ()) -> Begun:
    """Have a bundle, the lock of the job, and the history; close the jobs whose process died.

    `planned` is how many trials are selected; for a job that is taken up again, `chosen` is which.

    Raises:
        pytest.UsageError: there is no such sandbox or job; the results directory refuses, or belongs to a newer
            version; somebody else runs the job.
    """
    asked = read(config)
    sandbox_of(config, asked.job.sandbox)  # before a directory is made for a job that cannot be
    directory = asked.job.directory
    with contextlib.ExitStack() as undo:
        gate = asked.job.gate
        try:
            directory.mkdir(parents=True, exist_ok=True)
            history = History.of(directory)
            undo.callback(history.close)
            recovered = [one.message for one in recover(directory, history)]
            if asked.resume is not None:
                bundle = find_bundle(history, asked.resume)
                interrupted = bundle.read()
                gate = _kept(interrupted.config.gate, gate)
                rounds.check(config, gate)
                baseline = _baseline(config, asked, gate, history, interrupted)
                lock = _held(bundle)
                undo.callback(os.close, lock)
                record = _taken_up(bundle, asked.job, gate)
                bundle.sweep()
                besides = sum(result.node_id not in chosen for result in bundle.results())
            else:
                new = _new(config, asked, planned)
                baseline = _baseline(config, asked, gate, history, new)
                bundle, record, is_new = _made(directory, new)
                if is_new:
                    undo.callback(remove_tree, bundle.root)
                lock = _held(bundle)
                undo.callback(os.close, lock)
                besides = 0
            shutil.rmtree(bundle.layout.flight, ignore_errors=True)
            record = record.model_copy(update={"planned": planned + besides})
            # In this order: killed at any point, it is a job that lacks reports, or one that died, and is seen to.
            for path in bundle.layout.reports:  # which would tell of a job that has ended
                path.unlink(missing_ok=True)
            history.save_job(record)
            bundle.write(record)
            kind = "created" if asked.resume is None else "resumed"
            history.add_event(record.id, kind, f"process {record.owner.pid}")
        except InputError as error:
            raise pytest.UsageError(str(error)) from None
        except (BenchError, OSError) as error:
            raise pytest.UsageError(f"no job can be kept in {directory}: {error}") from None
        undo.pop_all()
    return Begun(bundle, history, tuple(recovered), lock, besides, gate, baseline)


def _kept(had: GateConfig, now: GateConfig) -> GateConfig:
    """What a job is judged by that is taken up again: what is said now, else what was said when it began."""
    return now if now.any else had.model_copy(update={"exit": now.exit or had.exit})


def _baseline(
    config: pytest.Config, asked: Asked, gate: GateConfig, history: History, job: JobRecord
) -> Resolved | None:
    """What the job is to be judged by. A mistake in it is said before anything is paid for.

    Raises:
        InputError: there is no such baseline, and the user did not say that this is a first run; it cannot be read.
    """
    if gate.baseline is None:
        return None
    from ..analysis.baseline import resolve, usable

    try:
        found = resolve(
            gate.baseline,
            history=history,
            directory=asked.job.directory,
            root=config.rootpath,
            job=job,
            benchmarks=state_of(config).benchmarks,
        )
        return usable(found, gate)
    except InputError as error:
        said = gate.baseline == asked.job.gate.baseline
        blame = asked.baseline_origin if said else f"the baseline job {job.id} was asked for"
        raise InputError(f"{blame}: {error}") from None


def _held(bundle: JobBundle) -> int:
    """The lock of a job. Whoever looks after a job that died has it for a moment, and its workers for some seconds."""
    deadline = time.monotonic() + _WAIT_SECONDS
    while (lock := hold(bundle.root)) is None:
        record = bundle.read()
        if _is_run(bundle, record) or time.monotonic() > deadline:
            raise InputError(f"job {bundle.id} is running; see `benchjobs watch {bundle.id}`")
        time.sleep(_POLL_SECONDS)
    return lock


def _is_run(bundle: JobBundle, record: JobRecord) -> bool:
    return not record.status.ended and not is_dead(bundle.root, record)


def _new(config: pytest.Config, asked: Asked, planned: int) -> JobRecord:
    now = datetime.datetime.now(datetime.UTC)
    arguments = call_arguments(config)
    return JobRecord(
        id=asked.job_id or new_job_id(now),
        name=asked.job.name,
        status=JobStatus.RUNNING,
        created_at=now,
        owner=current_owner(),
        config=asked.job,
        planned=planned,
        partial=is_partial(config),
        narrowed=is_narrowed(config),
        named=is_named(config),
        invocation=Invocation(
            arguments=tuple(redact_arguments(arguments)),
            directory=Path(config.invocation_params.dir),
            rootdir=config.rootpath,
        ),
        parent=asked.parent or asked.rescore,
        reproducibility=reproducibility(["pytest", *arguments], config.rootpath),
    )


def _made(directory: Path, record: JobRecord) -> tuple[JobBundle, JobRecord, bool]:
    """The bundle of a new job, and whether it is new: one that was announced gets this process as its owner."""
    try:
        announced = JobBundle.open(directory, record.id).read()
    except InputError:
        return JobBundle.create(directory, record), record, True
    if announced.status is not JobStatus.INITIALIZING:
        raise InputError(
            f"job {record.id} is there already; take it up again with --bench-resume {record.id}"
        )
    record = record.model_copy(update={"created_at": announced.created_at})
    return JobBundle.open(directory, record.id), record, False


def _taken_up(bundle: JobBundle, now: JobConfig, gate: GateConfig) -> JobRecord:
    """The record of a job that was interrupted, or had errors, and is ours now."""
    record = bundle.read()
    if _is_run(bundle, record):  # where there are no locks
        raise InputError(f"job {bundle.id} is running; see `benchjobs watch {bundle.id}`")
    if _attempts(record.config) != _attempts(now):
        # Half of its results would be attempts of one kind of verdict, half of another.
        raise InputError(
            f"job {bundle.id} has {_attempts(record.config)}, and can only be finished so; here it is {_attempts(now)}"
        )
    return record.model_copy(
        update={
            "status": JobStatus.RUNNING,
            "owner": current_owner(),
            "finished_at": None,
            "message": None,
            # What it is judged by may be said anew; what it is may not.
            "config": record.config.model_copy(update={"gate": gate}),
            "totals": Totals(),
            "resumed_at": (*record.resumed_at, datetime.datetime.now(datetime.UTC)),
        }
    )


def _attempts(config: JobConfig) -> str:
    own = [f"{name} {one.attempts}" for name, one in sorted(config.per_benchmark.items()) if one.attempts]
    others = f" ({', '.join(own)})" if own else ""
    return f"--bench-attempts {config.attempts}{others} --bench-attempt-policy {config.attempt_policy}"
