"""Lookup of benchmarks by name for `--bench`."""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ..model.errors import BenchError, InputError
from ..settings.table import EVERY
from ..sources import ENTRY_SUFFIX, HOLDS_NONE, did_you_mean, find_sources, open_source, python_files
from ..system.paths import exists, is_directory, is_file
from . import options
from .mistakes import in_words, shown
from .options import usage_error
from .progress import show
from .python_files import AUTHORED, benchmarks_in, conftests, module_at
from .registry import is_path, named
from .state import is_worker, state_of
from .wanted import asked

if TYPE_CHECKING:
    from ..sources.catalogue.entry import Entry, Parameters
    from ..sources.catalogue.lookup import Lookup
    from ..sources.protocol import Source


@dataclasses.dataclass(frozen=True, slots=True)
class _Named:
    paths: tuple[Path, ...]
    """Name -> sources: several manifests may belong to one benchmark."""
    version: str | None = None
    name: str | None = None
    """Benchmark of the task directories at or directly under the paths."""
    given: tuple[Source, ...] = ()
    """Sources made by a hook."""
    entry: Entry | None = None
    """Entry of the user's own catalogue."""

    def sources(self, config: pytest.Config) -> list[Source]:
        return [
            *self.given,
            *(_fetched(config, self.entry) if self.entry is not None else ()),
            *(source for path in self.paths for source in _sources(path, self.name)),
        ]


_Broken = list[tuple["Source", InputError]]
_SHOWN = 3


def resolve(config: pytest.Config, benchmarks: Sequence[str]) -> None:
    """Find the named benchmarks, once in a session; fetch those that are not here.

    Raises:
        pytest.UsageError: there is no such benchmark, or it cannot be read.
    """
    state = state_of(config)
    if not state.named:
        state.named = [find(config, text) for text in benchmarks]


def fetch_named(config: pytest.Config, benchmarks: Sequence[str]) -> None:
    """Fetch named benchmarks that are not here, before an xdist worker looks for them. Other errors are reported later.

    Raises:
        pytest.UsageError: it cannot be fetched, or a line of the ini file is wrong.
    """
    state = state_of(config)
    if state.is_fetched:
        return
    state.is_fetched = True
    given = _given(config)
    for text in benchmarks:
        name = text.partition("@")[0]
        for meant in given.values() if text == EVERY else filter(None, [given.get(name)]):
            if meant.entry is not None:
                _place(config, meant.entry)
        if text == EVERY or exists(config.invocation_params.dir / text):
            continue
        entry = _entry(config, text)
        if entry is not None and name not in registered(config)[0]:
            _place(config, entry)


def _entry(config: pytest.Config, text: str) -> Entry | None:
    """Return the catalogue's entry of a name, if it is one that has to be fetched."""
    from ..sources.catalogue.entry import Entry
    from ..sources.catalogue.kept import trouble

    try:
        found = _lookup(config).find(text)
    except InputError:
        return None
    return found if isinstance(found, Entry) and trouble(found) is not None else None


def find(config: pytest.Config, text: str) -> tuple[str | None, list[Source]]:
    """Resolve `text` to (name, sources) of a registered benchmark, or (None, sources) of a path.

    Raises:
        pytest.UsageError: there is no such benchmark, or it cannot be read.
    """
    known, broken = registered(config)
    if not text.strip():
        raise usage_error("--bench: a name or a path is missing")
    if text == EVERY:
        if not known and not broken:
            raise usage_error(
                "--bench: no benchmark is registered; give a PATH, or see ini key bench_benchmarks"
            )
        # The collector reports the errors of broken ones.
        every = [source for entry in known.values() for source in entry.sources(config)]
        return None, [*every, *(source for source, _ in broken)]
    name, at, version = text.partition("@")
    if name in known:
        return name, _of_version(known[name], known[name].sources(config), name, version if at else None)
    path = config.invocation_params.dir / text
    if path.suffix == ".py" and is_file(path):
        return None, _in_python(config, path)
    if exists(path):
        sources = _sources(path)
        for file in python_files(path) if is_directory(path) else ():
            sources += _in_python(config, file, optional=True)
        if not sources:
            raise usage_error(f"--bench: {text} {HOLDS_NONE}")
        return None, sources
    try:
        return _in_catalogue(config, text)
    except _NoSuch as missing:
        if "/" in text or text.endswith((".yaml", ".yml", ".toml")):
            raise usage_error(f"--bench: no such file or directory: {text}") from None
        hint = did_you_mean(name, known).strip() or missing.lookup.near(text)
    if not hint:
        hint = (
            f"available: {', '.join(sorted(known))}"
            if known
            else "`benchjobs benchmarks list` shows known names; your own is a PATH, a manifest in benchmarks/, or "
            "listed in the ini key bench_benchmarks"
        )
    raise usage_error(f"--bench: there is no benchmark {name!r}; {hint}{_unread(config, broken)}")


def is_known(config: pytest.Config, name: str) -> bool:
    """Return whether a benchmark has this name, without opening it.

    Raises:
        pytest.UsageError: a line of the ini file is wrong.
    """
    if name in registered(config)[0]:
        return True
    try:
        return _lookup(config).find(name) is not None
    except InputError:
        return False


class _NoSuch(Exception):
    def __init__(self, lookup: Lookup) -> None:
        super().__init__()
        self.lookup = lookup


def _in_catalogue(config: pytest.Config, text: str) -> tuple[str, list[Source]]:
    """Resolve a name by the catalogue; fetch the benchmark if it is not here.

    Raises:
        _NoSuch: the catalogue has no such name.
        pytest.UsageError: the entry is wrong, or cannot be fetched.
    """
    try:
        lookup = _lookup(config)
        found = lookup.find(text)
    except InputError as error:
        raise usage_error(f"--bench: {error}") from None
    if found is None:
        raise _NoSuch(lookup)
    if isinstance(found, tuple):
        return text.partition("@")[0], list(found)
    return found.name, _fetched(config, found)


def _lookup(config: pytest.Config) -> Lookup:
    """Return the catalogue, with the user's files.

    Raises:
        InputError: one is wrong.
    """
    from ..sources.catalogue.lookup import Lookup

    root = config.rootpath
    return Lookup([root, *(root / path for path in options.ini(config, "bench_paths"))])


def _of_version(entry: _Named, sources: list[Source], name: str, version: str | None) -> list[Source]:
    """Return the sources of a version; None: any. A version given at registration overrides those of manifests.

    Raises:
        pytest.UsageError: there is none of that version, or a manifest is wrong.
    """
    if version is None:
        return sources
    from ..sources.catalogue.lookup import check_version, version_of

    try:
        have = [entry.version] if entry.version is not None else [*filter(None, map(version_of, sources))]
        check_version(name, version, have)
        return sources if len(set(have)) == 1 else [one for one in sources if version_of(one) == version]
    except InputError as error:
        raise usage_error(f"--bench: {error}") from None


def registered(config: pytest.Config) -> tuple[dict[str, _Named], _Broken]:
    """Return every named benchmark: of the ini key `bench_benchmarks`, hooks, manifests in `bench_paths` and rootdir.

    Also return manifests there whose name is unknown, with their errors.
    """
    known: dict[str, _Named] = {}
    broken: _Broken = []
    for path in sorted(config.rootpath.glob("*.bench.*")):
        source = open_source(path)
        if source is not None:
            _add_manifest(known, broken, source)
    for directory in options.ini(config, "bench_paths"):
        root = config.rootpath / directory
        if is_directory(root):
            for source in _sources(root):
                _add_manifest(known, broken, source)
    _add_conftests(known, broken, config)
    return known | _given(config), broken


def _add_conftests(known: dict[str, _Named], broken: _Broken, config: pytest.Config) -> None:
    """Add benchmarks written in Python in the conftest.py files that pytest has loaded."""
    if AUTHORED not in sys.modules:
        return
    for module in conftests(config):
        for _, source in benchmarks_in(module):
            try:
                before = known.get(source.benchmark, _Named(()))
            except InputError as error:
                broken.append((source, error))
            else:
                known[source.benchmark] = dataclasses.replace(before, given=(*before.given, source))


def _in_python(config: pytest.Config, path: Path, *, optional: bool = False) -> list[Source]:
    """Return the benchmarks in a Python file.

    Raises:
        pytest.UsageError: it cannot be imported, or has none and this is not `optional`.
    """
    try:
        found: list[Source] = [source for _, source in benchmarks_in(module_at(config, path))]
    except InputError as error:
        raise usage_error(f"--bench: {error}") from None
    if not found and not optional:
        raise usage_error(f"--bench: {shown(config, path)} has no Benchmark in a variable of the module")
    return found


def _given(config: pytest.Config) -> dict[str, _Named]:
    """Return benchmarks that a hook or the ini file names."""
    known: dict[str, _Named] = {}
    for added in config.hook.pytest_benchjobs_benchmarks(config=config):
        if added is None:
            continue
        from ..sources.catalogue.entry import Entry

        what = "paths, or to sources: objects with `refs` and `load`"
        for name, value in named("pytest_benchjobs_benchmarks", added, _is_benchmark, what).items():
            if is_path(value):
                known[name] = _at(config.rootpath / value, None, name)
            elif isinstance(value, Entry):
                known[name] = _Named((), value.version, name, entry=value)
            else:
                known[name] = _Named(
                    (), None, name, tuple(value) if isinstance(value, Sequence) else (value,)
                )
    for line in options.ini(config, "bench_benchmarks"):
        name, equals, path = line.partition("=")
        if not equals or not name.strip() or not path.strip():
            raise usage_error(f"ini key bench_benchmarks: {line!r} is not of the form NAME[@VERSION] = PATH")
        name, _, version = name.strip().partition("@")
        known[name] = _at(config.rootpath / path.strip(), version or None, name)
    return known


def _at(path: Path, version: str | None, name: str) -> _Named:
    """Return the sources or the entry at a path: a manifest, a directory, or a file with an entry of the catalogue."""
    if not path.name.endswith(ENTRY_SUFFIX):
        return _Named((path,), version, name)
    from ..sources.catalogue.entry import entry_at

    try:
        entry = entry_at(path)
    except InputError as error:
        raise usage_error(str(error)) from None
    return _Named((), version or entry.version, name, entry=entry)


def _is_benchmark(value: object) -> bool:
    """Return whether a hook may return this value: a path, an entry, a source, or several sources."""
    from ..sources.catalogue.entry import Entry
    from ..sources.catalogue.installed import is_source

    if isinstance(value, Sequence) and not isinstance(value, str):
        return bool(value) and all(map(is_source, value))
    return is_path(value) or isinstance(value, Entry) or is_source(value)


def name_of(config: pytest.Config, task: Path) -> str | None:
    """Return the benchmark name that a hook or the ini file gave a task directory, or its parent.

    Raises:
        pytest.UsageError: a line of the ini file is invalid.
    """
    state = state_of(config)
    if state.benchmark_names is None:
        state.benchmark_names = {
            os.path.abspath(path): name  # noqa: PTH100  keeps links
            for name, entry in _given(config).items()
            for path in entry.paths
        }
    names = state.benchmark_names
    return names.get(str(task)) or names.get(str(task.parent)) if names else None


def _add_manifest(known: dict[str, _Named], broken: _Broken, source: Source) -> None:
    # A directory of tasks is a benchmark, so a task has the name of its parent.
    path = source.path.parent if source.path.is_dir() else source.path
    try:
        before = known.get(source.benchmark, _Named(()))
    except InputError as error:
        # A broken source fails only requests for it, not for other benchmarks.
        broken.append((source, error))
        return
    if path not in before.paths:
        known[source.benchmark] = _Named((*before.paths, path))


def _unread(config: pytest.Config, broken: _Broken) -> str:
    """Return a phrase with the files that could not be read, and the first error of each."""
    if not broken:
        return ""
    first = [in_words(config, error).partition("\n")[0] for _, error in broken[:_SHOWN]]
    more = f"; and {len(broken) - _SHOWN} more" if len(broken) > _SHOWN else ""
    return f"; not read, because of mistakes: {'; '.join(first)}{more}"


def _fetched(config: pytest.Config, entry: Entry) -> list[Source]:
    """Open a benchmark of the catalogue, with the parameters of the job; fetch it first if it is not here.

    Raises:
        pytest.UsageError: it cannot be fetched, its files are damaged, or a parameter is wrong.
    """
    place = _place(config, entry)
    try:
        return list(entry.sources(place, _parameters(config, entry)))
    except InputError as error:
        wanted = asked(config)
        changes = wanted.job.per_benchmark.get(entry.name)
        own = error.path is None and changes is not None and changes.params
        blame = wanted.origin(f"per_benchmark.{entry.name}") if own else "--bench"
        raise usage_error(f"{blame}: {error}") from None


def _parameters(config: pytest.Config, entry: Entry) -> Parameters:
    """Return the parameters of the job for a benchmark, whichever of its names they were given under.

    Raises:
        InputError: they were given under two names.
    """
    from ..sources.catalogue.entry import Parameters

    state = state_of(config)
    wanted = asked(config)
    own_names = registered(config)[0] if wanted.job.per_benchmark else {}
    others = [
        name
        for name in wanted.job.per_benchmark
        if name not in own_names and name != entry.name and entry.is_called(name)
    ]
    alone = len(wanted.benchmarks) == 1 and config.args_source is not pytest.Config.ArgsSource.ARGS
    unused = [agent.label for agent in wanted.usual if agent.name not in ("oracle", entry.agent)]
    if entry.agent is not None and unused and not is_worker(config):
        show(config, f"{entry.name} runs no agent: {', '.join(unused)} is not used for it")
    wanted = state.wanted = wanted.naming(entry.name, others, entry.agent, alone=alone)
    changes = wanted.job.per_benchmark.get(entry.name)
    return Parameters(
        wanted.job.of(entry.name).params,
        frozenset(() if changes is None else changes.params),
        (config.invocation_params.dir, config.rootpath),
    )


def _place(config: pytest.Config, entry: Entry) -> Path:
    """Return the directory of its files; fetch them first if needed. An xdist worker never fetches.

    Raises:
        pytest.UsageError: it cannot be fetched.
    """
    from ..sources.catalogue.kept import opened

    def bring(missing: Entry) -> None:
        from ..sources.catalogue.fetching import fetch

        fetch(missing, lambda line: show(config, line))

    try:
        return opened(entry, None if is_worker(config) else bring)
    except BenchError as error:
        raise usage_error(f"--bench: {error}") from None


def _sources(path: Path, benchmark: str | None = None) -> list[Source]:
    try:
        return find_sources(path, benchmark)
    except InputError as error:
        raise usage_error(f"--bench: {error}") from None
