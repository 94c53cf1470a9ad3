"""The handover of a listening socket, and a route that is closed in the middle of it."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import socket
from collections.abc import Iterator
from pathlib import Path

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
    with (
        _listening(tmp_path / "door") as door,
        socket.create_server(("127.0.0.1", 0)) as handed,
    ):
        hand_over(tmp_path / "door", handed, PID)
        asyncio.run(_cancelled_after(door, turns))


def _taken(path: Path, *handed: tuple[socket.socket | int | None, bytes]) -> tuple[socket.socket, int]:
    """Hand over one after the other; what is taken."""
    with _listening(path) as door:
        door.listen(len(handed))
        for descriptor, message in handed:
            with socket.socket(socket.AF_UNIX) as connection:
                connection.connect(str(path))
                if descriptor is None:
                    connection.sendall(message)
                else:
                    number = descriptor if isinstance(descriptor, int) else descriptor.fileno()
                    socket.send_fds(connection, [message], [number])

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


@contextlib.contextmanager
def _improper(kind: str) -> Iterator[tuple[socket.socket | int | None, bytes]]:
    server = functools.partial(socket.create_server, ("127.0.0.1", 0))
    with contextlib.ExitStack() as stack:
        if kind == "nothing":
            yield None, PID
        elif kind == "silence":
            yield None, b""
        elif kind == "a file":
            yield stack.enter_context(Path("/dev/null").open()).fileno(), PID
        elif kind == "not listening":
            yield stack.enter_context(socket.socket()), PID
        elif kind == "datagrams":
            udp = stack.enter_context(socket.socket(type=socket.SOCK_DGRAM))
            udp.bind(("127.0.0.1", 0))
            yield udp, PID
        elif kind == "other family":
            unix = stack.enter_context(socket.socket(socket.AF_UNIX))
            unix.bind("")
            unix.listen()
            yield unix, PID
        elif kind == "every address":
            yield stack.enter_context(socket.create_server(("", 0))), PID
        else:
            message = {"no process": 0, "its group": -1}.get(kind)
            short = {"too short": PID[:3], "too long": PID + b"\0"}.get(kind, b"")
            yield (
                stack.enter_context(server()),
                message.to_bytes(4, "little", signed=True) if message is not None else short,
            )


@pytest.mark.parametrize(
    "kind",
    [
        "nothing", "silence", "a file", "not listening", "datagrams", "other family", "every address", "no process",
        "its group", "too short", "too long",
    ],
)  # fmt: skip
def test_anything_else_is_closed_and_the_next_handover_awaited(tmp_path: Path, kind: str) -> None:
    with _improper(kind) as improper, socket.create_server(("127.0.0.1", 0)) as handed:
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
