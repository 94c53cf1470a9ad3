"""Start of a job: new, announced by a detached start, or resumed."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import functools
import os
import shutil
import time
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..model.errors import BenchError, InputError
from ..model.gate import GateConfig
from ..model.job import Decisions, Invocation, JobConfig, JobRecord, JobStatus, Overrides, Split, Totals
from ..model.owner import current_owner
from ..model.usage import Usage
from ..settings.call import split
from ..settings.table import SETTINGS
from ..store.bundle import JobBundle, new_job_id
from ..store.files import remove_tree
from ..store.history import History
from ..store.index import index_job
from ..store.layout import Layout
from ..store.liveness import hold, is_dead
from ..store.reproducibility import redact_arguments, reproducibility
from ..store.totals import spent_by
from . import rounds
from .dead_jobs import recover

if TYPE_CHECKING:
    from ..analysis.baseline.resolve import Resolved
    from .job_settings import JobSettings

_WAIT_SECONDS = 30.0
"""Longest wait for the workers of a killed process to end. xdist ends them after some ten seconds."""
_POLL_SECONDS = 0.1


@dataclasses.dataclass(frozen=True, slots=True)
class Request:
    """Request for a job: everything its start depends on."""

    settings: JobSettings
    planned: Mapping[str, int]
    """Number of trials, by label of the agent."""
    arguments: tuple[str, ...]
    """Arguments of the call."""
    directory: Path
    """Working directory of the call."""
    root: Path
    """Rootdir of the project."""
    benchmarks: Collection[str] = ()
    """Benchmarks with trials to run. The baseline `last` is looked up by them."""
    partial: bool = False
    narrowed: bool = False
    split: Split | None = None
    unselected_agents: tuple[str, ...] = ()
    named: bool = False
    distributed: bool = False
    """True if trials run in several processes."""
    chosen: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Benchmarks of the trials by node id, for a resumed job."""


@dataclasses.dataclass(frozen=True, slots=True)
class Begun:
    """A job that this process owns until it ends."""

    bundle: JobBundle
    history: History
    record: JobRecord
    """The record at the start. A resumed job keeps its gates, unless new rules are given."""
    lock: int | None
    recovered: tuple[str, ...] = ()
    """A line for each recovered job, whose process had died."""
    unselected: int = 0
    """Number of results of a resumed job whose trials are not selected now. They stay."""
    spent: Usage = dataclasses.field(default_factory=Usage)
    """Usage of all results of a resumed job."""
    baseline: Resolved | None = None
    """Baseline, as it was when the job began. None: no baseline was requested."""

    def release(self) -> None:
        """Release the lock, so that other processes can resume the job."""
        if self.lock is not None:
            with contextlib.suppress(OSError):
                os.close(self.lock)


def begin(request: Request) -> Begun:
    """Make or open the bundle, lock the job, open the history; close jobs whose process died.

    Raises:
        InputError: there is no such job; the results directory cannot be written, or belongs to a newer version;
            another process runs the job.
    """
    directory = request.settings.job.directory
    with contextlib.ExitStack() as undo:
        try:
            _make(directory)
            history = History.of(directory)
            undo.callback(history.close)
            recovered = tuple(one.message for one in recover(directory, history))
            begun = (
                _resumed(request, history, undo) if request.settings.resume else _new(request, history, undo)
            )
            bundle = begun.bundle
            shutil.rmtree(bundle.layout.flight, ignore_errors=True)
            planned = sum(request.planned.values()) + begun.unselected
            decisions = Decisions(unselected=begun.unselected)
            benchmarks = tuple(sorted(request.benchmarks))
            record = begun.record.model_copy(
                update={"planned": planned, "benchmarks": benchmarks, "decisions": decisions}
            )
            # After a kill at any point, this order leaves a job without reports or a dead job; `recover` closes both.
            for path in bundle.layout.reports:  # reports of the ended job
                path.unlink(missing_ok=True)
            history.save_job(record)
            bundle.write(record)
            kind = "created" if request.settings.resume is None else "resumed"
            history.add_event(record.id, kind, f"process {record.owner.pid}")
        except InputError:
            raise
        except (BenchError, OSError) as error:
            why = getattr(error, "strerror", None) or error
            raise InputError(
                f"no job can be stored in {directory}: {why}; name another directory with --bench-dir"
            ) from None
        undo.pop_all()
    return dataclasses.replace(begun, record=record, recovered=recovered)


def _make(directory: Path) -> None:
    """Make the results directory if it is missing, with a .gitignore."""
    if directory.is_dir():
        return
    directory.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(OSError):
        Layout(directory).gitignore.write_text(
            "# Results of benchmark jobs. Delete this file to commit them.\n*\n"
        )


def _resumed(request: Request, history: History, undo: contextlib.ExitStack) -> Begun:
    """Lock an earlier job. Its record is written later."""
    assert request.settings.resume is not None  # noqa: S101  callers have looked
    from ..store.results import find_bundle

    bundle = find_bundle(history, request.settings.resume)
    interrupted = bundle.read()
    had, now = interrupted.config.gate, request.settings.job.gate
    # Gates given now override those of the job.
    gate = now if now.any else had.model_copy(update={"exit": now.exit or had.exit})
    rounds.check(request.settings.job, gate, distributed=request.distributed)
    baseline = _baseline(request, gate, history, interrupted)
    lock = _held(bundle)
    undo.callback(os.close, lock)
    record = _resumed_record(bundle, request.settings.job, gate)
    bundle.sweep()
    results, renamed = bundle.rename_by_path(request.chosen.items())
    if renamed:
        index_job(bundle, history)
    unselected = sum(result.node_id not in request.chosen for result in results)
    spent = spent_by(results)
    return Begun(bundle, history, record, lock, unselected=unselected, spent=spent, baseline=baseline)


def _new(request: Request, history: History, undo: contextlib.ExitStack) -> Begun:
    """Make the bundle of a new job, and lock it. An announced job gets this process as its owner."""
    record, directory = _new_record(request), request.settings.job.directory
    baseline = _baseline(request, request.settings.job.gate, history, record)
    try:
        announced = JobBundle.open(directory, record.id).read()
    except InputError:
        bundle = JobBundle.create(directory, record)
        undo.callback(remove_tree, bundle.root)
    else:
        if announced.status is not JobStatus.INITIALIZING:
            raise InputError(f"job {record.id} already exists; resume it with --bench-resume {record.id}")
        bundle = JobBundle(directory, record.id)
        record = record.model_copy(update={"created_at": announced.created_at})
    lock = _held(bundle)
    undo.callback(os.close, lock)
    return Begun(bundle, history, record, lock, baseline=baseline)


def _baseline(request: Request, gate: GateConfig, history: History, job: JobRecord) -> Resolved | None:
    """Return the baseline of the job. An error in it is reported before anything is spent.

    Raises:
        InputError: it cannot be read, or there is none and the job is not declared a first run.
    """
    if gate.baseline is None:
        return None
    from ..analysis.baseline.resolve import resolve, with_anchor

    find = functools.partial(
        resolve,
        history=history,
        directory=request.settings.job.directory,
        root=request.root,
        job=job,
        benchmarks=request.benchmarks,
    )
    try:
        return with_anchor(gate, find)
    except InputError as error:
        said = gate.baseline == request.settings.job.gate.baseline
        blame = request.settings.origin("baseline") if said else f"the baseline of job {job.id}"
        raise InputError(f"{blame}: {error}") from None


def _held(bundle: JobBundle) -> int:
    """Lock a job. A recovery may hold the lock for a moment, and workers of a dead process for some seconds."""
    deadline = time.monotonic() + _WAIT_SECONDS
    while (lock := hold(bundle.root)) is None:
        record = bundle.read()
        if _is_run(bundle, record) or time.monotonic() > deadline:
            raise InputError(f"job {bundle.id} is running; see `benchjobs watch {bundle.id}`")
        time.sleep(_POLL_SECONDS)
    return lock


def _is_run(bundle: JobBundle, record: JobRecord) -> bool:
    return not record.status.ended and not is_dead(bundle.root, record)


def _new_record(request: Request) -> JobRecord:
    now = datetime.datetime.now(datetime.UTC)
    arguments = redact_arguments(request.arguments)
    said = split(arguments)
    return JobRecord(
        id=request.settings.job_id or new_job_id(now),
        name=request.settings.job.name,
        status=JobStatus.RUNNING,
        created_at=now,
        owner=current_owner(),
        config=request.settings.job,
        planned=sum(request.planned.values()),
        partial=request.partial,
        narrowed=request.narrowed,
        split=request.split,
        unselected_agents=request.unselected_agents,
        named=request.named,
        invocation=Invocation(
            arguments=tuple(arguments),
            settings=said.settings,
            rest=said.rest,
            directory=request.directory,
            rootdir=request.root,
        ),
        parent=request.settings.parent or request.settings.rescore,
        reproducibility=reproducibility(["pytest", *request.arguments], request.root),
    )


def _resumed_record(bundle: JobBundle, now: JobConfig, gate: GateConfig) -> JobRecord:
    """Return the new record of a resumed job, owned by this process."""
    record = bundle.read()
    if _is_run(bundle, record):  # on file systems without locks
        raise InputError(f"job {bundle.id} is running; see `benchjobs watch {bundle.id}`")
    if _attempts(record.config) != _attempts(now):
        # Two policies would mix two kinds of verdicts in one job.
        raise InputError(
            f"job {bundle.id} has {_attempts(record.config)}; it cannot be resumed with {_attempts(now)}"
        )
    if record.config.ran_on != now.ran_on:
        raise InputError(
            f"the trials of job {bundle.id} ran on {record.config.ran_on}; it cannot be resumed on {now.ran_on}"
        )
    return record.model_copy(
        update={
            "status": JobStatus.RUNNING,
            "owner": current_owner(),
            "finished_at": None,
            "message": None,
            # A resume may change how trials run, but not what they are.
            "config": record.config.model_copy(update={**_in_force(record.config, now), "gate": gate}),
            "totals": Totals(),
            "resumed_at": (*record.resumed_at, datetime.datetime.now(datetime.UTC)),
        }
    )


def _in_force(had: JobConfig, now: JobConfig) -> dict[str, Any]:
    """Return the settings of a resumed job that the resuming call may override, overall and per benchmark."""
    names = {setting.name for setting in SETTINGS if setting.resumable}
    own, none = names & Overrides.model_fields.keys(), Overrides()
    per_benchmark = {}
    for benchmark in had.per_benchmark | now.per_benchmark:
        taken = now.per_benchmark.get(benchmark, none).model_dump(include=own)
        per_benchmark[benchmark] = had.per_benchmark.get(benchmark, none).model_copy(update=taken)
    values = {name: getattr(now, name) for name in names & JobConfig.model_fields.keys()}
    return {**values, "per_benchmark": per_benchmark}


def _attempts(config: JobConfig) -> str:
    own = [f"{name} {one.attempts}" for name, one in sorted(config.per_benchmark.items()) if one.attempts]
    others = f" ({', '.join(own)})" if own else ""
    return f"--bench-attempts {config.attempts}{others} --bench-attempt-policy {config.attempt_policy}"
