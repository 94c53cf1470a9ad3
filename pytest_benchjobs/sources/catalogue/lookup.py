"""Resolving a benchmark's name, for the command line and for `--bench`: one order, and one check of versions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ...model.errors import InputError
from .. import ENTRY_SUFFIX
from . import entries
from .entry import Entry, entry_at, same
from .installed import installed, opened
from .kept import kept_entries

if TYPE_CHECKING:
    from ..protocol import Source


class Lookup:
    """Benchmarks known by name.

    The order of precedence is: entries of a registry, files `*.benchmark.toml`, entries of this package, those of
    installed packages, and those fetched from a registry.

    Args:
        directories: They hold the user's files.
        registry: Entries of a registry that was named.

    Raises InputError: a file is wrong.
    """

    def __init__(self, directories: Iterable[Path], registry: Sequence[Entry] = ()) -> None:
        paths = sorted(
            {path.resolve() for directory in directories for path in directory.glob(f"*{ENTRY_SUFFIX}")}
        )
        described = [entry_at(path) for path in paths if path.is_file()]
        self.listed = (*registry, *described, *entries())
        """In order of precedence."""

    def find(self, text: str) -> Entry | tuple[Source, ...] | None:
        """Return the entry for `NAME` or `NAME@VERSION`, or the sources of an installed package; None: there is none.

        Raises InputError: it has no such version, or the installed object is wrong.
        """
        name, at, version = text.partition("@")
        named = [entry for entry in self.listed if entry.is_called(name)]
        if found := next((entry for entry in named if version in ("", entry.version)), None):
            return found
        brought: Entry | tuple[Source, ...] = ()
        if (point := installed().get(name)) is not None:
            brought = opened(point)
            if isinstance(brought, Entry):
                if version in ("", brought.version):
                    return brought
                named.append(brought)
            elif not at or any(version == version_of(source) for source in brought):
                return tuple(source for source in brought if not at or version_of(source) == version)
        for entry in kept_entries(lambda kept: same(kept) == same(name)):
            if version in ("", entry.version):
                return entry
            named.append(entry)
        if not named and not brought:
            return None
        sources = () if isinstance(brought, Entry) else brought
        have = [*(entry.version for entry in named), *filter(None, map(version_of, sources))]
        check_version(named[0].name if named else name, version, have)
        return None

    def entries(self) -> Iterator[Entry]:
        """Yield every entry, each name and version once, without opening benchmarks of installed packages."""
        seen: set[tuple[str, str]] = set()
        for entry in (*self.listed, *kept_entries(lambda _: True)):
            if (key := (same(entry.name), entry.version)) not in seen:
                seen.add(key)
                yield entry

    def near(self, text: str) -> str | None:
        """Suggest a known benchmark for an unknown name, in one sentence; None: none is similar."""
        from ..complaints import did_you_mean

        known = {alias: entry for entry in self.entries() for alias in (*entry.aliases, entry.name)}
        hint = did_you_mean(same(text.partition("@")[0]), {**known, **installed()}).strip()
        if not hint:
            return None
        meant = next((entry for alias, entry in known.items() if repr(alias) in hint), None)
        if meant is None:
            return hint
        return f"{hint} That is {meant.title}: {', '.join((str(meant), *meant.aliases))}"


def version_of(source: Source) -> str | None:
    """Version of a source's benchmark; None: it has none. Raises InputError: the source is wrong."""
    version = getattr(source, "version", None)
    return None if version is None else str(version)


def check_version(name: str, version: str, have: Iterable[str]) -> None:
    """Check that a benchmark has a version. Raises InputError: it has others, or none."""
    known = sorted(set(have))
    if version not in known:
        said = f"in version {', '.join(known)}" if known else "without a version"
        raise InputError(f"{name} is known {said}, not {version!r}")
