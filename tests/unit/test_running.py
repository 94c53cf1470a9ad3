"""A command is waited for, and asked to end, as its output and the engine's word for its end come in."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator

import pytest

from pytest_benchjobs.sandbox.command_timeout import Drained, wait_fairly
from pytest_benchjobs.sandbox.docker import running as module
from pytest_benchjobs.sandbox.docker.running import Held, Running
from pytest_benchjobs.sandbox.protocol import Stopping

from .clocks import Clock

LONG = 60.0


def _frame(data: bytes) -> bytes:
    return bytes([1, 0, 0, 0]) + len(data).to_bytes(4, "big") + data


class Command:
    """What the engine has of it, and `running`, which hears of that."""

    def __init__(self) -> None:
        ours, self.engine = socket.socketpair()
        self.ours = ours
        self.output = bytearray()
        self.ended: tuple[int, int] | None = None
        self.looks = 0
        self.killed = threading.Event()
        self.died: tuple[int, int] | None = None
        self.running = Running(ours, self._inspect, self.killed, self.output.extend, death=lambda: self.died)

    def _inspect(self) -> tuple[int, int] | None:
        self.looks += 1
        return self.ended

    def says(self, data: bytes) -> None:
        self.engine.sendall(_frame(data))

    def ends(self, status: int) -> None:
        self.ended = (status, 7)
        self.engine.close()

    def wait(self, seconds: float = LONG, silent: float | None = None) -> Drained:
        return self.running.wait(time.monotonic() + seconds, silent)


@pytest.fixture
def command() -> Iterator[Command]:
    command = Command()
    with command.ours, command.engine:
        yield command


def test_a_command_ends_when_the_engine_says_so(command: Command) -> None:
    command.running.feed(_frame(b"early ")[:-2])
    command.engine.sendall(b"y ")
    command.says(b"late")
    command.ends(3)
    assert command.wait() is Drained.ENDED
    assert (command.running.status, bytes(command.output)) == ((3, 7), b"early late")


def test_the_end_of_the_output_is_not_the_end_of_the_command(command: Command) -> None:
    command.engine.close()
    assert command.wait(0.05) is Drained.LATE
    assert command.wait(LONG, silent=0.05) is Drained.SILENT
    assert command.running.wait(time.monotonic() + LONG, requested=lambda: command.looks > 5) is Drained.ASKED
    assert command.running.status is None
    command.ended = (0, 7)
    assert command.wait() is Drained.ENDED


def test_nobody_waits_for_what_was_killed(command: Command) -> None:
    command.engine.close()
    command.killed.set()
    assert command.wait() is Drained.ENDED
    assert command.running.status is None


def test_a_command_ends_with_its_container_though_its_output_does_not(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_EARLY", LONG)
    assert command.wait(0.05) is Drained.LATE
    command.died = (137, 0)
    command.says(b"last")
    assert command.wait(0.05) is Drained.LATE
    monkeypatch.setattr(module, "_EARLY", 0.0)
    assert command.wait() is Drained.ENDED
    assert (command.running.status, bytes(command.output), command.looks) == ((137, 0), b"last", 0)


def test_the_end_of_the_output_is_what_counts_where_it_comes(command: Command) -> None:
    command.died = (137, 0)
    command.ends(3)
    assert command.wait() is Drained.ENDED
    assert command.running.status == (3, 7)


def test_what_is_said_after_a_signal_is_heard(command: Command) -> None:
    signals: list[str] = []

    def signal(name: str) -> None:
        signals.append(name)
        command.says(name.encode() + b" ")
        if name == "TERM":
            command.ends(4)

    stopping = Stopping(lambda: True, signal, (("INT", 0.05), ("TERM", LONG), ("TERM", LONG)))
    assert wait_fairly(command.running.wait, LONG, None, stopping) is Drained.ASKED
    assert (command.running.status, bytes(command.output)) == ((4, 7), b"INT TERM ")
    assert signals == ["INT", "TERM"]


def test_one_that_heeds_no_signal_runs_on(command: Command) -> None:
    signals: list[str] = []
    stopping = Stopping(lambda: True, signals.append, (("INT", 0.05), ("TERM", 0.05)))
    assert wait_fairly(command.running.wait, LONG, None, stopping) is Drained.ASKED
    assert command.running.status is None
    assert signals == ["INT", "TERM"]


@pytest.mark.parametrize(
    ("seconds", "silent", "why", "ended"),
    [
        (5.0, None, Drained.LATE, 5.0),
        (5.0, 5.0, Drained.LATE, 5.0),
        (5.0, 4.0, Drained.SILENT, 4.0),
        (3.0, 4.0, Drained.LATE, 3.0),
        (0.0, None, Drained.LATE, 0.0),
    ],
)
def test_the_silence_of_one_that_closed_its_output_counts_from_the_last_it_said(
    monkeypatch: pytest.MonkeyPatch, seconds: float, silent: float | None, why: Drained, ended: float
) -> None:
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    command = Command()
    with command.ours, command.engine:
        command.running._streaming = False
        clock.now = 90.0
        command.running.feed(_frame(b"x"))
        clock.now = 100.0
        silent = None if silent is None else silent + 10
        assert command.running.wait(100.0 + seconds, silent) is why
        assert ended <= clock.now - 100.0 < ended + 0.5
        assert clock.pauses[:4] == [0.005, 0.01, 0.02, 0.04][: len(clock.pauses)]
        assert max(clock.pauses, default=0) <= 0.5
        assert command.looks == len(clock.pauses) + 1


def test_where_somebody_may_ask_the_engine_is_asked_more_often(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    command = Command()
    with command.ours, command.engine:
        command.running._streaming = False
        assert command.running.wait(102.0, None, lambda: False) is Drained.LATE
        assert max(clock.pauses) == 0.2
        clock.pauses.clear()
        assert command.running.wait(200.0, None, lambda: True) is Drained.ASKED
        assert clock.pauses == []


# What an engine says of a command that it cannot start comes as output


def test_the_first_output_is_held_back_until_more_comes_or_it_is_let_go() -> None:
    heard: list[tuple[str, bytes]] = []
    held = Held(lambda data: heard.append(("all", data)), lambda data: heard.append(("out", data)))
    assert held.stdout_sink is not None
    held.sink(b" OCI runtime \xff\n")
    held.stdout_sink(b"OCI")
    assert heard == []
    assert held.text == "OCI runtime \ufffd"
    # An engine says all that it has to say in one piece.
    held.sink(b"more")
    assert heard == [("all", b" OCI runtime \xff\n"), ("out", b"OCI"), ("all", b"more")]
    heard.clear()
    held = Held(lambda data: heard.append(("all", data)), None)
    held.sink(b"x" * 3000)
    assert (held.stdout_sink, heard, len(held.text)) == (None, [], 2000)
    held.release()
    held.release()
    held.sink(b"y")
    assert heard == [("all", b"x" * 3000), ("all", b"y")]
