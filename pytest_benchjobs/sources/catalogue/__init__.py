"""Catalogue of benchmarks that are known by name: those in `entries/`, of installed packages, and of the user's files.

Start with `entry.py`. Fetching is in `fetching.py`; what a benchmark's rows mean, in `sources/datasets/`.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from importlib import resources

from .entry import Entry, read_entry

GROUP = "benchjobs.benchmarks"
"""Entry points of other packages: a benchmark's name -> an `Entry`, or a function that returns sources."""


@functools.cache
def entries() -> Mapping[str, Entry]:
    """Entries by their names. Aliases are in `find`.

    Raises:
        InputError: an entry is wrong.
    """
    directory = resources.files(__package__) / "entries"
    files = sorted(
        (file for file in directory.iterdir() if file.name.endswith(".toml")), key=lambda file: file.name
    )
    found = [read_entry(file.read_text("utf-8"), file.name) for file in files]
    return {entry.name: entry for entry in found}


def find(name: str) -> Entry | None:
    """Return the entry that `NAME` or `NAME@VERSION` means, by name or alias; None: there is none."""
    wanted, _, version = name.partition("@")
    for entry in entries().values():
        if _same(wanted) in {_same(known) for known in (entry.name, *entry.aliases)} and version in (
            "",
            entry.version,
        ):
            return entry
    return None


def _same(name: str) -> str:
    """The name as it is compared: people type `swebench_verified` and `SWE-bench-Verified`."""
    return name.lower().replace("_", "-").replace(" ", "-")
