"""Opening of benchmarks from which a manifest borrows scenarios."""

from __future__ import annotations

import contextvars
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..model.errors import InputError
from ..model.node_ids import is_path
from .catalogue.kept import trouble
from .finder import Finder
from .project import benchmark_directories, named_benchmarks, rootdir

if TYPE_CHECKING:
    from .protocol import Source

_reads_names: contextvars.ContextVar[bool] = contextvars.ContextVar("reads_names", default=False)
"""A manifest with a wrong header has all its scenarios read for its name, and they may borrow by name, and so on."""


def open_benchmark(place: str, directory: Path, borrower: str | None) -> tuple[Sequence[Source], str | None]:
    """Open a benchmark by its name, or by its path relative to a directory; return its sources and its licence.

    The benchmark `borrower`, which asks for it, means another one by its own name: that of the catalogue.

    Raises InputError: there is none, it is wrong, or it is not on this machine.
    """
    if is_path(place):
        return Finder((directory,), {}, open_entry=lambda entry: entry.sources()).find(place, directory)[
            1
        ], None
    if _reads_names.get():
        raise InputError("is not looked for while the names of all benchmarks are read")
    root = rootdir(directory)
    known = benchmark_directories(root)
    beside = () if directory in known else (directory,)
    finder = Finder((*known, *beside), named_benchmarks(root), open_entry=lambda entry: entry.sources())
    token = _reads_names.set(True)
    try:
        finder.named  # noqa: B018
    finally:
        _reads_names.reset(token)
    entry, own = finder.entry(place, directory), place.partition("@")[0] == borrower
    if own and not isinstance(other := finder.catalogue.find(place), tuple):
        entry = other
    if entry is not None and (why := trouble(entry)) is not None:
        raise InputError(f"{entry} {why}; run: benchjobs benchmarks fetch {entry}")
    sources = list(entry.sources()) if own and entry is not None else finder.find(place, directory)[1]
    return sources, None if entry is None else entry.licence
