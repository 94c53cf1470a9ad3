"""Benchmarks of installed packages, by entry points of the group `benchjobs.benchmarks`.

An entry point names an `Entry`, one or more sources (objects with `refs` and `load`), or a function without arguments
that returns one of these. No package is imported before its benchmark is requested.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ...model.errors import InputError
from ...system.installed import entry_points
from .entry import Entry

if TYPE_CHECKING:
    from importlib import metadata

    from ..protocol import Source

GROUP = "benchjobs.benchmarks"


def installed() -> Mapping[str, metadata.EntryPoint]:
    """Entry points by the names of their benchmarks."""
    return {point.name: point for point in entry_points(GROUP)}


def opened(point: metadata.EntryPoint) -> Entry | tuple[Source, ...]:
    """Load the object of an entry point. Raises InputError: it cannot be loaded, or is not a benchmark."""
    package = point.dist.name if point.dist is not None else point.value
    where = f"benchmark {point.name!r} of {package}"
    try:
        found = point.load()
        if not isinstance(found, Entry | Sequence) and not is_source(found) and callable(found):
            found = found()
    except Exception as error:
        raise InputError(f"{where} cannot be loaded: {type(error).__name__}: {str(error)[:500]}") from error
    if isinstance(found, Entry):
        return found
    several = tuple(found) if isinstance(found, Sequence) and not isinstance(found, str) else (found,)
    if not several or not all(map(is_source, several)):
        raise InputError(
            f"{where} is {found!r:.200}; an Entry, or sources with `refs` and `load`, are expected"
        )
    return several


def is_source(value: object) -> bool:
    """Return True if an object has the methods of a source."""
    methods = (getattr(value, name, None) for name in ("refs", "load"))
    return not isinstance(value, type) and all(map(callable, methods))
