"""Fetching benchmarks: once per machine, whoever asks first; checked, then put in place in one step."""

from __future__ import annotations

import datetime
import shutil
from pathlib import Path

from ...model.errors import InfrastructureError, InputError
from ...system.keeping import beside, locked, put_in_place
from . import given as users
from .download import Progress, download
from .entry import Entry, load
from .kept import FILES, MANIFEST, KeptBenchmark, listed, recipe, trouble, ways
from .repository import check_out


def fetch(entry: Entry, on_progress: Progress, *, given: Path | None = None, force: bool = False) -> bool:
    """Have a benchmark in the cache, from what the user gives instead of the network if anything. False: it was there.

    Raises:
        InputError: what is given is not the benchmark, or there is no address to fetch it from.
        InfrastructureError: it cannot be fetched or written.
    """
    anew = force or given is not None
    if not anew and trouble(entry) is None:
        return False
    if given is None and not entry.is_fetchable:
        raise InputError(f"{entry} cannot be fetched from anywhere; {ways(entry)}")
    try:
        with locked(entry.directory, lambda: on_progress(f"{entry}: another process is fetching it")):
            if not anew and trouble(entry) is None:
                return False
            _fetch(entry, on_progress, given)
            return True
    except OSError as error:
        raise InfrastructureError(
            f"{entry} cannot be kept in {entry.directory}: {error.strerror or error}. "
            "Make room there, or name another place in BENCHJOBS_CACHE"
        ) from None


def _fetch(entry: Entry, on_progress: Progress, given: Path | None) -> None:
    """Under the lock."""
    new = beside(entry.directory)
    raw = new / "raw"
    raw.mkdir(parents=True)
    # What was fetched when it was interrupted; the lock is ours, so nobody else is at it.
    partial = entry.directory.with_name(f".{entry.directory.name}.partial")
    try:
        if given is not None:
            users.place(entry, given, new / "room", raw)
        else:
            try:
                _bring(entry, partial, raw, on_progress)
            except InfrastructureError as error:
                own = f"benchjobs benchmarks fetch {entry.name} --from PATH"
                raise InfrastructureError(f"{entry}: {error}. Where there is no network: {own}") from None
        _finish(entry, new, on_progress, given)
    finally:
        shutil.rmtree(new, ignore_errors=True)
    shutil.rmtree(partial, ignore_errors=True)


def _bring(entry: Entry, partial: Path, raw: Path, on_progress: Progress) -> None:
    """Fetch all of it from its origins."""
    for number, origin in enumerate(entry.git):
        check_out(origin, partial / f"git-{number}", raw, on_progress)
    for file in entry.files:
        kept = partial / file.name
        kept.parent.mkdir(parents=True, exist_ok=True)
        download(file, kept, on_progress)
        (raw / file.name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(kept, raw / file.name)


def _finish(entry: Entry, new: Path, on_progress: Progress, given: Path | None) -> None:
    """Prepare what was fetched, see what is in it, and put it in place."""
    files = new / FILES
    for _ in listed(new / "raw"):
        pass  # says what must not be in it, before anything reads it
    if entry.prepare is None:
        (new / "raw").rename(files)
    else:
        on_progress(f"{entry}: preparing it")
        files.mkdir()
        load(entry.prepare)(new / "raw", files)
        shutil.rmtree(new / "raw")
    shutil.rmtree(new / "room", ignore_errors=True)
    found = _count(entry, files, given)
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
        files=tuple(listed(files)),
    )
    (new / MANIFEST).write_text(record.model_dump_json(indent=1), "utf-8")
    put_in_place(new, entry.directory)
    of = "" if found == entry.scenarios else f" of {entry.scenarios}"
    on_progress(f"{entry}: {found}{of} scenarios, {record.bytes / 1e6:.1f} MB in {entry.directory}")


def _count(entry: Entry, files: Path, given: Path | None) -> int:
    """Number of scenarios that its sources find.

    Raises:
        InputError: there is none, or a mistake.
        InfrastructureError: the same of what nobody gave.
    """
    from ..protocol import Unsupported

    found = 0
    try:
        for source in entry.sources(files):
            try:
                found += len(source.refs())
            except Unsupported:
                found += 1
        if not found:
            raise InputError("no scenario was found in it")
    except InputError as error:
        # The place is gone by the time that somebody reads of it.
        message = str(error).replace(f"{files}/", "").replace(str(files), "the files")
        if given is None:
            raise InfrastructureError(f"{entry}: what was fetched is not the benchmark: {message}") from None
        raise InputError(f"is not {entry}: {message}", path=given) from None
    return found
