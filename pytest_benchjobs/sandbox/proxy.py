"""The forward proxy of a sandbox whose network is an allowlist.

Such a sandbox has no network but its own loopback. A door (`door.py`) listens there once, and hands
the socket over to this process, which serves it from then on: so programs in the sandbox that take `HTTP_PROXY` reach
what the list permits, and nothing else leads out. No process of ours runs in the sandbox, and nothing in it can change
the list.

Names are resolved here, once for each connection, and only if they are on the list; the connection goes to an address
that was looked at, so an answer that changes between two questions gains nothing.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import ipaddress
import socket
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from typing import Any

from ..model.endpoint import PROXY_PORT
from ..model.errors import EngineError, EnvironmentFailed
from ..model.hosts import Address, AllowedHosts, ascii_name
from ..system.temporary import temporary_directory
from .door import door_command
from .handoff import take
from .program import needed_program
from .protocol import File, Mount
from .proxied import Refused, Streams, end, forward, read_head, relay

_SOCKET = "/bench/proxy.sock"
DOOR = door_command(PROXY_PORT, _SOCKET)
"""Command that opens the proxy in a sandbox, and ends."""
_CONNECTIONS = 64
_BACKLOG = 128
_HEAD_SECONDS = 30.0
_LOOK_UP_SECONDS = 10.0
_CONNECT_SECONDS = 15.0
_HANDOVER_SECONDS = 10.0
_NOTED = 50
"""Limit of targets of refused connections that are counted separately."""
_NOBODYS = ipaddress.IPv4Address("192.0.2.1")
"""Address for documentation: a process that can bind it can bind any (`ip_nonlocal_bind`)."""


class Proxy:
    """The proxy of one sandbox. Its methods are called from the sandbox's thread; `refused` from any."""

    def __init__(self) -> None:
        self._exit = contextlib.ExitStack()
        path = self._exit.enter_context(temporary_directory("proxy", for_sockets=True)) / "proxy"
        self.mount = Mount(path, _SOCKET)
        self._door = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._exit.callback(self._door.close)
        self._door.setblocking(False)
        self._door.bind(str(path))
        path.chmod(0o666)  # the directory is ours alone; in the sandbox anybody may be root
        self._door.listen(_BACKLOG)
        self._allowed: AllowedHosts | None = None
        self._serving: asyncio.Task[None] | None = None
        self._open: set[asyncio.Task[None]] = set()
        self._refused: dict[str, int] = {}
        self._lock = threading.Lock()

    def door(self, machine: str) -> File:
        """Return the program that hands the loopback's socket over; an `EnvironmentFailed`, if there is none."""
        return needed_program(machine, "the network `allowlist` is there", EnvironmentFailed)

    def join(self, run_door: Callable[[], object]) -> None:
        """Serve a sandbox that was started, also once more: `run_door` runs the program in it, to its end.

        It is an `EngineError` if no socket was handed over.
        """
        with contextlib.suppress(BlockingIOError):
            while True:  # what processes that have ended since had tried
                self._door.accept()[0].close()
        taking = asyncio.run_coroutine_threadsafe(take(self._door), _loop())
        try:
            run_door()
            listening, _ = taking.result(_HANDOVER_SECONDS)
        except (TimeoutError, concurrent.futures.TimeoutError):
            raise EngineError(
                "the proxy for the allowed hosts could not be reached from the container"
            ) from None
        finally:
            taking.cancel()
        self._call(self._serve_only(listening))

    def allow(self, hosts: Iterable[str] | None) -> None:
        """Permit these hosts from now on, None: nothing at all. Connections that are open end."""
        self._allowed = None if hosts is None else AllowedHosts.of(hosts)
        self._call(self._cut())

    def refused(self) -> tuple[str, ...]:
        """Return lines about what was refused since this was last asked."""
        with self._lock:
            found, self._refused = self._refused, {}
        return tuple(
            f"the network refused {what}" + (f" ({times} times)" if times > 1 else "")
            for what, times in found.items()
        )

    def close(self) -> None:
        """End all connections, and remove the socket. Never raises."""
        self._allowed = None
        with contextlib.suppress(Exception):
            self._call(self._serve_only(None))
        self._exit.close()

    async def _serve_only(self, listening: socket.socket | None) -> None:
        """Serve this socket, or none, and the one before no longer."""
        if self._serving is not None:
            await end(self._serving)
        await self._cut()
        self._serving = None if listening is None else asyncio.create_task(self._serve(listening))

    async def _cut(self) -> None:
        await end(*self._open)

    async def _serve(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        room = asyncio.Semaphore(_CONNECTIONS)
        with listening:
            listening.listen(_BACKLOG)
            while True:
                await room.acquire()
                connection, _ = await loop.sock_accept(listening)
                task = asyncio.create_task(self._handle(connection))
                self._open.add(task)
                task.add_done_callback(self._open.discard)
                task.add_done_callback(lambda _: room.release())

    async def _handle(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError, TimeoutError, asyncio.IncompleteReadError), connection:
            async with _closing(await asyncio.open_connection(sock=connection)) as inner:
                reader, writer = inner
                try:
                    async with asyncio.timeout(_HEAD_SECONDS):
                        head = await read_head(reader)
                    connected = await self._connected(head.host, head.port)
                except Refused as problem:
                    if problem.status == 403:
                        self._note(str(problem))
                    writer.write(problem.answer())
                    await writer.drain()
                    return
                async with _closing(connected) as outer:
                    if head.tunnel:
                        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
                        await relay(inner, outer)
                    else:
                        await forward(head, inner, outer)

    async def _connected(self, host: str, port: int) -> Streams:
        """Connect to a host, if it is on the list, at an address that it may be at, and there; else `Refused`."""
        where = f"{host}:{port}"
        if (allowed := self._allowed) is None:
            raise Refused(403, f"{where}: the network is no allowlist now")
        named, addresses = await _look_up(host, port, allowed)
        found, why = [], ""
        for address in addresses:
            problem = allowed.why_not_address(address, named=named, own=is_of_this_machine(address))
            if problem is None:
                found.append(address)
            else:
                why = why or (f"it is at {address}: {problem}" if named else problem)
        if why and not found:
            raise Refused(403, f"{where}: {why}")
        failure = "no connection" if addresses else "the name has no address"
        for address in found[:4]:
            try:
                return await connect(address, port)
            except TimeoutError:
                failure = "no answer in time"
            except OSError as error:
                failure = error.strerror or str(error)
        raise Refused(502, f"{where}: {failure}")

    def _note(self, line: str) -> None:
        with self._lock:
            if line not in self._refused and len(self._refused) >= _NOTED:
                line = "further hosts"
            self._refused[line] = self._refused.get(line, 0) + 1

    def _call(self, coroutine: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(coroutine, _loop()).result()


async def _look_up(host: str, port: int, allowed: AllowedHosts) -> tuple[bool, list[Address]]:
    """Return True for a name, and the addresses of a host; `Refused`, if it is not on the list or has none."""
    with contextlib.suppress(ValueError):
        return False, [ipaddress.ip_address(host)]
    name = ascii_name(host)
    why = "that is no name of a host" if name is None else allowed.why_not_name(name)
    if name is None or why is not None:
        raise Refused(403, f"{host}:{port}: {why}")
    try:
        async with asyncio.timeout(_LOOK_UP_SECONDS):
            return True, await resolve(name, port)
    except TimeoutError:
        raise Refused(502, f"{host}:{port}: the name was not resolved in time") from None
    except OSError as error:
        raise Refused(502, f"{host}:{port}: the name cannot be resolved: {error.strerror}") from None


async def resolve(name: str, port: int) -> list[Address]:
    """Return the addresses of a name, as this machine knows them, each once."""
    rows = await asyncio.get_running_loop().getaddrinfo(name, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(ipaddress.ip_address(str(row[4][0]).partition("%")[0]) for row in rows))


async def connect(address: Address, port: int) -> Streams:
    """Connect to an address; an `OSError` or `TimeoutError`, if there is no answer."""
    async with asyncio.timeout(_CONNECT_SECONDS):
        return await asyncio.open_connection(str(address), port)


def is_of_this_machine(address: Address) -> bool:
    """Return True if an address is one of this machine's interfaces."""
    return _can_bind(address) and not _can_bind(_NOBODYS)


def _can_bind(address: Address) -> bool:
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    with contextlib.suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.bind((str(address), 0))
        return True
    return False


@contextlib.asynccontextmanager
async def _closing(streams: Streams) -> AsyncIterator[Streams]:
    """Close a connection at the end, once all is sent, or at once where something is raised."""
    writer = streams[1]
    try:
        yield streams
        with contextlib.suppress(OSError):
            writer.close()
            async with asyncio.timeout(_CONNECT_SECONDS):
                await writer.wait_closed()
    finally:
        writer.transport.abort()


_starting = threading.Lock()
_running: asyncio.AbstractEventLoop | None = None


def _loop() -> asyncio.AbstractEventLoop:
    """Return the loop of all proxies of this process, which has a thread of its own."""
    global _running
    with _starting:
        if _running is None:
            _running = asyncio.new_event_loop()
            threading.Thread(target=_running.run_forever, name="bench-proxy", daemon=True).start()
        return _running
