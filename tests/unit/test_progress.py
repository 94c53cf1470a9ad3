"""Waits say what is waited for, and not too often."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_benchjobs.plugin import progress
from pytest_benchjobs.plugin.progress import WaitLines, waiting
from pytest_benchjobs.store import events as events_module
from pytest_benchjobs.store.events import EventLog
from tests.support import set_clock

from .records import JOB, result, trial


class Terminal:
    """A terminal reporter that keeps lines, and tells of the first."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.has_any = threading.Event()

    def ensure_newline(self) -> None:
        """Nothing to end."""

    def write_line(self, line: str) -> None:
        self.lines.append(line)
        self.has_any.set()


def config_of(terminal: Terminal, verbose: int = 0) -> Any:
    plugins = SimpleNamespace(get_plugin={"terminalreporter": terminal}.get)
    return SimpleNamespace(pluginmanager=plugins, option=SimpleNamespace(verbose=verbose))


def test_a_long_wait_is_told_while_it_lasts_and_a_short_one_never(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    with waiting(config_of(terminal), "a short wait"):
        pass
    monkeypatch.setattr(progress, "_PATIENCE", 0)
    with waiting(config_of(terminal), "a long wait"):
        assert terminal.has_any.wait(60)
    assert terminal.lines == ["bench: a long wait"]


@pytest.mark.parametrize(("verbose", "told"), [(0, [1, 2, 4, 8, 16, 32]), (-1, [])])
def test_while_no_trial_ends_few_lines_say_what_they_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, verbose: int, told: list[int]
) -> None:
    now = 0.0
    for module in (progress, events_module):
        set_clock(monkeypatch, module, lambda: now)
    terminal, events = Terminal(), EventLog(tmp_path)
    bundle = SimpleNamespace(id=JOB)
    job: Any = SimpleNamespace(bundle=bundle, trials=SimpleNamespace(events=events))
    lines = WaitLines(config_of(terminal, verbose), job)
    for attempt, phase in enumerate(("image", "agent", "agent", "score:right", "image"), 1):
        events.phase(trial(attempt=attempt), phase)
    events.ended(result(trial(attempt=5)), now=True)
    said = []
    for second in range(60):
        now = float(second)
        lines()
        said += [second] * (len(terminal.lines) - len(said))
    assert said == told
    first = (
        "bench: 4 trials in flight: 2 running agents, 1 building or pulling images, 1 score"
        f"; each: benchjobs watch {JOB}"
    )
    assert terminal.lines[:1] == [first][: len(told)]
    events.ended(result(trial()), now=True)
    now += 40
    lines()
    assert len(terminal.lines) == len(told)
    events.close()
