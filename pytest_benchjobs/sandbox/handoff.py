"""Taking over the socket that listens on a container's loopback interface.

A program in the container (the door) creates it and sends it here over a unix socket, with its process id. So calls are
accepted in the container's own network, which nothing else reaches, and only there. The gateway and the proxy of a
network `allowlist` have one each. A relay (`relay.py`) sends a unix socket of this machine in its place.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket

_PATIENCE = 5.0


async def take(door: socket.socket) -> tuple[socket.socket, int]:
    """Wait for the first valid handover: the listening socket, and the process id of its sender, inside its container.

    `door` is a listening unix socket, which does not block.
    """
    loop = asyncio.get_running_loop()
    while True:
        connection, _ = await loop.sock_accept(door)
        with connection:
            connection.setblocking(False)
            with contextlib.suppress(OSError):
                # Not wait_for: in Python 3.11 it may lose the cancellation of the whole. What is there counts, even
                # where this process had no time to look.
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_PATIENCE):
                        await _readable(connection)
                if (handed := _receive(connection)) is not None:
                    return handed


async def _readable(connection: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(connection, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(connection)


def _receive(connection: socket.socket) -> tuple[socket.socket, int] | None:
    message, descriptors, _, _ = socket.recv_fds(connection, 16, 1)
    pid = int.from_bytes(message[:4], "little", signed=True)
    if not descriptors:
        return None
    try:
        handed = socket.socket(fileno=descriptors[0])
    except OSError:
        os.close(descriptors[0])
        return None
    if len(message) == 4 and pid > 0 and _listens_here(handed):
        os.set_inheritable(handed.fileno(), False)
        handed.setblocking(False)
        return handed, pid
    handed.close()
    return None


def _listens_here(handed: socket.socket) -> bool:
    """Return True if nobody can connect from outside of the network, or the file system, of whoever made it."""
    return (
        handed.type == socket.SOCK_STREAM
        and handed.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN) == 1
        and (
            # A file in a private directory, as a relay's; a name without one is seen in the whole network.
            (handed.family == socket.AF_UNIX and str(handed.getsockname()).startswith("/"))
            or (handed.family == socket.AF_INET and handed.getsockname()[0] == "127.0.0.1")
        )
    )
