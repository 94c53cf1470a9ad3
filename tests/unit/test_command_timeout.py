"""The engine's frames give back exactly what was written, however they are cut."""

from __future__ import annotations

import socket
import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_benchjobs.sandbox import command_timeout
from pytest_benchjobs.sandbox.command_timeout import Demultiplexer, Drained, drain


def _frame(data: bytes, number: int = 1) -> bytes:
    return bytes([number, 0, 0, 0]) + len(data).to_bytes(4, "big") + data


@given(st.lists(st.tuples(st.sampled_from([1, 2]), st.binary(max_size=40))), st.integers(1, 30))
def test_output_is_the_same_however_the_stream_is_cut(frames: list[tuple[int, bytes]], step: int) -> None:
    wire = b"".join(_frame(data, number) for number, data in frames)
    output = bytearray()
    demultiplexer = Demultiplexer(output.extend)
    for start in range(0, len(wire), step):
        demultiplexer.feed(wire[start : start + step])
    assert bytes(output) == b"".join(data for _, data in frames)


@pytest.mark.parametrize("size", [0xFF, 0x100, 0xFFFF, 0x10000, 0x1000000])
def test_a_frame_has_the_size_that_all_its_bytes_say(size: int) -> None:
    sizes: list[int] = []
    demultiplexer = Demultiplexer(lambda data: sizes.append(len(data)))
    demultiplexer.feed(_frame(bytes(size)) + _frame(b"abc"))
    assert sizes == [size, 3]


def test_each_stream_is_handed_on_once_more() -> None:
    everything, stdout, stderr = bytearray(), bytearray(), bytearray()
    demultiplexer = Demultiplexer(everything.extend, stdout.extend, stderr.extend)
    demultiplexer.feed(_frame(b"a", 1) + _frame(b"b", 2) + _frame(b"c", 0) + _frame(b"d", 1))
    assert (everything, stdout, stderr) == (b"abcd", b"ad", b"bc")


def test_draining_ends_with_the_stream() -> None:
    ours, theirs = socket.socketpair()
    output = bytearray()
    with ours:
        with theirs:
            threading.Thread(target=theirs.sendall, args=(_frame(b"a" * 1000),)).run()
        assert drain(ours, Demultiplexer(output.extend), time.monotonic() + 5) is Drained.ENDED
    assert bytes(output) == b"a" * 1000


@pytest.mark.parametrize("error", [ConnectionResetError, BlockingIOError])
def test_draining_ends_where_another_thread_shuts_the_connection_down(error: type[OSError]) -> None:
    def recv_into(_buffer: object) -> int:
        raise error

    connection: Any = SimpleNamespace(settimeout=lambda seconds: None, recv_into=recv_into)
    assert drain(connection, Demultiplexer(lambda _: None), time.monotonic() + 5) is Drained.ENDED


def test_draining_ends_at_the_deadline_even_if_output_never_stops() -> None:
    ours, theirs = socket.socketpair()
    stop = threading.Event()

    def flood() -> None:
        theirs.settimeout(0.1)
        while not stop.is_set():
            try:
                theirs.sendall(_frame(b"x" * 100))
            except OSError:
                return

    thread = threading.Thread(target=flood)
    with ours, theirs:
        thread.start()
        started = time.monotonic()
        assert drain(ours, Demultiplexer(lambda data: None), started + 0.2) is Drained.LATE
        assert time.monotonic() - started < 1
        stop.set()
        thread.join()


def test_draining_ends_when_somebody_asks_even_if_output_never_stops() -> None:
    ours, theirs = socket.socketpair()
    output = bytearray()
    deadline = time.monotonic() + 60
    with ours, theirs:
        theirs.sendall(_frame(b"x"))
        assert (
            drain(ours, Demultiplexer(output.extend), deadline, requested=lambda: bool(output))
            is Drained.ASKED
        )
        again: list[bytes] = []

        def more(data: bytes) -> None:
            again.append(data)
            theirs.sendall(_frame(b"x"))

        theirs.sendall(_frame(b"x"))
        assert drain(ours, Demultiplexer(more), deadline, requested=lambda: len(again) > 9) is Drained.ASKED


class Connection:
    """One in made-up time: (seconds until it comes, what comes), as often as there is something, and then silence."""

    def __init__(self, *comes: tuple[float, bytes]) -> None:
        self.now = 100.0
        self.comes = list(comes)
        self.waited: list[float] = []
        self._timeout = 0.0

    def monotonic(self) -> float:
        return self.now

    def settimeout(self, seconds: float) -> None:
        self._timeout = seconds
        self.waited.append(round(seconds, 6))

    def recv_into(self, buffer: bytearray) -> int:
        if not self.comes or self.comes[0][0] > self._timeout:
            self.now += self._timeout
            self.comes[:1] = [(at - self._timeout, data) for at, data in self.comes[:1]]
            raise TimeoutError
        seconds, data = self.comes.pop(0)
        self.now += seconds
        buffer[: len(data)] = data
        return len(data)


@pytest.mark.parametrize(
    ("comes", "seconds", "silent", "why", "ended"),
    [
        ([], 5, None, Drained.LATE, 5),
        ([], 5, 5, Drained.LATE, 5),
        ([], 5, 4, Drained.SILENT, 4),
        ([], 0, None, Drained.LATE, 0),
        ([(3, b"x")], 10, 4, Drained.SILENT, 7),
        ([(3, b"x"), (3, b"x")], 10, 4, Drained.LATE, 10),
        ([(3, b"x"), (1, b"")], 10, 4, Drained.ENDED, 4),
    ],
)
def test_silence_is_counted_from_the_last_output_and_the_deadline_goes_first(
    monkeypatch: pytest.MonkeyPatch, comes: list[tuple[float, bytes]], seconds: float, silent: float | None,
    why: Drained, ended: float,
) -> None:  # fmt: skip
    connection: Any = Connection(*comes)
    monkeypatch.setattr(command_timeout, "time", connection)
    assert drain(connection, Demultiplexer(lambda _: None), 100.0 + seconds, silent) is why
    assert connection.now == 100.0 + ended


def test_somebody_who_may_ask_is_looked_at_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    connection: Any = Connection((0.0625, b"x"), (0.0625, b"x"))
    monkeypatch.setattr(command_timeout, "time", connection)
    monkeypatch.setattr(command_timeout, "LOOK", 0.25)
    looked: list[float] = []

    def asked() -> bool:
        looked.append(round(connection.now - 100, 6))
        return len(looked) == 4

    assert drain(connection, Demultiplexer(lambda _: None), 200.0, 50.0, asked) is Drained.ASKED
    assert looked == [0, 0.25, 0.5, 0.75]
    assert connection.waited == [0.25, 0.1875, 0.125, 0.25, 0.25]
    looked.clear()
    assert (
        drain(connection, Demultiplexer(lambda _: None), connection.now + 0.375, None, asked) is Drained.LATE
    )
    assert len(looked) == 2
    assert connection.waited[-2:] == [0.25, 0.125]
    # To look is no output: silence goes on.
    looked.clear()
    began = connection.now
    assert drain(connection, Demultiplexer(lambda _: None), began + 9, 0.625, asked) is Drained.SILENT
    assert (connection.now - began, len(looked)) == (0.625, 3)
