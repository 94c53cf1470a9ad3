"""Record of the images that jobs of this machine brought, and of who needs them: a small file, locked while it changes.

A process that died needs nothing. A file that cannot be read counts as empty: then nothing is known to be a job's own,
and nothing is removed.
"""

from __future__ import annotations

import contextlib
import hashlib
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from ...model.base import Model
from ...model.job import Owner
from ...model.owner import is_alive
from ...system.cache import cache_directory
from ...system.keeping import one_of, replace_file, taken, version

RUNNING = -1
"""Place of a trial that runs."""
_MOST_SIZES = 5000
_MOST_IMAGES = 1000
"""Images of jobs that no process works on. A job that is resumed knows as many of those it brought."""


class Brought(Model):
    """An image that a job brought."""

    name: str
    """As it was pulled, or the tag it was built with."""
    bytes: int
    job: str
    used: float
    """Time at which it was used last."""


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
    needs: dict[str, int] = {}
    """Id of an image -> place of the first trial that will need it."""
    bringing: dict[str, int] = {}
    """Name of an image that it pulls or builds -> bytes it is expected to take."""


class Record(Model, frozen=False):
    """Content of the file."""

    images: dict[str, Brought] = {}
    """By id."""
    processes: dict[str, Process] = {}
    sizes: dict[str, int] = {}
    """Name of an image -> bytes it took when it was last here."""
    told: dict[str, Sizes] = {}
    """Name of an image -> what its registry said."""
    removals: int = 0
    """Number of images that jobs have removed."""

    def process(self, owner: Owner, job: str) -> Process:
        """Return the entry of a process, which is made if need be."""
        return self.processes.setdefault(str(owner), Process(owner=owner, job=job))

    def bytes_of(self, job: str) -> int:
        """Return the bytes of all images that a job brought, or is bringing."""
        bringing = (process.bringing for process in self.processes.values() if process.job == job)
        brought = (image.bytes for image in self.images.values() if image.job == job)
        return sum(brought) + sum(sum(sizes.values()) for sizes in bringing)

    def removable(self, job: str, *, ahead: bool) -> list[str]:
        """Return the images that a job may remove, in the order in which they go.

        First what no trial needs, the least recently used first; then, but not for what is brought `ahead` of trials,
        what is needed last. What a trial that runs or another job needs stays.
        """
        needs: dict[str, int] = {}
        for process in self.processes.values():
            for image, place in process.needs.items():
                needs[image] = min(place if process.job == job else RUNNING, needs.get(image, place))
        brought = {image: one.used for image, one in self.images.items() if one.job == job}
        unneeded = sorted(brought.keys() - needs.keys(), key=lambda image: brought[image])
        coming = [image for image in brought if needs.get(image, RUNNING) != RUNNING and not ahead]
        return unneeded + sorted(coming, key=lambda image: -needs[image])

    def prune(self) -> None:
        """Forget what is of least use, if there is too much: what is not recorded is not removed, that is all."""
        for sizes in (self.sizes, self.told):
            for name in list(sizes)[: max(0, len(sizes) - _MOST_SIZES)]:
                del sizes[name]
        jobs = {process.job for process in self.processes.values()}
        left = [image for image, brought in self.images.items() if brought.job not in jobs]
        left.sort(key=lambda image: self.images[image].used)
        for image in left[: max(0, len(left) - _MOST_IMAGES)]:
            del self.images[image]


class RecordFile:
    """The record for the engine at `host`. Thread-safe, and safe among processes."""

    def __init__(self, host: str) -> None:
        name = hashlib.sha256(host.encode()).hexdigest()[:16]
        self._path = cache_directory("images") / f"{name}.json"
        self._name = f"images-{name}"
        self._parsed = (0, 0, 0, 0), Record()
        self._lock = threading.Lock()
        """Threads of this process wait here, each for its turn; processes look now and then."""

    def make_place(self) -> None:
        """Make the directory; an `OSError`, if it cannot be made."""
        self._path.parent.mkdir(parents=True, exist_ok=True)

    def read(self) -> Record:
        """Return what is recorded now, only to be looked at: it is parsed once for each time it was written."""
        try:
            about = self._path.stat()
        except OSError:
            return Record()
        state = version(about)
        if self._parsed[0] != state:
            self._parsed = state, _read(self._path)[0]
        return self._parsed[1]

    @contextlib.contextmanager
    def opened(self, check: Callable[[], object] = lambda: None) -> Iterator[Record]:
        """Hold the record, and write down what was changed in it, if there is a place for it.

        `check` is called while this waits for others; what it raises breaks off the wait.
        """
        with contextlib.suppress(OSError):
            self.make_place()
        with taken(self._lock, check), one_of([self._name], check):
            record, before = _read(self._path)
            for name, process in list(record.processes.items()):
                if not is_alive(process.owner):
                    del record.processes[name]
            try:
                yield record
            finally:
                record.prune()
                if (after := record.model_dump_json()) != before:
                    # What is not recorded is not removed, which harms nobody.
                    with contextlib.suppress(OSError):
                        replace_file(self._path, after.encode())


def _read(path: Path) -> tuple[Record, str]:
    """Return what is recorded, and how that is written."""
    try:
        content = path.read_text("utf-8")
        return Record.model_validate_json(content), content
    except (OSError, ValueError):  # also a file that is no text, or says something else
        return (empty := Record()), empty.model_dump_json()
