"""Entry points of installed packages, looked for once: each look reads the metadata of all packages there are."""

from __future__ import annotations

import functools
import sys
from importlib import metadata
from typing import Any


def entry_points(group: str) -> metadata.EntryPoints:
    """Return the entry points of a group."""
    found: metadata.EntryPoints = _all(tuple(sys.path)).select(group=group)
    return found


@functools.cache
def _all(_path: tuple[str, ...]) -> Any:  # of a class of its own in Python 3.11
    return metadata.entry_points()
