"""Time for which the gateway holds an agent's calls is known, and is not the agent's."""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path

import pytest

from pytest_benchjobs.gateway import holding
from pytest_benchjobs.gateway.holding import Holding
from pytest_benchjobs.sandbox.command_timeout import Drained, wait_fairly
from pytest_benchjobs.sandbox.protocol import Stopping
from tests.unit.gateways import Model, Said, agent, chat_answer, running, wait_until

from .clocks import Clock


def test_the_clock_of_a_trial_runs_while_each_of_its_calls_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(0.0)
    monkeypatch.setattr(holding, "time", clock)
    told: list[tuple[float, float | None]] = []
    held = Holding(lambda seconds, since: told.append((seconds, since)))
    with contextlib.ExitStack() as first, contextlib.ExitStack() as second:
        first.enter_context(held.call())
        clock.sleep(1)  # it is being answered
        waits = first.enter_context(contextlib.ExitStack())
        waits.enter_context(held.held())
        clock.sleep(2)
        second.enter_context(held.call())  # another one goes on
        clock.sleep(4)
        second.enter_context(held.held())
        clock.sleep(8)
        assert held.seconds == 10
        waits.close()
        clock.sleep(16)
    clock.sleep(32)
    assert held.seconds == 10
    assert told == [(0, 1), (2, None), (2, 7), (10, None)]


@pytest.mark.parametrize(
    ("held", "ends"),
    [
        ([0], [(5, 3)]),
        ([10, 10], [(5, 3), (15, 13)]),
        ([10, 11, 11], [(5, 3), (15, 13), (16, 14)]),
        ([0.01, 0.02], [(5, 3), (5.2, 3.2)]),  # it is not looked at all the time
    ],
)
@pytest.mark.parametrize("why", [Drained.LATE, Drained.SILENT])
def test_a_command_has_as_much_longer_as_it_was_kept_waiting(
    held: list[float], ends: list[tuple[float, float]], why: Drained
) -> None:
    seconds = iter(held)
    waited: list[tuple[float, float | None]] = []

    def wait(end: float, quiet: float | None, _: object) -> Drained:
        waited.append((end, quiet))
        return why

    stopping = Stopping(lambda: False, lambda _: None, graces=(), held=lambda: next(seconds))
    assert wait_fairly(wait, 5, 3, stopping) is why
    assert waited == [pytest.approx(end) for end in ends]
    assert wait_fairly(lambda *_: Drained.ENDED, 5, None, None) is Drained.ENDED


def test_what_the_gateway_held_is_told_while_it_does_and_in_the_report(tmp_path: Path, model: Model) -> None:
    model.says(Said(503, b"{}"), Said(503, b"{}"))
    model.otherwise = chat_answer()
    with running(tmp_path, patience=30) as gateway, agent(gateway, model) as one:
        asking = threading.Thread(target=one.chat)
        asking.start()
        wait_until(lambda: one.route.held() > 0)
        asking.join()
        told = one.route.held()
        report = one.route.close()
    assert told > 0.2
    assert report.held == pytest.approx(told, abs=0.06)
