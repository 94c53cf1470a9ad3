"""Record of the images that jobs of this machine brought, and of who needs them: a small file, locked while it is read.

    images     id -> name, digest, bytes, job that brought it, when it was used last
    claims     process -> id -> the place of the first trial that will need it; -1: one runs
    reserved   process -> name -> bytes of what it is bringing
    sizes      name -> bytes it took when it was last here

A process that died has no claims. A file that cannot be read counts as empty: then nothing is known to be a job's own,
and nothing is removed.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from ...model.base import Model
from ...model.job import Owner
from ...model.owner import is_alive
from ...system.cache import cache_directory

RUNNING = -1
"""Place of a trial that runs."""
_MOST_SIZES = 5000


class Brought(Model):
    """An image that a job brought."""

    name: str
    """As it was pulled, or the tag it was built with."""
    digest: str | None = None
    bytes: int
    job: str
    used: float


class Process(Model):
    """A process that needs images."""

    owner: Owner
    job: str
    claims: dict[str, int] = {}
    reserved: dict[str, int] = {}


class Book(Model):
    """Content of the record."""

    images: dict[str, Brought] = {}
    processes: dict[str, Process] = {}
    sizes: dict[str, int] = {}

    def process(self, owner: Owner, job: str) -> Process:
        """Return the entry of a process, which is made if need be."""
        return self.processes.setdefault(str(owner), Process(owner=owner, job=job))


class Ledger:
    """The record for one engine. Thread-safe, and safe among processes.

    Args:
        host: Address of the engine.
    """

    def __init__(self, host: str) -> None:
        name = hashlib.sha256(host.encode()).hexdigest()[:16]
        self._path = cache_directory("images") / f"{name}.json"

    @property
    def exists(self) -> bool:
        """True if any job has recorded anything."""
        return self._path.exists()

    def read(self) -> Book:
        """Return what is recorded now."""
        return _read(self._path)

    @contextlib.contextmanager
    def opened(self) -> Iterator[Book]:
        """Hold the record, and write down what was changed in it.

        Raises:
            OSError: there is no place for it.
        """
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            book = _read(self._path)
            before = book.model_dump(mode="json")
            for name, process in list(book.processes.items()):
                if not is_alive(process.owner):
                    del book.processes[name]
            yield book
            while len(book.sizes) > _MOST_SIZES:
                del book.sizes[next(iter(book.sizes))]
            after = book.model_dump(mode="json")
            if after != before:
                # What is not recorded is not removed, which harms nobody.
                with contextlib.suppress(OSError):
                    _write(self._path, after)


def _read(path: Path) -> Book:
    try:
        return Book.model_validate_json(path.read_bytes())
    except (OSError, ValidationError):
        return Book()


def _write(path: Path, content: dict[str, Any]) -> None:
    draft = path.with_suffix(f".{os.getpid()}")
    draft.write_text(json.dumps(content), "utf-8")
    draft.replace(path)
