"""pytest's side: options, collection, items, the run loop, xdist.

This module is loaded into every pytest run of everyone who installed the package. Until a benchmark is met it imports
the standard library and pytest only, and registers options, markers and hook specifications only. The hooks that
trials need are in `hooks`, which is registered with the first benchmark. Start reading there, and in `session`, which
translates between pytest and the running job. What a session keeps is in `state`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Generator, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest


class _AsWritten:
    """Import finder for this package, ahead of pytest's, which rewrites the assertions in all modules of plugins.

    Our modules have no tests, and a rewritten module takes three times as long to load: a tenth of a run in which
    everything is reused.
    """

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None, _target: object = None) -> ModuleSpec | None:
        return PathFinder.find_spec(name, path) if name.startswith(_PACKAGE) else None


_PACKAGE = f"{__name__.partition('.')[0]}."
sys.meta_path.insert(0, _AsWritten)

from .. import hookspecs  # noqa: E402
from . import options  # noqa: E402

if TYPE_CHECKING:
    from ..job.interactive import InteractiveTrial, LiveSandbox
    from .distribution import Node

_NAMING = ("bench", "bench_job_file", "bench_profile")
"""Options that may name benchmarks."""
MANIFESTS = (".bench.yaml", ".bench.yml", ".bench.toml")
_AUTHORED = f"{_PACKAGE}sources.authored"
"""Module of `Benchmark`: unless it was imported, there is none."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Register the options `--bench*` and the ini keys `bench_*`."""
    options.add(parser)


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> int | None:
    """Show the help for all our options, if `--bench-help` was given."""
    return 0 if options.show_help(config) else None


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    """Register the hooks for conftest.py files and other plugins."""
    pluginmanager.add_hookspecs(hookspecs)


def pytest_configure(config: pytest.Config) -> None:
    """Validate the options early: an error on the command line ends the run before anything is collected."""
    config.addinivalue_line(
        "markers", "bench_trial: a trial of a benchmark; `-m 'not bench_trial'` leaves trials out"
    )
    config.addinivalue_line(
        "markers",
        "bench_known(reason, until, issue=None, mode='expected-fail', strict=False): the failure of a trial is known",
    )
    config.addinivalue_line(
        "markers",
        "bench_scenario(benchmark, *scenarios, agent=None, model=None, provider=None, base_url=None, params=None): the "
        "function is the agent of these scenarios; use the fixture bench_trial",
    )
    if _is_odd(str(config.rootpath)):
        from ..model.escape import escaped

        # pytest shows node ids relative to the current directory, so they may include the name of the rootdir.
        relative = config.cwd_relative_nodeid
        vars(config)["cwd_relative_nodeid"] = lambda nodeid: escaped(str(relative(nodeid)))
    options.refuse_misspelt_keys(config)
    if options.given(config):
        options.refuse_moved_rootdir(config)
        from .job_settings import settings_of

        settings_of(config)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Parametrize functions with the mark `bench_scenario`."""
    if metafunc.definition.get_closest_marker("bench_scenario") is not None:
        from . import driving, interactive

        _activate(metafunc.config)
        driving.activate(metafunc.config)
        interactive.parametrize(metafunc)


@pytest.fixture
def _bench_case(request: pytest.FixtureRequest) -> object:
    """Scenario and attempt of an interactive test."""
    if not hasattr(request, "param"):
        pytest.fail(
            "bench_trial needs a scenario: mark the function with @pytest.mark.bench_scenario(BENCHMARK, SCENARIO)",
            pytrace=False,
        )
    return request.param


@pytest.fixture
def bench_trial(request: pytest.FixtureRequest, _bench_case: object) -> Generator[InteractiveTrial]:
    """Trial of the scenario that `bench_scenario` names: its live sandbox, its problem statement, its score."""
    from .driving import drive

    yield from drive(request)


@pytest.fixture
def bench_sandbox(bench_trial: InteractiveTrial) -> LiveSandbox:
    """Live sandbox of `bench_trial`."""
    return bench_trial.sandbox


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_load_initial_conftests(
    early_config: pytest.Config, parser: pytest.Parser, args: list[str]
) -> Generator[None]:
    """Prevent pytest from running a task's `conftest.py`, which is for the task's container, on this machine.

    All options are registered after that, so a misspelt one of ours is reported with a suggestion.
    """
    known = early_config.known_args_namespace
    known.file_or_dir = _outside_tasks(early_config.invocation_params.dir, known.file_or_dir)
    yield
    options.refuse_misspelt(parser, args)


def _outside_tasks(start: Path, arguments: list[str]) -> list[str]:
    """Return the paths; one inside a task directory is replaced by the parent of the task.

    pytest uses them only to find conftest.py files; it reads the paths to collect from the command line again.
    """
    found = []
    for argument in arguments or ["."]:
        # os.path returns False instead of raising for values of options, which may not be valid paths.
        path = Path(os.path.abspath(start / argument.partition("::")[0]))  # noqa: PTH100
        places = (path, *path.parents)
        task = next((place for place in places if os.path.lexists(place / "task.toml")), None)
        if task is None:
            found.append(argument)
            continue
        from .collect import is_task

        found.append(str(task.parent) if is_task(task) else argument)
    return found if arguments or found != ["."] else arguments


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Find the benchmarks that `--bench`, a job file or a profile names."""
    if {"tests", "solution"}.intersection(session.config.rootpath.parts):
        from .collect import refuse_to_start_inside_a_task

        refuse_to_start_inside_a_task(session.config)
    if _names_benchmarks(session.config):
        from .collect import prepare

        if prepare(session):
            _activate(session.config)
    if _has_ids(session.config):
        from .pasted import take_node_ids

        if take_node_ids(session.config):
            _activate(session.config)
    _refuse_misnamed(session.config, by_name=True)
    if session.config.getoption("lf", False) and _is_shard(session.config):
        # All machines split the same trials, so `--lf` opens every file. It still deselects what did not fail.
        session.config.pluginmanager.unregister(name="lfplugin-collwrapper")
    found = yield
    if not session.items and not session.testsfailed and not session.config.getoption("numprocesses", None):
        _refuse_misnamed(session.config)
    return found


def _refuse_misnamed(config: pytest.Config, *, by_name: bool = False) -> None:
    """Raise an error about an argument that was meant as a benchmark and is none; `by_name`: only about files."""
    for argument in config.args:
        if not by_name or argument.endswith((".yaml", ".yml", ".toml")):
            from ..sources import likely_meant

            path = config.invocation_params.dir / argument.partition("::")[0]
            if (
                not path.name.endswith((*MANIFESTS, "task.toml"))
                and (meant := likely_meant(path)) is not None
            ):
                raise options.usage_error(f"{argument} is not a benchmark: {meant}")


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Ignore results: files of agents are there, and must not be run on this machine."""
    if collection_path.name != "jobs":
        return None
    from ..store.layout import MARKER

    # For a directory that must not be entered, `Path.exists` raises; pytest reports one by itself.
    return True if os.path.lexists(collection_path / MARKER) else None


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Return a collector for a manifest, and for a conftest.py with benchmarks."""
    if file_path.name == "conftest.py" and _AUTHORED in sys.modules:
        return _conftest(file_path, parent)
    if not file_path.name.endswith(MANIFESTS):
        return None
    from .collect import BenchFile
    from .state import state_of

    _activate(parent.config)
    state_of(parent.config).manifests.setdefault(file_path.parent, []).append(file_path)
    return BenchFile.from_parent(parent, path=file_path)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Add collectors, which report an error, for manifests that pytest passes over: links to nothing, pipes."""
    report = yield
    if isinstance(collector, pytest.Directory) and report.passed:
        hook, config = collector.ihook, collector.config
        for path in _odd_manifests(collector.path):
            if not hook.pytest_ignore_collect(collection_path=path, config=config):
                report.result += filter(None, [pytest_collect_file(path, collector)])
    return report


def _odd_manifests(directory: Path) -> list[Path]:
    named = (path for path in directory.iterdir() if path.name.endswith(MANIFESTS) and path.name[0] != ".")
    return sorted(path for path in named if not (path.is_file() or path.is_dir()))


def _conftest(path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Return a collector for a conftest.py with benchmarks. One that was named is a test module to pytest."""
    from .python_benchmarks import PythonFile
    from .python_files import benchmarks_in, conftest_of

    module = None if parent.session.isinitpath(path) else conftest_of(parent.config, path)
    if module is None or not any(benchmarks_in(module)):
        return None
    _activate(parent.config)
    return PythonFile.from_parent(parent, path=path)


def pytest_pycollect_makeitem(collector: pytest.Collector, name: str, obj: object) -> pytest.Collector | None:
    """Return a collector for a benchmark in a variable of a test module."""
    if _AUTHORED not in sys.modules:
        return None
    from .python_benchmarks import item_of

    found = item_of(collector, name, obj)
    if found is not None:
        _activate(collector.config)
    return found


@pytest.hookimpl(tryfirst=True)
def pytest_collect_directory(path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Return a collector for a Harbor task directory: nothing inside it is an ordinary test."""
    task = os.path.lexists(path / "task.toml")
    odd = _is_odd(path.name)
    if not task and (not odd or (path / "__init__.py").is_file()):
        return None
    from .collect import OddDirectory, TaskDirectory, is_task

    if task and is_task(path):
        _activate(parent.config)
        return TaskDirectory.from_parent(parent, path=path)
    return OddDirectory.from_parent(parent, path=path) if odd else None


@pytest.hookimpl(wrapper=True)
def pytest_report_header(config: pytest.Config) -> Generator[None, Any, Any]:
    """Show the rootdir on one line, whatever its name."""
    found = yield
    root = str(config.rootpath)
    if not _is_odd(root):
        return found
    from ..model.escape import escaped

    return [
        [line.replace(root, escaped(root)) for line in lines] if isinstance(lines, list) else lines
        for lines in found
    ]


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Node) -> None:
    """Prepare the controller for an xdist worker, which may collect a benchmark."""
    from .controller import prepare_node

    if node.config.getoption("bench_plan"):
        raise options.usage_error("--bench-plan runs nothing, so it takes no workers; leave out -n")
    if _names_benchmarks(node.config) or _has_ids(node.config):
        from .catalogue import fetch_named
        from .job_settings import settings_of
        from .pasted import benchmarks_of

        fetch_named(node.config, [*settings_of(node.config).benchmarks, *benchmarks_of(node.config)])
    prepare_node(node)


def _names_benchmarks(config: pytest.Config) -> bool:
    return any(config.getoption(name) or options.ini(config, name) for name in _NAMING)


def _is_shard(config: pytest.Config) -> bool:
    if not (options.given(config) or options.ini(config, "bench_shard")):
        return False
    from .job_settings import settings_of

    return settings_of(config).job.shard is not None


def _has_ids(config: pytest.Config) -> bool:
    """Return whether an argument may be the id of a trial: it has a `::`, and is not a Python test."""
    return any("::" in argument and ".py::" not in argument for argument in config.args)


def _activate(config: pytest.Config) -> None:
    """Register the hooks for trials, as a benchmark was collected."""
    from .hooks import activate

    activate(config)


def _is_odd(path: str) -> bool:
    """Return whether a path must be escaped for display; see `model.escape`, which is not imported here."""
    return not path.isprintable() or "::" in path or "##" in path
