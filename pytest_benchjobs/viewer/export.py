"""Reports of jobs for people who have nothing but a browser: one file, or many for a web site."""

from __future__ import annotations

import gzip
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from ..model.errors import InputError
from ..store.copying import Staging
from ..store.files import write_atomically, writing
from ..store.reader import HistoryReader
from .inline import one_page, page_of_files, page_parts
from .report import LIMIT, LOG_LIMIT, Report, make_report
from .results import Results
from .static import INDEX, static_files

MARKER = "data/main.json"
"""File by which a directory is known as a report, which a later one may replace."""


class Written(NamedTuple):
    """A report that was written."""

    bytes: int
    cut: tuple[str, ...]
    """Parts that it lacks, a line each."""


def write_file(
    results: Results,
    history: HistoryReader,
    jobs: Sequence[str],
    path: Path,
    *,
    limit: int = LIMIT,
    log_limit: int = LOG_LIMIT,
) -> Written:
    """Write the report of jobs, given by their ids, into one file of at most `limit` bytes.

    Raises:
        InputError: they do not fit.
        DiskFull, ResultsUnwritable: the file cannot be written.
    """
    report = make_report(results, history, jobs, limit=limit, log_limit=log_limit)
    size = 0

    def counted() -> Iterator[bytes]:
        nonlocal size
        for part in one_page(static_files(), _named(report)):
            size += len(part)
            yield part

    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, counted(), durable=False)
    return Written(size, report.cut)


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
