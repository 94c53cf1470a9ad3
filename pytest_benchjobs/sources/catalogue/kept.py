"""Benchmarks on this machine, in `<cache>/benchmarks/NAME/VERSION/`: `files/`, and `manifest.json` that lists them.

Benchmarks of a registry also have `entry.json`, by which they are known by name from then on.
"""

from __future__ import annotations

import datetime
import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from pydantic import ValidationError

from ...model.base import Model
from ...model.errors import InputError
from ...system.cache import cache_directory
from ...system.keeping import change_of
from ..rows import is_index
from .copying import is_within
from .entry import Entry

FILES = "files"
MANIFEST = "manifest.json"
ENTRY = "entry.json"


class File(Model, defer_build=True, extra="ignore"):
    """A file of a benchmark. Records of an earlier version have further keys."""

    path: str
    """Relative to the directory of the benchmark's files."""
    size: int
    mtime_ns: int


class KeptBenchmark(Model, defer_build=True):
    """Record of a fetched benchmark. Written last: without it, the benchmark counts as missing."""

    schema_version: int = 1
    name: str
    version: str
    recipe: str
    """Digest of the entry's origins. If it differs, the benchmark is fetched again."""
    origin: str
    """Origin of the files."""
    given: bool = False
    """True if the user gave the files."""
    fetched_at: datetime.datetime
    scenarios: int
    """Number of scenarios found in it."""
    files: tuple[File, ...]

    @property
    def bytes(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files)


class State(NamedTuple):
    """State of a benchmark in the cache."""

    record: KeptBenchmark | None
    """None: it has not been fetched, or it comes with a package."""
    trouble: str | None
    """Reason why it cannot be used, in a few words; None if it can."""


def state_of(entry: Entry) -> State:
    """Check the record of a benchmark, and the sizes and times of its files, not their content."""
    if entry.bundled is not None:
        return State(None, None if entry.place.is_dir() else "is missing from its package")
    try:
        record = KeptBenchmark.model_validate_json((entry.directory / MANIFEST).read_bytes())
    except (OSError, ValidationError):
        return State(None, "is not on this machine")
    if record.recipe != recipe(entry) and not record.given:
        return State(record, "was fetched from another origin than its entry names now")
    root = entry.directory / FILES
    troubles = (change_of(root, file.path, file.size, file.mtime_ns) for file in record.files)
    return State(record, next(filter(None, troubles), None))


def kept_entry(directory: Path) -> Entry | None:
    """Read the entry kept with a benchmark; None: there is none, it is unreadable, or it belongs elsewhere."""
    try:
        entry = Entry.model_validate_json((directory / ENTRY).read_bytes())
    except (OSError, ValidationError):
        return None
    return entry if entry.directory == directory else None


def kept_entries(wanted: Callable[[str], bool]) -> Iterator[Entry]:
    """Yield the entries kept with benchmarks whose names are `wanted`."""
    for path in sorted(cache_directory("benchmarks").glob(f"*/*/{ENTRY}")):
        if wanted(path.parent.parent.name) and (entry := kept_entry(path.parent)) is not None:
            yield entry


def trouble(entry: Entry) -> str | None:
    """Reason why a benchmark cannot be used from the cache, in a few words; None if it can."""
    return state_of(entry).trouble


def opened(entry: Entry, fetch: Callable[[Entry], object] | None = None) -> Path:
    """Return the directory of its files. `fetch` fetches missing files, if possible.

    Raises InputError: it is not on this machine, or is damaged.
    """
    why = trouble(entry)
    if why is not None and fetch is not None and entry.is_fetchable and entry.bundled is None:
        fetch(entry)
        why = None
    if why is not None:
        raise InputError(f"{entry} {why}; {ways(entry)}")
    return entry.place


def ways(entry: Entry) -> str:
    """Describe how to get it onto this machine, in one sentence."""
    own = f"benchjobs benchmarks fetch {entry.name} --from PATH"
    if entry.bundled is not None:
        return f"install the package again: {entry.place} is not there"
    if entry.gated is not None:
        return " ".join(entry.gated.split())
    if not entry.is_fetchable:
        return f"get its files from {entry.homepage or 'its authors'}, then run: {own}"
    return f"run: benchjobs benchmarks fetch {entry.name}; or, where there is no network: {own}"


def recipe(entry: Entry) -> str:
    """Digest of everything that decides the content of its files."""
    said = entry.model_dump(mode="json", include={"git", "files", "prepare"})
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()[:16]


def walked(root: Path) -> Iterator[Path]:
    """Yield the files below a directory, without links and indexes.

    Raises InputError: a link leads out of it, or something in it is not a file; OSError: a directory cannot be read.
    """
    for path in sorted(root.rglob("*")):
        if path.is_symlink():
            if not is_within(path, root):
                raise InputError(f"holds a link that leads out of it: {_below(path, root)[:200]}", path=root)
        elif path.is_file():
            if not is_index(path):
                yield path
        elif not path.is_dir():
            raise InputError(
                f"holds something other than a regular file: {_below(path, root)[:200]}", path=root
            )


def listed(root: Path) -> Iterator[File]:
    """Yield the records of the files below a directory.

    Raises InputError: as for `walked`; OSError: one cannot be read.
    """
    for path in walked(root):
        about = path.stat()
        yield File(path=_below(path, root), size=about.st_size, mtime_ns=about.st_mtime_ns)


def _below(path: Path, root: Path) -> str:
    return path.relative_to(root).as_posix()
