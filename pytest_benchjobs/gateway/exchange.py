"""One call of an agent: passed on to its endpoint, and the answer passed back."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import math
import time
from collections.abc import Callable, Mapping

from aiohttp import web
from aiohttp.http import HttpVersion11

from ..model.ending import Ending
from ..model.endpoint import Wire
from ..store.calls import CallLog, LoggedCall
from ..store.text import one_line
from ..system.cutting import beginning_of
from . import failures
from .accounting import TrialState, without_limit
from .budget import Doubt
from .client import Upstream
from .connections import Connections
from .failures import Failure
from .job import Job
from .liveness import Line
from .meter import Meter, Reading, UsageRemover
from .outgoing import Outgoing, headers
from .record import NOBODY_WAITED, Recorded, Recording, Replay
from .retrying import Answer, Asking, Cut, pieces
from .tiers import TIER_HEADER, at_rate, rate, tiers
from .tokens import Tokens
from .wires import Call, error_body

NO_RETRY = {"x-should-retry": "false"}
_LONGEST_MODEL = 200
_KEPT = 5.0
"""Seconds. An agent that gives up a call sooner does so for a reason of its own."""


class Exchange:
    """One request of an agent, whose body has been read, and its answer."""

    def __init__(
        self,
        job: Job,
        state: TrialState,
        connections: Connections,
        target: Upstream,
        call: Call,
        outgoing: Outgoing,
        request: web.BaseRequest,
    ) -> None:
        self._job = job
        self._state = state
        self._target = target
        self._call = call
        self._outgoing = outgoing
        self._request = request
        self._keep: Callable[[Recorded], None] | None = None
        self._calls: CallLog | None = None
        self._tokens = Tokens()
        self._cost: float | None = None
        self._model = outgoing.model and beginning_of(outgoing.model, _LONGEST_MODEL)
        self._body = outgoing.content
        self._adds_usage = outgoing.with_usage is not None
        self._asked_at: float | None = None
        """Time when the endpoint was asked, in seconds since the epoch; None: it was not."""
        sent = headers(request.headers, body=call.method != "GET")
        self._asking = Asking(job, connections, target, call, sent, state.holding)
        self._line = Line(target, call, outgoing.model or "")

    async def run(
        self, recording: Recording | None, replay: Replay | None, calls: CallLog | None = None
    ) -> web.StreamResponse:
        """Answer the agent, from a recording if one is replayed; record the call, and log it for the conversation."""
        self._calls = calls if self._call.metered else None
        with self._state.holding.call():
            return await self._run(recording, replay)

    async def _run(self, recording: Recording | None, replay: Replay | None) -> web.StreamResponse:
        if recording is not None:
            try:
                number = recording.number()
            except OSError as problem:
                # No call is made whose traffic could not be recorded.
                self._state.fault = f"the traffic could not be recorded: {problem}"
                self._state.failed(Failure(Ending.ENDPOINT_DOWN, self._state.fault))
                return error(self._call.wire, 500, self._state.fault, NO_RETRY)
            self._keep = functools.partial(
                recording.write, number, self._call.method, self._call.path, self._body
            )
        if not self._call.metered:
            return await self._exchange(replay)
        if (refusal := await self._enter()) is not None:
            self._state.failed(refusal)
            self._log(402, error_body(self._call.wire, 402, refusal.message))
            return error(self._call.wire, 402, refusal.message, NO_RETRY)
        try:
            return await self._exchange(replay)
        finally:
            self._job.turnstile.leave(self._state.spending)
            self._state.consider_stopping()

    async def _enter(self) -> Failure | None:
        """Wait until the call may be made, or return why it must not be. A call that may has to leave the turnstile."""
        if self._state.unmeterable:
            return Failure(Ending.BUDGET, self._state.unmeterable)
        endpoint, model, requested_rate = (
            self._target.endpoint,
            self._model or "",
            rate(self._outgoing.tiers, {}),
        )
        known = functools.partial(self._job.prices.known, endpoint.provider, model, public=endpoint.public)
        if self._state.limits_cost and not known(requested_rate):
            # Another rate than the standard one, or a model other than the trial's own, is the agent's choice.
            chosen = requested_rate is not None or not self._outgoing.own
            why = without_limit(f"no price for {at_rate(model, requested_rate) or 'a model without a name'}")
            return Failure(Ending.REFUSED if chosen else Ending.BUDGET, why)
        reached = await self._job.turnstile.enter(self._state.spending, self._state.holding.held)
        return None if reached is None else Failure(*reached)

    async def _exchange(self, replay: Replay | None) -> web.StreamResponse:
        try:
            answer = await self._answer(replay)
        except asyncio.CancelledError:
            self._note_given_up()
            self._settle_unanswered(self._asking.unanswered, broken_off=True)
            self._settle_unanswered(int(self._asking.sent), broken_off=self._asking.silent() >= _KEPT)
            self._settle_discarded()
            self._record(NOBODY_WAITED, {}, [], cut=self._asking.sent)
            raise
        self._settle_unanswered(self._asking.unanswered, broken_off=True)
        self._settle_discarded()
        if answer.status == NOBODY_WAITED:
            self._settle_unanswered(int(self._asking.sent))
            self._hang_up()
            return web.Response()
        try:
            if answer.failure is not None:
                return await self._fail(answer, answer.failure)
            return await self._relay(answer)
        finally:
            answer.close()

    async def _answer(self, replay: Replay | None) -> Answer:
        if replay is not None:
            return self._replayed(replay)
        if (refusal := self._job.quotas.refusal(self._target)) is not None:
            return Answer(402, {}, pieces(), refusal)
        self._asked_at = time.time()
        patient = not self._state.impatient
        answer = await self._asking.answer(self._outgoing.with_usage or self._body, patient)
        # Some servers reject `stream_options`. Then there is an answer without usage.
        if self._adds_usage and answer.failure is not None and "stream_options" in answer.failure.message:
            self._adds_usage = False
            return await self._asking.answer(self._body, patient)
        return answer

    def _replayed(self, replay: Replay) -> Answer:
        try:
            found = replay.answer(self._call.method, self._call.path, self._body)
            lack = f"no (further) call of {self._call.method} {self._call.path} was recorded for this trial"
        except ValueError as problem:
            found, lack = None, str(problem)
        if found is None:
            return Answer(410, {}, pieces(), Failure(Ending.ENDPOINT_DOWN, one_line(lack, 300)))
        recorded, changed = found
        if changed is not None:
            self._state.changed.append(changed)
            if self._job.replay_exact:
                what = f"the request differs from the recorded one in {changed}"
                return Answer(409, {}, pieces(), Failure(Ending.ENDPOINT_DOWN, what))
        self._asking.sent = recorded.status == NOBODY_WAITED and recorded.cut
        failure = None
        if recorded.status >= 300:
            failure = failures.of_response(recorded.status, recorded.headers, b"".join(recorded.chunks), 0.0)
        cut = "as it was recorded" if recorded.cut else None
        return Answer(recorded.status, recorded.headers, pieces(*recorded.chunks, cut=cut), failure)

    async def _fail(self, answer: Answer, failure: Failure) -> web.Response:
        """Tell the agent that its call failed."""
        # If the agent chose to name something that does not exist, such as a file or a small model, the endpoint is not
        # at fault.
        named = not self._outgoing.own or self._outgoing.refers_elsewhere()
        if answer.status in (403, 404) and named and failure.ending is not Ending.QUOTA:
            failure = dataclasses.replace(failure, ending=Ending.REFUSED)
        if failure.ending is Ending.AUTHENTICATION and self._target.key is None:
            endpoint = self._target.endpoint
            hint = f"no key was sent to {endpoint.base_url}; name one with {endpoint.provider}_key_variable"
            failure = dataclasses.replace(failure, message=f"{failure.message} ({hint})")
        if self._call.metered:
            await self._note_failed(failure, for_good=True)
        else:
            self._state.impatient |= failure.again
        # The agent should neither retry, nor wait for as long as the endpoint asked the gateway to.
        ours = NO_RETRY if failure.again or failure.ending is Ending.QUOTA else {}
        body = b"".join([chunk async for chunk in answer.chunks])
        if not body or answer.status < 400:
            status = answer.status if answer.status >= 400 else 502
            headers = {"content-type": "application/json"}
            body = error_body(self._call.wire, status, failure.message)
        else:
            status = answer.status
            headers = {name: value for name, value in answer.headers.items() if name != "retry-after"}
        self._record(status, headers, [body], cut=False)
        return web.Response(status=status, headers={**headers, **ours}, body=body)

    async def _relay(self, answer: Answer) -> web.StreamResponse:
        """Stream an answer to the agent."""
        response = web.StreamResponse(status=answer.status, headers=answer.headers)
        remover = UsageRemover() if self._adds_usage and answer.streamed else None
        if answer.length is not None and remover is None:
            response.content_length = answer.length
        elif self._request.version >= HttpVersion11:
            response.enable_chunked_encoding()
        choices = self._outgoing.choices
        meter = Meter(self._call.kind, answer.streamed, choices) if self._call.metered else None
        if meter is not None:
            meter.reading.told |= tiers({TIER_HEADER: answer.headers.get(TIER_HEADER)})
        chunks: list[bytes] = []
        cut: str | None = None
        hung_up = True
        try:
            await response.prepare(self._request)
            try:
                async for chunk in answer.chunks:
                    if meter is not None:
                        meter.feed(chunk)
                    if self._keep is not None or self._calls is not None:
                        chunks.append(chunk)
                    out = chunk if remover is None else remover.feed(chunk)
                    if out:
                        await response.write(out)
            except Cut as problem:
                cut = str(problem)
            if meter is not None and not meter.finish().whole:
                cut = cut or "the connection ended before the answer did"
            hung_up = False
            if cut is not None:
                self._hang_up()
            elif remover is not None and (rest := remover.finish()):
                await response.write(rest)
        finally:
            reading = None if meter is None else meter.finish()
            # Some agents hang up as soon as they have read the last event: that answer is complete.
            whole = cut is None and (not hung_up or (reading is not None and reading.finished))
            if hung_up and not whole:
                self._note_given_up()
            if whole and not hung_up and (reading is None or reading.error is None):
                answer.keep()
            if reading is not None:
                kept = hung_up and self._asking.silent() >= _KEPT
                self._count(reading, whole, broken_off=kept or cut is not None)
                failure = _failure(reading, whole, cut)
                if failure is not None:
                    await self._note_failed(failure, for_good=failure.ending is Ending.QUOTA and not hung_up)
                elif whole:
                    self._state.succeeded(self._line)
                    if self._asked_at is not None:
                        self._job.quotas.note_answered(self._target, self._asked_at)
            self._record(answer.status, answer.headers, chunks, cut=not whole)
        return response

    def _settle_unanswered(self, count: int, *, broken_off: bool = False) -> None:
        """Count requests that reached the endpoint and got no answer; `broken_off`: because of the endpoint."""
        for _ in range(count if self._call.metered else 0):
            self._add(Tokens(), "did not finish", broken_off=broken_off)

    def _settle_discarded(self) -> None:
        """Count answers that were no good, in whose place another was asked for, and requests that were sent again."""
        self._state.sent_again += self._asking.sent_again if self._call.metered else 0
        for seconds in self._asking.discarded:
            self._add(Tokens(), "had an answer that was no good", seconds=seconds, broken_off=True)

    def _add(
        self,
        tokens: Tokens,
        lack: str | None,
        reading: Reading | None = None,
        seconds: float = math.inf,
        *,
        broken_off: bool = False,
    ) -> None:
        """Count a call with its reported usage.

        `lack` and `broken_off` as of `TrialState.answered`, `seconds` of `Outgoing.most`.
        """
        endpoint, reading = self._target.endpoint, reading or Reading()
        self._tokens = tokens
        at = rate(self._outgoing.tiers, reading.told)
        most: Doubt | None = None
        if lack is not None or tokens.input is None or tokens.output is None:
            bound = self._outgoing.most(
                endpoint.provider, self._job.prices, at, public=endpoint.public, seconds=seconds
            )
            most = Doubt(1, bound[0], bound[1] or 0.0, bounded=bound[1] is not None)
        self._cost = self._state.answered(
            endpoint.provider,
            reading.model,
            self._model,
            tokens,
            most,
            lack=lack,
            rate=at,
            public=endpoint.public,
            broken_off=broken_off,
        )

    def _count(self, reading: Reading, whole: bool, *, broken_off: bool) -> None:
        tokens = reading.tokens(self._call.kind)
        if not whole:
            self._add(tokens, "did not finish", reading, broken_off=broken_off)
        elif reading.owing:
            self._add(tokens, "ended with an error", reading, self._asking.took(), broken_off=True)
        elif reading.refused is not None and tokens.total is None:
            self._add(tokens, "were refused and did not report what they used", reading, self._asking.took())
        else:
            self._add(tokens, None, reading)

    async def _note_failed(self, failure: Failure, *, for_good: bool) -> None:
        """Note that the endpoint failed a call, and its quota, if that is used up for others, too.

        The quota of a recording is not waited for.
        """
        if failure.ending is Ending.QUOTA and self._asked_at is not None:
            if for_good and await self._state.confirm_quota(self._line):
                self._job.quotas.note_used_up(self._target, failure)
            else:
                failure, for_good = dataclasses.replace(failure, ending=Ending.ENDPOINT_DOWN), False
        elif failure.ending is Ending.QUOTA and self._job.quotas.ends_job:
            self._job.quotas.note_used_up(self._target, failure)
        self._state.failed(failure, self._line, for_good=for_good)

    def _note_given_up(self) -> None:
        """Note what kept the agent waiting for the call that it gave up."""
        asking, state = self._asking, self._state
        if not self._call.metered:
            return
        if asking.failure is not None:
            state.failed(asking.failure, self._line, for_good=False)
        state.gave_up(asking.silent(), self._line)
        if (kept := asking.kept()) >= _KEPT:
            message = (
                f"the agent gave up a call that had waited {kept:.0f} s for its turn, or the end of a pause"
            )
            state.failed(Failure(Ending.GATEWAY, message), for_good=False)

    def _hang_up(self) -> None:
        """Close the agent's connection in the middle, as the endpoint closed the gateway's."""
        if self._request.transport is not None:
            self._request.transport.close()

    def _log(self, status: int, answer: bytes, *, cut: bool = False) -> None:
        """Log the call for the conversation."""
        if self._calls is not None:
            tokens = (self._tokens.input, self._tokens.output, self._tokens.cached)
            kind = self._call.kind.value
            self._calls.write(LoggedCall(kind, status, cut, tokens, self._cost, self._body, answer))

    def _record(self, status: int, headers: Mapping[str, str], chunks: list[bytes], *, cut: bool) -> None:
        self._log(status, b"".join(chunks), cut=cut)
        if self._keep is None:
            return
        try:
            self._keep(Recorded(status, headers, tuple(chunks), cut))
        except OSError as problem:
            self._state.fault = f"the traffic could not be recorded: {problem}"


def _failure(reading: Reading, whole: bool, cut: str | None) -> Failure | None:
    """Failure of an answer that had begun well; None if it is none."""
    if cut is not None:
        return Failure(Ending.ENDPOINT_DOWN, f"the answer was cut off: {one_line(cut, 200)}")
    if reading.error is not None:
        return failures.of_event(reading.error, time.time())
    if reading.hollow:
        return failures.of_rubbish(200, "the answer is empty")
    if reading.refused is not None and whole:
        return Failure(Ending.REFUSED, f"the model refused to answer: {reading.refused}")
    return None


def error(
    wire: Wire | None, status: int, message: str, headers: Mapping[str, str] | None = None
) -> web.Response:
    """An error of the gateway's own, in the format of the wire."""
    body = error_body(wire, status, message)
    return web.Response(status=status, body=body, content_type="application/json", headers=headers)
