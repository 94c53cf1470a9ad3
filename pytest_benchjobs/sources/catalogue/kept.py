"""Benchmarks on this machine, in `<cache>/benchmarks/NAME/VERSION/`: `files/`, and `manifest.json` that lists them."""

from __future__ import annotations

import datetime
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

from pydantic import ValidationError

from ...model.base import Model
from ...model.errors import InputError
from ...system.keeping import KeptFile, digest
from ..rows import is_index
from .copying import is_within
from .entry import Entry

FILES = "files"
MANIFEST = "manifest.json"


class KeptBenchmark(Model):
    """Record of a benchmark that was fetched. Written last: without it there is nothing."""

    schema_version: int = 1
    name: str
    version: str
    recipe: str
    """Digest of where the entry says that it comes from. Another one makes it be fetched again."""
    origin: str
    """Place that it came from."""
    given: bool = False
    """True if the user gave the files."""
    fetched_at: datetime.datetime
    scenarios: int
    """Number of scenarios found in it."""
    files: tuple[KeptFile, ...]

    @property
    def bytes(self) -> int:
        """Of all files."""
        return sum(file.size for file in self.files)


def kept(entry: Entry) -> KeptBenchmark | None:
    """Read the record of a benchmark; None when it was not fetched."""
    try:
        return KeptBenchmark.model_validate_json((entry.directory / MANIFEST).read_bytes())
    except (OSError, ValidationError):
        return None


def trouble(entry: Entry) -> str | None:
    """Reason why a benchmark cannot be used from the cache, in a few words; None when it can be.

    Looks at sizes and times, and at no content.
    """
    record = kept(entry)
    if record is None:
        return "is not on this machine"
    if record.recipe != recipe(entry) and not record.given:
        return "was fetched from another origin than its entry names now"
    root = entry.directory / FILES
    return next((found for file in record.files if (found := file.trouble(root)) is not None), None)


def opened(entry: Entry) -> Path:
    """Return the directory of its files.

    Raises:
        InputError: it is not on this machine, or is damaged.
    """
    if (why := trouble(entry)) is not None:
        raise InputError(f"{entry} {why}; {ways(entry)}")
    return entry.directory / FILES


def ways(entry: Entry) -> str:
    """Say how it gets here, in one sentence."""
    own = f"benchjobs benchmarks fetch {entry.name} --from PATH"
    if entry.gated is not None:
        return " ".join(entry.gated.split())
    if not entry.is_fetchable:
        return f"get its files from {entry.homepage or 'its authors'}, then run: {own}"
    return f"run: benchjobs benchmarks fetch {entry.name}; or, where there is no network: {own}"


def recipe(entry: Entry) -> str:
    """Digest of what decides the content of its files."""
    said = entry.model_dump(mode="json", include={"git", "files", "prepare"})
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()[:16]


def listed(root: Path) -> Iterator[KeptFile]:
    """Yield the files below a directory but indexes, with their digests.

    Raises:
        InputError: there is a link that leads out of it, or something that is no file.
        OSError: one cannot be read.
    """
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root).as_posix()
        if path.is_symlink():
            if not is_within(path, root):
                raise InputError(f"holds a link that leads out of it: {name[:200]}", path=root)
        elif path.is_file():
            if is_index(path):
                continue
            about = path.stat()
            yield KeptFile(
                path=name,
                size=about.st_size,
                mtime_ns=about.st_mtime_ns,
                sha256=digest(path),
                executable=bool(about.st_mode & 0o111),
            )
        elif not path.is_dir():
            raise InputError(f"holds what is no plain file: {name[:200]}", path=root)
