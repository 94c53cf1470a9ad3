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
from .lookup import Found, find_trial
from .query import Query, Refused
from .results import Results, job_of

LOG = ("id", "name", "offset", "limit")
FILE = ("id", "path", "view")
MOST = 1 << 18
"""Bytes of a part of a log."""
_PART = 1 << 16
_FARTHEST = 1 << 50
# Everything but the escape that begins a colour, which the viewer shows as such.
_UNSAFE = re.compile(
    r"[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff\ufffe\uffff]"
)


def log(results: Results, query: Query, job: str) -> ViewerLog:
    """Return a part of a log of a trial. An offset below 0 counts from the end."""
    with results.open() as history:
        found = find_trial(results, history, job_of(history, job), query.needed("id"))
    name = query.text("name") or AGENT_FILES[0]
    limit = query.number("limit", _PART, 1, MOST)
    offset = query.number("offset", 0, -_FARTHEST, _FARTHEST)
    with _open_log(found, name) as file:
        size = os.fstat(file.fileno()).st_size
        start = max(0, size + offset) if offset < 0 else min(offset, size)
        file.seek(start)
        data = file.read(limit)
    data = data[: _whole(data, start + len(data) < size)]
    end = start + len(data)
    return ViewerLog(
        name=name, bytes=size, offset=start, next=end if end < size else None, text=log_text(data)
    )


def log_text(data: bytes) -> str:
    """Return a part of a log as text: colours stay, other control characters go."""
    return _UNSAFE.sub("", data.decode("utf-8", "replace"))


def open_file(results: Results, query: Query, job: str) -> tuple[BinaryIO, str]:
    """Open a file of a trial; return it with its path.

    Raises:
        Refused: there is none, or it is withheld.
    """
    with results.open() as history:
        found = find_trial(results, history, job_of(history, job), query.needed("id"))
    path = query.needed("path")
    if path == RESULT:
        raise Refused(404, "the result is part of the trial's document")
    return _opened(found, path), path


def log_data(found: Found, name: str, limit: int) -> tuple[bytes, int]:
    """Return the first and last part of a log, together at most `limit` bytes, and the number of bytes between."""
    with _open_log(found, name) as file:
        size = os.fstat(file.fileno()).st_size
        if size <= limit:
            return file.read(limit), 0
        head = file.read(limit // 2)
        file.seek(size - limit // 2)
        return b"%s\n[... %d bytes left out ...]\n%s" % (
            head,
            size - 2 * (limit // 2),
            file.read(limit // 2),
        ), size - limit


def _open_log(found: Found, name: str) -> BinaryIO:
    """Open a log.

    Raises:
        Refused: there is none, or it is withheld.
    """
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


def _whole(data: bytes, more: bool) -> int:
    """Return the length without an incomplete character at the end, if more follows."""
    if not more:
        return len(data)
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte & 0xC0 == 0xC0:
            needs = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return len(data) - back if needs > back and len(data) > back else len(data)
        if byte < 0x80:
            break
    return len(data)
