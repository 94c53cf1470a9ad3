"""Exports of jobs: rows of trials, documents of the viewer, and reports as one file or many for a web site."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from ..model.errors import InputError
from ..report.export import csv_lines, json_lines, rows
from ..report.training import LeftOut, training_rows
from ..store.copying import Staging
from ..store.files import write_atomically, writing
from ..store.reader import HistoryReader
from .inline import one_page, page_of_files, page_parts
from .report import LIMIT, LOG_LIMIT, Report, make_report
from .results import Results
from .seed import viewer_document
from .static import INDEX, static_files

MARKER = "data/main.json"
"""File by which a directory is known as a report, which a later one may replace."""


KINDS = ("csv", "jsonl", "rl", "viewer", "html")
"""Formats of one file: tables of trials, trials for training, the document of `/api/viewer-data`, and the report."""


class Written(NamedTuple):
    """A report that was written."""

    bytes: int
    cut: tuple[str, ...]
    """Parts that it lacks, a line each."""


def kind_of(path: Path) -> str:
    """Return the format, one of `KINDS`, that the name of a file suggests; `csv` by default."""
    name = path.name.lower()
    suffixes = ((".rl.jsonl", "rl"), (".jsonl", "jsonl"), (".ndjson", "jsonl"), (".json", "viewer"))
    for suffix, kind in (*suffixes, (".html", "html"), (".htm", "html")):
        if name.endswith(suffix):
            return kind
    return "csv"


class Export:
    """An export of jobs in the making."""

    def __init__(self, parts: Callable[[Export], Iterator[bytes]]) -> None:
        self.parts = parts(self)
        """Its bytes, a part after the other."""
        self.bytes = 0
        """Number of those that were read."""
        self.lacks: tuple[str, ...] = ()
        """What it lacks, a line each, once all were read."""

    def write(self, path: Path) -> None:
        """Write it into a file, and make its directory.

        Raises:
            InputError: a report does not fit.
            DiskFull, ResultsUnwritable: the file cannot be written.
        """
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, self.parts, durable=False)


def export_of(
    kind: str,
    results: Results,
    history: HistoryReader,
    jobs: Sequence[str],
    *,
    limit: int = LIMIT,
    log_limit: int = LOG_LIMIT,
) -> Export:
    """Return the export of jobs, given by their ids, in a format of one file: one of `KINDS`.

    `limit` is the size of a report, in bytes, and `log_limit` that of each log in it.
    """

    def parts(export: Export) -> Iterator[bytes]:
        for part in of_kind(export):
            export.bytes += len(part)
            yield part

    def of_kind(export: Export) -> Iterator[bytes]:
        if kind == "html":
            report = make_report(results, history, jobs, limit=limit, log_limit=log_limit)
            yield from one_page(static_files(), _named(report))
            export.lacks = report.cut
            return
        left_out = LeftOut()
        for line in _lines(kind, results, history, jobs, left_out):
            yield line.encode("utf-8", "replace")
        export.lacks = tuple(left_out.lines())

    return Export(parts)


def _lines(
    kind: str, results: Results, history: HistoryReader, jobs: Sequence[str], left_out: LeftOut
) -> Iterator[str]:
    where = results.directory
    if kind == "viewer":
        yield viewer_document(results, history, jobs).model_dump_json(indent=1) + "\n"
    elif kind == "rl":
        yield from json_lines(row for job in jobs for row in training_rows(where, history, job, left_out))
    else:
        exported = (row for job in jobs for row in rows(where, history, job))
        yield from csv_lines(exported) if kind == "csv" else json_lines(exported)


def write_directory(
    results: Results,
    history: HistoryReader,
    jobs: Sequence[str],
    directory: Path,
    *,
    limit: int = LIMIT,
    log_limit: int = LOG_LIMIT,
) -> Written:
    """Write the report of jobs as many files, for a web server. A report that is there is replaced.

    Raises:
        InputError: something else is there, or they do not fit.
        DiskFull, ResultsUnwritable: the directory cannot be written.
    """
    if directory.resolve() in (results.directory.resolve(), Path.cwd(), Path.home()):
        raise InputError("holds other things; name a new directory", path=directory)
    staging = Staging(directory, MARKER)
    try:
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
            place = staging.path / name
            with writing(place):
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(data)
        staging.commit()
    finally:
        staging.discard()
    return Written(sum(map(len, written.values())), report.cut)


def _named(report: Report) -> Iterator[tuple[str, bytes]]:
    yield "data-main", report.main
    for number, chunk in enumerate(report.chunks):
        yield f"data-{number}", chunk
