"""Named baselines: rows of the history, and the file beside it from which they can be had again.

The history is an index that may be deleted and rebuilt from job bundles, but no bundle says what somebody once
declared to be the baseline. So every change is also written to `baselines.json` in the same directory, in the same
transaction: whoever changes a baseline first takes over what only the file knows, as `benchjobs db rebuild` does.
"""

from __future__ import annotations

import contextlib
import datetime
import difflib
import functools
import json
from collections.abc import Iterator

from pydantic import TypeAdapter, ValidationError

from ..model.baseline import RESERVED, BaselineEntry
from ..model.errors import InputError
from ..model.job import JobRecord
from ..sources.documents import read_text
from .database import explained, transaction
from .files import write_atomically
from .layout import Layout
from .queries import Queries
from .rows import as_text
from .text import clean, one_line
from .trials import what_is_wrong

_COLUMNS = 'name, jobs, branch, "commit", set_at, set_by, reason'
_PAGE = 50
_TEXT = 2000
_LATEST = f"""
    SELECT {_COLUMNS} FROM (
        SELECT *, row_number() OVER (PARTITION BY name ORDER BY set_at DESC, id DESC) AS back FROM baselines
    ) WHERE back = 1 AND jobs <> '[]' ORDER BY name
"""  # noqa: S608


@functools.cache
def _entries() -> TypeAdapter[list[BaselineEntry]]:
    # Made when it is needed first: most sessions have no baseline.
    return TypeAdapter(list[BaselineEntry])


class Baselines(Queries):
    """What a history knows of baselines, and how they are set."""

    def baselines(self) -> list[BaselineEntry]:
        """Those there are, by name."""
        return [_entry(row) for row in self._all(_LATEST)]

    def baseline(self, name: str) -> BaselineEntry | None:
        """What a baseline is now; None: there is none of that name, or it was deleted."""
        past = self.baseline_past(name)
        return past[0] if past and past[0].jobs else None

    def baseline_past(self, name: str) -> list[BaselineEntry]:
        """All that a name was set to, the latest first; one without jobs says when it was deleted."""
        query = f"SELECT {_COLUMNS} FROM baselines WHERE name = ? ORDER BY set_at DESC, id DESC"  # noqa: S608
        return [_entry(row) for row in self._all(query, name)]

    def completed(self, branch: str | None = None) -> Iterator[JobRecord]:
        """Completed jobs, the newest first, read as they are asked for; those of one branch of git alone if given.

        One whose record is of another version, or damaged, is passed over.
        """
        where = "status = 'completed' AND (created_at, id) < (?, ?)"
        if branch is not None:
            where += " AND json_extract(record, '$.reproducibility.git.branch') = ?"
        query = f"SELECT created_at, id, record FROM jobs WHERE {where} ORDER BY created_at DESC, id DESC LIMIT {_PAGE}"  # noqa: S608
        after = ("A", "")  # sorts behind any year
        while True:
            page = self._all(query, *after, *(() if branch is None else (branch,)))
            for _, job_id, record in page:
                try:
                    job = self._record(job_id, record)
                except InputError:
                    continue
                yield job
            if len(page) < _PAGE:
                return
            after = page[-1][:2]

    def gate_verdict(self, job_id: str) -> str | None:
        """What gates last said of a job as a whole; None: nobody has asked."""
        query = (
            "SELECT verdict FROM gates WHERE job = ? AND expression = '' ORDER BY at DESC, id DESC LIMIT 1"
        )
        rows = self._all(query, job_id)
        return str(rows[0][0]) if rows else None

    def set_baseline(self, entry: BaselineEntry, *, moving: bool = False) -> BaselineEntry:
        """Set a baseline, move it, or, without jobs, delete it; returns what was kept, with its time.

        Args:
            entry: What it is to be. Its time is moved on where an earlier entry has a later one.
            moving: It must be there already, as it must for being deleted.

        Raises:
            InputError: there is no such baseline, the name is a reserved word, or `baselines.json` is damaged.
            DiskFull, ResultsUnwritable: the directory refuses; nothing has changed.

        """
        if entry.name in RESERVED:
            raise InputError(f"no baseline can be called {entry.name!r}, which has a meaning of its own")
        with self._transaction():
            self._take_over()
            past = self.baseline_past(entry.name)
            if (moving or not entry.jobs) and not (past and past[0].jobs):
                raise InputError(f"there is no baseline {entry.name!r}{near(entry.name, self.baselines())}")
            if past and entry.set_at <= past[0].set_at:
                # By a clock that went back, or of another machine.
                later = past[0].set_at + datetime.timedelta(microseconds=1)
                entry = entry.model_copy(update={"set_at": later})
            self._add(entry)
            query = f"SELECT {_COLUMNS} FROM baselines ORDER BY set_at, id"  # noqa: S608
            self._write([_entry(row) for row in self._all(query)])
        return entry

    def restore_baselines(self) -> int:
        """Take over what only `baselines.json` knows; returns how many entries that were.

        Raises:
            InputError: the file is damaged.

        """
        with self._transaction():
            return self._take_over()

    def _take_over(self) -> int:
        path = Layout(self.path.parent).baselines
        if not path.exists():
            return 0
        query = f"SELECT {_COLUMNS} FROM baselines"  # noqa: S608
        known = {_entry(row).model_dump_json() for row in self._all(query)}
        missing = [entry for entry in self._read() if entry.model_dump_json() not in known]
        for entry in missing:
            self._add(entry)
        return len(missing)

    def _add(self, entry: BaselineEntry) -> None:
        values = (
            entry.name,
            json.dumps(entry.jobs),
            entry.branch,
            entry.commit,
            as_text(entry.set_at),
            entry.set_by,
            entry.reason,
        )
        self._connection.execute(
            f"INSERT INTO baselines ({_COLUMNS}) VALUES ({', '.join('?' * len(values))})",  # noqa: S608
            values,
        )

    def _read(self) -> list[BaselineEntry]:
        path = Layout(self.path.parent).baselines
        try:
            return [_cleaned(entry) for entry in _entries().validate_json(read_text(path))]
        except ValidationError as error:
            raise InputError(
                f"is damaged: {what_is_wrong(error)}. Move it away; setting a baseline makes a new one",
                path=path,
            ) from error

    def _write(self, entries: list[BaselineEntry]) -> None:
        lines = ",\n".join(entry.model_dump_json() for entry in entries)
        write_atomically(Layout(self.path.parent).baselines, f"[\n{lines}\n]\n".encode())

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        with explained(self.path), transaction(self._connection):
            yield


def near(name: str, entries: list[BaselineEntry]) -> str:
    """The end of a line about a name that is not there: what may have been meant, and what there is."""
    names = [entry.name for entry in entries]
    if not names:
        return ": none was set yet"
    close = difflib.get_close_matches(name, names, 3)
    if close:
        return f". Did you mean {', '.join(map(repr, close))}?"
    return f"; there are {', '.join(names[:10])}"


def _entry(row: tuple[str, str, str | None, str | None, str, str | None, str | None]) -> BaselineEntry:
    name, jobs, branch, commit, set_at, set_by, reason = row
    return BaselineEntry(
        name=name,
        jobs=tuple(json.loads(jobs)),
        branch=branch,
        commit=commit,
        set_at=datetime.datetime.fromisoformat(set_at),
        set_by=set_by,
        reason=reason,
    )


def _cleaned(entry: BaselineEntry) -> BaselineEntry:
    """Without what a terminal would take for a command: anybody may have written the file."""

    def text(value: str | None) -> str | None:
        return None if value is None else clean(value, _TEXT)

    at = entry.set_at if entry.set_at.tzinfo else entry.set_at.replace(tzinfo=datetime.UTC)
    return entry.model_copy(
        update={
            "jobs": tuple(one_line(job, 200) for job in entry.jobs),
            "branch": text(entry.branch),
            "commit": text(entry.commit),
            "set_at": at.astimezone(datetime.UTC),
            "set_by": text(entry.set_by),
            "reason": text(entry.reason),
        }
    )
