"""Snapshots of an agent's files in a checkout: trials see the files as they were when the job began, read-only.

In `<cache>/checkouts/NAME/DIGEST/` there is `files`, a directory or one file, which sandboxes see. The digest is of
names, contents and executable bits; permission bits are set so that any user of a sandbox can read the files.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fnmatch
import hashlib
import os
import shutil
import stat
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path, PurePosixPath

from ..model.errors import InputError
from ..sources.manifest import SUFFIXES as MANIFESTS
from ..system.cache import cache_directory
from ..system.keeping import beside, locked
from ..system.units import size

LEFT_OUT = (
    ".git",
    ".hg",
    ".svn",
    ".env",
    ".env.*",
    ".netrc",
    ".tox",
    ".nox",
    ".mypy_cache",
    ".pytest_cache",
    ".ruff_cache",
    "__pycache__",
    ".benchjobs",
)
"""Names left out of every snapshot: repositories, caches, and files that hold secrets by convention."""
_TELLING = (
    frozenset({"pyvenv.cfg"}),
    frozenset({"history.sqlite", "jobs"}),
    frozenset({"task.toml", "instruction.md"}),
)
"""Names that together mark a directory to leave out: a virtual environment, results, a task with its solution."""
_MAX_BYTES = 2 << 30
_MAX_FILES = 100_000
_UNUSED_SECONDS = 14 * 24 * 3600.0


@dataclasses.dataclass(frozen=True, slots=True)
class Snapshot:
    """Files of an agent as they were at one time."""

    files: Path
    """The copy: a directory, or one file."""
    digest: str
    """Digest of names, contents and executable bits."""
    bytes: int


@dataclasses.dataclass(frozen=True, slots=True)
class _Entry:
    name: str
    """Path from the top; empty for a snapshot of one file."""
    source: Path
    link: str | None = None
    executable: bool = False
    size: int = 0


def snapshot(source: Path, name: str, leave_out: Sequence[str] = ()) -> Snapshot:
    """Copy a file or directory of this machine into the cache, once for each content.

    Args:
        source: The file or directory.
        name: Name of the agent, for messages and the place in the cache.
        leave_out: Patterns of further paths to leave out, relative to the directory.

    Raises InputError: it does not exist, cannot be read, or is too large; OSError: the cache cannot be written.
    """
    try:
        entries = _entries(source, name, leave_out)
        digest, contents = _digest(entries), sum(entry.size for entry in entries)
    except OSError as error:
        raise InputError(
            f"agent {name}: cannot be read: {error.strerror}", path=error.filename or source
        ) from None
    place = cache_directory("checkouts") / name / digest[:32]
    found = Snapshot(place / "files", digest, contents)
    with locked(place.parent / "all", lambda: None):
        if not found.files.exists():
            _copy(entries, place)
        with contextlib.suppress(OSError):
            os.utime(place)
            _prune(place)
    return found


def _is_manifest(name: str) -> bool:
    """True for the name of a benchmark file, which contains answers, as may the files beside it."""
    return name.endswith(MANIFESTS)


def is_excluded(path: str, leave_out: Sequence[str] = ()) -> bool:
    """Return whether a path of a directory, or a directory it is in, is left out by its name or a pattern."""
    whole = PurePosixPath(path)
    return any(_is_left_out(part, leave_out) or _is_manifest(part.name) for part in (whole, *whole.parents))


def _is_left_out(path: PurePosixPath, leave_out: Sequence[str]) -> bool:
    """True if a path, relative to the directory, is left out, by its name or by a pattern."""
    return any(fnmatch.fnmatchcase(path.name, pattern) for pattern in LEFT_OUT) or any(
        fnmatch.fnmatchcase(str(path), pattern.rstrip("/")) for pattern in leave_out
    )


def _entries(source: Path, name: str, leave_out: Sequence[str]) -> list[_Entry]:
    """List the entries of a snapshot, sorted by name."""
    about = source.stat()
    if stat.S_ISREG(about.st_mode):
        return [_Entry("", source, executable=bool(about.st_mode & 0o111), size=about.st_size)]
    if not stat.S_ISDIR(about.st_mode):
        raise InputError(f"agent {name}: is neither a file nor a directory", path=source)
    entries: list[_Entry] = []
    total = 0
    for entry in _walk(source, PurePosixPath(), leave_out):
        entries.append(entry)
        total += entry.size
        if total > _MAX_BYTES or len(entries) > _MAX_FILES:
            largest = ", ".join(_largest(entries))
            raise InputError(
                f"agent {name}: holds more than {size(_MAX_BYTES)} or {_MAX_FILES:,} files, most of it in {largest}; "
                f"name a smaller directory, or write a file {name}.agent.toml with `leave_out` under [source]",
                path=source,
            )
    return sorted(entries, key=lambda entry: entry.name)


def _walk(top: Path, below: PurePosixPath, leave_out: Sequence[str]) -> Iterator[_Entry]:
    with os.scandir(top / below) as found:
        there = sorted(found, key=lambda entry: entry.name)
    names = {entry.name for entry in there}
    if str(below) != "." and (any(told <= names for told in _TELLING) or any(map(_is_manifest, names))):
        return
    for entry in there:
        path = below / entry.name
        if _is_left_out(path, leave_out) or _is_manifest(entry.name):
            continue
        about = entry.stat(follow_symlinks=False)
        source = Path(entry.path)
        if stat.S_ISLNK(about.st_mode):
            yield _Entry(str(path), source, link=str(source.readlink()))
        elif stat.S_ISDIR(about.st_mode):
            yield from _walk(top, path, leave_out)
        elif stat.S_ISREG(about.st_mode):
            yield _Entry(str(path), source, executable=bool(about.st_mode & 0o111), size=about.st_size)


def _largest(entries: Iterable[_Entry]) -> list[str]:
    """Return the largest top-level names."""
    totals: dict[str, tuple[int, int]] = {}
    for entry in entries:
        top = entry.name.partition("/")[0]
        held, number = totals.get(top, (0, 0))
        totals[top] = (held + entry.size, number + 1)
    order = sorted(totals, key=lambda top: totals[top], reverse=True)
    return [f"{top[:100]} ({size(totals[top][0])}, {totals[top][1]:,} files)" for top in order[:3]]


def _digest(entries: Iterable[_Entry]) -> str:
    digest = hashlib.sha256()
    for entry in entries:
        if entry.link is not None:
            kind, content = "link", hashlib.sha256(os.fsencode(entry.link)).hexdigest()
        else:
            kind = "program" if entry.executable else "file"
            with entry.source.open("rb") as file:
                content = hashlib.file_digest(file, "sha256").hexdigest()
        digest.update(b"\0".join((os.fsencode(entry.name), kind.encode(), content.encode(), b"")))
    return digest.hexdigest()


def _copy(entries: Iterable[_Entry], place: Path) -> None:
    new = beside(place)
    try:
        new.mkdir(parents=True)
        files = new / "files"
        for entry in entries:
            target = files / entry.name if entry.name else files
            if entry.name:
                make_directories(files, target.parent)
            if entry.link is not None:
                target.symlink_to(entry.link)
            else:
                shutil.copyfile(entry.source, target)
                target.chmod(0o755 if entry.executable else 0o644)
        if not files.exists():
            files.mkdir(mode=0o755)
        new.rename(place)
    except BaseException:
        shutil.rmtree(new, ignore_errors=True)
        raise


def make_directories(top: Path, directory: Path) -> None:
    """Make a directory and those above it up to `top`, which any user may read."""
    for path in (*reversed(directory.relative_to(top).parents), directory.relative_to(top)):
        if not (top / path).is_dir():
            (top / path).mkdir()
            # For any umask: the agent is another user.
            (top / path).chmod(0o755)


def _prune(place: Path) -> None:
    """Remove snapshots of the same agent that no job has used for a long time."""
    for other in place.parent.iterdir():
        if other != place and other.is_dir() and time.time() - other.stat().st_mtime > _UNUSED_SECONDS:
            shutil.rmtree(other, ignore_errors=True)
