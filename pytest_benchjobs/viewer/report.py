"""The data of a report: all that its pages show of some jobs, and as many details of trials as there is room for.

`main` is what lists, jobs, comparisons, scenarios and trends need. Details of trials are in chunks, which a page loads
when they are looked at.
"""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import datetime
import gzip
import itertools
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from ..analysis.trials import grouped
from ..model.errors import InputError
from ..report.documents.viewer import ViewerMatrix
from ..report.scenarios import Scenarios
from ..report.units import counted
from ..store.listing import Wanted, job_page, run_page
from ..store.opening import open_inside
from ..store.project import directory_argument
from ..store.reader import HistoryReader
from ..store.rows import TrialRow
from ..store.text import clean
from ..system.units import size as size_text
from .comparison import comparison_document
from .content import log_data, log_text
from .job import job_document, matrix_document
from .lists import job_items, meta_of, overview_document, run_items
from .lookup import Found, find_trial, head_of
from .over_time import scenario_document, trend_document
from .query import Refused
from .results import Results, record_of
from .trajectory import all_steps
from .trial import SIBLINGS, image_type, kind_of, trial_document

LIMIT = 20_000_000
"""Bytes of a report."""
LOG_LIMIT = 65_536
"""Bytes of a log."""
_CHUNK = 100
"""Trials of a chunk."""
_JOBS_COMPARED, _AGENTS_COMPARED, _COMPARISONS = 10, 5, 40
_SCENARIOS = 2_000
_TEXT_LIMIT, _IMAGE_LIMIT = 65_536, 262_144
_FILES = 50
_MOST_SHOWN = 1_000_000
_SHELL = 400_000
"""Room for the page itself."""
_BASE64 = 4 / 3


@dataclasses.dataclass
class Report:
    """The data of a report, each part compressed by gzip."""

    main: bytes
    chunks: list[bytes]
    cut: tuple[str, ...]
    """Parts that were left out for want of room, a line each."""


def make_report(
    results: Results,
    history: HistoryReader,
    jobs: Sequence[str],
    *,
    limit: int = LIMIT,
    log_limit: int = LOG_LIMIT,
) -> Report:
    """Collect the data of a report of jobs, given by their ids, in at most `limit` bytes of a file.

    Raises:
        InputError: even without details they do not fit.
    """
    making = _Making(results, history, tuple(jobs), limit, log_limit)
    return making.report()


class _Making:
    """A report in the making."""

    def __init__(
        self, results: Results, history: HistoryReader, jobs: tuple[str, ...], limit: int, log_limit: int
    ) -> None:
        self._results, self._history, self._jobs = results, history, jobs
        self._log_limit = log_limit
        self._room = limit - _SHELL
        self._limit = limit
        self._chunks: list[bytes] = []
        self._left_out: dict[str, int] = {}
        self._beyond: list[str] = []
        self._cut_logs = 0
        self._cut_files = 0
        self._scenarios = Scenarios()
        self._where = directory_argument(results.directory)

    def report(self) -> Report:
        """Return the whole."""
        main = self._main()
        self._room -= _encoded(_packed({**main, "details": {}}))
        if self._room < 0:
            raise InputError(
                f"a report of these jobs is larger than {self._limit:,} bytes without any details; "
                "choose fewer jobs, or a larger --max-size"
            )
        details = {job: self._details(job, main["matrix"][job]) for job in self._jobs}
        cut = tuple(self._cut())
        now = datetime.datetime.now(datetime.UTC)
        meta = meta_of(self._results, self._history, jobs=self._jobs, generated_at=now, cut=cut)
        whole = {**main, "meta": _data(meta), "details": details}
        return Report(_packed(whole), self._chunks, cut)

    def _main(self) -> dict[str, Any]:
        results, history, jobs = self._results, self._history, self._jobs
        wanted = Wanted(jobs=jobs)
        matrices = {job: matrix_document(results, history, job) for job in jobs}
        by_commit = trend_document(history, wanted, "commit", _MOST_SHOWN)
        by_day = trend_document(history, wanted, "day", _MOST_SHOWN)
        return {
            "overview": _data(overview_document(results, history, wanted, jobs)),
            "runs": [
                _data(one) for one in run_items(results, run_page(history, wanted, limit=_MOST_SHOWN).rows)
            ],
            "jobs": [
                _data(one)
                for one in job_items(results, history, job_page(history, wanted, limit=_MOST_SHOWN).rows)
            ],
            "job": {job: _data(job_document(results, history, job)) for job in jobs},
            "matrix": {job: _data(matrix) for job, matrix in matrices.items()},
            "compare": dict(self._comparisons(matrices)),
            "scenario": dict(self._scenario_documents(matrices)),
            "trend": {"commit": _data(by_commit), "day": _data(by_day)},
        }

    def _comparisons(self, matrices: dict[str, ViewerMatrix]) -> Iterator[tuple[str, Any]]:
        """Yield comparisons of each two jobs, and of each two agents of a job."""
        wanted: list[tuple[tuple[str, str | None], tuple[str, str | None]]] = [
            ((a, None), (b, None)) for a, b in itertools.permutations(self._jobs[:_JOBS_COMPARED], 2)
        ]
        for job, matrix in matrices.items():
            agents = matrix.agents[:_AGENTS_COMPARED]
            wanted += [((job, a), (job, b)) for a, b in itertools.permutations(agents, 2)]
            if len(matrix.agents) == 2:
                wanted.append(((job, None), (job, None)))
        for a, b in wanted[:_COMPARISONS]:
            with contextlib.suppress(Refused):
                found = comparison_document(self._results, self._history, a, b)
                yield "\n".join((a[0], b[0], a[1] or "", b[1] or "")), _data(found)
        if len(wanted) > _COMPARISONS:
            self._beyond.append(f"{len(wanted) - _COMPARISONS} comparisons beyond {_COMPARISONS} left out")

    def _scenario_documents(self, matrices: dict[str, ViewerMatrix]) -> Iterator[tuple[str, Any]]:
        named = {
            (matrix.benchmarks[benchmark], scenario)
            for matrix in matrices.values()
            for benchmark, scenario in zip(matrix.rows.benchmark, matrix.rows.scenario, strict=True)
        }
        if len(named) > _SCENARIOS:
            self._beyond.append(f"pages of {len(named)} scenarios left out: there are more than {_SCENARIOS}")
            return
        for benchmark, scenario in sorted(named):
            with contextlib.suppress(Refused):
                found = scenario_document(
                    self._history, benchmark, scenario, jobs=self._jobs, limit=_MOST_SHOWN
                )
                yield f"{benchmark}\n{scenario}", _data(found)

    def _details(self, job: str, matrix: dict[str, Any]) -> list[int | None]:
        """Add the details of the trials of a job; return the chunk of each, in the order of its matrix."""
        record = record_of(self._history, job)
        rows = self._history.trials(job)
        siblings = {
            key: tuple(map(head_of, group[:SIBLINGS]))
            for key, group in grouped(rows, lambda row: (row.benchmark, row.scenario)).items()
        }
        place_of = {node_id: place for place, node_id in enumerate(matrix["trials"]["id"])}
        found: list[int | None] = [None] * len(place_of)
        # Trials of one scenario together: they have much in common, and are looked at together.
        ordered = sorted((row for row in rows if row.node_id in place_of), key=_by_scenario)
        for first in range(0, len(ordered), _CHUNK):
            group = ordered[first : first + _CHUNK]
            chunk = self._chunk(record, group, siblings)
            if chunk is None:
                continue
            for row in group:
                found[place_of[row.node_id]] = len(self._chunks)
            self._chunks.append(chunk)
        return found

    def _chunk(self, record: Any, group: Sequence[TrialRow], siblings: dict[Any, Any]) -> bytes | None:
        """Return the details of some trials, as many as there is room for; None without any."""
        documents: dict[str, Any] = {}
        more: dict[str, dict[str, Any]] = {"steps": {}, "log": {}, "files": {}}
        cut = 0
        for row in group:
            key = f"{record.id}\n{row.node_id}"
            found = find_trial(self._results, self._history, record.id, row.node_id)
            trial = trial_document(
                record, found, siblings[row.benchmark, row.scenario], self._scenarios, self._where
            )
            documents[key] = _data(trial)
            if not found.withheld:
                cut += self._add(found, key, documents[key], more)
        alone: dict[str, dict[str, Any]] = {what: {} for what in more}
        for what, content in (("", more), ("steps, logs and files of trials", alone)):
            packed = _packed({"trial": documents, **content})
            if _encoded(packed) <= self._room:
                self._room -= _encoded(packed)
                self._cut_logs += cut if not what else 0
                if what:
                    self._left_out[what] = self._left_out.get(what, 0) + len(group)
                return packed
        self._left_out["details of trials"] = self._left_out.get("details of trials", 0) + len(group)
        return None

    def _add(self, found: Found, key: str, document: dict[str, Any], more: dict[str, dict[str, Any]]) -> int:
        """Add steps, logs and files of a trial; return the number of logs that were cut."""
        cut = 0
        if document["steps"]:
            more["steps"][key] = all_steps(found.agent_places)
        for log in document["logs"]:
            with contextlib.suppress(Refused):
                data, missing = log_data(found, log["name"], self._log_limit)
                more["log"][f"{key}\n{log['name']}"] = log_text(data)
                cut += missing > 0
        self._cut_files += document["files_left_out"]
        taken = 0
        for file in document["files"]:
            content = None
            if taken < _FILES and file["path"].startswith("artifacts/"):
                content = _file(found.places, file)
            if content is None:
                self._cut_files += 1
            else:
                more["files"][f"{key}\n{file['path']}"] = content
                taken += 1
        return cut

    def _cut(self) -> Iterator[str]:
        if self._cut_logs:
            yield f"{counted(self._cut_logs, 'log')} cut to {size_text(self._log_limit)} each"
        if self._cut_files:
            sizes = f"{size_text(_TEXT_LIMIT)} (images: {size_text(_IMAGE_LIMIT)})"
            yield (
                f"{counted(self._cut_files, 'file')} left out: not artifacts, binary, larger than {sizes}, "
                f"or beyond the first {_FILES} of a trial"
            )
        yield from self._beyond
        for what, number in self._left_out.items():
            yield f"{number} {what} left out for want of room: see --max-size"


def _file(places: Sequence[Path], file: dict[str, Any]) -> dict[str, Any] | None:
    """Return a file of a trial; None if it is too large, binary, or gone."""
    kind, path = kind_of(file["path"]), file["path"]
    most = _IMAGE_LIMIT if kind == "image" else _TEXT_LIMIT
    if kind == "binary" or file["bytes"] > most:
        return None
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


def _by_scenario(row: TrialRow) -> tuple[str, str, str, int]:
    return row.benchmark, row.scenario, row.agent, row.attempt


def _data(document: BaseModel) -> Any:
    return document.model_dump(mode="json", by_alias=True)


def _packed(data: object) -> bytes:
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    # No time in it: the same results give the same bytes.
    return gzip.compress(text.encode("utf-8", "replace"), 9, mtime=0)


def _encoded(packed: bytes) -> int:
    """Return the bytes that a part takes in a file."""
    return int(len(packed) * _BASE64) + 100
