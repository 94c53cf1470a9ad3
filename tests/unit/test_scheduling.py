"""Order in which workers run tests: each once, the longest first, groups together, `alone` beside nothing with the engine."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from .. import scheduling
from ..scheduling import OTHERS, UNIT, Plan, Scheduler

TESTS = {
    "long": Plan("long", OTHERS, 9, True, False),
    "first": Plan("file", OTHERS, 3, True, False),
    "second": Plan("file", OTHERS, 3, True, False),
    "short": Plan("short", OTHERS, 1, True, False),
    "plugin": Plan("plugin", OTHERS, 0.5, False, False),
    "alone": Plan("alone", OTHERS, 1, True, True),
    "also alone": Plan("also alone", OTHERS, 1, True, True),
    "unit": Plan("unit", UNIT, 2, False, False),
    "other unit": Plan("other unit", UNIT, 1, False, False),
}


@dataclasses.dataclass(eq=False)
class Worker:
    """One that begins a test when it knows the next, or that there is none, as those of xdist do."""

    name: str
    collected: list[str]
    given: list[str] = dataclasses.field(default_factory=list)
    shutting_down: bool = False

    @property
    def gateway(self) -> Any:
        return SimpleNamespace(id=self.name)

    def send_runtest_some(self, indices: Sequence[int]) -> None:
        self.given += [self.collected[index] for index in indices]

    def shutdown(self) -> None:
        self.shutting_down = True

    @property
    def running(self) -> str | None:
        return self.given[0] if len(self.given) > 1 or (self.given and self.shutting_down) else None


class Run:
    """A session of workers, of which one runs a test at a time."""

    def __init__(
        self, directory: Path, monkeypatch: pytest.MonkeyPatch, collections: Sequence[list[str]]
    ) -> None:
        monkeypatch.setattr(scheduling, "parse_tx_spec_config", lambda config: collections)
        session = SimpleNamespace()
        config: Any = SimpleNamespace(pluginmanager=SimpleNamespace(getplugin=lambda name: session))
        self.directory, self.scheduler, self.order = directory, Scheduler(config, directory), []
        self.workers: list[Worker] = []
        for tests in collections:
            self.add(tests)

    def add(self, tests: list[str]) -> None:
        worker = Worker(f"gw{len(self.workers)}", tests)
        self.workers.append(worker)
        plans = {test: TESTS[test] for test in tests}
        if tests:  # else it did not come to that: a path does not exist
            (self.directory / f"{worker.name}.json").write_text(json.dumps(plans))
        self.scheduler.add_node(worker)
        self.scheduler.add_node_collection(worker, tests)
        self.scheduler.schedule()

    def step(self, worker: Worker) -> None:
        test = worker.running
        assert test is not None
        beside = {other.running for other in self.workers if other is not worker} - {None}
        if TESTS[test].alone:
            assert not any(TESTS[other].engine for other in beside)
        self.order.append(test)
        worker.given.pop(0)
        self.scheduler.mark_test_complete(worker, worker.collected.index(test))

    def finish(self, prefer: int = 0) -> list[str]:
        while able := [worker for worker in self.workers if worker.running]:
            self.step(able[prefer % len(able)])
        assert self.scheduler.tests_finished
        assert all(worker.shutting_down and not worker.given for worker in self.workers)
        return self.order


@pytest.mark.parametrize("prefer", [0, 1, 2])
@pytest.mark.parametrize("workers", [1, 2, 4])
def test_every_test_runs_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: int, prefer: int
) -> None:
    order = Run(tmp_path, monkeypatch, [[*TESTS]] * workers).finish(prefer)
    assert sorted(order) == sorted(TESTS)


def test_a_session_of_workers_that_found_nothing_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert Run(tmp_path, monkeypatch, [[], []]).finish() == []


def test_the_longest_begin_and_those_of_a_file_follow_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order = Run(tmp_path, monkeypatch, [[test for test in TESTS if "unit" not in test]]).finish()
    assert order == ["long", "first", "second", "short", "alone", "also alone", "plugin"]


def test_workers_run_what_they_collected_and_one_swings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    units = [test for test in TESTS if "unit" in test]
    others = [test for test in TESTS if test not in units]
    run = Run(tmp_path, monkeypatch, [[*TESTS], units, others, others])
    assert sorted(run.finish(1)) == sorted(TESTS)


def test_what_a_worker_had_that_crashed_is_run_by_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run(tmp_path, monkeypatch, [[*TESTS]] * 2)
    crashed = run.workers.pop(0)
    first = crashed.running
    assert run.scheduler.remove_node(crashed) == first
    run.workers.append(crashed)  # for the names of those that come later
    crashed.given.clear()
    crashed.shutting_down = True
    run.add([*TESTS])
    assert sorted([*run.finish(), str(first)]) == sorted(TESTS)
