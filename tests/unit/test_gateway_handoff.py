"""The handover of a listening socket, and a route that is closed in the middle of it."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest

from pytest_benchjobs.gateway.handoff import take
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
