"""Route of one trial through the gateway: its sockets and their lifetime."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self

from aiohttp import web

from ..model.ending import Ending
from ..model.endpoint import Endpoint, Wire
from ..sandbox.handoff import take
from ..store.text import one_line
from ..system.cutting import know_secrets
from ..system.redact import is_placeholder
from .accounting import TrialState
from .allowed import Allowed
from .bodies import LARGEST_REQUEST
from .client import SpendingLimits, Upstream
from .connections import Connections
from .failures import Failure
from .job import Job
from .passing import Passing
from .provider_tools import ProviderTools
from .public_prices import warm_up
from .record import Recording, Replay

_CONNECTIONS = 32
_FULL_PAUSE = 0.02
_BACKLOG = 64
_SHUTDOWN = 2.0


Say = Callable[[Mapping[str, Any]], None]


class Doors:
    """Listening sockets of a trial, in a new directory. Their files stay, because a container has one mounted."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(mode=0o700)
        self.paths = {"door": str(directory / "door"), "host": str(directory / "host")}
        self.door = _listen(directory / "door", 0o666)
        self.host = _listen(directory / "host", 0o600)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.door.close()
        self.host.close()

    def turn_away(self) -> None:
        """Close the waiting connections of an earlier turn's agent, which has ended."""
        for listening in (self.door, self.host):
            with contextlib.suppress(BlockingIOError):
                while True:
                    listening.accept()[0].close()


class ServedRoute:
    """A route for one turn of an agent, open from its creation to `close`.

    `request` is as `client.open_route` wrote it; `say` sends a message to the client.
    """

    def __init__(self, job: Job, request: Mapping[str, Any], doors: Doors, say: Say) -> None:
        self._say = say
        self._doors = doors
        self._state = TrialState(
            job,
            SpendingLimits(**request["limits"]),
            lambda: say({"stop": True}),
            request["carried"],
            lambda seconds, since: say({"held": [seconds, since]}),
        )
        targets: dict[Wire, Upstream] = {}
        for one in request["upstreams"]:
            endpoint = Endpoint(**one["endpoint"])
            warm_up(endpoint.provider)
            targets.setdefault(endpoint.wire, Upstream(endpoint, (one["key"] or "").strip() or None))
        keys = {one.endpoint.provider: one.key for one in targets.values() if one.key}
        keys = {name: key for name, key in keys.items() if not is_placeholder(key)}
        trial = request["trial"]
        secrets = {**job.secrets, **request["secrets"], **keys}
        know_secrets(secrets.values())
        recording = None if job.record is None else Recording(job.record, trial, secrets)
        replay = None if job.replay is None else Replay(job.replay, trial, secrets)
        allowed = Allowed(request["models"])
        self._connections = Connections()
        tools = ProviderTools(request["provider_tools"])
        self._passing = Passing(
            job, self._state, self._connections, targets, allowed, tools, recording, replay
        )
        self._server = web.Server(
            self._handle,
            request_factory=_request,
            handler_cancellation=True,
            access_log=None,
            tcp_keepalive=False,
            auto_decompress=False,
        )
        self._tasks: list[asyncio.Task[None]] = []

    def open(self) -> None:
        """Begin to accept connections."""
        self._doors.turn_away()
        self._tasks = [
            asyncio.create_task(one)
            for one in (self._let_in(self._doors.door), self._accept(self._doors.host))
        ]
        self._say(self._doors.paths)

    async def _let_in(self, door: socket.socket) -> None:
        """Take over a container's loopback socket, once."""
        listening, pid = await take(door)
        self._say({"pid": pid})
        listening.listen(_BACKLOG)
        self._tasks.append(asyncio.create_task(self._refuse(door)))
        with listening:
            await self._accept(listening)

    async def _refuse(self, door: socket.socket) -> None:
        """Reject further connections to the door after the handover, a few a second."""
        loop = asyncio.get_running_loop()
        while True:
            connection, _ = await loop.sock_accept(door)
            connection.close()
            await asyncio.sleep(_FULL_PAUSE)

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            # An agent that opens too many connections waits; others do not.
            while len(self._server.connections) >= _CONNECTIONS:
                await asyncio.sleep(_FULL_PAUSE)
            connection, _ = await loop.sock_accept(listening)
            if connection.family == socket.AF_INET:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with contextlib.suppress(OSError):
                await loop.connect_accepted_socket(self._server, connection)

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        try:
            return await self._passing.handle(request)
        except (ConnectionError, asyncio.CancelledError, web.RequestPayloadError):
            raise
        except Exception as error:
            logging.getLogger(__name__).exception("a call failed within the gateway")
            why = one_line(f"a call failed within the gateway: {type(error).__name__}: {error}", 300)
            self._state.failed(Failure(Ending.GATEWAY, why), for_good=False)
            raise

    async def close(self) -> Mapping[str, Any]:
        """End running calls, and return the report."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.shutdown(_SHUTDOWN)
        await self._state.find_out()
        await self._connections.close()
        return self._state.report()


def _listen(path: Path, mode: int) -> socket.socket:
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listening.setblocking(False)
    listening.bind(str(path))
    path.chmod(mode)
    listening.listen(_BACKLOG)
    return listening


def _request(message: Any, payload: Any, protocol: Any, writer: Any, task: Any) -> web.BaseRequest:
    loop = asyncio.get_running_loop()
    return web.BaseRequest(message, payload, protocol, writer, task, loop, client_max_size=LARGEST_REQUEST)
