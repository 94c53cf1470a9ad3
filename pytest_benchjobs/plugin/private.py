"""Private names of pytest that the plugin uses: a version of pytest that lacks one fails here."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from _pytest.config import ConftestImportFailure
from _pytest.config.findpaths import determine_setup as determine_setup
from _pytest.fixtures import FixtureLookupError as FixtureLookupError
from _pytest.fixtures import FuncFixtureInfo as FuncFixtureInfo
from _pytest.fixtures import TopRequest as TopRequest
from _pytest.outcomes import Failed as Failed  # `pytest.fail.Exception`, for type checkers
from _pytest.pathlib import import_path as import_path
from _pytest.runner import SetupState as SetupState
from _pytest.scope import Scope as Scope
from _pytest.skipping import evaluate_skip_marks as evaluate_skip_marks
from _pytest.skipping import evaluate_xfail_marks as evaluate_xfail_marks
from _pytest.tmpdir import tmppath_result_key as tmppath_result_key

from .options import usage_error


@contextlib.contextmanager
def setup_state(session: Any, state: SetupState) -> Iterator[None]:
    """Make pytest set up and tear down by another state: its own has one stack, for one test at a time."""
    before, session._setupstate = session._setupstate, state
    try:
        yield
    finally:
        session._setupstate = before


def load_conftests(config: pytest.Config, directories: Iterable[Path]) -> bool:
    """Load the conftest.py files of directories, as pytest does for paths; return whether there were new ones.

    Raises pytest.UsageError: one cannot be imported.
    """
    manager: Any = config.pluginmanager
    before = len(manager.get_plugins())
    for directory in directories:
        try:
            manager._loadconftestmodules(
                directory,
                config.getoption("importmode"),
                rootpath=config.rootpath,
                consider_namespace_packages=config.getini("consider_namespace_packages"),
            )
        except ConftestImportFailure as failure:
            raise usage_error(f"{failure.path}: {failure.cause!r}") from failure.cause
    return len(manager.get_plugins()) > before


def last_failed(config: pytest.Config) -> dict[Any, bool]:
    """Return what `--lf` remembers: ids of tests, to be changed in place; empty without a cache."""
    return getattr(config.pluginmanager.get_plugin("lfplugin"), "lastfailed", {})


def seen_before(config: pytest.Config) -> set[Any]:
    """Return the ids that `--nf` remembers, to be changed in place; empty if it was not given."""
    plugin: Any = config.pluginmanager.get_plugin("nfplugin")
    return plugin.cached_nodeids if plugin is not None and plugin.active else set()


def id_of(item: pytest.Item) -> Any:
    """Return the id by which pytest remembers an item: an object since 9.2."""
    return getattr(item, "id", item.nodeid)


def parsed_id(node_id: str, like: Iterable[Any]) -> Any:
    """Return a node id as one of those that pytest remembers."""
    return getattr(type(next(iter(like))), "parse", str)(node_id)


def take_fixtures(session: Any, directory: pytest.Collector) -> None:
    """Make the fixtures of a directory's conftest.py known below its node, as pytest does where it collects one."""
    manager, path = session._fixturemanager, directory.path
    pending = getattr(manager, "_pending_conftests", None)
    if pending is None:
        return  # pytest before 9.1 goes by node ids
    if path == session.config.rootpath:
        plugin, directory = pending.pop(path, None), session
    else:
        plugin = session.config.pluginmanager.get_plugin(str(path / "conftest.py"))
    if plugin is not None:
        manager.parsefactories(holder=plugin, node=directory)
