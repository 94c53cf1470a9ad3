"""Passing one call of an agent on to its endpoint, and the answer back."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

from aiohttp import web
from aiohttp.http import HttpVersion11

from ..model.ending import Ending
from ..model.endpoint import Wire
from ..store.text import one_line
from . import failures
from .failures import Failure
from .job import Job
from .meter import Meter, Reading, UsageRemover
from .prices import Tokens
from .record import Recorded, Recording, Replay
from .state import TrialState
from .upstream import Answer, Asking, Cut, Target
from .wires import Call, Kind, error_body, recognise, wire_of

LARGEST_REQUEST = 32 << 20
_NO_RETRY = {"x-should-retry": "false"}
_LONGEST_MODEL = 200


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

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request."""
        call = recognise(request.method, request.raw_path)
        if call is None:
            what = one_line(f"{request.method} {request.path}", 200)
            return _error(
                wire_of(request.raw_path), 404, f"{what} is no call of a model; nothing else is reached here"
            )
        target = self._targets.get(call.wire)
        if target is None:
            return _error(call.wire, 404, f"this trial has no {call.wire} endpoint")
        if request.headers.get("Expect", "").lower() == "100-continue":
            await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        try:
            body = await request.read()
        except web.HTTPRequestEntityTooLarge:
            return _error(call.wire, 413, f"the request is larger than {LARGEST_REQUEST >> 20} MiB")
        exchange = _Exchange(
            self._job, self._state, target, call, body, request, self._recording, self._replay
        )
        return await exchange.run()


class _Exchange:
    """One request and its answer."""

    def __init__(
        self,
        job: Job,
        state: TrialState,
        target: Target,
        call: Call,
        body: bytes,
        request: web.BaseRequest,
        recording: Recording | None,
        replay: Replay | None,
    ) -> None:
        self._job = job
        self._state = state
        self._target = target
        self._call = call
        self._body = body
        self._request = request
        self._recording = recording
        self._replay = replay
        self._number = 0
        asked = _json(body) if call.metered else {}
        model = call.model or asked.get("model")
        self._model = model[:_LONGEST_MODEL] if isinstance(model, str) else None
        self._sent = body
        self._adds_usage = False
        options = asked.get("stream_options")
        if (
            call.kind is Kind.CHAT
            and asked.get("stream") is True
            and not (isinstance(options, dict) and options.get("include_usage"))
        ):
            options = {**(options if isinstance(options, dict) else {}), "include_usage": True}
            self._sent = json.dumps({**asked, "stream_options": options}, ensure_ascii=False).encode()
            self._adds_usage = True

    async def run(self) -> web.StreamResponse:
        if self._recording is not None:
            try:
                self._number = self._recording.number()
            except OSError as error:
                return self._unrecordable(error)
        if not self._call.metered:
            return await self._exchange()
        why = self._unlimitable() or await self._job.turnstile.enter(self._state.spending)
        if why is not None:
            return self._refuse(why)
        try:
            return await self._exchange()
        finally:
            self._job.turnstile.leave(self._state.spending)
            self._state.consider_stopping()

    def _unrecordable(self, error: OSError) -> web.Response:
        """Refuse to spend anything on traffic that would be lost."""
        self._state.fault = f"the traffic could not be recorded: {error}"
        self._state.failed(Failure(Ending.ENDPOINT_DOWN, self._state.fault))
        return _error(self._call.wire, 500, self._state.fault, _NO_RETRY)

    def _unlimitable(self) -> str | None:
        if self._state.unmeterable:
            return self._state.unmeterable
        provider = self._target.endpoint.provider
        if self._state.limits_cost and not self._job.prices.known(provider, self._model or ""):
            return self._state.without_price(self._model or "a model without a name")
        return None

    def _refuse(self, why: str) -> web.Response:
        self._state.failed(Failure(Ending.BUDGET, why))
        return _error(self._call.wire, 402, why, _NO_RETRY)

    async def _exchange(self) -> web.StreamResponse:
        if self._replay is not None:
            answer = self._replayed(self._replay)
        elif said := self._job.exhausted.get(self._target.endpoint.provider):
            answer = Answer(402, {}, _nothing(), Failure(Ending.QUOTA, said))
        else:
            answer = await self._asked()
        try:
            if answer.failure is not None:
                return await self._fail(answer, answer.failure)
            return await self._relay(answer)
        finally:
            answer.close()

    async def _asked(self) -> Answer:
        asking = Asking(self._job, self._target, self._call, self._request.headers)
        patient = not self._state.impatient
        answer = await asking.answer(self._sent, patient)
        # Some servers know no `stream_options`. Then there is no usage, but there is an answer.
        if self._adds_usage and answer.failure is not None and "stream_options" in answer.failure.message:
            self._adds_usage = False
            return await asking.answer(self._body, patient)
        return answer

    def _replayed(self, replay: Replay) -> Answer:
        try:
            recorded = replay.answer(self._call.method, self._call.path)
        except ValueError as error:
            return Answer(410, {}, _nothing(), Failure(Ending.ENDPOINT_DOWN, one_line(str(error), 300)))
        if recorded is None:
            message = (
                f"no (further) call of {self._call.method} {self._call.path} was recorded for this trial"
            )
            return Answer(410, {}, _nothing(), Failure(Ending.ENDPOINT_DOWN, one_line(message, 300)))
        failure = None
        if recorded.status >= 300:
            failure = failures.of_response(recorded.status, recorded.headers, b"".join(recorded.chunks), 0.0)
        return Answer(recorded.status, recorded.headers, _replayed(recorded), failure)

    async def _fail(self, answer: Answer, failure: Failure) -> web.Response:
        body = b"".join([chunk async for chunk in answer.chunks])
        self._record(answer, [body] if body else [], cut=False)
        if self._call.metered:
            self._state.failed(failure)
            if failure.ending is Ending.QUOTA:
                self._job.exhausted.setdefault(self._target.endpoint.provider, failure.message)
        else:
            self._state.impatient |= failure.again
        if not body or answer.status < 400:
            status = answer.status if answer.status >= 400 else 502
            return _error(self._call.wire, status, failure.message, _NO_RETRY if failure.again else {})
        # Neither do we want it to be tried again, nor the agent to wait for as long as we were told to.
        headers = {name: value for name, value in answer.headers.items() if name != "retry-after"}
        if failure.again or failure.ending is Ending.QUOTA:
            headers |= _NO_RETRY
        return web.Response(status=answer.status, headers=headers, body=body)

    async def _relay(self, answer: Answer) -> web.StreamResponse:
        response = web.StreamResponse(status=answer.status, headers=answer.headers)
        remover = UsageRemover() if self._adds_usage and answer.streamed else None
        if answer.length is not None and remover is None:
            response.content_length = answer.length
        elif self._request.version >= HttpVersion11:
            response.enable_chunked_encoding()
        meter = Meter(self._call.kind, answer.streamed) if self._call.metered else None
        chunks: list[bytes] = []
        over = cut = False
        reason = ""
        try:
            await response.prepare(self._request)
            try:
                async for chunk in answer.chunks:
                    if meter is not None:
                        meter.feed(chunk)
                    if self._recording is not None:
                        chunks.append(chunk)
                    out = chunk if remover is None else remover.feed(chunk)
                    if out:
                        await response.write(out)
            except Cut as error:
                cut, reason = True, str(error)
            reading = meter.finish() if meter is not None else None
            if reading is not None and not answer.framed and not reading.finished:
                cut, reason = True, "the connection ended before the answer did"
            over = True
            if cut:
                self._hang_up()
            elif remover is not None and (rest := remover.finish()):
                await response.write(rest)
        finally:
            if meter is not None:
                self._account(meter.finish(), complete=over and not cut)
            if over:
                self._record(answer, chunks, cut)
        if reading is not None:
            self._conclude(reading, reason if cut else None)
        return response

    def _hang_up(self) -> None:
        """End the agent's connection in the middle, as the endpoint did with ours."""
        if self._request.transport is not None:
            self._request.transport.close()

    def _account(self, reading: Reading, complete: bool) -> None:
        tokens: Tokens = reading.tokens(self._call.kind)
        self._state.answered(self._target.endpoint.provider, reading.model, self._model, tokens, complete)

    def _conclude(self, reading: Reading, cut: str | None) -> None:
        if cut is not None:
            message = f"the answer broke off: {one_line(cut, 200)}"
            self._state.failed(Failure(Ending.ENDPOINT_DOWN, message), for_good=False)
        elif reading.error is not None:
            failure = failures.of_event(reading.error)
            self._state.failed(failure, for_good=failure.ending is Ending.QUOTA)
        else:
            self._state.succeeded()

    def _record(self, answer: Answer, chunks: list[bytes], cut: bool) -> None:
        if self._recording is None:
            return
        recorded = Recorded(answer.status, answer.headers, tuple(chunks), cut)
        try:
            self._recording.write(self._number, self._call.method, self._call.path, self._body, recorded)
        except OSError as error:
            self._state.fault = f"the traffic could not be recorded: {error}"


def _json(body: bytes) -> dict[str, Any]:
    try:
        asked = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return asked if isinstance(asked, dict) else {}


def _error(
    wire: Wire | None, status: int, message: str, headers: Mapping[str, str] | None = None
) -> web.Response:
    body = error_body(wire, status, message)
    return web.Response(status=status, body=body, content_type="application/json", headers=headers)


async def _nothing() -> AsyncIterator[bytes]:
    return
    yield b""


async def _replayed(recorded: Recorded) -> AsyncIterator[bytes]:
    for chunk in recorded.chunks:
        yield chunk
    if recorded.cut:
        raise Cut("as it was recorded")
