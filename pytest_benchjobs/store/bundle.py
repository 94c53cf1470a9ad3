"""Job bundles: the files of a job, which are the truth.

    <directory>/
      jobs/
        <job id>/
          job.json  junit.xml  report.json  summary.md
          trials/<agent>/<scenario>/<attempt>/
            result.json  agent.log  trajectory.jsonl  scorers/  artifacts/  try-1/ ...

A trial is written into a hidden directory beside its place and renamed into it when it has ended, with
`result.json` written last. So whatever is killed when, a reader finds a whole trial or none.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import errno
import hashlib
import json
import os
import re
import secrets
from collections.abc import Iterator
from pathlib import Path

from pydantic import ValidationError
from pydantic_core import PydanticSerializationError

from ..model.base import Model
from ..model.errors import InfrastructureError, InputError, ResultsUnwritable
from ..model.job import JobRecord
from ..model.result import Trial, TrialResult
from .files import remove_tree, sync_directory, write_atomically, writing
from .text import plain

RESULT = "result.json"
_JOB_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_HIDDEN = re.compile(r"^\.(?:tmp|old)-[0-9a-f]+-(\d+)$")
_UNSAFE = re.compile(r"[^a-z0-9._=+-]+")
_SLUG_LIMIT = 80
_RESERVED = re.compile(r"^(con|prn|aux|nul|com\d|lpt\d)(\.|$)")


@dataclasses.dataclass(frozen=True, slots=True)
class BundleWarning:
    """A file of a bundle that cannot be read. `str()` is the message for the user."""

    path: Path
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


def new_job_id(now: datetime.datetime | None = None) -> str:
    """Sorts by time and is unique: `20261121-054712-4f9a2c` (UTC)."""
    now = now or datetime.datetime.now(datetime.UTC)
    if now.tzinfo is not None:
        now = now.astimezone(datetime.UTC)
    return f"{now:%Y%m%d-%H%M%S}-{secrets.token_hex(3)}"


def slug(text: str) -> str:
    """Make a directory name for any file system. Different texts get different names, whatever the case."""
    safe = _UNSAFE.sub("_", text.lower())[:_SLUG_LIMIT].strip("._-")
    if text and safe == text and not _RESERVED.match(safe):
        return safe
    return f"{safe or 'x'}-{_digest(text)}"


def stored(record: JobRecord) -> JobRecord:
    """Return the record as it is kept: without the values of variables for agents, which may be secrets."""
    hidden = {name: f"[redacted:{name}]" for name in record.config.env}
    return record.model_copy(update={"config": record.config.model_copy(update={"env": hidden})})


class JobBundle:
    """The directory of one job: `root`."""

    def __init__(self, directory: Path, job_id: str) -> None:
        if not _JOB_ID.fullmatch(job_id):
            raise InputError(f"{job_id!r} is not the id of a job")
        self.id = job_id
        self.root = directory / "jobs" / job_id

    @classmethod
    def create(cls, directory: Path, record: JobRecord) -> JobBundle:
        """Make the bundle of a new job, with its `job.json`.

        Raises:
            DiskFull, ResultsUnwritable: the directory refuses.

        """
        bundle = cls(directory, record.id)
        jobs = bundle.root.parent
        temporary = jobs / f".tmp-{secrets.token_hex(4)}-{record.id}"
        with writing(bundle.root):
            (temporary / "trials").mkdir(parents=True)
            try:
                write_atomically(temporary / "job.json", _record_json(record))
                temporary.rename(bundle.root)
            except BaseException:
                remove_tree(temporary)
                raise
            sync_directory(jobs)
        return bundle

    @classmethod
    def open(cls, directory: Path, job_id: str) -> JobBundle:
        """Open the bundle of a job that is there.

        Raises:
            InputError: there is none.

        """
        bundle = cls(directory, job_id)
        if not (bundle.root / "job.json").is_file():
            raise InputError(f"there is no job {job_id} in {directory}")
        return bundle

    @classmethod
    def all(cls, directory: Path) -> Iterator[JobBundle]:
        """Bundles of all jobs in a directory, the oldest first. Nothing is read."""
        for path in _visible(directory / "jobs"):
            if _JOB_ID.fullmatch(path.name):
                yield cls(directory, path.name)

    def read(self) -> JobRecord:
        """`job.json`.

        Raises:
            InputError: it is missing or damaged.

        """
        path = self.root / "job.json"
        try:
            return JobRecord.model_validate_json(path.read_bytes())
        except OSError as error:
            raise InputError(f"cannot be read: {error.strerror}", path=path) from error
        except ValidationError as error:
            raise InputError(f"is damaged or of another version: {_first(error)}", path=path) from error

    def write(self, record: JobRecord) -> None:
        """Replace `job.json`. Values of variables for agents are left out: they may be secrets.

        Raises:
            DiskFull, ResultsUnwritable: the directory refuses.

        """
        write_atomically(self.root / "job.json", _record_json(record))

    def begin(self, trial: Trial) -> TrialDirectory:
        """Make a place for the files of a trial that starts.

        Raises:
            DiskFull, ResultsUnwritable: the directory refuses.

        """
        return TrialDirectory(self.root, trial)

    def find(self, trial: Trial) -> TrialResult | None:
        """Read the result of a trial, if it has ended."""
        for place in _places(_place(self.root, trial), trial.node_id):
            with contextlib.suppress(InputError):
                result = read_result(place)
                if result.node_id == trial.node_id:
                    return result
        return None

    def results(self, warnings: list[BundleWarning] | None = None) -> Iterator[TrialResult]:
        """Read the trials that have ended, in order of their paths. What is damaged goes to `warnings`."""
        for directory in self.trial_directories():
            try:
                yield read_result(directory)
            except InputError as error:
                if warnings is not None:
                    warnings.append(BundleWarning(directory / RESULT, error.message))

    def trial_directories(self) -> Iterator[Path]:
        """Directories of the trials that have ended."""
        for agent in _visible(self.root / "trials"):
            for scenario in _visible(agent):
                yield from sorted(_visible(scenario), key=lambda path: (len(path.name), path.name))

    def sweep(self) -> int:
        """Clean up after writers that died; returns how many unfinished trials were removed. Never raises.

        A trial that was complete is kept. Only call it when nobody writes trials any more.
        """
        removed = 0
        for agent in _visible(self.root / "trials"):
            for scenario in _visible(agent):
                # `.tmp` before `.old`: a complete new result replaces the one that had stepped aside for it.
                for hidden in _hidden(scenario):
                    if match := _HIDDEN.match(hidden.name):
                        removed += not self._rescue(hidden, scenario / match[1])
                _remove_empty(scenario)
            _remove_empty(agent)
        return removed

    def _rescue(self, hidden: Path, final: Path) -> bool:
        """Put a complete trial in its place; remove anything else."""
        try:
            if hidden.name.startswith(".old-") and final.exists():
                raise InputError("replaced", path=hidden)
            _commit(self.root, hidden, final, read_result(hidden))
        except InputError:
            remove_tree(hidden)
            return False
        except InfrastructureError:
            # It is complete, so it stays until there is room for it.
            return True
        return True


class TrialDirectory:
    """Files of one trial: hidden while it runs, in their place once it has ended.

    Raises:
        DiskFull, ResultsUnwritable: from everything that writes.

    """

    def __init__(self, root: Path, trial: Trial) -> None:
        self._root = root
        self._node_id = trial.node_id
        self._final = _place(root, trial)
        self.path = self._final.with_name(f".tmp-{secrets.token_hex(4)}-{trial.attempt}")
        """Where the files are now."""
        with writing(self.path):
            self.path.mkdir(parents=True)
            self._start_clean()

    @property
    def relative(self) -> str:
        """Where the trial will be, relative to the job's directory."""
        return self._final.relative_to(self._root).as_posix()

    @property
    def agent_log(self) -> Path:
        """What the agent printed."""
        return self.path / "agent.log"

    @property
    def trajectory(self) -> Path:
        """What the agent did, step by step, if it says so."""
        return self.path / "trajectory.jsonl"

    @property
    def scorers_dir(self) -> Path:
        """What scorers keep, a directory each."""
        return self.path / "scorers"

    @property
    def artifacts_dir(self) -> Path:
        """What the scenario wants to keep."""
        return self.path / "artifacts"

    def try_dir(self, number: int) -> Path:
        """Where the files of an earlier try are."""
        return self.path / f"try-{number}"

    def set_aside(self, try_number: int) -> None:
        """Keep all files so far as evidence of a try that failed, and start clean. Close log files first."""
        with writing(self.path):
            self._remove_empty()
            aside = self.try_dir(try_number)
            aside.mkdir()
            for entry in list(self.path.iterdir()):
                if not entry.name.startswith("try-"):
                    entry.rename(aside / entry.name)
            self._start_clean()

    def commit(self, result: TrialResult) -> TrialResult:
        """Write `result.json` and move all files to their place; returns the result with its `path`.

        A result of the same trial that is already there is replaced. Two scenarios of the same name in
        different files get different places.
        """
        self._remove_empty()
        result, self._final = _commit(self._root, self.path, self._final, sound(result))
        self.path = self._final
        return result

    def discard(self) -> None:
        """Remove the files of a trial that did not end. Does nothing after `commit`. Never raises."""
        if self.path != self._final:
            remove_tree(self.path)

    def _start_clean(self) -> None:
        self.scorers_dir.mkdir()
        self.artifacts_dir.mkdir()

    def _remove_empty(self) -> None:
        _remove_empty(self.scorers_dir)
        _remove_empty(self.artifacts_dir)


def read_result(directory: Path) -> TrialResult:
    """Read the result in the directory of a trial.

    Raises:
        InputError: missing or damaged.

    """
    path = directory / RESULT
    try:
        return TrialResult.model_validate_json(path.read_bytes())
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", path=path) from error
    except ValidationError as error:
        raise InputError(f"is damaged or of another version: {_first(error)}", path=path) from error


def _commit(root: Path, source: Path, final: Path, result: TrialResult) -> tuple[TrialResult, Path]:
    """Write `result.json` and move the directory to its place, or to another one if a namesake has that."""
    for place in _places(final, result.node_id):
        path = place.relative_to(root).as_posix()
        if result.path != path or not (source / RESULT).exists():
            result = result.model_copy(update={"path": path})
            write_atomically(source / RESULT, _json(result))
        with writing(place):
            place.parent.mkdir(parents=True, exist_ok=True)
            if _settle(source, place, result.node_id):
                sync_directory(place.parent)
                return result, place
    raise ResultsUnwritable(f"{final}: a trial other than {result.node_id} has this place")


def _settle(source: Path, target: Path, node_id: str) -> bool:
    """Move a trial to its place, over an earlier result of the same one. False if another trial is there."""
    for _ in range(100):
        with contextlib.suppress(_Occupied):
            _rename(source, target)
            return True
        if _node_id(target) not in (node_id, None):
            return False
        # The old one steps aside under a name `sweep` knows, and would be moved back if we died right here.
        aside = target.with_name(f".old-{secrets.token_hex(4)}-{target.name}")
        with contextlib.suppress(FileNotFoundError):
            target.rename(aside)
        try:
            _rename(source, target)
        except _Occupied:
            continue
        except OSError:
            with contextlib.suppress(OSError):
                aside.rename(target)
            raise
        finally:
            if target.exists():
                remove_tree(aside)
        return True
    raise OSError(errno.EBUSY, f"many processes write the same trial {target}")


class _Occupied(Exception):
    """Something is there already."""


def _rename(source: Path, target: Path) -> None:
    try:
        source.rename(target)
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
            raise _Occupied from error
        raise


def _place(root: Path, trial: Trial) -> Path:
    return root / "trials" / slug(trial.agent.label) / slug(trial.scenario.id) / str(trial.attempt)


def _places(final: Path, node_id: str) -> tuple[Path, Path, Path]:
    """Where a trial may be: its own place, and two more for when a scenario of the same name has that."""
    file = node_id.rpartition("::")[0]
    return final, _beside(final, _digest(file)), _beside(final, _digest(node_id))


def _beside(final: Path, digest: str) -> Path:
    return final.parent.with_name(f"{final.parent.name}-{digest}") / final.name


def _node_id(directory: Path) -> str | None:
    try:
        return str(json.loads((directory / RESULT).read_bytes())["node_id"])
    except (OSError, ValueError, LookupError, TypeError):
        return None


def sound(result: TrialResult) -> TrialResult:
    """Return a result without what has no place in JSON, such as half a character or an object a scorer put in."""
    try:
        result.model_dump_json()
    except (PydanticSerializationError, UnicodeError):
        return TrialResult.model_validate_json(
            json.dumps(plain(result.model_dump(by_alias=True, warnings=False)))
        )
    return result


def _json(model: Model) -> bytes:
    return f"{model.model_dump_json(indent=1, by_alias=True)}\n".encode()


def _record_json(record: JobRecord) -> bytes:
    return _json(stored(record))


def _visible(directory: Path) -> list[Path]:
    try:
        with os.scandir(directory) as entries:
            names = sorted(
                entry.name
                for entry in entries
                if not entry.name.startswith(".") and entry.is_dir(follow_symlinks=False)
            )
    except OSError:
        return []
    return [directory / name for name in names]


def _hidden(directory: Path) -> list[Path]:
    try:
        return sorted(directory.glob(".*"), reverse=True)
    except OSError:
        return []


def _remove_empty(directory: Path) -> None:
    with contextlib.suppress(OSError):
        directory.rmdir()


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:8]


def _first(error: ValidationError) -> str:
    first = error.errors(include_url=False)[0]
    where = ".".join(str(part) for part in first["loc"])
    return f"{where}: {first['msg']}" if where else str(first["msg"])
