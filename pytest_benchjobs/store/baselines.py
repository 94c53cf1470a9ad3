"""Named baselines: rows of the history, and the file beside it from which they can be had again.

The history is an index that may be deleted and rebuilt from job bundles, but no bundle says what somebody once
declared to be the baseline. So every change is also written to `baselines.json` in the same directory, in the same
transaction: a change of a baseline first restores what only the file has, as `benchjobs db rebuild` does.
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
    # Made when it is needed first: most sessions have no baseline.
    return TypeAdapter(list[BaselineEntry])


def set_baseline(history: History, entry: BaselineEntry, *, moving: bool = False) -> BaselineEntry:
    """Set a baseline, move it, or, without jobs, delete it; returns what was kept, with its time.

    `history` is that of the directory of `baselines.json`. The time of the entry is moved on where an earlier one has a
    later time. A baseline that is moved or deleted must be there already.

    Raises:
        InputError: there is no such baseline, the name is a reserved word, or `baselines.json` is damaged.
        DiskFull, ResultsUnwritable: the directory refuses; nothing has changed.

    """
    if entry.name in RESERVED:
        raise InputError(f"no baseline can be called {entry.name!r}, which is a reserved word")
    with history.transaction():
        _restore(history)
        past = history.baseline_past(entry.name)
        if (moving or not entry.jobs) and not (past and past[0].jobs):
            raise InputError(f"there is no baseline {entry.name!r}{near(entry.name, history.baselines())}")
        if past and entry.set_at <= past[0].set_at:
            # By a clock that went back, or of another machine.
            later = past[0].set_at + datetime.timedelta(microseconds=1)
            entry = entry.model_copy(update={"set_at": later})
        _add(history, entry)
        query = f"SELECT {BASELINE_COLUMNS} FROM baselines ORDER BY set_at, id"  # noqa: S608
        lines = ",\n".join(baseline_entry(row).model_dump_json() for row in history.select(query))
        write_atomically(Layout(history.directory).baselines, f"[\n{lines}\n]\n".encode())
    return entry


def restore_baselines(history: History) -> int:
    """Restore what only `baselines.json` has; returns how many entries that were.

    Raises:
        InputError: the file is damaged.

    """
    with history.transaction():
        return _restore(history)


def _restore(history: History) -> int:
    path = Layout(history.directory).baselines
    if not path.exists():
        return 0
    query = f"SELECT {BASELINE_COLUMNS} FROM baselines"  # noqa: S608
    known = {baseline_entry(row).model_dump_json() for row in history.select(query)}
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
    """The end of a line about a name that is not there: what may have been meant, and what there is."""
    names = [entry.name for entry in entries]
    if not names:
        return ": no baseline is set yet"
    close = difflib.get_close_matches(name, names, 3)
    if close:
        return f". Did you mean {', '.join(map(repr, close))}?"
    return f"; there are {', '.join(names[:10])}"


def _cleaned(entry: BaselineEntry) -> BaselineEntry:
    """Without what a terminal would take for a command: anybody may have written the file."""
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
