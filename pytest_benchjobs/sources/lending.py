"""Opening of benchmarks from which a manifest borrows scenarios."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..model.errors import InputError
from ..system.paths import exists
from . import find_sources
from .catalogue.entry import Entry
from .catalogue.kept import trouble
from .catalogue.lookup import Lookup

if TYPE_CHECKING:
    from .protocol import Source

_FILES = (".yaml", ".yml", ".toml", "/")


def open_benchmark(place: str, directory: Path) -> tuple[Sequence[Source], str | None]:
    """Open a benchmark by its name, or by its path relative to a directory; return its sources and its licence.

    Raises:
        InputError: there is none, it is wrong, or it is not on this machine.
    """
    path = directory / place
    if exists(path) or place.endswith(_FILES) or place.startswith("."):
        return find_sources(path), None
    lookup = Lookup([directory])
    found = lookup.find(place)
    if found is None:
        hint = lookup.near(place) or "name one of `benchjobs benchmarks list`, or the path of a manifest"
        raise InputError(f"there is no benchmark {place!r}; {hint}")
    if not isinstance(found, Entry):
        return found, None
    if (why := trouble(found)) is not None:
        raise InputError(f"{found} {why}; run: benchjobs benchmarks fetch {found}")
    return found.sources(), found.licence
