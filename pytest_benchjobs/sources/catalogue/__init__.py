"""Catalogue of benchmarks known by name: those in `entries/`, of installed packages, and of the user's files.

Start with `entry.py`. `lookup.py` resolves a name, `fetching.py` fetches a benchmark to this machine, `kept.py` knows
which ones are there, `installed.py` and `registry.py` read entries from elsewhere. `sources/datasets/` interprets a
benchmark's rows.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from importlib import resources

from .entry import Entry, read_entry


@functools.cache
def entries() -> Sequence[Entry]:
    """Entries of this package. Raises InputError: an entry is wrong."""
    directory = resources.files(__package__) / "entries"
    files = sorted(
        (file for file in directory.iterdir() if file.name.endswith(".toml")), key=lambda file: file.name
    )
    return tuple(read_entry(file.read_text("utf-8"), file.name) for file in files)


def find(name: str) -> Entry | None:
    """Return the packaged entry named `NAME` or `NAME@VERSION`; None: there is none."""
    return next((entry for entry in entries() if entry.is_meant_by(name)), None)
