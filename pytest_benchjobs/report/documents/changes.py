"""Documents of commands that write: files, baselines, secrets, what is fetched, what is removed."""

from __future__ import annotations

import datetime
from typing import Literal

from ...model.base import Model
from . import Document
from .jobs import RecoveredJob


class WrittenFile(Model):
    """A file or directory, and what was done with it."""

    path: str
    action: Literal["wrote", "added", "kept"]
    """`added`: something was added to what it held; `kept`: it was there, and stays as it is."""


class WrittenDocument(Document):
    """`init`, `scenario new`, `export`, `export-viewer-data` and `baseline export`: the files they wrote."""

    files: tuple[WrittenFile, ...]
    notes: tuple[str, ...] = ()
    """Facts about the content, and what to do next."""

    @classmethod
    def of(cls, path: object, notes: tuple[str, ...] = ()) -> WrittenDocument:
        """Tell that one file, or a directory of files, was written."""
        return cls(files=(WrittenFile(path=str(path), action="wrote"),), notes=notes)


class BaselineChange(Document):
    """`baseline set`, `baseline accept` and `baseline delete`."""

    baseline: str
    jobs: tuple[str, ...]
    """Its jobs now, the newest first; none: it was deleted."""
    before: tuple[str, ...]
    """Its jobs until then; none: it is new."""
    notes: tuple[str, ...] = ()
    """Reasons why gates may hardly be measured by it, and losses that would turn a gate red."""


class SecretChange(Document):
    """`secret set` and `secret delete`."""

    name: str
    action: Literal["set", "deleted"]
    kept: str | None = None
    """The keyring, or the file; null: it was deleted."""
    fingerprint: str | None = None


class Fetched(Model):
    """An agent's package or a benchmark."""

    name: str
    action: Literal["fetched", "present", "nothing"]
    """`present`: it was on this machine already; `nothing`: there is nothing to fetch."""
    directory: str | None = None

    @classmethod
    def of(cls, name: object, directory: object, *, is_new: bool) -> Fetched:
        """Tell of what is in a directory now."""
        return cls(name=str(name), action="fetched" if is_new else "present", directory=str(directory))


class FetchedDocument(Document):
    """`agents fetch` and `benchmarks fetch`."""

    fetched: tuple[Fetched, ...]


class BrokenScenario(Model):
    """An entry for bench-known.toml."""

    scenario: str
    benchmark: str
    mode: str
    reason: str
    until: datetime.date


class ExceptionsDocument(Document):
    """`benchmarks exceptions`: scenarios known to be broken, as in bench-known.toml."""

    known: tuple[BrokenScenario, ...]


class SweptEngine(Model):
    """What was removed from the engine."""

    containers_and_networks: int
    kept: int
    """Kept file systems of trials."""
    bytes: int
    """Their size."""
    busy: int
    """Kept file systems that cannot be removed now."""


class CollectedDocument(Document):
    """`gc`."""

    engine: SweptEngine | None
    """null: no engine answered."""
    logs: int
    """Logs of detached jobs that were removed."""
    recovered: tuple[RecoveredJob, ...]
    repaired: tuple[RecoveredJob, ...]
    """Jobs that had ended without reports, which were completed."""
    problems: tuple[str, ...]
    """Jobs that could not be closed, and why."""


class RebuiltDocument(Document):
    """`db rebuild`."""

    jobs: int
    trials: int
    warnings: tuple[str, ...]
    """Files that were left out, and why."""
