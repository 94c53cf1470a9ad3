"""Named baselines: rows of the history, and the file beside it from which they can be restored.

The history is an index that may be deleted and rebuilt from job bundles, but no bundle records which job was set as a
baseline. So every change is also written to `baselines.json` in the same directory, in the same transaction: a change
of a baseline first restores entries that only the file has, as `benchjobs db rebuild` does.
"""

from __future__ import annotations

import datetime
import difflib
import functools
import json
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from ..model.baseline import RESERVED, BaselineEntry
from ..model.errors import InputError
from ..sources.documents import read_text
from .files import write_atomically
from .history import History
from .layout import Layout
from .reader import BASELINE_COLUMNS, baseline_entry
from .rows import as_text, kept_text
from .text import one_line
from .trials import what_is_wrong


@functools.cache
def _entries() -> TypeAdapter[list[BaselineEntry]]:
    # Made on first use: most sessions have no baseline.
    return TypeAdapter(list[BaselineEntry])


def set_baseline(history: History, entry: BaselineEntry, *, moving: bool = False) -> BaselineEntry:
    """Set a baseline, move it, or, without jobs, delete it; return the stored entry, with its time.

    `history` is that of the directory of `baselines.json`. If an earlier entry has a later time, that of the new one is
    moved after it. A baseline to move or delete must exist.

    Raises InputError: there is no such baseline, the name is a reserved word, or `baselines.json` is damaged; DiskFull,
    ResultsUnwritable: the directory cannot be written; nothing has changed.
    """
    if entry.name in RESERVED:
        raise InputError(f"no baseline can be called {entry.name!r}, which is a reserved word")
    with history.transaction():
        _restore(history)
        past = history.baseline_past(entry.name)
        if (moving or not entry.jobs) and not (past and past[0].jobs):
            raise InputError(f"there is no baseline {entry.name!r}{near(entry.name, history.baselines())}")
        if past and entry.set_at <= past[0].set_at:
            # Set by a clock that went back, or on another machine.
            later = past[0].set_at + datetime.timedelta(microseconds=1)
            entry = entry.model_copy(update={"set_at": later})
        _add(history, entry)
        query = f"SELECT {BASELINE_COLUMNS} FROM baselines ORDER BY set_at, id"  # noqa: S608
        lines = ",\n".join(baseline_entry(row).model_dump_json() for row in history.select(query))
        write_atomically(Layout(history.directory).baselines, f"[\n{lines}\n]\n".encode())
    return entry


def restore_baselines(history: History) -> int:
    """Restore entries that only `baselines.json` has; return their number. Raises InputError: the file is damaged."""
    with history.transaction():
        return _restore(history)


def _restore(history: History) -> int:
    path = Layout(history.directory).baselines
    if not path.exists():
        return 0
    known = set()
    for number, *row in history.select(f"SELECT id, {BASELINE_COLUMNS} FROM baselines"):  # noqa: S608
        try:
            known.add(baseline_entry(row).model_dump_json())
        except InputError:
            history.connection.execute("DELETE FROM baselines WHERE id = ?", (number,))
    missing = [entry for entry in _read(path) if entry.model_dump_json() not in known]
    for entry in missing:
        _add(history, entry)
    return len(missing)


def _add(history: History, entry: BaselineEntry) -> None:
    values = {**dict(entry), "jobs": json.dumps(entry.jobs), "set_at": as_text(entry.set_at)}
    history.connection.execute(
        f"INSERT INTO baselines ({BASELINE_COLUMNS}) VALUES ({', '.join('?' * len(values))})",  # noqa: S608
        tuple(values.values()),
    )


def _read(path: Path) -> list[BaselineEntry]:
    try:
        return [_cleaned(entry) for entry in _entries().validate_json(read_text(path))]
    except ValidationError as error:
        raise InputError(
            f"is damaged: {what_is_wrong(error)}. Move it away; setting a baseline makes a new one",
            path=path,
        ) from error


def near(name: str, entries: list[BaselineEntry]) -> str:
    """Return the end of a message about an unknown name: similar names, or the known ones."""
    names = [entry.name for entry in entries]
    if not names:
        return ": no baseline is set yet"
    close = difflib.get_close_matches(name, names, 3)
    if close:
        return f". Did you mean {', '.join(map(repr, close))}?"
    return f"; there are {', '.join(names[:10])}"


def _cleaned(entry: BaselineEntry) -> BaselineEntry:
    """Return the entry without control characters: the file is untrusted."""
    at = entry.set_at if entry.set_at.tzinfo else entry.set_at.replace(tzinfo=datetime.UTC)
    return entry.model_copy(
        update={
            "jobs": tuple(one_line(job, 200) for job in entry.jobs),
            "branch": kept_text(entry.branch),
            "commit": kept_text(entry.commit),
            "set_at": at.astimezone(datetime.UTC),
            "set_by": kept_text(entry.set_by),
            "reason": kept_text(entry.reason),
        }
    )
