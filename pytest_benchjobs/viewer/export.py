"""Exports of jobs: rows of trials, documents of the viewer, and reports as one file or many for a web site."""

from __future__ import annotations

import dataclasses
import gzip
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ..model.errors import InputError
from ..report.export import csv_lines, json_lines, parquet_parts, rows
from ..report.training import LeftOut, training_rows
from ..store.copying import staged
from ..store.files import write_atomically, writing
from ..store.reader import HistoryReader
from .inline import one_page, page_of_files, page_parts
from .report import LIMIT, LOG_LIMIT, Report, make_report
from .results import Results
from .seed import viewer_document
from .static import INDEX, static_files

MARKER = "data/main.json"
"""File by which a directory is known as a report, which a later one may replace."""


KINDS = ("csv", "jsonl", "parquet", "rl", "viewer", "html")
"""Formats of one file: tables of trials, trials for training, the document of `/api/viewer-data`, and the report."""


@dataclasses.dataclass
class Export:
    """An export of jobs, given by their ids, in a format of one file: one of `KINDS`."""

    kind: str
    results: Results
    history: HistoryReader
    jobs: Sequence[str]
    limit: int = LIMIT
    """Bytes of a report."""
    log_limit: int = LOG_LIMIT
    """Bytes of each log in a report."""
    size: int = dataclasses.field(default=0, init=False)
    """Bytes of it that were read."""
    lacks: tuple[str, ...] = dataclasses.field(default=(), init=False)
    """What it lacks, a line each, once all were read."""

    def parts(self) -> Iterator[bytes]:
        """Yield its bytes, a part after the other."""
        made = {"html": self._report, "parquet": self._parquet}.get(self.kind, self._lines)
        for part in made():
            self.size += len(part)
            yield part

    def write(self, path: Path) -> None:
        """Write it into a file, and make its directory."""
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, self.parts(), durable=False)

    def _report(self) -> Iterator[bytes]:
        sizes = {"limit": self.limit, "log_limit": self.log_limit}
        report = make_report(self.results, self.history, self.jobs, **sizes)
        yield from one_page(static_files(), _named(report))
        self.lacks = report.cut

    def _rows(self) -> Iterator[dict[str, Any]]:
        for job in self.jobs:
            yield from rows(self.results.directory, self.history, job)

    def _parquet(self) -> Iterator[bytes]:
        return parquet_parts(self._rows())

    def _lines(self) -> Iterator[bytes]:
        where, history, left_out = self.results.directory, self.history, LeftOut()
        if self.kind == "viewer":
            lines = iter([viewer_document(self.results, history, self.jobs).model_dump_json(indent=1) + "\n"])
        elif self.kind == "rl":
            lines = json_lines(
                row for job in self.jobs for row in training_rows(where, history, job, left_out)
            )
        else:
            lines = csv_lines(self._rows()) if self.kind == "csv" else json_lines(self._rows())
        yield from (line.encode("utf-8", "replace") for line in lines)
        self.lacks = tuple(left_out.lines())


def write_directory(
    results: Results,
    history: HistoryReader,
    jobs: Sequence[str],
    directory: Path,
    *,
    limit: int = LIMIT,
    log_limit: int = LOG_LIMIT,
) -> tuple[int, tuple[str, ...]]:
    """Write the report of jobs as many files, over an earlier one; return its bytes, and what it lacks, a line each."""
    if directory.resolve() in (results.directory.resolve(), Path.cwd(), Path.home()):
        raise InputError("holds other things; name a new directory", path=directory)
    with staged(directory, MARKER) as staging:
        report = make_report(results, history, jobs, limit=limit, log_limit=log_limit)
        written = {
            INDEX: page_of_files(static_files()),
            **{f"static/{name}": data for name, data in page_parts(static_files()).items()},
            **{
                f"data/{name.removeprefix('data-')}.json": gzip.decompress(data)
                for name, data in _named(report)
            },
        }
        for name, data in written.items():
            place = staging / name
            with writing(place):
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(data)
    return sum(map(len, written.values())), report.cut


def _named(report: Report) -> Iterator[tuple[str, bytes]]:
    yield "data-main", report.main
    for number, chunk in enumerate(report.chunks):
        yield f"data-{number}", chunk
