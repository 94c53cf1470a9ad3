"""Order in which the workers of pytest-xdist run tests: the longest first, and what waits beside what computes.

Most tests of `tests/unit` compute, all others wait for processes and containers. So a run of all of them has some workers for
the first kind and more for the second; a worker does not collect what it does not run. None does both: browsers leave an
event loop in their process, and tests of the plugin another way to start processes.
Tests of a file that shares a fixture stay together, in unit those of any file; others go one by one. Tests marked `alone`
run when no other test uses the engine.

How long tests take is known from the last run, else guessed from their room and the marker `slow`.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from xdist.workermanage import WorkerController, parse_tx_spec_config

HERE = Path(__file__).parent
UNIT, OTHERS = "unit", "others"
_GUESSED = {
    "agents": 20.0,
    "docker": 6.0,
    "docs": 3.0,
    "local": 2.0,
    "plugin": 2.0,
    "release": 30.0,
    "viewer": 3.0,
}
_SLOW = 5
"""So many times as long takes a test that is marked as slow."""
_WITHOUT_ENGINE = (UNIT, "plugin")
_CACHE = "benchjobs/seconds"


class Plan(NamedTuple):
    """What is to be known of a test before it runs."""

    group: str
    """The tests of a group run one after the other, in one worker."""
    lane: str
    seconds: float
    engine: bool
    alone: bool


def plan(item: pytest.Item, known: dict[str, float]) -> Plan:
    """Plan a test."""
    room = item.path.relative_to(HERE).parts[0] if item.path.is_relative_to(HERE) else ""
    file = item.nodeid.partition("::")[0]
    together = room == UNIT or _shares(item)
    guess = _GUESSED.get(room, 0.05) * (_SLOW if item.get_closest_marker("slow") else 1)
    return Plan(
        file if together else item.nodeid,
        UNIT if room == UNIT else OTHERS,
        known.get(item.nodeid, guess),
        room not in _WITHOUT_ENGINE,
        item.get_closest_marker("alone") is not None,
    )


def _shares(item: pytest.Item) -> bool:
    """Tell whether the test uses a fixture that its file makes once for several tests."""
    defined = (
        item._fixtureinfo.name2fixturedefs.values()
    )  # a private name: what is public does not say where from
    file = item.nodeid.partition("::")[0]
    return any(
        each.scope in ("module", "class") and each.baseid == file for those in defined for each in those
    )


class Scheduler:
    """The scheduling of pytest-xdist, by these plans."""

    def __init__(self, config: pytest.Config, plans: Path) -> None:
        self._config = config
        self._directory = plans
        self._awaited = len(parse_tx_spec_config(config))
        """So many workers have yet to collect."""
        self._plans: dict[str, Plan] = {}
        self._queues: dict[str, dict[str, list[str]]] = {}
        """Lane -> group -> tests to be given out, the longest group first."""
        self._alone: list[str] = []
        self._collected: dict[WorkerController, dict[str, int]] = {}
        self._pending: dict[WorkerController, list[str]] = {}

    @property
    def nodes(self) -> list[WorkerController]:
        """Workers that are there."""
        return list(self._pending)

    @property
    def collection_is_completed(self) -> bool:
        """Always so: a worker begins as soon as it has collected."""
        return True

    @property
    def tests_finished(self) -> bool:
        """Tell whether the workers have all that they will ever get."""
        some = self._awaited > 0 or self._waiting() or any(len(tests) > 1 for tests in self._pending.values())
        return not some

    @property
    def has_pending(self) -> bool:
        """Tell whether anything is to be run or runs."""
        return self._waiting() or any(self._pending.values())

    def _waiting(self) -> bool:
        return bool(self._alone) or any(self._queues.values())

    def add_node(self, node: WorkerController) -> None:
        """Take in a new worker, which has not collected yet."""
        self._pending[node] = []

    def add_node_collection(self, node: WorkerController, collection: Sequence[str]) -> None:
        """Queue the tests that it is the first to have collected."""
        self._awaited -= 1
        self._collected[node] = {test: index for index, test in enumerate(collection)}
        path = self._directory / f"{node.gateway.id}.json"
        listed = json.loads(path.read_text("utf-8")) if collection else {}  # none, as a path does not exist
        new = {test: Plan(*listed[test]) for test in collection if test not in self._plans}
        self._plans |= new
        self._queue(new)
        session = self._config.pluginmanager.getplugin("session")
        session.testscollected = len(self._plans)  # of all workers: xdist counts those of the last one

    def _queue(self, tests: Iterable[str]) -> None:
        for test in tests:
            plan = self._plans[test]
            if plan.alone:
                self._alone.append(test)
            else:
                self._queues.setdefault(plan.lane, {}).setdefault(plan.group, []).append(test)
        for lane, groups in self._queues.items():
            ordered = sorted(groups.items(), key=lambda group: -self._seconds(group[1]))
            self._queues[lane] = dict(ordered)

    def _seconds(self, tests: Iterable[str]) -> float:
        return sum(self._plans[test].seconds for test in tests)

    def schedule(self) -> None:
        """Give work to whoever has too little."""
        for node, pending in list(self._pending.items()):
            # A worker begins a test when it knows the next one, or that there is none.
            while node in self._collected and not node.shutting_down and len(pending) < 2:
                tests = self._next(node)
                if not tests:
                    if not self._kept(node):
                        node.shutdown()
                    break
                pending += tests
                node.send_runtest_some([self._collected[node][test] for test in tests])

    def _next(self, node: WorkerController) -> list[str]:
        """Take what a worker is to run next out of the queues."""
        collected = self._collected[node]
        if self._alone and self._alone[0] in collected and not self._engine_is_used(but=node):
            return [self._alone.pop(0)]
        lanes = [
            (sum(map(self._seconds, groups.values())) / self._workers(lane), lane)
            for lane, groups in self._queues.items()
            if groups and next(iter(groups.values()))[0] in collected
        ]
        if not lanes:
            return []
        groups = self._queues[max(lanes)[1]]
        return groups.pop(next(iter(groups)))

    def _workers(self, lane: str) -> int:
        """Count the workers that run tests of a lane."""
        [first, *_] = next(iter(self._queues[lane].values()))
        return sum(first in collected for node, collected in self._collected.items() if node in self._pending)

    def _engine_is_used(self, but: WorkerController) -> bool:
        queued = [tests[0] for groups in self._queues.values() for tests in groups.values()]
        running = [test for node, tests in self._pending.items() if node is not but for test in tests]
        return any(self._plans[test].engine for test in queued + running)

    def _kept(self, node: WorkerController) -> bool:
        """Tell whether it is the worker that waits until others are done with the engine, for the tests to run alone."""
        able = [
            other
            for other in self._pending
            if self._alone and self._alone[0] in self._collected.get(other, {}) and not other.shutting_down
        ]
        return self._awaited > 0 or able[:1] == [node]

    def mark_test_complete(self, node: WorkerController, item_index: int, duration: float = 0) -> None:
        """Note that a worker has run a test."""
        self._pending[node].pop(0)
        self.schedule()

    def mark_test_pending(self, item: str) -> None:
        """Never called: it is for plugins that run a test again."""
        raise NotImplementedError

    def remove_pending_tests_from_node(self, node: WorkerController, indices: Sequence[int]) -> None:
        """Never called: nothing asks workers to give tests back."""
        raise NotImplementedError

    def remove_node(self, node: WorkerController) -> str | None:
        """Forget a worker; returns the test at which it crashed, and queues what it had been given besides."""
        pending = self._pending.pop(node)
        if not pending:
            return None
        self._awaited += 1  # another one takes its place
        crashed, *others = pending
        self._queue(others)
        return crashed


class Plugin:
    """Hooks that have a session scheduled this way, unless another way is asked for."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._given: dict[str, Any] | None = getattr(config, "workerinput", None)
        self._plans = None if self._given else Path(tempfile.mkdtemp(prefix="scheduling-"))
        self._seconds: dict[str, float] = {}

    def pytest_unconfigure(self) -> None:
        """Remove what workers told."""
        if self._plans:
            shutil.rmtree(self._plans, ignore_errors=True)

    def pytest_xdist_make_scheduler(self, config: pytest.Config) -> Scheduler | None:
        """Return the scheduler."""
        return Scheduler(config, self._plans) if self._plans and config.getvalue("dist") == "load" else None

    def pytest_configure_node(self, node: WorkerController) -> None:
        """Tell a worker where to write its plans, and what it runs if not everything."""
        node.workerinput["plans"] = str(self._plans)
        workers = len(parse_tx_spec_config(self._config))
        everything = any(HERE.is_relative_to(Path(argument).absolute()) for argument in self._config.args)
        number = int(node.gateway.id.removeprefix("gw"))
        # One that takes the place of another does what is left.
        if everything and self._config.getvalue("dist") == "load" and workers > 2 and number < workers:
            node.workerinput["lane"] = UNIT if number < max(1, workers // 3) else OTHERS

    def pytest_ignore_collect(self, collection_path: Path) -> bool | None:
        """Leave out what the worker does not run."""
        lane = (self._given or {}).get("lane")
        if lane and collection_path.parent == HERE and collection_path.is_dir():
            return (collection_path.name == UNIT) != (lane == UNIT) or None
        return None

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Write the plans of a worker."""
        if self._given:
            cache = getattr(self._config, "cache", None)  # a plugin that may be off
            known = cache.get(_CACHE, {}) if cache else {}
            plans = {item.nodeid: plan(item, known) for item in items}
            (Path(self._given["plans"]) / f"{self._given['workerid']}.json").write_text(
                json.dumps(plans), "utf-8"
            )

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add up how long each test takes."""
        self._seconds[report.nodeid] = self._seconds.get(report.nodeid, 0.0) + report.duration

    def pytest_sessionfinish(self) -> None:
        """Keep it for the next run."""
        cache = getattr(self._config, "cache", None)
        if self._given is None and cache:
            known = cache.get(_CACHE, {})
            cache.set(_CACHE, {**known, **{test: round(took, 2) for test, took in self._seconds.items()}})
