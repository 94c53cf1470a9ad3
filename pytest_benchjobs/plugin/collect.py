"""Collection: from manifests, task directories and `--bench` to items. Reads only what selection needs."""

from __future__ import annotations

import os
import re
import shutil
import sys
import warnings
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import pytest

from ..job.job_settings import JobSettings, matches
from ..model.environ import HOST
from ..model.errors import InputError
from ..model.escape import address, escaped
from ..model.node_ids import node_name
from ..model.scenario import Requires
from ..sources import did_you_mean, open_source
from ..store.text import clean, harmless
from ..system.cache import cache_directory
from ..system.garbage import gc_paused
from ..system.paths import is_directory
from . import interactive, selection
from . import known as known_failures
from .excerpts import in_words, shown
from .filters import Filters
from .items import BenchWarning, TrialItem, own_limits, unwanted
from .job_settings import settings_of
from .options import usage_error
from .private import load_conftests, take_fixtures
from .python_files import benchmarks_in, conftests
from .registry import add_scorers
from .state import is_worker, state_of

if TYPE_CHECKING:
    from ..sources.protocol import ScenarioRef, Source, Unsupported

_TAG = re.compile(r"^[A-Za-z0-9][\w.+-]*$")
# Markers with a meaning for pytest or a common plugin, which tags must not trigger.
_BEHAVIOUR = frozenset((
    "parametrize", "usefixtures", "skip", "skipif", "xfail", "filterwarnings", "tryfirst", "trylast",
    "hookwrapper", "timeout", "flaky", "rerun_except", "only_on", "xdist_group", "asyncio", "anyio", "trio",
    "twisted", "django_db", "benchmark", "order", "run", "dependency", "depends", "forked", "repeat",
    "incremental", "pytestmark", "bench_trial", "bench_known", "and", "or", "not", "True", "False", "None",
))  # fmt: skip
_SHOWN = 10
_REMEDY = (
    "Set variables in the environment, pass secrets with --bench-secret, install programs; or leave these scenarios "
    "out with -k or --bench-scenario"
)


class BenchmarkCollector:
    """Base of the collectors."""

    benchmark: str | None = None
    """Name by which its sources were requested; None: they were found at a path."""
    named: Sequence[Source] = ()
    """Sources that were requested by that name."""

    def take(self: Any, name: str, source: Source) -> None:
        """Collect a source that was requested by a name."""
        self.benchmark, self.named = name, (*self.named, source)
        self.extra_keyword_matches.add(name)

    def trials(self: pytest.Collector, sources: Sequence[Source]) -> list[TrialItem]:  # type: ignore[misc]
        """Return the trials of these sources."""
        if state_of(self.config).problem is not None:
            return []  # reported already
        if not self.own_markers:
            # Those of all trials: a user's mark on a trial overrides them.
            for mark in (pytest.mark.bench_trial, *own_limits(self.config)):
                self.add_marker(mark)
        try:
            settings = settings_of(self.config)
            _check_agents(self.config, settings)
            add_scorers(self.config, sources)
            items = list(_items(self, sources, settings))
        except pytest.UsageError as error:
            # A wrong setting is no error of this file: `check` ends the run with it.
            state_of(self.config).problem = harmless(clean(str(error)))
            return []
        except InputError as error:
            raise self.CollectError(in_words(self.config, error)) from None
        except BenchWarning as warning:
            raise self.CollectError(clean(f"{warning} (a warning, and warnings are errors here)")) from None
        return items


class FileCollector(BenchmarkCollector, pytest.File):
    """A file or directory; its path is escaped to stay on one line."""

    @classmethod
    def from_parent(cls, parent: Any, *, fspath: None = None, path: Path | None = None, **more: Any) -> Self:
        """Make a collector, with pytest's node id if its path needs no escaping."""
        assert path is not None  # noqa: S101  files have one
        return super().from_parent(parent, fspath=fspath, path=path, **{**_named(parent, path), **more})


# `nodeid` is final, but nothing else makes pytest show another name.
class OddDirectory(pytest.Dir):  # type: ignore[misc]
    """A directory whose raw name would print several lines, or a command to a CI system."""

    @classmethod
    def from_parent(cls, parent: pytest.Collector, *, path: Path) -> Self:  # type: ignore[override]
        """Make a collector."""
        more: dict[str, Any] = {**_named(parent, path)}
        return super(pytest.Dir, cls).from_parent(parent, path=path, **more)


class BenchFile(FileCollector):
    """A manifest."""

    @gc_paused()
    def collect(self) -> Iterable[TrialItem]:
        """Return its trials."""
        from .catalogue import opened

        source = opened(self.config, self.path)
        return self.trials([source] if source else [])


class FilesOfScenarios:
    """Leaves the files that manifests name to their scenarios: pytest neither imports a hidden test nor runs it."""

    @staticmethod
    @pytest.hookimpl(tryfirst=True)
    def pytest_make_collect_report(collector: pytest.Collector) -> pytest.CollectReport | None:
        """Collect nothing in a module or directory of a scenario, also no conftest.py."""
        if not isinstance(collector, pytest.Module | pytest.Directory):
            return None
        if not _is_of_scenario(collector):
            return None
        state_of(collector.config).left_to_scenarios.append(escaped(collector.nodeid))
        return pytest.CollectReport(collector.nodeid, "passed", None, [])


def _is_of_scenario(collector: pytest.Module | pytest.Directory) -> bool:
    """Return True if a manifest names a file or directory below its own, which is no argument."""
    root, state = collector.config.rootpath, state_of(collector.config)
    at = (collector.path, *collector.path.parents)
    for number, directory in enumerate(at[1:], start=1):
        for manifest in state.manifests.pop(directory, ()):
            hidden, given = _named_files(manifest)
            # Beside a manifest in the rootdir the agent may be given the project itself, whose tests are its own.
            named = hidden if directory == root else hidden | given
            state.of_scenarios.setdefault(directory, set()).update(named)
        below = at[:number]
        named = state.of_scenarios.get(directory, set())
        if not named.isdisjoint(below) and not any(map(collector.session.isinitpath, below)):
            return True
    return False


def _named_files(manifest: Path) -> tuple[set[Path], set[Path]]:
    from ..sources.manifest import ManifestSource

    source = open_source(manifest)
    try:
        return source.named_files() if isinstance(source, ManifestSource) else (set(), set())
    except InputError:  # reported where its scenarios are listed
        return set(), set()


class TaskDirectory(BenchFile):
    """A Harbor task directory; pytest collects nothing else in it."""


class NamedBenchmark(BenchmarkCollector, pytest.Collector):
    """Collector of `--bench NAME`, for sources that pytest would not find by a path below the rootdir."""

    @gc_paused()
    def collect(self) -> Iterable[TrialItem]:
        """Return the trials of all its sources."""
        return self.trials(self.named)


def _named(parent: pytest.Collector, path: Path) -> dict[str, str]:
    """Return name and node id of a path that cannot be shown raw."""
    node_id = node_path(parent.config, path)
    if node_id == _from_root(parent.config, path):
        return {}
    return {"name": address(path.name), "nodeid": node_id}


def node_path(config: pytest.Config, path: Path) -> str:
    """Return the path that node ids below a file or directory begin with."""
    return address(_from_root(config, path))


def _from_root(config: pytest.Config, path: Path) -> str:
    """Return a path relative to the rootdir."""
    return Path(os.path.relpath(path, config.rootpath)).as_posix()


def is_task(path: Path) -> bool:
    """Return whether a directory is a Harbor task, and not another tool's with a `task.toml`."""
    return open_source(path) is not None


def refuse_to_start_inside_a_task(config: pytest.Config) -> None:
    """Refuse a rootdir inside a task, where pytest would collect the task's tests as ordinary ones."""
    below = config.rootpath
    for parent in below.parents:
        inside = below.name in ("tests", "solution") and (parent / "task.toml").is_file()
        if inside and open_source(parent):
            raise usage_error(
                f"{escaped(str(below))} belongs to the task {escaped(str(parent))}: its files are put into a container "
                f"and graded there. Run: pytest {escaped(str(parent))}"
            )
        below = parent


def prepare(session: pytest.Session) -> bool:
    """Find benchmarks named by `--bench`, a job file or a profile; without paths, nothing else is collected."""
    from .catalogue import resolve

    config = session.config
    benchmarks = settings_of(config).benchmarks
    if not benchmarks:
        return False
    resolve(config, benchmarks)
    if config.args_source is not pytest.Config.ArgsSource.ARGS:
        config.args = []
    return True


def load_conftests_of_named(config: pytest.Config) -> None:
    """Load the conftest.py files beside named benchmarks: a trial is the same, whatever named it."""
    places = {Path(source.path).parent for _, sources in state_of(config).named for source in sources}
    if load_conftests(config, sorted(place for place in places if _is_ours(config, place))):
        state_of(config).agents = state_of(config).scorers = None  # they may have more


def _is_ours(config: pytest.Config, directory: Path) -> bool:
    """Return whether conftest.py files of a directory are for this machine.

    Not outside the rootdir, in what was fetched, or inside a task.
    """
    directory = Path(os.path.abspath(directory))  # noqa: PTH100  keeps links
    above = (directory, *directory.parents)
    if config.rootpath not in above or cache_directory("benchmarks") in above:
        return False
    return not any(os.path.lexists(place / "task.toml") and is_task(place) for place in above)


def named_collectors(
    session: pytest.Session, others: Iterable[pytest.Item | pytest.Collector]
) -> list[pytest.Collector]:
    """Return collectors for what `--bench` or an id names, in the directories where pytest would have them.

    `others` are what pytest collects by itself: their directories are the same nodes, so that fixtures are shared.
    """
    nodes = (node for other in others for node in other.listchain())
    made: dict[Path, pytest.Session | pytest.Directory] = {
        node.path: node for node in nodes if isinstance(node, pytest.Directory)
    }
    collectors: dict[tuple[str | None, str, int], Any] = {}
    known: set[str] = set()
    for name, sources in state_of(session.config).named:
        for source in () if name in known else sources:
            path = Path(source.path) if name is None else _path_of(session.config, source)
            parent = _directory(session, (path or Path(source.path)).parent, made)
            node_id = str(name) if path is None else node_path(session.config, path)
            key = (name, node_id, id(parent))
            if key not in collectors:
                kind = NamedBenchmark if path is None else _kind_of(path)
                place: dict[str, Any] = {} if path is None else {"path": path}
                collectors[key] = kind.from_parent(parent, name=node_id, nodeid=node_id, **place)
            if name is not None:
                collectors[key].take(name, source)
        if name is not None:
            known.add(name)
    return [*collectors.values()]


def _path_of(config: pytest.Config, source: Source) -> Path | None:
    """Return the path at which pytest would collect a source itself, below the rootdir; None: it would not."""
    from .catalogue import opened

    path = Path(source.path)
    if path.suffix == ".py":
        modules = (
            one for one in conftests(config) if any(found is source for _, found in benchmarks_in(one))
        )
        return next((Path(str(one.__file__)) for one in modules), None)
    if not _is_ours(config, path.parent):
        return None
    there = opened(config, path)
    same = type(there) is type(source) and (not is_directory(path) or there.benchmark == source.benchmark)
    return path if same else None


def _directory(
    session: pytest.Session, path: Path, made: dict[Path, pytest.Session | pytest.Directory]
) -> pytest.Session | pytest.Directory:
    """Return the node of a directory; the session for one whose conftest.py files do not count."""
    if path not in made:
        made[path] = session
        if _is_ours(session.config, path):
            is_root = path == session.config.rootpath
            parent = session if is_root else _directory(session, path.parent, made)
            node = session.gethookproxy(path.parent).pytest_collect_directory(path=path, parent=parent)
            if isinstance(node, pytest.Directory):
                take_fixtures(session, node)
                made[path] = node
    return made[path]


def _kind_of(path: Path) -> type[FileCollector]:
    if path.suffix == ".py":
        from .python_benchmarks import PythonFile

        return PythonFile
    return TaskDirectory if path.is_dir() else BenchFile


def problem(session: pytest.Session) -> str | None:
    """Return a contradiction between the options and the collected items."""
    config = session.config
    trials = any(isinstance(item, TrialItem) for item in session.items)
    if trials and (config.getoption("stepwise", False) or config.getoption("stepwise_skip", False)):
        return (
            "--stepwise needs tests that end in order, and trials do not: it would skip trials that never ran. "
            "Use -x, then --lf"
        )
    if session.testsfailed:
        return None
    if (missing := selection.not_found(session)) is not None:
        return missing
    if (twice := selection.same_name(session)) is not None:
        return twice
    settings = settings_of(config)
    if not trials and (left_out := selection.all_left_out(config)):
        return left_out
    for pattern in settings.job.scenarios:
        if not any(matches(seen, pattern) for seen in settings.seen):
            hint = did_you_mean(pattern, settings.seen).strip()
            known = ", ".join(sorted(settings.seen)[:10]) + (", ..." if len(settings.seen) > 10 else "")
            return f"--bench-scenario: no scenario is called {pattern!r}; {hint or f'available: {known or None}'}"
    return None


def choose(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tag interactive tests; leave out trials that are archived, or not requested."""
    for item in items:
        if not isinstance(item, TrialItem) and (case := interactive.case_of(item)) is not None:
            _tag(item, *_tags(config, case.ref.tags))
    if state_of(config).problem is not None or not any(isinstance(item, TrialItem) for item in items):
        return
    found = selection.select(config, items)
    if found is not None:
        state_of(config).problem = clean(found)


def check(session: pytest.Session) -> None:
    """Raise a contradiction, if there is one. An xdist worker reports it, and the controller raises it."""
    found = (
        state_of(session.config).problem
        or _not_collected(session.config)
        or known_failures.apply(session)
        or problem(session)
        or _missing(session)
    )
    if found is None and not session.testsfailed:
        found = _nothing_fits(session.config)
    if found is None:
        known_failures.note_unmatched(session)
        return
    if not is_worker(session.config):
        raise usage_error(found)
    session.items.clear()
    # The xdist controller ends the run with a usage error.
    report = pytest.CollectReport(nodeid="", outcome="failed", longrepr=found, result=[])
    vars(report)["bench_usage"] = found
    session.config.hook.pytest_collectreport(report=report)


def _not_collected(config: pytest.Config) -> str | None:
    """Return pytest's pending error about a missing path, because of which nothing was collected."""
    error = sys.exc_info()[1]
    if not isinstance(error, pytest.UsageError):
        return None
    lines = [*map(str, error.args)]
    if settings_of(config).job.scenarios:
        lines.append(
            "--bench-scenario takes one ID; for several: --bench-scenario A --bench-scenario B, or A,B"
        )
    return "\n".join(lines)


def _missing(session: pytest.Session) -> str | None:
    """Return a message about requirements that are not met; None: all are, or nothing is to run."""
    config = session.config
    if config.option.collectonly or config.option.setuponly or settings_of(config).plan:
        return None
    lacking: dict[tuple[int, str], str] = {}
    for item in session.items:
        if not isinstance(item, TrialItem) or item.ref.requires is None:
            continue
        key = (id(item.source), item.ref.id)
        if (
            key not in lacking
            and (what := ", ".join(_lacking(item.ref.requires, config)))
            and not unwanted(item)
        ):
            place = f"{shown(config, Path(item.source.path))}:{item.ref.line or 1}"
            lacking[key] = f"{place}: {item.ref.id!r} requires {what}"
    if not lacking:
        return None
    lines = [*lacking.values()][:_SHOWN]
    more = [f"... and {len(lacking) - _SHOWN} more"] if len(lacking) > _SHOWN else []
    return "\n".join(
        (
            "nothing was run, since something is missing that scenarios require:",
            *lines,
            *more,
            _REMEDY,
        )
    )


def _lacking(requires: Requires, config: pytest.Config) -> Iterator[str]:
    yield from (f"the variable {name}" for name in requires.env if name not in HOST)
    yield from (f"the secret {name}" for name in requires.secrets if name not in settings_of(config).secrets)
    yield from (f"the program {name}" for name in requires.commands if shutil.which(name) is None)


def _nothing_fits(config: pytest.Config) -> str | None:
    """Warn that `--bench-filter` matched nothing; return the message where warnings are errors."""
    filters = state_of(config).filters
    nothing = filters.nothing() if filters is not None else None
    if nothing is None:
        return None
    try:
        warnings.warn(BenchWarning(clean(nothing)), stacklevel=1)
    except BenchWarning:
        return clean(nothing)
    return None


def _items(collector: Any, sources: Sequence[Source], settings: JobSettings) -> Iterator[TrialItem]:
    config: pytest.Config = collector.config
    where: dict[str, Source] = {}
    state = state_of(config)
    chosen = selection.chosen_in(collector)
    filters = state.filters = state.filters or Filters(settings.filters)
    for source in sources:
        refs, unsupported = _refs(source, settings)
        for warning in source.warnings:
            _warn(config, warning.message, Path(warning.path), warning.line)
        refs = selection.not_collected(collector, source, refs, chosen)
        here = settings.of(source.benchmark)
        if here.excluded and refs:
            selection.leave_out(config, source.benchmark, here.excluded)
        # Under a policy of one verdict there is one item for all attempts.
        together = here.job.attempts if here.job.attempt_policy.aggregates else 1
        numbers = range(1, here.job.attempts + 1, together)
        for ref in refs:
            metadata = source.load(ref.id).metadata if settings.filters and unsupported is None else {}
            if settings.filters and not filters.fit(
                metadata if unsupported is None else unsupported.metadata
            ):
                continue
            if ref.id in where:
                raise InputError(
                    f"scenario {ref.id!r} is also in {where[ref.id].path}; within a benchmark an id has to be unique",
                    path=source.path,
                    line=ref.line,
                )
            where[ref.id] = source
            _check_scorers(config, source, ref)
            tags = _tags(config, ref.tags)
            entries = settings.known.about(source.benchmark, ref.id) if settings.known else ()
            for agent, label in zip(here.agents, here.labels, strict=True):
                for attempt in numbers:
                    name = node_name(ref.id, label, attempt if len(numbers) > 1 else None)
                    if chosen is not None and chosen.isdisjoint((name, ref.id)):
                        continue
                    item = TrialItem.from_parent(
                        collector,
                        source=source,
                        ref=ref,
                        agent=agent,
                        attempt=attempt,
                        attempts=together,
                        name=name,
                    )
                    _tag(item, *tags)
                    if entries:
                        known_failures.mark(item, entries)
                    yield item


def _refs(source: Source, settings: JobSettings) -> tuple[list[ScenarioRef], Unsupported | None]:
    """Return the scenarios of a source. An unsupported one becomes a trial that reports that, and the others run."""
    from ..sources.protocol import Unsupported

    try:
        return source.refs(known_failures.selector(settings, source.benchmark)), None
    except Unsupported as error:
        return [error.ref], error


def _tags(config: pytest.Config, of_scenario: Sequence[str]) -> tuple[list[pytest.MarkDecorator], list[str]]:
    """Return tags as marks where possible, else as words for `-k`."""
    known = state_of(config).tags
    marks, words = [], []
    for tag in of_scenario:
        if tag not in known:
            fit = _TAG.match(tag) is not None and tag not in _BEHAVIOUR
            if fit:
                # Register it first, for --strict-markers.
                config.addinivalue_line("markers", f"{tag}: tag of a scenario")
            known[tag] = getattr(pytest.mark, tag) if fit else None
        mark = known[tag]
        if mark is None:
            words.append(clean(tag))
        else:
            marks.append(mark)
    return marks, words


def _tag(item: pytest.Item, marks: Iterable[pytest.MarkDecorator], words: Collection[str]) -> None:
    for mark in marks:
        item.add_marker(mark)
    if words:
        item.extra_keyword_matches.update(words)


def _check_agents(config: pytest.Config, settings: JobSettings) -> None:
    if state_of(config).are_agents_checked:
        return
    from .registry import agents_of

    known = agents_of(config)
    place = settings.origin("agents").replace(f"{config.rootpath}{os.sep}", "")
    for spec in settings.job.agents:
        if spec.name not in known:
            if (wrong := state_of(config).broken_agents.get(spec.name)) is not None:
                raise usage_error(f"{place}: {in_words(config, wrong)}")
            hint = did_you_mean(spec.name, known).strip() or f"available: {', '.join(sorted(known))}"
            raise usage_error(f"{place}: there is no agent {spec.name!r}; {hint}")
        if known[spec.name].needs_model and spec.model is None:
            raise usage_error(
                f"{place}: {spec.name} needs a model. Use format: {spec.name}:model, or --bench-model"
            )
    state_of(config).are_agents_checked = True


def _check_scorers(config: pytest.Config, source: Source, ref: ScenarioRef) -> None:
    from .registry import scorers_of

    known = scorers_of(config)
    for index, kind in enumerate(ref.scorers):
        if kind not in known:
            from ..sources.manifest import ManifestSource

            wrong = (
                f"unknown scorer type {kind!r};{did_you_mean(kind, known)} available: {', '.join(sorted(known))}; "
                "own types come from a conftest.py or a plugin"
            )
            if isinstance(source, ManifestSource):
                source.refuse(ref.id, ("scorers", index, "type"), wrong)
            raise InputError(f"scenario {ref.id!r}: {wrong}", path=source.path, line=ref.line)


def _warn(config: pytest.Config, message: str, path: Path, line: int | None) -> None:
    where = f"{shown(config, path)}:{line}" if line else shown(config, path)
    told = BenchWarning(harmless(clean(f"{where}: {message}")))
    warnings.warn_explicit(told, None, escaped(str(path)), line or 1)
