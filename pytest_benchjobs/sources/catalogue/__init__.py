"""Catalogue of benchmarks that are known by name: those in `entries/`, of installed packages, and of the user's files.

Start with `entry.py`. `fetching.py` brings one to this machine, `kept.py` knows what is there, `installed.py` and
`registry.py` read entries of others. What a benchmark's rows mean is in `sources/datasets/`.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from importlib import resources
from pathlib import Path

from .entry import Entry, read_entry

SUFFIX = ".benchmark.toml"


@functools.cache
def entries() -> Sequence[Entry]:
    """Entries of this package.

    Raises:
        InputError: an entry is wrong.
    """
    directory = resources.files(__package__) / "entries"
    files = sorted(
        (file for file in directory.iterdir() if file.name.endswith(".toml")), key=lambda file: file.name
    )
    return tuple(read_entry(file.read_text("utf-8"), file.name) for file in files)


def described(directories: Iterable[Path]) -> Sequence[Entry]:
    """Entries in the user's files, `*.benchmark.toml` in these directories.

    Raises:
        InputError: one is wrong.
    """
    paths = sorted({path.resolve() for directory in directories for path in directory.glob(f"*{SUFFIX}")})
    return tuple(read_entry(path.read_text("utf-8"), path) for path in paths if path.is_file())


def find(name: str, known: Iterable[Entry] | None = None) -> Entry | None:
    """Return the entry that `NAME` or `NAME@VERSION` means, by name or alias; None: there is none."""
    wanted, _, version = name.partition("@")
    for entry in entries() if known is None else known:
        names = {_same(one) for one in (entry.name, *entry.aliases)}
        if _same(wanted) in names and version in ("", entry.version):
            return entry
    return None


def near(name: str, known: Iterable[Entry]) -> str | None:
    """Say which entry may be meant by a name that none has, in one sentence; None: none is like it."""
    from ..complaints import did_you_mean

    wanted, _, _version = name.partition("@")
    known = tuple(known)
    if (same := find(wanted, known)) is not None:
        versions = ", ".join(entry.version for entry in known if entry.name == same.name)
        return f"{same.name} is known in version {versions}"
    names = {alias: entry for entry in known for alias in (*entry.aliases, entry.name)}
    hint = did_you_mean(_same(wanted), names).strip()
    meant = next((entry for alias, entry in names.items() if repr(alias) in hint), None)
    if meant is None:
        return None
    return f"{hint} That is {meant.title}: {', '.join((str(meant), *meant.aliases))}"


def _same(name: str) -> str:
    """The name as it is compared: people type `swebench_verified` and `SWE-bench-Verified`."""
    return name.lower().replace("_", "-").replace(" ", "-")
