"""Entrance of a route: passes on the requests of an agent that are calls of models."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import functools
import shlex
from collections.abc import Mapping

from aiohttp import web

from ..model.ending import Ending
from ..model.endpoint import Wire
from ..store.text import one_line
from .accounting import TrialState
from .allowed import Allowed
from .bodies import LARGEST_REQUEST
from .client import Upstream
from .connections import Connections
from .exchange import NO_RETRY, Exchange, error
from .failures import Failure
from .job import Job
from .provider_tools import ProviderTools
from .record import Recording, Replay
from .wires import Call, TooLarge, Unsendable, recognise, wire_of

_LARGE = 1 << 20
_LARGE_AT_ONCE = 4


@dataclasses.dataclass(slots=True)
class Passing:
    """Request handler of one route."""

    job: Job
    state: TrialState
    connections: Connections
    targets: Mapping[Wire, Upstream]
    allowed: Allowed
    tools: ProviderTools
    recording: Recording | None
    replay: Replay | None
    _parsing: asyncio.Lock = dataclasses.field(default_factory=asyncio.Lock)
    """One body at a time, so that those of other trials have their turns."""
    # A request is held in memory until it is answered, for retries.
    _large: asyncio.Semaphore = dataclasses.field(
        default_factory=functools.partial(asyncio.Semaphore, _LARGE_AT_ONCE)
    )

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request."""
        call = recognise(request.method, request.raw_path)
        target = None if call is None else self.targets.get(call.wire)
        if call is None or target is None or "Upgrade" in request.headers:
            return _nothing_here(request, call)
        if request.headers.get("Expect", "").lower() == "100-continue":
            await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        async with self._large if _may_be_large(request) else contextlib.nullcontext():
            try:
                body = await request.read()
                encoding = request.headers.get("Content-Encoding", "").strip().lower()
                async with self._parsing:
                    outgoing = await self.job.bodies.outgoing(call, body, encoding, self.allowed, self.tools)
                others = [model for model in outgoing.models if not self.allowed.permits(model)]
            except (web.HTTPRequestEntityTooLarge, TooLarge):
                return error(call.wire, 413, f"the request is larger than {LARGEST_REQUEST >> 20} MiB")
            except Unsendable as problem:
                return self._refused(call, 400, f"request refused: {problem}")
            if others and call.metered:
                self.state.refused(others[0])
                name = one_line(others[0], 200)
                allow = f"to allow it, give --bench-allow-model {shlex.quote(name)}"
                return self._refused(call, 403, f"this trial may not call the model {name}; {allow}")
            self.state.took_out(outgoing.taken_out)
            exchange = Exchange(self.job, self.state, self.connections, target, call, outgoing, request)
            return await exchange.run(self.recording, self.replay)

    def _refused(self, call: Call, status: int, message: str) -> web.Response:
        """Refuse a call before it reaches an endpoint. The agent is the cause."""
        if call.metered:
            self.state.failed(Failure(Ending.REFUSED, message))
        return error(call.wire, status, message, NO_RETRY)


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
