"""When an image's own ENTRYPOINT is ready, by what runs in its container."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pytest_benchjobs.model.errors import EntrypointEnded, EnvironmentFailed
from pytest_benchjobs.model.scenario import Environment
from pytest_benchjobs.sandbox import entrypoint as module
from pytest_benchjobs.sandbox.docker.processes import Process
from pytest_benchjobs.sandbox.entrypoint import Entrypoint
from pytest_benchjobs.sandbox.protocol import ExecResult, Stopping
from tests.support import set_clock

REACHED = "/bench/program reached"


def _process(pid: int, command: str, parent: int = 1) -> Process:
    return Process(pid, parent, "S", command.split()[0], command)


class Container:
    """Shows one moment after the other, a second apart: its processes, and what they have used by then."""

    has_first = True

    def __init__(self, *moments: tuple[list[Process], float], status: int | None = None) -> None:
        self.moments = list(moments)
        self.now = 100.0
        self.looks = 0
        self.status = status
        self.argv: tuple[str, ...] = ()
        self.printed = b""

    def exec(
        self, argv: tuple[str, ...], *, timeout: float, sink: Callable[[bytes], None], stopping: Stopping
    ) -> ExecResult:
        self.argv = argv
        assert timeout == 77
        assert tuple(stopping.graces) == ()
        sink(self.printed)
        if self.status is not None:
            return ExecResult(self.status, timed_out=False, seconds=1.0)
        while self.moments:
            self.looks += 1
            if stopping.requested():
                return ExecResult(None, timed_out=True, seconds=1.0, stopped=True)
            self.moments.pop(0)
            self.now += 1
        return ExecResult(None, timed_out=True, seconds=77.0)

    def running(self) -> list[Process]:
        return self.moments[0][0]

    def cpu_seconds(self) -> float:
        return self.moments[0][1]


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Callable[[Container], Entrypoint]:
    def start(container: Container) -> Entrypoint:
        set_clock(monkeypatch, module, lambda: container.now)
        environment = Environment(image="x", setup_timeout=77)
        made = Entrypoint(container, ["/entry", "-x"], environment, has_first=container.has_first)
        made.start(lambda: None)
        return made

    return start


Start = Callable[[Container], Entrypoint]
Moment = tuple[list[Process], float]


def test_one_that_runs_what_it_is_told_to_is_ready(started: Start) -> None:
    container = Container(([_process(5, "/bin/sh /entry")], 0.0), ([_process(5, REACHED)], 0.1))
    assert not started(container).serves
    assert container.looks == 2
    assert container.argv == ("/entry", "-x", "/bench/program", "reached")


def test_one_without_our_first_process_is_told_to_sleep(started: Start) -> None:
    container = Container(([_process(5, "sleep 86400")], 0.0))
    container.has_first = False
    assert not started(container).serves
    assert container.argv == ("/entry", "-x", "sleep", "86400")


def test_what_only_waits_for_what_it_was_told_to_run_serves_nothing(started: Start) -> None:
    rows = [_process(4, "tini -- x"), _process(5, "/bin/sh -c x", 4), _process(6, REACHED, 5)]
    assert not started(Container((rows, 0.0))).serves
    assert started(Container(([*rows, _process(7, "redis", 4)], 0.0))).serves


def _used(*seconds: float) -> list[Moment]:
    return [([_process(5, "x")], used) for used in seconds]


def _asleep(command: str) -> list[Moment]:
    rows = [_process(5, "/bin/sh x"), _process(6, command, 5)]
    return [*[(rows, 0.0)] * 4, *[(rows[:1], 0.0)] * 9]


@pytest.mark.parametrize(
    ("moments", "looks"),
    [
        (_used(*[0.0] * 9), 4),  # three seconds after it was seen first
        (_used(0.0, 0.01, 0.02, 0.03, 0.04, 0.05), 4),
        # More than a twentieth of a processor is work: it is looked at again for as long.
        (_used(0.0, 0.1, 0.2, 0.3, 0.3, 0.3, 0.3, 0.3), 7),
        # One that has started something.
        ([*_used(*[0.0] * 3), *[([_process(5, "x"), _process(6, "y", 5)], 0.0)] * 9], 3 + 4),
        # A short sleep is work.
        *((_asleep(command), 8) for command in ("sleep 2", "/bin/sleep 0.5", "sleep 10s")),
        *((_asleep(command), 4) for command in ("sleep 3600", "sleepy 2")),
    ],
)
def test_one_that_serves_is_ready_when_it_is_at_rest(
    started: Start, moments: list[Moment], looks: int
) -> None:
    container = Container(*moments)
    assert started(container).serves
    assert container.looks == looks


def test_one_that_is_never_ready_or_ends_is_an_error_that_quotes_it(started: Start) -> None:
    container = Container(*(([_process(5, "x")], used) for used in range(20)))
    container.printed = b"loading\n"
    with pytest.raises(EnvironmentFailed, match=r"still busy after 77 s: .* ends with: loading"):
        started(container)
    container = Container(status=3)
    with pytest.raises(EntrypointEnded, match=r"ended with status 3 before .* Output: nothing"):
        started(container)


def test_started_again_what_goes_wrong_is_a_note_but_for_who_gave_up() -> None:
    environment = Environment(image="x", setup_timeout=77)
    found = Entrypoint(Container(status=1), ["/entry"], environment, has_first=True).start_again(lambda: None)
    assert str(found).startswith("started again for grading: the image's ENTRYPOINT ended with status 1")
    reached = Entrypoint(Container(([_process(5, REACHED)], 0.0)), ["/entry"], environment, has_first=True)
    assert reached.start_again(lambda: None) is None

    def check() -> Any:
        raise KeyError

    with pytest.raises(KeyError):
        Entrypoint(
            Container(([_process(5, REACHED)], 0.0)), ["/entry"], environment, has_first=True
        ).start_again(check)
