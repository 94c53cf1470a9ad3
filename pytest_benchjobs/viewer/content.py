"""Content of files of trials: parts of logs, and whole files. What cannot be quoted is refused."""

from __future__ import annotations

import os
import re
from typing import BinaryIO

from ..job.follow import running_log
from ..model.errors import InputError
from ..report.documents.viewer import ViewerLog
from ..store.layout import AGENT_FILES, RESULT, JobLayout
from ..store.opening import open_inside
from ..store.reader import HistoryReader
from .lookup import Found, find_trial
from .query import Query, Refused
from .results import Results, job_of

LOG = ("id", "name", "offset", "limit")
FILE = ("id", "path", "view")
MOST = 1 << 18
"""Bytes of a part of a log."""
_PART = 1 << 16
_FARTHEST = 1 << 50
_REST = 3
"""Most bytes of a character of UTF-8 after its first."""
_LEAD = 0xC0
"""The first byte of a character of several bytes is at least this."""
# Everything but the escape that begins a colour, which the viewer shows as such.
_UNSAFE = re.compile(
    r"[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff\ufffe\uffff]"
)


def log(results: Results, history: HistoryReader, query: Query, job: str) -> ViewerLog:
    """Return a part of a log of a trial. An offset below 0 counts from the end."""
    found = find_trial(results, history, job, query.needed("id"))
    name = query.text("name") or AGENT_FILES[0]
    limit = query.number("limit", _PART, 1, MOST)
    offset = query.number("offset", 0, -_FARTHEST, _FARTHEST)
    with _open_log(found, name) as file:
        size = os.fstat(file.fileno()).st_size
        if found.running is not None:
            size -= _begun(file, size)  # the rest of that character comes in a moment
        start = max(0, size + offset) if offset < 0 else min(offset, size)
        start, data = _characters(file, start, min(start + limit, size))
    end = start + len(data)
    return ViewerLog(
        name=name, bytes=size, offset=start, next=end if end < size else None, text=log_text(data)
    )


def log_text(data: bytes) -> str:
    """Return a part of a log as text: colours stay, other control characters go."""
    return _UNSAFE.sub("", data.decode("utf-8", "replace"))


def open_file(results: Results, query: Query, job: str) -> tuple[BinaryIO, str]:
    """Open a file of a trial; return it with its path."""
    with results.open() as history:
        found = find_trial(results, history, job_of(history, job), query.needed("id"))
    path = query.needed("path")
    if path == RESULT:
        raise Refused(404, "the result is part of the trial's document")
    return _opened(found, path), path


def log_data(found: Found, name: str, limit: int) -> tuple[bytes, int]:
    """Return the first and last part of a log, of `limit` bytes together, and the number of bytes between."""
    with _open_log(found, name) as file:
        size = os.fstat(file.fileno()).st_size
        if size <= limit:
            return file.read(limit), 0
        _, head = _characters(file, 0, limit // 2)
        begin, tail = _characters(file, size - limit // 2, size)
    missing = begin - len(head)
    return b"%s\n[... %d bytes left out ...]\n%s" % (head, missing, tail), missing


def _open_log(found: Found, name: str) -> BinaryIO:
    """Open a log."""
    if not name.endswith(".log") or name.startswith("artifacts/"):
        raise Refused(404, "there is no log of that name")
    if found.running is None or found.root is None:
        return _opened(found, name)
    _refuse_withheld(found)
    path = running_log(JobLayout(found.root), found.running) if name == AGENT_FILES[0] else None
    if path is None:
        raise Refused(404, "there is no log of that name yet")
    try:
        return open_inside(found.root, path.relative_to(found.root).as_posix())
    except InputError as error:
        raise Refused(404, error.message) from None


def _opened(found: Found, path: str) -> BinaryIO:
    _refuse_withheld(found)
    for place in found.agent_places if path in AGENT_FILES else found.places:
        try:
            return open_inside(place, path)
        except InputError:
            continue
    raise Refused(404, "the trial has no file at that path")


def _refuse_withheld(found: Found) -> None:
    if found.withheld:
        raise Refused(403, "its benchmark is confidential, or its files are gone: nothing is shown")


def _characters(file: BinaryIO, start: int, end: int) -> tuple[int, bytes]:
    """Return the characters that begin from `start` to `end`, and the place of the first one.

    Each is in one part, whole, however a log is cut.
    """
    first = max(0, start - _REST)
    file.seek(first)
    data = file.read(end - first + _REST)
    begin, stop = (
        place + _rest(data, place) for place in (min(start - first, len(data)), min(end - first, len(data)))
    )
    return first + begin, data[begin:stop]


def _rest(data: bytes, at: int) -> int:
    """Return the number of bytes from `at` on that belong to a character that begins before it."""
    _, missing = _unfinished(data[max(0, at - _REST) : at])
    rest = data[at : at + missing]
    return len(rest) if all(byte & 0xC0 == 0x80 for byte in rest) else 0


def _begun(file: BinaryIO, size: int) -> int:
    """Return the number of bytes of an unfinished character at the end of a file."""
    file.seek(max(0, size - _REST))
    return _unfinished(file.read(_REST))[0]


def _unfinished(end: bytes) -> tuple[int, int]:
    """Return the number of bytes that a last character has, and that it lacks; 0 and 0 if it is whole."""
    for back, byte in enumerate(reversed(end), 1):
        if byte >= _LEAD:
            width = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return (back, width - back) if width > back else (0, 0)
        if byte < 0x80:
            break
    return 0, 0
