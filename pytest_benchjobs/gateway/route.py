"""One trial's way through the gateway: its sockets, and how long they last."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from aiohttp import web

from ..model.endpoint import Endpoint, Wire
from .accounting import TrialState
from .allowed import Allowed
from .client import SpendingLimits, Upstream
from .connections import Connections
from .handoff import take
from .job import Job
from .passing import LARGEST_REQUEST, Passing
from .public_prices import warm_up
from .record import Recording, Replay

_CONNECTIONS = 32
_FULL_PAUSE = 0.02
_BACKLOG = 64
_SHUTDOWN = 2.0


class ServedRoute:
    """Open from its making to `close`. Its sockets go into `directory`, which is not there yet.

    `request` is as `client.open_route` wrote it; `say` tells the client something.
    """

    def __init__(
        self, job: Job, request: Mapping[str, Any], directory: Path, say: Callable[[Mapping[str, Any]], None]
    ) -> None:
        self._say = say
        self._directory = directory
        self._state = TrialState(
            job, SpendingLimits(**request["limits"]), lambda: say({"stop": True}), request["carried"]
        )
        targets: dict[Wire, Upstream] = {}
        for one in request["upstreams"]:
            endpoint = Endpoint(**one["endpoint"])
            warm_up(endpoint.provider)
            targets.setdefault(endpoint.wire, Upstream(endpoint, (one["key"] or "").strip() or None))
        keys = {target.endpoint.provider: target.key for target in targets.values() if target.key}
        trial = request["trial"]
        secrets = {**job.secrets, **request["secrets"], **keys}
        recording = None if job.record is None else Recording(job.record, trial, secrets)
        replay = None if job.replay is None else Replay(job.replay, trial, secrets)
        allowed = Allowed(request["models"])
        self._connections = Connections()
        self._passing = Passing(job, self._state, self._connections, targets, allowed, recording, replay)
        self._server = web.Server(
            self._handle,
            request_factory=_request,
            handler_cancellation=True,
            access_log=None,
            tcp_keepalive=False,
        )
        self._tasks: list[asyncio.Task[None]] = []
        self._door: socket.socket | None = None

    async def open(self) -> None:
        """Listen."""
        self._directory.mkdir(mode=0o700)
        self._door = _listen(self._directory / "door", 0o666)
        host = _listen(self._directory / "host", 0o600)
        self._tasks = [asyncio.create_task(self._let_in(self._door)), asyncio.create_task(self._accept(host))]
        self._say({"door": str(self._directory / "door"), "host": str(self._directory / "host")})

    async def _let_in(self, door: socket.socket) -> None:
        """Take over a container's loopback, once."""
        listening, pid = await take(door)
        door.close()
        self._say({"pid": pid})
        listening.listen(_BACKLOG)
        await self._accept(listening)

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        with listening:
            while True:
                # An agent that opens more than it may waits, and no other does.
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
        except Exception:
            logging.getLogger(__name__).exception("a call failed within the gateway")
            raise

    async def close(self) -> Mapping[str, Any]:
        """End what is under way, and say what there was. Its sockets' files stay: a container has one mounted."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._door is not None:
            self._door.close()
        await self._server.shutdown(_SHUTDOWN)
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
