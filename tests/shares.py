"""Which part of many like cases is tried at a commit: over some commits all are, and `make extended` tries all at once."""

from __future__ import annotations

import functools
import subprocess
from collections.abc import Collection
from pathlib import Path
from typing import TypeVar

T = TypeVar("T", int, str)


@functools.cache
def _commit() -> int:
    """The commit that is checked out as a number; 0 where there is none."""
    asked = ["git", "rev-parse", "HEAD"]
    try:
        said = subprocess.run(asked, cwd=Path(__file__).parent, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return 0
    return int(said.stdout.strip()[:8], 16)


def share(cases: Collection[T], parts: int) -> set[T]:
    """The cases whose turn it is: one of so many parts."""
    return set(sorted(cases)[_commit() % parts :: parts])
