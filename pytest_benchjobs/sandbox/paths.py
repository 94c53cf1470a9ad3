"""Absolute paths in a sandbox. Pure."""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Iterator

DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def directories_above(path: str) -> Iterator[str]:
    """Yield the directories that a path is in, but for the root, the nearest first."""
    while (path := posixpath.dirname(path)).strip("/"):
        yield path


def is_below(path: str, tops: Collection[str]) -> bool:
    """Return True if a path is one of `tops`, or in one of them."""
    return bool(tops) and (
        "/" in tops or path in tops or any(above in tops for above in directories_above(path))
    )
