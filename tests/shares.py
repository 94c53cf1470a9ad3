"""Which part of many like cases is tried at a commit: over some commits all are, and `make extended` tries all at once."""

from __future__ import annotations

import functools
import subprocess
from collections.abc import Collection
from pathlib import Path
from typing import TypeVar

T = TypeVar("T", int, str)


ROOT = Path(__file__).parents[1]


@functools.cache
def commit(root: Path = ROOT) -> int:
    """Return the number of the commit that is checked out, one more than that of its parent.

    Where the history is cut off it is drawn from the digest; where there is none, it is 0.
    """
    if git(root, "rev-parse", "--is-shallow-repository") == ["false"]:
        return int((git(root, "rev-list", "--count", "HEAD") or ["0"])[0])
    head = git(root, "rev-parse", "HEAD")
    return int(head[0], 16) if head else 0


def git(root: Path, *arguments: str) -> list[str] | None:
    """Return the lines that git prints, None where it fails."""
    try:
        done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=False)
    except OSError:
        return None
    return done.stdout.splitlines() if done.returncode == 0 else None


def share(cases: Collection[T], parts: int) -> set[T]:
    """The cases whose turn it is: one of so many parts."""
    return set(sorted(cases)[commit() % parts :: parts])
