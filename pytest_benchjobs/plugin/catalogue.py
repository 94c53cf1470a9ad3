"""Benchmarks that `--bench` names: found as everywhere, with what hooks and conftest.py files of pytest add.

Functions raise pytest.UsageError: for what is not there, cannot be read or fetched, or is wrong in the ini file.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ..model.errors import BenchError, InputError
from ..settings.table import EVERY
from ..sources import open_source
from ..system.paths import is_directory
from . import options
from .excerpts import in_words
from .job_settings import settings_of
from .options import usage_error
from .progress import show
from .python_files import AUTHORED, benchmarks_in, conftests, module_at
from .registry import is_path, named
from .state import is_worker, state_of

if TYPE_CHECKING:
    from ..sources.catalogue.entry import Entry, Parameters
    from ..sources.finder import Finder, Named
    from ..sources.protocol import Source

_SHOWN = 3


def resolve(config: pytest.Config, benchmarks: Sequence[str]) -> None:
    """Find the named benchmarks, once in a session; fetch those that are not here."""
    state = state_of(config)
    if not state.named:
        found = (_every(config) if text == EVERY else [find(config, text)] for text in benchmarks)
        state.named = [one for several in found for one in several]


def fetch_named(config: pytest.Config, benchmarks: Sequence[str]) -> None:
    """Fetch named benchmarks that are not here, before an xdist worker looks. Other errors are reported later."""
    from ..sources.catalogue.kept import trouble

    state = state_of(config)
    if state.is_fetched:
        return
    state.is_fetched = True
    finder = finder_of(config)
    for text in benchmarks:
        try:
            entries = (
                [one.entry for one in finder.given.values()]
                if text == EVERY
                else [finder.entry(text, config.invocation_params.dir)]
            )
        except InputError:
            continue
        for entry in filter(None, entries):
            if trouble(entry) is not None:
                _place(config, entry)


def find(config: pytest.Config, text: str) -> tuple[str | None, list[Source]]:
    """Resolve `text` to (name, sources) of a registered benchmark, or (None, sources) of a path."""
    from ..sources.finder import NoSuchBenchmark

    if not text.strip():
        raise usage_error("--bench: a name or a path is missing")
    finder = finder_of(config)
    try:
        return finder.find(text, config.invocation_params.dir)
    except NoSuchBenchmark as error:
        raise usage_error(f"--bench: {error}{_unread(config, finder)}") from None
    except InputError as error:
        raise usage_error(f"--bench: {in_words(config, error)}") from None


def _every(config: pytest.Config) -> list[tuple[str | None, list[Source]]]:
    """Return all benchmarks of the project, once each. The collector reports the errors of broken ones."""
    finder = finder_of(config)

    def found(name: str, one: Named) -> list[Source]:
        # A directory of tasks is found by its own name, too.
        return [
            source for source in finder.sources(one) if name_of(config, Path(source.path)) in (None, name)
        ]

    try:
        named = [(name, found(name, one)) for name, one in finder.named.items()]
    except InputError as error:
        raise usage_error(f"--bench: {in_words(config, error)}") from None
    if not named and not finder.broken:
        raise usage_error("--bench: no benchmark is registered; give a PATH, or see ini key bench_benchmarks")
    return [*named, (None, [source for source, _ in finder.broken])]


def is_known(config: pytest.Config, name: str) -> bool:
    """Return whether a benchmark has this name, without opening it. UsageError: a line of the ini file is wrong."""
    try:
        return finder_of(config).is_known(name)
    except InputError:
        return False


def hiding(config: pytest.Config, names: Iterable[str]) -> Sequence[str]:
    """Return a line for each benchmark of the project that hides one of the catalogue by its name."""
    try:
        return [*finder_of(config).hiding(names)]
    except (InputError, pytest.UsageError):
        return ()  # told where a name is looked up


def finder_of(config: pytest.Config) -> Finder:
    """Return what finds benchmarks in this session."""
    from ..sources.finder import Finder

    root = config.rootpath
    authored = [
        source
        for module in (conftests(config) if AUTHORED in sys.modules else ())
        for _, source in benchmarks_in(module)
    ]
    return Finder(
        (root, *(root / path for path in options.ini(config, "bench_paths"))),
        _given(config),
        authored,
        open_entry=lambda entry: _fetched(config, entry),
        read_python=lambda path: [source for _, source in benchmarks_in(module_at(config, path))],
    )


def _given(config: pytest.Config) -> dict[str, Named]:
    """Return benchmarks that a hook or the ini file names."""
    from ..sources.finder import Named, read_lines

    known: dict[str, Named] = {}
    try:
        for added in config.hook.pytest_benchjobs_benchmarks(config=config):
            if added is None:
                continue
            from ..sources.catalogue.entry import Entry

            what = "paths, or to sources: objects with `refs` and `load`"
            for name, value in named("pytest_benchjobs_benchmarks", added, _is_benchmark, what).items():
                if is_path(value):
                    known[name] = Named.at(config.rootpath / value, name)
                elif isinstance(value, Entry):
                    known[name] = Named((), value.version, name, entry=value)
                else:
                    given = tuple(value) if isinstance(value, Sequence) else (value,)
                    known[name] = Named((), None, name, given)
        return known | read_lines(options.ini(config, "bench_benchmarks"), config.rootpath)
    except InputError as error:
        raise usage_error(str(error)) from None


def _is_benchmark(value: object) -> bool:
    """Return whether a hook may return this value: a path, an entry, a source, or several sources."""
    from ..sources.catalogue.entry import Entry
    from ..sources.catalogue.installed import is_source

    if isinstance(value, Sequence) and not isinstance(value, str):
        return bool(value) and all(map(is_source, value))
    return is_path(value) or isinstance(value, Entry) or is_source(value)


def opened(config: pytest.Config, path: Path) -> Source | None:
    """Open what is at a path; a task directory has the benchmark that a hook or the ini file gave it."""
    return open_source(path, name_of(config, path) if is_directory(path) else None)


def name_of(config: pytest.Config, task: Path) -> str | None:
    """Return the benchmark name that a hook or the ini file gave a task directory, or its parent."""
    state = state_of(config)
    if state.benchmark_names is None:
        state.benchmark_names = {
            os.path.abspath(path): name  # noqa: PTH100  keeps links
            for name, entry in _given(config).items()
            for path in entry.paths
        }
    names = state.benchmark_names
    return names.get(str(task)) or names.get(str(task.parent)) if names else None


def _unread(config: pytest.Config, finder: Finder) -> str:
    """Return a phrase with the files that could not be read, and the first error of each."""
    broken = finder.broken
    if not broken:
        return ""
    first = [in_words(config, error).partition("\n")[0] for _, error in broken[:_SHOWN]]
    more = f"; and {len(broken) - _SHOWN} more" if len(broken) > _SHOWN else ""
    return f"; not read, because of mistakes: {'; '.join(first)}{more}"


def _fetched(config: pytest.Config, entry: Entry) -> list[Source]:
    """Open a benchmark of the catalogue, with the parameters of the job; fetch it first if it is not here."""
    place = _place(config, entry)
    try:
        return list(entry.sources(place, _parameters(config, entry)))
    except InputError as error:
        settings = settings_of(config)
        changes = settings.job.per_benchmark.get(entry.name)
        own = error.path is None and changes is not None and changes.params
        blame = settings.origin(f"per_benchmark.{entry.name}") if own else "--bench"
        raise usage_error(f"{blame}: {error}") from None


def _parameters(config: pytest.Config, entry: Entry) -> Parameters:
    """Return the parameters of the job for a benchmark, whichever one of its names they were given under."""
    from ..sources.catalogue.entry import Parameters

    state = state_of(config)
    settings = settings_of(config)
    own_names = finder_of(config).named if settings.job.per_benchmark else {}
    others = [
        name
        for name in settings.job.per_benchmark
        if name not in own_names and name != entry.name and entry.is_called(name)
    ]
    alone = len(settings.benchmarks) == 1 and config.args_source is not pytest.Config.ArgsSource.ARGS
    unused = [agent.label for agent in settings.usual if agent.name not in ("oracle", entry.agent)]
    if entry.agent is not None and unused and not is_worker(config):
        show(config, f"{entry.name} runs no agent: {', '.join(unused)} is not used for it")
    settings = state.settings = settings.naming(entry.name, others, entry.agent, alone=alone)
    changes = settings.job.per_benchmark.get(entry.name)
    return Parameters(
        settings.job.of(entry.name).params,
        frozenset(() if changes is None else changes.params),
        (config.invocation_params.dir, config.rootpath),
    )


def _place(config: pytest.Config, entry: Entry) -> Path:
    """Return the directory of its files; fetch them first if needed. An xdist worker never fetches."""
    from ..sources.catalogue.kept import opened

    def bring(missing: Entry) -> None:
        from ..sources.catalogue.fetching import fetch

        fetch(missing, lambda line: show(config, line))

    try:
        return opened(entry, None if is_worker(config) else bring)
    except BenchError as error:
        raise usage_error(f"--bench: {error}") from None
