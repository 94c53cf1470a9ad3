"""Fetching benchmarks, once per machine: checked, then put in place atomically."""

from __future__ import annotations

import contextlib
import datetime
import errno
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from ...model.errors import BenchError, InfrastructureError, InputError
from ...system.keeping import beside, locked, put_in_place, replace_file
from ...system.units import size
from . import given as users
from .download import Progress, download
from .entry import Entry, load
from .kept import ENTRY, FILES, MANIFEST, KeptBenchmark, kept_entry, listed, recipe, trouble, walked, ways
from .repository import check_out

_FULL = {errno.ENOSPC, errno.EDQUOT}
_OF_CONTENT = {
    errno.ENAMETOOLONG,
    errno.ENOTDIR,
    errno.EISDIR,
    errno.ENOENT,
    errno.EEXIST,
    errno.ELOOP,
    errno.EINVAL,
}


def fetch(
    entry: Entry,
    on_progress: Progress,
    *,
    given: Path | None = None,
    force: bool = False,
    keep_entry: bool = False,
) -> bool:
    """Make sure that a benchmark is in the cache. False: it was there.

    Args:
        entry: Its entry, with its origin.
        on_progress: Callback for lines about progress.
        given: File or directory that the user gives instead of the network.
        force: Fetch it also if it is there.
        keep_entry: Keep the entry as well, so that the benchmark is known by name from now on.

    Raises InputError: the given files are not the benchmark, or there is no address to fetch it from;
    InfrastructureError: it cannot be fetched or written.
    """
    if entry.bundled is not None:
        if given is not None:
            raise InputError(
                f"{entry} comes with the package, in {entry.place}; "
                "to change it, copy it to benchmarks/, under another name"
            )
        return False
    anew = force or given is not None
    keep_entry = keep_entry or (entry.directory / ENTRY).is_file()
    is_known = not keep_entry or kept_entry(entry.directory) == entry
    if not anew and is_known and trouble(entry) is None:
        return False
    if given is None and not entry.is_fetchable:
        raise InputError(f"{entry} cannot be fetched from anywhere; {ways(entry)}")
    try:
        with locked(entry.directory, lambda: on_progress(f"{entry}: another process is fetching it")):
            fetches = anew or trouble(entry) is not None
            if fetches:
                _fetch(entry, on_progress, given)
            if keep_entry:
                replace_file(entry.directory / ENTRY, entry.model_dump_json(exclude_defaults=True).encode())
            return fetches
    except OSError as error:
        what = "Make room there" if error.errno in _FULL else "Make the place writable"
        raise InfrastructureError(
            f"{entry} cannot be kept in {entry.directory}: {error.strerror or error}. "
            f"{what}, or name another place in BENCHJOBS_CACHE"
        ) from None


def _fetch(entry: Entry, on_progress: Progress, given: Path | None) -> None:
    """Fetch a benchmark; the caller holds the lock."""
    new = beside(entry.directory)
    raw = new / "raw"
    raw.mkdir(parents=True)
    # Files of an interrupted fetch; we hold the lock, so no other process uses them.
    partial = entry.directory.with_name(f".{entry.directory.name}.partial")
    try:
        with _naming(entry, new, given):
            if given is not None:
                users.place(entry, given, new / "room", raw)
            else:
                try:
                    _bring(entry, partial, raw, on_progress)
                except InfrastructureError as error:
                    own = f"benchjobs benchmarks fetch {entry.name} --from PATH"
                    raise InfrastructureError(f"{entry}: {error}. Where there is no network: {own}") from None
            found = _prepared(entry, new, on_progress)
        _keep(entry, new, found, on_progress, given)
    finally:
        shutil.rmtree(new, ignore_errors=True)
    shutil.rmtree(partial, ignore_errors=True)


def _bring(entry: Entry, partial: Path, raw: Path, on_progress: Progress) -> None:
    """Fetch everything from its origins."""
    for number, origin in enumerate(entry.git):
        check_out(origin, partial / f"git-{number}", raw, on_progress)
    for file in entry.files:
        kept = partial / file.name
        kept.parent.mkdir(parents=True, exist_ok=True)
        download(file, kept, on_progress)
        (raw / file.name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(kept, raw / file.name)


@contextlib.contextmanager
def _naming(entry: Entry, new: Path, given: Path | None) -> Iterator[None]:
    """Context in which errors of the content name the given file, not a temporary path.

    Raises InputError: the given files are not the benchmark; InfrastructureError: the fetched files are not the
    benchmark; OSError: the cache cannot be written.
    """
    try:
        yield
    except InputError as error:
        if given is not None and error.path in (given, given.resolve()):
            raise InputError(error.message, path=given) from None
        why = str(error)
    except OSError as error:
        # Files read here were just written, so the cache fails, or a name is impossible.
        if error.errno not in _OF_CONTENT:
            raise
        why = f"{error.strerror}: {os.fsdecode(error.filename or '')}"
    except (BenchError, MemoryError):
        raise
    except Exception as error:
        # Readers of datasets, including those of other packages, get rows of any form.
        why = f"cannot be read: {type(error).__name__}: {str(error)[:300]}"
    else:
        return
    for name in ("room", "raw", FILES):
        place = str(new / name)
        why = why.replace(f"{place}/", "").replace(place, "the files")
    if given is None:
        raise InfrastructureError(f"{entry}: the fetched files are not the benchmark: {why}") from None
    raise InputError(f"is not {entry}: {why}", path=given) from None


def _prepared(entry: Entry, new: Path, on_progress: Progress) -> int:
    """Prepare the fetched files, and list their scenarios; returns the number of scenarios.

    Raises InputError: there is none, or a mistake.
    """
    from ..protocol import Unsupported

    files = new / FILES
    for _ in walked(new / "raw"):
        pass  # raises for forbidden files, before anything reads them
    if entry.prepare is None:
        (new / "raw").rename(files)
    else:
        on_progress(f"{entry}: preparing it")
        files.mkdir()
        load(entry.prepare)(new / "raw", files)
        shutil.rmtree(new / "raw")
    shutil.rmtree(new / "room", ignore_errors=True)
    found = 0
    for source in entry.sources(files):
        try:
            found += len(source.refs())
        except Unsupported:
            found += 1
    if not found:
        raise InputError("no scenario was found in it")
    return found


def _keep(entry: Entry, new: Path, found: int, on_progress: Progress, given: Path | None) -> None:
    """Write the record of the fetched files, and put them in place."""
    record = KeptBenchmark(
        name=entry.name,
        version=entry.version,
        recipe=recipe(entry),
        origin=str(given.absolute())
        if given
        else ", ".join(map(str, (*entry.git, *(file.url for file in entry.files)))),
        given=given is not None,
        fetched_at=datetime.datetime.now(datetime.UTC),
        scenarios=found,
        files=tuple(listed(new / FILES)),
    )
    (new / MANIFEST).write_text(record.model_dump_json(indent=1), "utf-8")
    put_in_place(new, entry.directory)
    of = "" if found == entry.scenarios else f" of {entry.scenarios}"
    on_progress(f"{entry}: {found}{of} scenarios, {size(record.bytes)} in {entry.directory}")
