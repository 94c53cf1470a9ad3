"""Record of the images that jobs of this machine brought, and of who needs them: a small file, locked while it is read.

    images     id -> name, bytes, job that brought it, when it was used last
    claims     process -> id -> the place of the first trial that will need it; -1: one runs
    reserved   process -> name -> bytes of what it is bringing
    removing   process -> ids of what it is removing, outside of the lock: that may take long
    sizes      name -> bytes it took when it was last here
    told       name -> bytes it has as its registry said

A process that died needs and removes nothing. A file that cannot be read counts as empty: then nothing is known to be a
job's own, and nothing is removed.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from ...model.base import Model
from ...model.job import Owner
from ...model.owner import is_alive
from ...system.cache import cache_directory
from ...system.keeping import one_of, taken

RUNNING = -1
"""Place of a trial that runs."""
_MOST_SIZES = 5000
_MOST_IMAGES = 1000
"""Images of jobs that no process works on. A job that is resumed knows as many of those it brought."""

Stamp = tuple[int, int, int]
"""A state of the record: two differ if anything was written between them."""


class Brought(Model):
    """An image that a job brought."""

    name: str
    """As it was pulled, or the tag it was built with."""
    bytes: int
    job: str
    used: float


class Sizes(Model):
    """Bytes of an image, as far as its registry knows."""

    stored: int
    """As it is sent: most registries have layers compressed."""
    unpacked: int
    """At most, but for layers that are compressed very well."""


class Process(Model):
    """A process that needs images."""

    owner: Owner
    job: str
    claims: dict[str, int] = {}
    reserved: dict[str, int] = {}
    removing: list[str] = []


class Book(Model):
    """Content of the record."""

    images: dict[str, Brought] = {}
    processes: dict[str, Process] = {}
    sizes: dict[str, int] = {}
    told: dict[str, Sizes] = {}

    def process(self, owner: Owner, job: str) -> Process:
        """Return the entry of a process, which is made if need be."""
        return self.processes.setdefault(str(owner), Process(owner=owner, job=job))

    def is_going(self, image: str) -> bool:
        """Return True if a process is removing this image."""
        return any(
            image in process.removing and is_alive(process.owner) for process in self.processes.values()
        )

    def prune(self) -> None:
        """Forget what is of least use, if there is too much: what is not recorded is not removed, that is all."""
        for sizes in (self.sizes, self.told):
            for name in list(sizes)[: max(0, len(sizes) - _MOST_SIZES)]:
                del sizes[name]
        if len(self.images) <= _MOST_IMAGES:
            return
        jobs = {process.job for process in self.processes.values()}
        left = [image for image, brought in self.images.items() if brought.job not in jobs]
        left.sort(key=lambda image: self.images[image].used)
        for image in left[: max(0, len(left) - _MOST_IMAGES)]:
            del self.images[image]


class Ledger:
    """The record for one engine. Thread-safe, and safe among processes.

    Args:
        host: Address of the engine.
    """

    def __init__(self, host: str) -> None:
        name = hashlib.sha256(host.encode()).hexdigest()[:16]
        self._path = cache_directory("images") / f"{name}.json"
        self._name = f"images-{name}"
        self._lock = threading.Lock()
        """Threads of this process wait here, each for its turn; processes look now and then."""

    @property
    def exists(self) -> bool:
        """True if any job has recorded anything."""
        return self._path.exists()

    def stamp(self) -> Stamp | None:
        """Return the state of the record; None: there is none."""
        try:
            about = self._path.stat()
        except OSError:
            return None
        return about.st_mtime_ns, about.st_ino, about.st_size

    def read(self) -> Book:
        """Return what is recorded now."""
        return _read(self._path)[0]

    @contextlib.contextmanager
    def opened(self, check: Callable[[], object] = lambda: None) -> Iterator[Book]:
        """Hold the record, and write down what was changed in it. Only for moments: others wait.

        `check` is called while this waits for others; what it raises breaks off the wait.

        Raises:
            OSError: there is no place for it.
        """
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with taken(self._lock, check), one_of([self._name], check):
            book, before = _read(self._path)
            for name, process in list(book.processes.items()):
                if not is_alive(process.owner):
                    del book.processes[name]
            yield book
            book.prune()
            after = book.model_dump_json()
            if after != before:
                # What is not recorded is not removed, which harms nobody.
                with contextlib.suppress(OSError):
                    _write(self._path, after)


def _read(path: Path) -> tuple[Book, str]:
    """Return what is recorded, and how that is written."""
    try:
        content = path.read_text("utf-8")
        return Book.model_validate_json(content), content
    except (OSError, ValueError):  # also a file that is no text, or says something else
        return (empty := Book()), empty.model_dump_json()


def _write(path: Path, content: str) -> None:
    draft = path.with_suffix(f".{os.getpid()}")
    draft.write_text(content, "utf-8")
    draft.replace(path)
