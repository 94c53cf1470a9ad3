"""Merge of jobs from other machines and CI shards. Merging again changes nothing, and nothing is ever lost."""

from __future__ import annotations

import dataclasses
import datetime
import errno
import functools
import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..model.base import SCHEMA_VERSION
from ..model.errors import InputError
from ..model.job import JobRecord, JobStatus
from ..model.node_ids import paths_of_names
from ..model.owner import current_owner
from ..model.result import Origin, TrialResult
from ..store.bundle import BundleWarning, JobBundle
from ..store.copying import Copied, copy_tree
from ..store.files import remove_tree, write_error, writing
from ..store.history import History
from ..store.incoming import Action, FoundTrial, IncomingJob, MergeResult, ended_at, read_job, read_model
from ..store.layout import RESULT, JobLayout, Layout, hidden
from ..store.listing import JOBS, each
from ..store.liveness import holding, is_dead
from ..store.rows import as_text
from ..store.text import one_line
from ..store.trials import move_in, read_result, sound
from ..system.paths import is_file
from .end import end
from .judge import judge

if TYPE_CHECKING:
    from ..analysis.gate.job import Judged
    from ..report.ci import Host

PARTS = "merged_from"
"""Key of a job's metadata with the ids of the jobs it was made of."""
_LAYOUT = JobLayout(Path())
_OF_ITS_PROCESS = frozenset(
    path.name for path in (_LAYOUT.trials, _LAYOUT.lock, _LAYOUT.heartbeat, _LAYOUT.flight)
)
_WORST_FIRST = (
    JobStatus.FAILED,
    JobStatus.TIMEOUT,
    JobStatus.BUDGET,
    JobStatus.PAUSED,
    JobStatus.CANCELLED,
    JobStatus.COMPLETED,
)


class Merge:
    """Merges jobs into a results directory. `problems` has a line for each file and shard that was left out.

    `host` is the CI system that will read the reports of changed jobs. `judged` is the verdict on one job made of
    several, by the gates of the first.
    """

    def __init__(self, directory: Path, history: History, host: Host | None = None) -> None:
        self.problems: list[str] = []
        self.judged: Judged | None = None
        self._directory = directory
        self._history = history
        self._host = host
        self._parts = _parts(history)

    def bring_in(self, root: Path) -> MergeResult:
        """Merge a bundle, or its new trials.

        Raises:
            InputError: it is not a bundle.
            DiskFull, ResultsUnwritable: the results directory cannot be written.
        """
        job = self._read(root)
        whole = self._parts.get(job.record.id)
        if whole is not None:
            return _refused(
                job, f"its trials are already in job {whole}, which was merged from it and others"
            )
        return self._bring_in(job)

    def make_one(self, name: str, roots: Sequence[Path]) -> MergeResult:
        """Make one job of several: shards of one, or runs of a CI matrix. The parts themselves are not merged.

        The id is derived from those of the parts. Of a trial in several parts, the newest that passed or failed counts.
        Trials whose job is in this directory too are marked as reused: they are not new samples.

        Raises:
            InputError: a part is not a bundle or has not ended, or the parts cannot be one job, such as shards of
                different splits.
            DiskFull, ResultsUnwritable: the results directory cannot be written.
        """
        parts: dict[str, IncomingJob] = {}
        for root in roots:
            job = self._read(root)
            other = parts.setdefault(job.record.id, job).root
            if other is not None and other.resolve() != root.resolve():
                raise InputError(f"is job {job.record.id}, as is {other}; name one of the two", path=root)
        made = self._bring_in(self._as_one(name, list(parts.values())))
        if made.action == "unchanged":
            bundle = JobBundle(self._directory, made.job)
            record = bundle.read()
            if record.config.gate.judges:
                self._judge(record, bundle.outlines(record.config))
        return made

    def _judge(self, record: JobRecord, results: Sequence[TrialResult]) -> Judged | None:
        """Judge a job made of several; a path of its baseline is relative to the working directory."""
        from ..analysis.baseline.resolve import resolve, with_anchor
        from ..analysis.gate.job import broken_gate

        gate = record.config.gate
        find = functools.partial(
            resolve, history=self._history, directory=self._directory, root=Path.cwd(), job=record
        )
        try:
            baseline = None if gate.baseline is None else with_anchor(gate, find)
        except InputError as error:
            self.judged = broken_gate(record, gate, error, at=datetime.datetime.now(datetime.UTC))
        else:
            self.judged = judge(record, results, baseline)
        return self.judged

    def _read(self, root: Path) -> IncomingJob:
        warnings: list[BundleWarning] = []
        job = read_job(root, warnings)
        self.problems += [str(warning) for warning in warnings]
        return job

    def _bring_in(self, job: IncomingJob) -> MergeResult:
        if not job.record.status.ended:
            return _refused(
                job,
                f"it is still {job.record.status.value} in its own directory; if its process died, close it first with "
                "`benchjobs recover --stale-seconds 0 --dir DIR`",
            )
        bundle = JobBundle(self._directory, job.record.id)
        if not bundle.root.exists():
            known = {row.node_id for row in self._history.each_trial(bundle.id)} - job.trials.keys()
            if known:
                return _refused(
                    job, f"the history has {len(known)} more trials of it, merged without their files"
                )
            if self._add(bundle, job):
                return self._merged(bundle, bundle.read(), "added", merged=job.root is None)
        return self._update(bundle, job)

    def _add(self, bundle: JobBundle, job: IncomingJob) -> bool:
        """Move a complete new bundle to its place. False if another process was faster."""
        staging = hidden(bundle.root)
        staged = JobBundle(self._directory, bundle.id)
        staged.layout = JobLayout(staging)
        with writing(bundle.root):
            staged.layout.trials.mkdir(parents=True)
            Layout(self._directory).marker.touch()
        try:
            if job.root is not None:
                self._copy(job.root, staging)
            for trial in job.trials.values():
                self._take(staging, trial, job)
            if job.root is None:
                staged.write(job.record)
            try:
                staging.rename(bundle.root)
            except OSError as error:
                if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
                    return False
                raise write_error(bundle.root, error) from error
        finally:
            remove_tree(staging)
        return True

    def _update(self, bundle: JobBundle, job: IncomingJob) -> MergeResult:
        """Merge new trials into a bundle of this directory."""
        bundle.read()  # refuse another job of the same id, whose results would be mixed with these
        here = self._read(bundle.root)
        with holding(bundle.root) as is_ours:
            if not (is_ours and (here.record.status.ended or is_dead(bundle.root, here.record))):
                return _refused(job, "it is running here")
            if bundle.rename_by_path((trial.node_id, trial.benchmark) for trial in job.trials.values())[1]:
                here = self._read(bundle.root)
            new = [
                dataclasses.replace(trial, node_id=node_id)
                for node_id, trial in _named_by_path(job, here).items()
                if node_id not in here.trials or trial.beats(here.trials[node_id])
            ]
            later = ended_at(job.record) > ended_at(here.record) or (
                job.root is None and job.record.name != here.record.name
            )
            if not new and not later and here.record.status.ended:
                self._mend(bundle, here)
                return MergeResult(bundle.id, here.record.name, "unchanged", len(here.trials))
            with writing(bundle.root):
                bundle.layout.junit.unlink(missing_ok=True)  # marks the end as incomplete
            for trial in new:
                self._take(bundle.root, trial, job)
            base, other = here.record, job.record
            if later or not base.status.ended:
                base, other = other, base
            planned = [count for count in (base.planned, other.planned) if count is not None]
            record = base.model_copy(update={"planned": max(planned, default=None)})
            return self._merged(bundle, record, "updated", merged=True)

    def _mend(self, bundle: JobBundle, here: IncomingJob) -> None:
        """Complete a merge that was killed after it had copied trials."""
        files = {trial.node_id: as_text(trial.finished_at) for trial in here.trials.values()}
        rows = {row.node_id: row.finished_at for row in self._history.each_trial(bundle.id)}
        indexed = rows == files and self._history.job(bundle.id) == here.record
        if not (indexed and is_file(bundle.layout.junit)):
            end(bundle, self._history, host=self._host)

    def _merged(self, bundle: JobBundle, record: JobRecord, action: Action, *, merged: bool) -> MergeResult:
        """End a job with its trials, which are merged or came in as they are."""
        parts = record.config.metadata.get(PARTS)
        event = ("imported", f"merged from {parts}" if parts else action)
        gate = self._judge if parts else None
        ended = end(
            bundle, self._history, record=record, gate=gate, host=self._host, event=event, merged=merged
        )
        return MergeResult(bundle.id, record.name, action, ended.trials)

    def _take(self, root: Path, trial: FoundTrial, job: IncomingJob) -> None:
        """Copy a trial into a bundle."""
        if job.root is not None:
            final = root / trial.directory.relative_to(job.root)
        else:
            result = read_model(TrialResult, trial.directory / RESULT)
            final = JobLayout(root).trial(result.agent.label, result.scenario, result.attempt)
        staged = hidden(final)
        with writing(staged):
            staged.mkdir(parents=True)
        try:
            self._copy(trial.directory, staged)
            result = sound(read_result(staged))
            if job.root is None or result.node_id != trial.node_id:
                origin = result.reused or trial.origin
                changes = {"job": job.record.id, "reused": origin, "node_id": trial.node_id}
                result = result.model_copy(update=changes)
                with writing(staged):
                    (staged / RESULT).unlink()
            move_in(root, staged, final, result, durable=False)
        finally:
            remove_tree(staged)

    def _copy(self, source: Path, target: Path) -> None:
        copied = Copied()
        copy_tree(source, target, copied, leave=_OF_ITS_PROCESS)
        self.problems += [
            f"{source}: left out: {problem}" for problem in (*copied.left_out, *copied.problems)
        ]

    def _as_one(self, name: str, parts: list[IncomingJob]) -> IncomingJob:
        records = sorted((part.record for part in parts), key=lambda record: (record.created_at, record.id))
        for record in records:
            if not record.status.ended:
                raise InputError(f"job {record.id} is still {record.status.value}; it cannot be merged yet")
            if PARTS in record.config.metadata:
                raise InputError(f"job {record.id} was itself merged from others; name those")
            if (record.config.attempts, record.config.attempt_policy) != (
                records[0].config.attempts,
                records[0].config.attempt_policy,
            ):
                raise InputError(
                    f"jobs {records[0].id} and {record.id} differ in attempts or their policy, so they cannot be one"
                )
            if record.config.gate != records[0].config.gate:
                raise InputError(
                    f"jobs {records[0].id} and {record.id} have different gates, so no verdict is of both; run them "
                    "with the same options of the gate"
                )
            if record.config.ran_on != records[0].config.ran_on:
                self.problems.append(
                    f"job {record.id} ran on {record.config.ran_on}, {records[0].id} on {records[0].config.ran_on}"
                )
        chosen: dict[str, tuple[FoundTrial, IncomingJob]] = {}
        twice = 0
        for part in parts:
            named = _named_by_path(part, *parts)
            twice += len(part.trials) - len(named)
            for node_id, trial in named.items():
                twice += node_id in chosen
                if node_id not in chosen or trial.beats(chosen[node_id][0]):
                    chosen[node_id] = trial, part
        planned = [record.planned for record in records if record.planned is not None]
        count = max(sum(planned) - twice, len(chosen)) if len(planned) == len(records) else None
        lost = _lost_shards(records)
        if lost:
            self.problems.append(lost)
        record = _one_record(name, records, lost, self._directory).model_copy(update={"planned": count})
        marked = {
            node_id: dataclasses.replace(trial, node_id=node_id, origin=self._origin(record.id, part, trial))
            for node_id, (trial, part) in chosen.items()
        }
        return IncomingJob(record, marked, None)

    def _origin(self, whole: str, part: IncomingJob, trial: FoundTrial) -> Origin | None:
        """Find the same trial elsewhere in this directory."""
        job = self._parts.get(part.record.id, whole)
        if job == whole:
            job = part.record.id
            if not JobBundle(self._directory, job).root.exists():
                return None
        row = self._history.trial(job, trial.node_id)
        return None if row is None else Origin(job=job, path=row.path, finished_at=trial.finished_at)


def _named_by_path(job: IncomingJob, *others: IncomingJob) -> dict[str, FoundTrial]:
    """Return the trials of a job under the ids by path that these jobs have of them."""
    every = (trial for one in (job, *others) for trial in one.trials.values())
    paths = paths_of_names((trial.node_id, trial.benchmark) for trial in every)
    found: dict[str, FoundTrial] = {}
    for old_id, trial in job.trials.items():
        node_id = paths.get(old_id, old_id)
        if node_id not in found or trial.beats(found[node_id]):
            found[node_id] = trial
    return found


def _one_record(name: str, records: Sequence[JobRecord], lost: str, directory: Path) -> JobRecord:
    first = records[0]
    ids = sorted(record.id for record in records)
    digest = hashlib.sha256("\n".join(ids).encode()).hexdigest()[:6]
    statuses = {record.status for record in records}
    agents = {agent.label: agent for record in records for agent in record.config.agents}
    benchmarks = dict.fromkeys(name for record in records for name in record.config.benchmarks)
    if lost:
        statuses.add(JobStatus.CANCELLED)
    return JobRecord(
        schema_version=SCHEMA_VERSION,
        id=f"{first.created_at:%Y%m%d-%H%M%S}-{digest}",
        name=name,
        status=next(status for status in _WORST_FIRST if status in statuses),
        created_at=first.created_at,
        finished_at=max(map(ended_at, records)),
        owner=current_owner(),
        config=first.config.model_copy(
            update={
                "name": name,
                "directory": directory,
                "shard": None,
                "shard_durations": None,
                "agents": tuple(agents.values()),
                "benchmarks": tuple(benchmarks),
                "metadata": {**first.config.metadata, PARTS: " ".join(ids)},
            }
        ),
        parent=first.id,
        benchmarks=tuple(sorted({name for record in records for name in record.benchmarks})),
        partial=any(record.narrowed for record in records),
        narrowed=any(record.narrowed for record in records),
        unselected_agents=_unselected(records),
        named=any(record.named for record in records),
        message=f"merged from {len(ids)} {'job' if len(ids) == 1 else 'jobs'}{lost and f'; {lost}'}",
        reproducibility=first.reproducibility,
    )


def _unselected(records: Sequence[JobRecord]) -> tuple[str, ...]:
    """Return the agents that no part selected: one that a missing part was to run is missing."""
    parts = [{*record.unselected_agents} for record in records]
    return tuple(sorted(label for label in set().union(*parts) if all({label, "*"} & part for part in parts)))


def _columns(record: JobRecord) -> set[str]:
    """Return what a job has trials of: its benchmarks, and labels of agents."""
    return {*record.benchmarks, *(agent.label for agent in record.config.agents)}


def _lost_shards(records: Sequence[JobRecord]) -> str:
    """Return a phrase with the missing shards; empty if none is missing, or nothing was sharded.

    Raises:
        InputError: parts are of different splits, and one of these is not complete.
    """
    unsplit = [record for record in records if record.config.shard is None]
    records = [record for record in records if record.config.shard is not None]
    splits = [record.split for record in records if record.split is not None]
    needs = set().union(*map(_columns, records))
    whole = max((record.planned or 0 for record in unsplit if _columns(record) >= needs), default=None)
    # A job that was not split may have them all; that one of an earlier version has not, nobody can say.
    if whole is not None and all(whole >= sum(shard.trials for shard in split.shards) for split in splits):
        return ""
    if not records:
        return ""
    there: dict[tuple[int, str], dict[int, str]] = {}
    lost: dict[tuple[int, str], list[int]] = {}
    for record in records:
        number, _, total = str(record.config.shard).partition("/")
        key = int(total), record.split.digest if record.split is not None else ""
        there.setdefault(key, {})[int(number)] = record.id
        shards = () if record.split is None else record.split.shards
        empty = {place for place, shard in enumerate(shards, start=1) if not shard.trials}
        lost[key] = [one for one in range(1, int(total) + 1) if one not in there[key] and one not in empty]
    # Shards of an earlier version may be of different totals. Judge by the total with the fewest missing shards, of
    # splits that are known if there are any.
    parts, digest = best = min(there, key=lambda key: (not key[1], len(lost[key])))
    for (cut, other), ids in there.items():
        if other != digest and other and digest and (gone := lost[cut, other]):
            one, two = next(iter(there[best].items())), next(iter(ids.items()))
            raise InputError(
                f"job {one[1]} (shard {one[0]}/{parts}) and job {two[1]} (shard {two[0]}/{cut}) are of different "
                f"splits, and {gone[0]}/{cut} of the second is not here: scenarios, options that select trials, or "
                "--bench-shard-durations differ. Run all shards of one commit, with the same options and the same file"
            )
    missing = [f"{number}/{parts}" for number in lost[best]]
    if not missing:
        return ""
    return f"{parts - len(missing)} of {parts} shards: {', '.join(missing)} {'are' if missing[1:] else 'is'} missing"


def _parts(history: History) -> dict[str, str]:
    """Return the ids of merged parts -> id of the job made of them."""
    found = {}
    for row in each(history, JOBS):
        record = history.job(row.id) if row.parent is not None else None
        if record is not None:
            found.update(dict.fromkeys(record.config.metadata.get(PARTS, "").split(), row.id))
    return found


def _refused(job: IncomingJob, message: str) -> MergeResult:
    name = job.record.name and one_line(job.record.name, 200)
    return MergeResult(job.record.id, name, "refused", len(job.trials), message)
