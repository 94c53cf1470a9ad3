"""Find a benchmark by name or path: one order for `--bench`, commands, fixtures and scripts.

First a path that can be nothing else, then a name that the project gave, then any other path, then the catalogue,
which is not imported before it is needed.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os.path
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..model.errors import InputError
from ..model.node_ids import is_path
from ..system.paths import exists, is_directory, is_file
from . import ENTRY_SUFFIX, HOLDS_NONE, did_you_mean, find_sources, likely_meant, open_source, python_files

if TYPE_CHECKING:
    from .catalogue.entry import Entry
    from .catalogue.lookup import Lookup
    from .protocol import Source


class NoSuchBenchmark(InputError):
    """There is no benchmark of that name."""


@dataclasses.dataclass(frozen=True, slots=True)
class Named:
    """A benchmark that the project named."""

    paths: tuple[Path, ...] = ()
    """Several manifests may belong to one benchmark."""
    version: str | None = None
    """That of all its sources; None: they have their own."""
    name: str | None = None
    """Benchmark of the task directories at or directly under the paths."""
    given: tuple[Source, ...] = ()
    """Sources written in Python."""
    entry: Entry | None = None
    """Entry of the user's own catalogue."""

    @classmethod
    def at(cls, path: Path, name: str, version: str | None = None) -> Named:
        """Return what is at a path: a manifest, a directory, or a file with an entry of the catalogue.

        Raises InputError: the entry is wrong.
        """
        if not path.name.endswith(ENTRY_SUFFIX):
            return cls((path,), version, name)
        from .catalogue.entry import entry_at

        entry = entry_at(path)
        return cls((), version or entry.version, name, entry=entry)


def read_lines(lines: Iterable[str], root: Path) -> dict[str, Named]:
    """Read the ini key `bench_benchmarks`: lines `NAME[@VERSION] = PATH`. Raises InputError: a line is wrong."""
    named: dict[str, Named] = {}
    for line in lines:
        name, equals, path = line.partition("=")
        if not equals or not name.strip() or not path.strip():
            raise InputError(f"ini key bench_benchmarks: {line!r} is not of the form NAME[@VERSION] = PATH")
        name, _, version = name.strip().partition("@")
        named[name] = Named.at(root / path.strip(), name, version or None)
    return named


def _open_local(entry: Entry) -> Sequence[Source]:
    """Return the sources of an entry that is on this machine."""
    from .catalogue.kept import opened

    return entry.sources(opened(entry))


def _read_python(path: Path) -> Sequence[Source]:
    from .authored import benchmarks_at

    return benchmarks_at(path, optional=True)


@dataclasses.dataclass
class Finder:
    """Benchmarks of a project, of the catalogue, and at paths.

    Raises InputError: from every method: a file that it reads is wrong.
    """

    directories: Sequence[Path]
    """The rootdir, and those of the ini key `bench_paths`."""
    given: Mapping[str, Named] = dataclasses.field(default_factory=dict)
    """Those that hooks and the ini key `bench_benchmarks` name."""
    authored: Iterable[Source] = ()
    """Those written in Python in conftest.py files."""
    registry: Sequence[Entry] = ()
    """Entries of a registry that was named."""
    open_entry: Callable[[Entry], Sequence[Source]] = _open_local
    """Opens a benchmark of the catalogue; it may fetch it first."""
    read_python: Callable[[Path], Sequence[Source]] = _read_python
    """Runs a Python file, and returns the benchmarks in it."""
    broken: list[tuple[Source, InputError]] = dataclasses.field(default_factory=list, init=False)
    """Manifests whose name is unknown, with their errors, once `named` is known."""

    @functools.cached_property
    def named(self) -> dict[str, Named]:
        """Every benchmark that the project named, also by its manifests, by name."""
        known: dict[str, Named] = {}
        root, *others = self.directories
        manifests = [open_source(path) for path in sorted(root.glob("*.bench.*"))]
        for source in filter(None, manifests):
            self._add(known, source)
        for directory in filter(is_directory, others):
            for source in find_sources(directory):
                self._add(known, source)
        for source in self.authored:
            self._add(known, source, authored=True)
        return {**known, **self.given}

    def _add(self, known: dict[str, Named], source: Source, *, authored: bool = False) -> None:
        try:
            before = known.get(source.benchmark, Named())
        except InputError as error:
            # A broken source fails only requests for it, not for other benchmarks.
            self.broken.append((source, error))
            return
        # A directory of tasks is a benchmark, so a task has the name of its parent.
        path = source.path.parent if source.path.is_dir() else source.path
        if authored:
            known[source.benchmark] = dataclasses.replace(before, given=(*before.given, source))
        elif path not in before.paths:
            known[source.benchmark] = dataclasses.replace(before, paths=(*before.paths, path))

    @functools.cached_property
    def catalogue(self) -> Lookup:
        """The catalogue, with the user's files."""
        from .catalogue.lookup import Lookup

        return Lookup(self.directories, self.registry)

    def sources(self, named: Named) -> list[Source]:
        """Return the sources of a named benchmark."""
        return [
            *named.given,
            *(() if named.entry is None else self.open_entry(named.entry)),
            *(source for path in named.paths for source in find_sources(path, named.name)),
        ]

    def find(self, text: str, here: Path) -> tuple[str | None, list[Source]]:
        """Return name and sources of a benchmark, `NAME` or `NAME@VERSION`; no name for a path from `here`.

        Raises NoSuchBenchmark: there is none.
        """
        path = here / text
        if is_path(text) and exists(path):
            return None, self.at(path)
        name, at, version = text.partition("@")
        if name in self.named:
            named = self.named[name]
            return name, _of_version(named, self.sources(named), name, version if at else None)
        if exists(path):
            return None, self.at(path)
        entry = self.catalogue.find(text)
        if isinstance(entry, tuple):
            return name, list(entry)
        if entry is not None:
            return entry.name, list(self.open_entry(entry))
        if is_path(text):
            stem = path.name.removesuffix(path.suffix)
            beside = sorted(
                one.name for one in path.parent.glob("*.bench.*") if one.name.partition(".")[0] == stem
            )
            meant = f"; did you mean {beside[0]!r}?" if beside else ""
            raise NoSuchBenchmark(f"no such file or directory: {text}{meant}")
        raise NoSuchBenchmark(f"there is no benchmark {name!r}; {self._hint(text)}")

    def at(self, path: Path) -> list[Source]:
        """Return the sources at a path, with the Python files that pytest would collect.

        Raises InputError: there are none.
        """
        if path.suffix == ".py" and is_file(path):
            if not (written := list(self.read_python(path))):
                raise InputError("has no Benchmark in a variable of the module", path=path)
            return written
        sources = list(find_sources(path))
        for file in python_files(path) if is_directory(path) else ():
            sources += self.read_python(file)
        if not sources:
            raise InputError(likely_meant(path) or HOLDS_NONE, path=path)
        return sources

    def entry(self, text: str, here: Path | None = None) -> Entry | None:
        """Return the entry that a name, or with `here` what `find` takes, stands for; None: there is none."""
        there = here is not None and exists(here / text)
        if there and is_path(text):
            return None
        if (named := self.named.get(text.partition("@")[0])) is not None:
            return named.entry
        if there:
            return None
        entry = self.catalogue.find(text)
        return None if isinstance(entry, tuple) else entry

    def hiding(self, names: Iterable[str] | None = None) -> Iterator[str]:
        """Yield a line for each of these benchmarks, by default all, that hides one of the catalogue by its name.

        Files with entries that are wrong hide nothing: whoever looks a name up is told.
        """
        from .catalogue.entry import same
        from .catalogue.installed import installed

        with contextlib.suppress(InputError):
            known = {same(name): f"that of the installed package {name}" for name in installed()}
            for entry in self.catalogue.entries():
                known |= dict.fromkeys(map(same, (entry.name, *entry.aliases)), f"{entry} of the catalogue")
            # Reading all names of a project takes longer, and mostly there is nothing to say.
            wanted = [name for name in (self.named if names is None else names) if same(name) in known]
            for name in [name for name in wanted if name in self.named]:
                mine = self.named[name]
                if mine.entry is None or str(mine.entry) != known[same(name)].split()[0]:
                    places = [
                        os.path.relpath(path) for path in (*mine.paths, *(one.path for one in mine.given))
                    ]
                    where = f", {places[0]}," if places else ""
                    yield f"{name} is your own benchmark{where} and hides {known[same(name)]}; rename it to use that"

    def is_known(self, name: str) -> bool:
        """Return whether a benchmark has this name, without opening it."""
        return name in self.named or self.catalogue.find(name) is not None

    def _hint(self, text: str) -> str:
        hint = did_you_mean(text.partition("@")[0], self.named).strip() or self.catalogue.near(text)
        if hint:
            return hint
        if self.named:
            return f"available: {', '.join(sorted(self.named))}"
        return (
            "`benchjobs benchmarks list` shows known names; your own is a PATH, a manifest in benchmarks/, or "
            "listed in the ini key bench_benchmarks"
        )


def _of_version(named: Named, sources: list[Source], name: str, version: str | None) -> list[Source]:
    """Return the sources of a version; None: any. A version of the project's overrides those of manifests."""
    if version is None:
        return sources
    from .catalogue.lookup import check_version, version_of

    have = [named.version] if named.version is not None else [*filter(None, map(version_of, sources))]
    check_version(name, version, have)
    return sources if len(set(have)) == 1 else [one for one in sources if version_of(one) == version]
