"""What all tests share."""

from __future__ import annotations

import collections
import os
import signal
from pathlib import Path

import pytest

from . import building, composing, evidence, limits, rooms, scheduling

_HERE = Path(__file__).parent
_CASES = {"plugin": 2, "local": 2, "docker": 1, "agents": 1}
"""Cases of a test for every day, where each starts processes or containers; `make extended` runs the others."""

# Tests of other directories import it, too.
pytest.register_assert_rewrite("tests.docs.commands", "pytest_benchjobs.testing.conformance")


def pytest_configure(config: pytest.Config) -> None:
    """Prepare for tests. A session of benchmarks in the clone, which loads this file as well, stays as it is."""
    if config.getoption("bench", None):
        return
    # A job that a shell started in the background, as CI often is, ignores Ctrl-C, and so does every process it
    # starts. Tests which send it must mean something there too.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # Without bytecode each of the many processes that tests start would compile pytest's plugins and this package anew.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    # What is kept on the machine that runs the tests is nobody's business here.
    os.environ["BENCHJOBS_CONFIG"] = "/nonexistent/benchjobs"
    composing.provide()
    from . import support

    support.take_environment()
    config.pluginmanager.register(limits, "limits")
    config.pluginmanager.register(evidence, "evidence")
    config.pluginmanager.register(scheduling.Plugin(config), "scheduling")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put first what takes long, lest at the end all wait for one; of tests with many cases, keep few for every day."""
    ours = [item for item in items if item.path.is_relative_to(_HERE)]
    _mark_further_cases(ours)
    for item in ours:
        if not rooms.is_due(item):
            item.add_marker(pytest.mark.extended)
        if rooms.has_turns(item):
            # So that `make extended` runs those that are due today, too.
            item.add_marker(pytest.mark.when_changed)
    ours.sort(key=lambda item: item.get_closest_marker("slow") is None)
    items[:] = [*ours, *(item for item in items if not item.path.is_relative_to(_HERE))]


def _mark_further_cases(items: list[pytest.Item]) -> None:
    """Mark as extended what comes after the first cases of a test that starts processes for each of them."""
    seen: collections.Counter[str] = collections.Counter()
    for item in items:
        room = item.path.relative_to(_HERE).parts[0]
        if room not in _CASES or item.get_closest_marker("extended") is not None:
            continue
        test = item.nodeid.partition("[")[0]
        seen[test] += 1
        if seen[test] > _CASES[room]:
            item.add_marker(pytest.mark.extended)


@pytest.fixture
def from_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes of this test are not forked: it is about what they import, or what others see of them."""
    monkeypatch.setattr("tests.forking.address", None)


@pytest.fixture(scope="session")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel and the sdist."""
    return building.once(tmp_path_factory, "dist", building.build)


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory, dist: Path) -> Path:
    """An environment with the wheel."""
    return building.once(tmp_path_factory, "installed", lambda directory: building.install(dist, directory))
