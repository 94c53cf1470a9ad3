"""Details of trials in a report: their documents, steps, logs and files, in chunks that a page loads one at a time.

Where there is no room for all of them, the largest trials lose their steps, logs and files first, so that a few large
ones cost the others nothing.
"""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import gzip
import json
import operator
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import BaseModel

from ..analysis.trials import grouped
from ..model.errors import InputError
from ..model.job import JobRecord
from ..report.documents.viewer import TrialHead, ViewerFile, ViewerTrial
from ..report.scenarios import Scenarios
from ..report.units import counted
from ..store.opening import open_inside
from ..store.project import directory_argument
from ..store.reader import HistoryReader
from ..store.rows import TrialRow
from ..store.text import clean
from ..system.units import size as size_text
from .content import log_data, log_text
from .lookup import Found, find_trial
from .query import Refused
from .results import Results, record_of
from .trajectory import all_steps
from .trial import alike, image_type, others_of, trial_document

_BASE64 = 4 / 3
_ELEMENT = 100
"""Bytes of the element around a part."""
_CHUNK = 100
"""Trials of a chunk."""
_TEXT_LIMIT, _IMAGE_LIMIT = 65_536, 262_144
_FILES = 50
_MANY = f"beyond the first {_FILES} artifacts of a trial"
_GONE = "it cannot be read"
_SMALL = 1_000
"""Bytes. Less of a trial is taken to need no room: a chunk has much in common."""


class _Group(NamedTuple):
    """Trials of a chunk."""

    record: JobRecord
    rows: tuple[TrialRow, ...]
    siblings: Mapping[tuple[str, str], tuple[TrialHead, ...]]
    """Benchmark and scenario -> all trials of it in the job."""

    def key(self, row: TrialRow) -> str:
        """Return the name of a trial in the data."""
        return key_of(self.record.id, row.node_id)


class _Chunk(NamedTuple):
    """A chunk that was made."""

    data: bytes
    cut_logs: int
    cut_files: Counter[str]
    """Why files were left out -> how many."""
    bare: int
    """Trials that lost their steps, logs and files."""


@dataclasses.dataclass
class _Content:
    """Steps, logs and files of a trial."""

    steps: list[dict[str, Any]] | None = None
    log: dict[str, str] = dataclasses.field(default_factory=dict)
    files: dict[str, dict[str, Any]] = dataclasses.field(default_factory=dict)
    cut_logs: int = 0
    cut_files: Counter[str] = dataclasses.field(default_factory=Counter)
    """Why files were left out -> how many."""

    def size(self) -> int:
        """Return about the least number of bytes that it takes in a file."""
        size = encoded(packed((self.steps, self.log, self.files)))
        return 0 if size < _SMALL else size


class Details:
    """Details of the trials of some jobs, in at most `room` bytes of a file.

    Args:
        trials: Job -> node ids of its trials, in the order of its matrix.
        log_limit: Most bytes of a log.
    """

    def __init__(
        self,
        results: Results,
        history: HistoryReader,
        trials: Mapping[str, Sequence[str]],
        room: int,
        log_limit: int,
    ) -> None:
        self._results, self._history, self._log_limit = results, history, log_limit
        self._scenarios = Scenarios()
        self._where = directory_argument(results.directory)
        groups = [group for job, ids in trials.items() for group in self._groups(job, ids)]
        made = self._all(groups, room) or self._those_that_fit(groups, room)
        self._made: list[_Chunk] = []
        self._left_out = 0
        place_of: dict[str, int] = {}
        for group, chunk in zip(groups, made, strict=True):
            if chunk is None:
                self._left_out += len(group.rows)
            else:
                place_of |= {group.key(row): len(self._made) for row in group.rows}
                self._made.append(chunk)
        self.chunks = [chunk.data for chunk in self._made]
        """Chunks, compressed by gzip."""
        self.places = {job: [place_of.get(key_of(job, one)) for one in ids] for job, ids in trials.items()}
        """Job -> place of the chunk of each trial; None: its details are left out."""

    def cut(self) -> Iterator[str]:
        """Yield what is left out, a line each."""
        logs, bare = sum(chunk.cut_logs for chunk in self._made), sum(chunk.bare for chunk in self._made)
        if logs:
            yield f"{counted(logs, 'log')} cut to {size_text(self._log_limit)} each: see --log-size"
        files = _total(chunk.cut_files for chunk in self._made)
        for why in sorted(files):
            yield f"{counted(files[why], 'file')} left out: {why}"
        room = "left out for want of room: see --max-size"
        if bare:
            yield f"steps, logs and files of {counted(bare, 'trial')}, the largest first, {room}"
        if self._left_out:
            yield f"all details of {counted(self._left_out, 'trial')} {room}"

    def _groups(self, job: str, ids: Sequence[str]) -> Iterator[_Group]:
        rows = self._history.trials(job)
        siblings = {
            key: alike(group)
            for key, group in grouped(rows, lambda row: (row.benchmark, row.scenario)).items()
        }
        record, wanted = record_of(self._history, job), frozenset(ids)
        # Trials of one scenario together: they have much in common, and are looked at together.
        order = operator.attrgetter("benchmark", "scenario", "agent", "attempt")
        ordered = sorted((row for row in rows if row.node_id in wanted), key=order)
        for first in range(0, len(ordered), _CHUNK):
            yield _Group(record, tuple(ordered[first : first + _CHUNK]), siblings)

    def _all(self, groups: Sequence[_Group], room: int) -> list[_Chunk | None] | None:
        """Return all chunks, with everything; None if there is no room for them."""
        made: list[_Chunk | None] = []
        for group in groups:
            chunk = self._chunk(group, None)
            room -= encoded(chunk.data)
            if room < 0:
                return None
            made.append(chunk)
        return made

    def _those_that_fit(self, groups: Sequence[_Group], room: int) -> list[_Chunk | None]:
        """Return chunks of the documents of all trials, with the content of as many as there is room for."""
        sizes: dict[str, int] = {}
        bare: list[int] = []
        for group in groups:
            documents = {}
            for key, found, document in self._documents(group):
                documents[key] = data_of(document)
                sizes[key] = self._content(found, document).size()
            bare.append(encoded(_packed(documents, {})))
        rich: set[str] = set()
        left = room - sum(bare)
        for key in sorted(sizes, key=lambda key: (sizes[key], key)):
            left -= sizes[key]
            if left >= 0:
                rich.add(key)
        made: list[_Chunk | None] = []
        later = sum(bare)
        for group, least in zip(groups, bare, strict=True):
            later -= least
            chunk: _Chunk | None = self._chunk(group, rich)
            # Others keep the room of their documents, unless there is too little for them anyway.
            if chunk is not None and encoded(chunk.data) > room - max(0, later):
                chunk = self._chunk(group, ()) if least <= room else None
            room -= encoded(chunk.data) if chunk is not None else 0
            made.append(chunk)
        return made

    def _chunk(self, group: _Group, rich: Collection[str] | None) -> _Chunk:
        """Make a chunk, with the content of the trials that `rich` has, None: of all."""
        documents: dict[str, Any] = {}
        contents: dict[str, _Content] = {}
        bare = 0
        for key, found, document in self._documents(group):
            documents[key] = data_of(document)
            if rich is None or key in rich:
                contents[key] = self._content(found, document)
            elif not found.withheld:
                bare += 1
        return _Chunk(
            _packed(documents, contents),
            sum(content.cut_logs for content in contents.values()),
            _total(content.cut_files for content in contents.values()),
            bare,
        )

    def _documents(self, group: _Group) -> Iterator[tuple[str, Found, ViewerTrial]]:
        for row in group.rows:
            found = find_trial(self._results, self._history, group.record.id, row.node_id)
            siblings = others_of(row.node_id, group.siblings[row.benchmark, row.scenario])
            document = trial_document(group.record, found, siblings, self._scenarios, self._where)
            yield group.key(row), found, document

    def _content(self, found: Found, document: ViewerTrial) -> _Content:
        """Read steps, logs and files of a trial."""
        content = _Content()
        if found.withheld:
            return content
        if document.steps:
            content.steps = all_steps(found.agent_places)
        for log in document.logs:
            with contextlib.suppress(Refused):
                data, missing = log_data(found, log.name, self._log_limit)
                content.log[log.name] = log_text(data)
                content.cut_logs += missing > 0
        if document.files_left_out:
            content.cut_files[_MANY] = document.files_left_out
        for file in document.files:
            if file.path in content.log or not file.path.startswith("artifacts/"):
                continue  # no part of a report, so nothing is lacking
            why = _MANY if len(content.files) >= _FILES else _why_not(file)
            one = _file(found.places, file) if why is None else None
            if one is not None:
                content.files[file.path] = one
            else:
                content.cut_files[why or _GONE] += 1
        return content


def _why_not(file: ViewerFile) -> str | None:
    """Return why a report has not an artifact like this; None: it has."""
    if file.kind == "binary":
        return "binary"
    if file.kind == "image":
        return f"an image larger than {size_text(_IMAGE_LIMIT)}" if file.bytes > _IMAGE_LIMIT else None
    return f"larger than {size_text(_TEXT_LIMIT)}" if file.bytes > _TEXT_LIMIT else None


def _total(counts: Iterable[Counter[str]]) -> Counter[str]:
    total: Counter[str] = Counter()
    for one in counts:
        total += one
    return total


def key_of(job: str, node_id: str) -> str:
    """Return the name of a trial in the data."""
    return f"{job}\n{node_id}"


def _packed(documents: Mapping[str, Any], contents: Mapping[str, _Content]) -> bytes:
    return packed(
        {
            "trial": documents,
            "steps": {key: one.steps for key, one in contents.items() if one.steps is not None},
            "log": {
                f"{key}\n{name}": text for key, one in contents.items() for name, text in one.log.items()
            },
            "files": {
                f"{key}\n{path}": file for key, one in contents.items() for path, file in one.files.items()
            },
        }
    )


def data_of(document: BaseModel) -> Any:
    """Return a document as data for JSON."""
    return document.model_dump(mode="json", by_alias=True)


def _file(places: Sequence[Path], file: ViewerFile) -> dict[str, Any] | None:
    """Return a file of a trial; None if it is gone, or has grown too large."""
    kind, path = file.kind, file.path
    most = _IMAGE_LIMIT if kind == "image" else _TEXT_LIMIT
    for place in places:
        with contextlib.suppress(InputError):
            with open_inside(place, path) as opened:
                data = opened.read(most + 1)
            if len(data) > most:
                return None
            if kind == "image":
                return {
                    "kind": kind,
                    "data": f"data:{image_type(path)};base64,{base64.b64encode(data).decode()}",
                }
            return {"kind": kind, "text": clean(data.decode("utf-8", "replace"))}
    return None


def packed(data: object) -> bytes:
    """Return data as JSON, compressed by gzip. The same data give the same bytes."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    return gzip.compress(text.encode("utf-8", "replace"), 9, mtime=0)


def encoded(data: bytes) -> int:
    """Return the number of bytes that a packed part takes in a file."""
    return int(len(data) * _BASE64) + _ELEMENT
