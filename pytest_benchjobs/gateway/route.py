"""Route of one trial through the gateway: its sockets and their lifetime, and which requests are calls of models."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import shlex
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self

from aiohttp import web

from ..model.ending import Ending
from ..model.endpoint import Endpoint, Wire
from ..sandbox.handoff import take
from ..store.calls import CallLog, LoggedCall
from ..store.text import one_line
from ..system.cutting import know_secrets
from ..system.redact import is_placeholder
from .accounting import TrialState
from .allowed import Allowed
from .bodies import LARGEST_REQUEST
from .client import UNLOGGED, SpendingLimits, Upstream
from .connections import Connections
from .exchange import NO_RETRY, Exchange, error
from .failures import Failure
from .job import Job
from .provider_tools import ProviderTools
from .public_prices import warm_up
from .record import Recording, Replay
from .wires import Call, TooLarge, Unsendable, error_body, recognise, wire_of

_CONNECTIONS = 32
_FULL_PAUSE = 0.02
_BACKLOG = 64
_SHUTDOWN = 2.0
_LARGE = 1 << 20
_LARGE_AT_ONCE = 4


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
        self._job = job
        self._say = say
        self._doors = doors
        self._state = TrialState(
            job,
            SpendingLimits(**request["limits"]),
            lambda: say({"stop": True}),
            request["carried"],
            lambda seconds, since: say({"held": [seconds, since]}),
        )
        self._targets: dict[Wire, Upstream] = {}
        for one in request["upstreams"]:
            endpoint = Endpoint(**one["endpoint"])
            warm_up(endpoint.provider)
            self._targets.setdefault(endpoint.wire, Upstream(endpoint, (one["key"] or "").strip() or None))
        keys = {one.endpoint.provider: one.key for one in self._targets.values() if one.key}
        keys = {name: key for name, key in keys.items() if not is_placeholder(key)}
        trial = request["trial"]
        secrets = {**job.secrets, **request["secrets"], **keys}
        know_secrets(secrets.values())
        self._recording = None if job.record is None else Recording(job.record, trial, secrets)
        self._replay = None if job.replay is None else Replay(job.replay, trial, secrets)
        self._calls = None if request["calls"] is None else CallLog(Path(request["calls"]))
        self._allowed = Allowed(request["models"])
        self._tools = ProviderTools(request["provider_tools"])
        self._connections = Connections()
        self._parsing = asyncio.Lock()
        """One body at a time, so that those of other trials have their turns."""
        # A request is held in memory until it is answered, for retries.
        self._large = asyncio.Semaphore(_LARGE_AT_ONCE)
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
            return await self._answer(request)
        except (ConnectionError, asyncio.CancelledError, web.RequestPayloadError):
            raise
        except Exception as error:
            logging.getLogger(__name__).exception("a call failed within the gateway")
            why = one_line(f"a call failed within the gateway: {type(error).__name__}: {error}", 300)
            self._state.failed(Failure(Ending.GATEWAY, why), for_good=False)
            raise

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request."""
        call = recognise(request.method, request.raw_path)
        target = None if call is None else self._targets.get(call.wire)
        if call is None or target is None or "Upgrade" in request.headers:
            return _nothing_here(request, call)
        if request.headers.get("Expect", "").lower() == "100-continue":
            await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        async with self._large if _may_be_large(request) else contextlib.nullcontext():
            try:
                body = await request.read()
                encoding = request.headers.get("Content-Encoding", "").strip().lower()
                async with self._parsing:
                    outgoing = await self._job.bodies.outgoing(
                        call, body, encoding, self._allowed, self._tools
                    )
                others = [model for model in outgoing.models if not self._allowed.permits(model)]
            except (web.HTTPRequestEntityTooLarge, TooLarge):
                return error(call.wire, 413, f"the request is larger than {LARGEST_REQUEST >> 20} MiB")
            except Unsendable as problem:
                return self._refused(request, call, body, 400, f"request refused: {problem}")
            if others and call.metered:
                self._state.refused(others[0])
                name = one_line(others[0], 200)
                allow = f"to allow it, give --bench-allow-model {shlex.quote(name)}"
                return self._refused(
                    request, call, outgoing.content, 403, f"this trial may not call the model {name}; {allow}"
                )
            self._state.took_out(outgoing.taken_out)
            exchange = Exchange(self._job, self._state, self._connections, target, call, outgoing, request)
            return await exchange.run(self._recording, self._replay, self._log_of(request))

    def _log_of(self, request: web.BaseRequest) -> CallLog | None:
        """Return where a call is logged; only this user, who may connect to the host's socket, can say nowhere."""
        transport = request.transport
        on_host = transport is not None and transport.get_extra_info("sockname") == self._doors.paths["host"]
        return None if UNLOGGED in request.headers and on_host else self._calls

    def _refused(
        self, request: web.BaseRequest, call: Call, body: bytes, status: int, message: str
    ) -> web.Response:
        """Refuse a call before it reaches an endpoint. The agent is the cause."""
        if call.metered:
            self._state.failed(Failure(Ending.REFUSED, message))
            if (calls := self._log_of(request)) is not None:
                answer = error_body(call.wire, status, message)
                calls.write(LoggedCall(call.kind.value, status, body=body, answer=answer))
        return error(call.wire, status, message, NO_RETRY)

    async def close(self) -> Mapping[str, Any]:
        """End running calls, and return the report."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.shutdown(_SHUTDOWN)
        await self._state.find_out()
        await self._connections.close()
        return {**self._state.report(), "left_out": 0 if self._calls is None else self._calls.left_out}


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


def _nothing_here(request: web.BaseRequest, call: Call | None) -> web.Response:
    if call is None or "Upgrade" in request.headers:
        what = one_line(f"{request.method} {request.path}", 200)
        message = f"{what} is not a model call; the gateway serves nothing else"
    else:
        message = f"this trial has no {call.wire} endpoint"
    answer = error(wire_of(request.raw_path), 404, message)
    # No part of an unread body may be taken for another request.
    answer.force_close()
    return answer


def _may_be_large(request: web.BaseRequest) -> bool:
    if not request.can_read_body:
        return False
    length = request.content_length
    return length is None or length > _LARGE or "Content-Encoding" in request.headers
