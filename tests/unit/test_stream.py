"""The engine's frames give back exactly what was written, however they are cut."""

from __future__ import annotations

import socket
import threading
import time

from hypothesis import given
from hypothesis import strategies as st

from pytest_benchjobs.sandbox.stream import Demultiplexer, Drained, drain


def _frame(data: bytes, stream: int = 1) -> bytes:
    return bytes([stream, 0, 0, 0]) + len(data).to_bytes(4, "big") + data


@given(st.lists(st.tuples(st.sampled_from([1, 2]), st.binary(max_size=40))), st.integers(1, 30))
def test_output_is_the_same_however_the_stream_is_cut(frames: list[tuple[int, bytes]], step: int) -> None:
    wire = b"".join(_frame(data, stream) for stream, data in frames)
    output = bytearray()
    demultiplexer = Demultiplexer(output.extend)
    for start in range(0, len(wire), step):
        demultiplexer.feed(wire[start : start + step])
    assert bytes(output) == b"".join(data for _, data in frames)


def test_draining_ends_with_the_stream() -> None:
    ours, theirs = socket.socketpair()
    output = bytearray()
    with ours:
        with theirs:
            threading.Thread(target=theirs.sendall, args=(_frame(b"a" * 1000),)).run()
        assert drain(ours, Demultiplexer(output.extend), time.monotonic() + 5) is Drained.ENDED
    assert bytes(output) == b"a" * 1000


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


def test_draining_ends_when_nothing_came_for_too_long() -> None:
    ours, theirs = socket.socketpair()
    output = bytearray()
    with ours, theirs:
        theirs.sendall(_frame(b"x"))
        assert drain(ours, Demultiplexer(output.extend), time.monotonic() + 60, 0.05) is Drained.SILENT
    assert output == b"x"


def test_draining_ends_when_somebody_asks_even_if_output_never_stops() -> None:
    ours, theirs = socket.socketpair()
    output = bytearray()
    deadline = time.monotonic() + 60
    with ours, theirs:
        theirs.sendall(_frame(b"x"))
        assert (
            drain(ours, Demultiplexer(output.extend), deadline, asked=lambda: bool(output)) is Drained.ASKED
        )
        again: list[bytes] = []

        def more(data: bytes) -> None:
            again.append(data)
            theirs.sendall(_frame(b"x"))

        theirs.sendall(_frame(b"x"))
        assert drain(ours, Demultiplexer(more), deadline, asked=lambda: len(again) > 9) is Drained.ASKED


def test_looking_whether_somebody_asks_breaks_no_silence() -> None:
    ours, theirs = socket.socketpair()
    looked: list[bool] = []

    def asked() -> bool:
        looked.append(True)
        return False

    with ours, theirs:
        why = drain(ours, Demultiplexer(lambda data: None), time.monotonic() + 60, 0.5, asked)
    assert why is Drained.SILENT
    assert looked
