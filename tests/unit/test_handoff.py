"""The handover of a listening socket, and a route that is closed in the middle of it."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pytest_benchjobs.sandbox import handoff
from pytest_benchjobs.sandbox.handoff import take
from tests.unit.gateways import hand_over

PID = (77).to_bytes(4, "little")


async def _cancelled_after(door: socket.socket, turns: int) -> bool:
    """Cancel a handover after so many turns of the loop; whether it was still under way."""
    task = asyncio.create_task(take(door))
    for _ in range(turns):
        await asyncio.sleep(0)
    under_way = task.cancel()
    try:
        listening, _ = await task
    except asyncio.CancelledError:
        return under_way
    listening.close()
    assert not under_way, f"cancelled after {turns} turns, and did not notice"
    return False


def _listening(path: Path) -> socket.socket:
    door = socket.socket(socket.AF_UNIX)
    door.bind(str(path))
    door.listen(1)
    door.setblocking(False)
    return door


@pytest.mark.parametrize("turns", range(12))
def test_whoever_waits_for_a_handover_can_be_told_to_stop_at_any_moment(tmp_path: Path, turns: int) -> None:
    with _listening(tmp_path / "door") as door, socket.create_server(("127.0.0.1", 0)) as handed:
        hand_over(tmp_path / "door", handed, PID)
        asyncio.run(_cancelled_after(door, turns))


Handed = tuple[Any, bytes]
"""A socket, something else or nothing, and what is said of it."""


def _taken(path: Path, *handed: Handed) -> tuple[socket.socket, int]:
    """Hand over one after the other; what is taken."""
    with _listening(path) as door:
        door.listen(len(handed))
        for descriptor, message in handed:
            with socket.socket(socket.AF_UNIX) as connection:
                connection.connect(str(path))
                if descriptor is None:
                    connection.sendall(message)
                else:
                    socket.send_fds(connection, [message], [descriptor.fileno()])
        return asyncio.run(asyncio.wait_for(take(door), 20))


def _open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_a_listening_socket_is_ours_alone_and_does_not_block(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as handed:
        taken, pid = _taken(tmp_path / "door", (handed, PID))
        with taken:
            assert pid == 77
            assert taken.getsockname() == handed.getsockname()
            assert not taken.get_inheritable()
            assert not taken.getblocking()


def _server(host: str = "127.0.0.1", message: bytes = PID) -> Handed:
    return socket.create_server((host, 0)), message


def _of_another_family() -> Handed:
    made = socket.socket(socket.AF_UNIX)
    made.bind("")
    made.listen()
    return made, PID


def _datagrams() -> Handed:
    made = socket.socket(type=socket.SOCK_DGRAM)
    made.bind(("127.0.0.1", 0))
    return made, PID


IMPROPER: dict[str, Callable[[], Handed]] = {
    "nothing": lambda: (None, PID),
    "silence": lambda: (None, b""),
    "a file": lambda: (Path("/dev/null").open(), PID),  # noqa: SIM115  the test closes it
    "not listening": lambda: (socket.socket(), PID),
    "datagrams": _datagrams,
    "other family": _of_another_family,
    "every address": lambda: _server(""),
    "no process": lambda: _server(message=bytes(4)),
    "its group": lambda: _server(message=b"\xff" * 4),
    "too short": lambda: _server(message=PID[:3]),
    "too long": lambda: _server(message=PID + b"\0"),
}


@pytest.mark.parametrize("kind", IMPROPER)
def test_anything_else_is_closed_and_the_next_handover_awaited(tmp_path: Path, kind: str) -> None:
    improper = IMPROPER[kind]()
    with improper[0] or contextlib.nullcontext(), socket.create_server(("127.0.0.1", 0)) as handed:
        before = _open_files()
        taken, _ = _taken(tmp_path / "door", improper, improper, (handed, PID))
        with taken:
            assert taken.getsockname() == handed.getsockname()
            assert _open_files() == before + 1
        assert handed.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN) == 1


def test_whoever_connects_and_says_nothing_holds_nobody_up_for_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handoff, "_PATIENCE", 0.05)
    with (
        _listening(tmp_path / "door") as door,
        socket.socket(socket.AF_UNIX) as silent,
        socket.create_server(("127.0.0.1", 0)) as handed,
    ):
        door.listen(2)
        silent.connect(str(tmp_path / "door"))
        hand_over(tmp_path / "door", handed, PID)
        found, pid = asyncio.run(asyncio.wait_for(take(door), 20))
        with found:
            assert pid == 77
