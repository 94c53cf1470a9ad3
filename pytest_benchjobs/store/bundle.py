"""Job bundles: the files of a job, which are the truth. `layout.py` has their paths.

A trial is written into a hidden directory beside its place and renamed when it has ended, with `result.json` written
last. So a reader finds a whole trial or none, whenever a process is killed.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import os
import re
import secrets
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

from ..model.errors import InfrastructureError, InputError
from ..model.job import JobConfig, JobRecord
from ..model.node_ids import by_name, paths_of_names
from ..model.result import Trial, TrialResult
from ..system.paths import is_file
from .files import remove_tree, sync_directory, write_atomically, writing
from .layout import HIDDEN_TRIAL, RESULT, JobLayout, Layout, hidden, hidden_name, namesakes, trial_path
from .outline import outlined
from .text import one_line
from .trials import (
    OCCUPIED,
    Found,
    TrialDirectory,
    as_json,
    genuine,
    move_in,
    read_result,
    read_stored,
    remove_empty,
)

_JOB_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclasses.dataclass(frozen=True, slots=True)
class BundleWarning:
    """A file of a bundle that cannot be read. `str()` is the message for the user."""

    path: Path
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


def new_job_id(now: datetime.datetime | None = None) -> str:
    """Make a unique id that sorts by time: `20261121-054712-4f9a2c`. `now` is UTC."""
    return f"{now or datetime.datetime.now(datetime.UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(3)}"


def stored(record: JobRecord) -> JobRecord:
    """Return the record as it is stored: without the values of variables for agents, which may be secrets."""
    return record.model_copy(update={"config": stored_config(record.config)})


def stored_config(config: JobConfig) -> JobConfig:
    """Return the configuration as it is stored and shown."""
    return config.model_copy(update={"env": {name: f"[redacted:{name}]" for name in config.env}})


class JobBundle:
    """The directory of one job. `layout` has the paths in it.

    Raises DiskFull, ResultsUnwritable: from everything that writes.
    """

    def __init__(self, directory: Path, job_id: str) -> None:
        if not _JOB_ID.fullmatch(job_id):
            raise InputError(f"{job_id!r} is not the id of a job")
        self.id = job_id
        self.layout: JobLayout = Layout(directory).job(job_id)
        self.root = self.layout.root

    @classmethod
    def create(cls, directory: Path, record: JobRecord) -> JobBundle:
        """Make the bundle of a new job, with its `job.json`."""
        bundle = cls(directory, record.id)
        temporary = JobLayout(hidden(bundle.root))
        with writing(bundle.root):
            temporary.trials.mkdir(parents=True)
            Layout(directory).marker.touch()
            try:
                write_atomically(temporary.record, as_json(stored(record)))
                temporary.root.rename(bundle.root)
            except BaseException:
                remove_tree(temporary.root)
                raise
            sync_directory(bundle.root.parent)
        return bundle

    @classmethod
    def open(cls, directory: Path, job_id: str) -> JobBundle:
        """Open the bundle of an existing job. Raises InputError: there is none, or it cannot be read."""
        bundle = cls(directory, job_id)
        if not is_file(bundle.layout.record):
            raise InputError(f"there is no job {job_id} in {directory}")
        return bundle

    @classmethod
    def all(cls, directory: Path) -> Iterator[JobBundle]:
        """Return the bundles of all jobs in a directory, the oldest first. Nothing is read."""
        for name in _visible(Layout(directory).jobs):
            if _JOB_ID.fullmatch(name):
                yield cls(directory, name)

    def read(self) -> JobRecord:
        """Read `job.json`. Raises InputError: it is missing, damaged, or the record of another job."""
        record = read_stored(JobRecord, self.layout.record)
        if record.id != self.id:
            raise another_job(self.root, record.id)
        return record

    def write(self, record: JobRecord) -> None:
        """Replace `job.json`. Values of variables for agents are left out, as they may be secrets."""
        write_atomically(self.layout.record, as_json(stored(record)))

    def begin(self, trial: Trial) -> TrialDirectory:
        """Make a directory for the files of a starting trial."""
        return TrialDirectory(self.root, trial)

    def put(self, trial: Trial, result: TrialResult) -> TrialResult:
        """Store a result from elsewhere, without other files; return it with its `path`."""
        path = trial_path(trial.agent.label, trial.scenario.id, trial.attempt)
        result = result.model_copy(update={"path": path})
        # A rerun without changes does little else: as few system calls as possible, and no `Path`.
        place = f"{self.root}/{path}"
        parent, _, name = place.rpartition("/")
        source = f"{parent}/{hidden_name(name)}"
        with writing(place):
            try:
                os.mkdir(parent)  # noqa: PTH102
            except FileExistsError:
                pass
            except FileNotFoundError:
                os.makedirs(parent, exist_ok=True)  # noqa: PTH103
            os.mkdir(source)  # noqa: PTH102
            with open(f"{source}/{RESULT}", "xb") as file:  # noqa: PTH123
                file.write(as_json(result))
            try:
                os.rename(source, place)  # noqa: PTH104
            except OSError as error:
                if error.errno not in OCCUPIED:
                    raise
            else:
                return result
        return move_in(self.root, Path(source), Path(place), result, durable=False)[0]

    def find(self, trial: Trial) -> TrialResult | None:
        """Read the result of a trial, if it has ended."""
        found = self._found(trial)
        return None if found is None else found[1]

    def restate(self, trial: Trial, result: TrialResult) -> None:
        """Rewrite the result of an ended trial, after a change of its facts."""
        if (found := self._found(trial)) is not None:
            write_atomically(found[0] / RESULT, as_json(result))

    def rename_by_path(self, ids: Iterable[tuple[str, str]]) -> tuple[list[TrialResult], int]:
        """Rename ended trials that an earlier version named by their benchmark; return all, and how many were renamed.

        They get those of `ids`, node ids with benchmarks, that mean the same trials.
        """
        results = list(self.results())
        ours = {result.node_id: result.benchmark for result in results}
        paths = paths_of_names((*ours.items(), *ids))
        renamed = 0
        for number, result in enumerate(results):
            if (node_id := paths.get(result.node_id, result.node_id)) in ours:
                continue
            renamed += 1
            place = self.root / result.path
            final = self.layout.trial(result.agent.label, result.scenario, result.attempt)
            now = results[number] = result.model_copy(update={"node_id": node_id})
            write_atomically(place / RESULT, as_json(now))
            if place != final:
                move_in(self.root, place, final, now)
        return results, renamed

    def results(
        self,
        warnings: list[BundleWarning] | None = None,
        written: Mapping[str, TrialResult] = MappingProxyType({}),
    ) -> Iterator[TrialResult]:
        """Read the ended trials, sorted by path. Damaged or misplaced ones go to `warnings`.

        `written` are results by path that the caller has stored itself; they are not read.
        """

        def refuse(directory: str, why: str) -> None:
            if warnings is not None:
                warnings.append(BundleWarning(self.root / directory / RESULT, why))

        def read() -> Iterator[Found]:
            for directory in trial_directories(self.root, warnings):
                try:
                    yield directory, written.get(directory) or read_result(f"{self.root}/{directory}")
                except InputError as error:
                    refuse(directory, error.message)

        for _, result in genuine(read(), self.id, refuse):
            yield result

    def outlines(
        self,
        config: JobConfig,
        warnings: list[BundleWarning] | None = None,
        written: Mapping[str, TrialResult] = MappingProxyType({}),
    ) -> list[TrialResult]:
        """Read results for reports and gates: whole where they are few, else as outlines."""
        return outlined(self.results(warnings, written), details=config.attempt_policy.aggregates)

    def sweep(self) -> int:
        """Clean up after dead writers; return how many unfinished trials were removed. Never raises.

        Complete trials are kept. Only call it when no process writes trials any more.
        """
        removed = 0
        trials = self.layout.trials
        for agent in _visible(trials):
            for scenario in _visible(f"{trials}/{agent}"):
                place = f"{trials}/{agent}/{scenario}"
                # `.tmp` before `.old`: a complete new result replaces the old one that was moved aside for it.
                names = _names(place)
                hidden_ones = [name for name in names if name.startswith(".")]
                for name in sorted(hidden_ones, reverse=True):
                    if match := HIDDEN_TRIAL.match(name):
                        removed += not self._rescue(Path(place, name), Path(place, match[1]))
                if len(hidden_ones) == len(names):  # else it has a trial, and cannot be empty
                    remove_empty(place)
            remove_empty(trials / agent)
        return removed

    def _found(self, trial: Trial) -> tuple[Path, TrialResult] | None:
        final = self.layout.trial(trial.agent.label, trial.scenario.id, trial.attempt)
        own = (trial.node_id, trial.scenario.benchmark)
        for place in dict.fromkeys((*namesakes(final, own[0]), *namesakes(final, by_name(*own)))):
            with contextlib.suppress(InputError):
                result = read_result(place)
                if result.node_id == trial.node_id or paths_of_names(
                    (own, (result.node_id, result.benchmark))
                ):
                    return place, result
        return None

    def _rescue(self, path: Path, final: Path) -> bool:
        """Move a complete trial to its place; remove any other directory."""
        try:
            if path.name.startswith(".old-") and final.exists():
                raise InputError("replaced", path=path)
            move_in(self.root, path, final, read_result(path))
        except InputError:
            remove_tree(path)
            return False
        except InfrastructureError:
            # Complete, so it stays until there is room for it.
            return True
        return True


def trial_directories(root: Path, warnings: list[BundleWarning] | None = None) -> Iterator[str]:
    """Yield the directories of ended trials, relative to `root`. Those that cannot be listed go to `warnings`."""
    for agent in _visible(f"{root}/trials", warnings):
        for scenario in _visible(f"{root}/trials/{agent}", warnings):
            place = f"trials/{agent}/{scenario}"
            for attempt in sorted(_visible(f"{root}/{place}", warnings), key=len):  # numbers, by value
                yield f"{place}/{attempt}"


def another_job(root: Path, job_id: str) -> InputError:
    """Return the error for a directory with the `job.json` of another job: a copy, or a renamed one."""
    own = one_line(job_id, 100)
    other = _JOB_ID.fullmatch(job_id) is not None and (root.parent / job_id).is_dir()
    cure = (
        f"its own directory is beside it; move this copy out of {root.parent}, or remove it"
        if other
        else f"rename {root} to {own}"
    )
    return InputError(f"is the record of job {own}: {cure}", path=JobLayout(root).record)


def _visible(directory: Path | str, warnings: list[BundleWarning] | None = None) -> list[str]:
    """Return the names of directories that are not hidden, sorted."""
    try:
        with os.scandir(directory) as entries:
            names = [
                entry.name
                for entry in entries
                if not entry.name.startswith(".") and entry.is_dir(follow_symlinks=False)
            ]
    except OSError as error:
        if warnings is not None and not isinstance(error, FileNotFoundError):
            warnings.append(BundleWarning(Path(directory), f"cannot be read: {error.strerror}"))
        return []
    return sorted(names)


def _names(directory: str) -> list[str]:
    """Return all names in a directory; none if it cannot be read."""
    try:
        return os.listdir(directory)  # noqa: PTH208  a sixth of the time of `glob`
    except OSError:
        return []
