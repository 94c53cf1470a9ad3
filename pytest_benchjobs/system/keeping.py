"""Keeping what was fetched: one process at a time, checked, put in place in one step."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from ..model.base import Model


class KeptFile(Model, defer_build=True):
    """A file of something that was fetched."""

    path: str
    """From the directory of all its files."""
    size: int
    mtime_ns: int
    sha256: str
    executable: bool

    def trouble(self, root: Path) -> str | None:
        """Reason why the file cannot be used, by its size and time; None when it can be."""
        try:
            about = (root / self.path).stat()
        except OSError:
            return f"has lost {self.path}"
        if (about.st_size, about.st_mtime_ns) != (self.size, self.mtime_ns):
            return f"was changed since it was fetched: {self.path}"
        return None

    def is_changed(self, root: Path) -> bool:
        """Read the file, and tell whether it is another one than was fetched."""
        try:
            return digest(root / self.path) != self.sha256
        except OSError:
            return True


def digest(path: Path, kind: str = "sha256") -> str:
    """Hexadecimal digest of a file.

    Raises:
        OSError: it cannot be read.
    """
    with path.open("rb") as file:
        return hashlib.file_digest(file, kind).hexdigest()


@contextlib.contextmanager
def locked(place: Path, on_wait: Callable[[], None]) -> Iterator[None]:
    """Hold the lock of a place in the cache; the kernel drops it when the process dies.

    Raises:
        OSError: the directory above cannot be written.
    """
    place.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(place.with_name(f"{place.name}.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            on_wait()
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        except OSError:
            pass  # a file system without locks: what is new is renamed into place, so two at once do no harm
        yield
    finally:
        os.close(descriptor)


def beside(place: Path) -> Path:
    """Return the path of a directory that is to become `place`. It is not made by this."""
    return place.with_name(f".{place.name}-{secrets.token_hex(4)}")


def put_in_place(new: Path, place: Path) -> None:
    """Rename a whole directory to `place`. What was there goes: it was damaged, or somebody wants it anew.

    Raises:
        OSError: it cannot be renamed.
    """
    old = beside(place)
    with contextlib.suppress(FileNotFoundError):
        place.rename(old)
    new.rename(place)
    shutil.rmtree(old, ignore_errors=True)
