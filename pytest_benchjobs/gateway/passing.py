"""Which requests of an agent are calls of models that may be passed on."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping

from aiohttp import web

from ..model.endpoint import Wire
from ..store.text import one_line
from .exchange import Exchange, error
from .job import Job
from .record import Recording, Replay
from .state import TrialState
from .upstream import Target
from .wires import recognise, wire_of

LARGEST_REQUEST = 32 << 20
_LARGE = 1 << 20
_LARGE_AT_ONCE = 4


class Passing:
    """What answers the calls of one route."""

    def __init__(
        self,
        job: Job,
        state: TrialState,
        targets: Mapping[Wire, Target],
        recording: Recording | None,
        replay: Replay | None,
    ) -> None:
        self._job = job
        self._state = state
        self._targets = targets
        self._recording = recording
        self._replay = replay
        # A request is kept until it is answered, so that it can be made again.
        self._large = asyncio.Semaphore(_LARGE_AT_ONCE)

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request."""
        call = recognise(request.method, request.raw_path)
        if call is None:
            what = one_line(f"{request.method} {request.path}", 200)
            message = f"{what} is no call of a model; nothing else is reached here"
            return error(wire_of(request.raw_path), 404, message)
        target = self._targets.get(call.wire)
        if target is None:
            return error(call.wire, 404, f"this trial has no {call.wire} endpoint")
        if request.headers.get("Expect", "").lower() == "100-continue":
            await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        async with self._large if _may_be_large(request) else contextlib.nullcontext():
            try:
                body = await request.read()
            except web.HTTPRequestEntityTooLarge:
                return error(call.wire, 413, f"the request is larger than {LARGEST_REQUEST >> 20} MiB")
            exchange = Exchange(self._job, self._state, target, call, body, request)
            return await exchange.run(self._recording, self._replay)


def _may_be_large(request: web.BaseRequest) -> bool:
    if not request.can_read_body:
        return False
    length = request.content_length
    return length is None or length > _LARGE or "Content-Encoding" in request.headers
