"""Files and directories that are put in place in one step, whole, by one process at a time. Locks of the machine."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import secrets
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO

from .cache import cache_directory

_SOON, _LOOK = 0.005, 0.2
"""Seconds after which a lock is looked at once more: at first, and later."""


def version(about: os.stat_result) -> tuple[int, int, int, int]:
    """Return what is another for a file that was changed or replaced.

    Size and time are not enough: files of a tarball, of `git archive` or of a fixed build all have one time, and an
    edit may keep the size. Nobody sets the time of the last change of an inode.
    """
    return about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns


def digest(path: Path, kind: str = "sha256") -> str:
    """Hexadecimal digest of a file. Raises OSError: it cannot be read."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, kind).hexdigest()


def change_of(root: Path, path: str, size: int, mtime_ns: int) -> str | None:
    """Reason why a file that was fetched cannot be used, by its size and time; None if it can."""
    try:
        about = (root / path).stat()
    except OSError:
        return f"has lost {path}"
    if (about.st_size, about.st_mtime_ns) != (size, mtime_ns):
        return f"was changed since it was fetched: {path}"
    return None


@contextlib.contextmanager
def locked(place: Path, on_wait: Callable[[], None]) -> Iterator[None]:
    """Hold the lock of a place in the cache; the kernel drops it when the process dies.

    Raises OSError: the directory above cannot be written.
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


@contextlib.contextmanager
def taken(lock: threading.Lock | threading.Semaphore, check: Callable[[], object]) -> Iterator[None]:
    """Hold a lock of this process. `check` is called while it waits; what that raises breaks off the wait."""
    while not lock.acquire(timeout=_LOOK):
        check()
    try:
        yield
    finally:
        lock.release()


@contextlib.contextmanager
def one_of(names: Sequence[str], check: Callable[[], object]) -> Iterator[None]:
    """Hold one of these locks of the machine, whichever is free first; the kernel drops it when the process dies.

    `check` is called while it waits; what that raises breaks off the wait. Where no directory can hold locks, nobody
    waits: whoever uses them has to bear with two holders.
    """
    with contextlib.ExitStack() as stack:
        files = [stack.enter_context(_lock_file(name)) for name in names]
        pause = _SOON
        while not any(_is_ours(file) for file in files):
            check()
            time.sleep(pause)
            pause = min(2 * pause, _LOOK)
        yield


@contextlib.contextmanager
def side_by_side(name: str, *, alone: bool) -> Iterator[None]:
    """Hold a lock of the machine together with others; or `alone`, once they have released it, while new ones wait."""
    with _lock_file(f"{name}-gate") as gate, _lock_file(name) as room:
        with contextlib.suppress(OSError):  # a file system without locks: nobody waits
            fcntl.flock(gate, fcntl.LOCK_EX)
            fcntl.flock(room, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
            if not alone:
                fcntl.flock(gate, fcntl.LOCK_UN)
        yield


def _lock_file(name: str) -> IO[str]:
    directory = cache_directory("locks")
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError:
        directory = Path(tempfile.gettempdir()) / f"benchjobs-locks-{os.getuid()}"
        directory.mkdir(mode=0o700, exist_ok=True)
    return (directory / f"{name[:200]}.lock").open("w")


def _is_ours(file: IO[str]) -> bool:
    """Lock a file; True also where that is not possible at all."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


def replace_file(path: Path, content: bytes | Iterable[bytes], *, durable: bool = False) -> None:
    """Replace `path` by a file with `content`, whole or in parts: readers see the old one or the new one, never a part.

    `durable` waits until it is on the disk, so that it outlives a power cut as well as a killed process.

    Raises OSError: it cannot be written.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with temporary.open("xb") as file:
            file.writelines((content,) if isinstance(content, bytes) else content)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


def beside(place: Path) -> Path:
    """Return the path of a directory that is to become `place`. It is not made by this."""
    return place.with_name(f".{place.name}-{secrets.token_hex(4)}")


def put_in_place(new: Path, place: Path) -> None:
    """Rename a whole directory to `place`. What was there goes: it was damaged, or somebody wants it anew.

    Raises OSError: it cannot be renamed.
    """
    old = beside(place)
    with contextlib.suppress(FileNotFoundError):
        place.rename(old)
    new.rename(place)
    shutil.rmtree(old, ignore_errors=True)
