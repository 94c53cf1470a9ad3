"""Calling the real endpoint, with retries, until there is an answer or an error for the agent."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import functools
import itertools
import random
import time
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from typing import TypeVar

import aiohttp
import yarl
from multidict import CIMultiDict

from ..system.cutting import margin
from . import failures
from .client import Upstream
from .connections import AT_WORK, BrokenOff, Connections, Response
from .failures import Failure
from .holding import Holding
from .job import Job
from .meter import LONGEST_ANSWER, first_event, flaw, is_foreign, repaired
from .outgoing import credentials
from .rates import Rate
from .scrub import Scrubber
from .wires import Call

_ERROR_LENGTH = 1 << 20
_SIGN_OF_LIFE = 256
_AT_ONCE = 10.0
_EVENT_STREAM = "text/event-stream"
_BROKEN = (aiohttp.ClientError, TimeoutError, OSError)
# Beginnings of an event stream. Some servers give it another content type.
_EVENTS = (b"data:", b"event:", b"id:", b"retry:", b": ", b":\n")
_FIRST_PAUSE, _LEAST_PAUSE, _LONGEST_PAUSE = 0.25, 1.0, 8.0
_LOCAL = frozenset({"localhost", "127.0.0.1", "::1"})
# Headers of an answer that are hop by hop, or that the gateway decides.
_DROPPED = frozenset(
    [
        *("connection", "keep-alive", "proxy-authenticate", "proxy-connection", "te", "trailer", "upgrade"),
        *("transfer-encoding", "content-length", "content-encoding", "set-cookie", "alt-svc"),
    ]
)


_Awaited = TypeVar("_Awaited")


_Read = Callable[[], Awaitable[bytes]]
"""Function: the next piece of an answer; empty at its end."""


class Cut(Exception):
    """The answer broke off."""


class Pulse:
    """Timer of an answer without progress. 256 bytes within 10 seconds are a sign of life, a byte now and then is not.

    A call is given up later than that: pings, as of a model that thinks, add up to 256 bytes in the end. `silence` is
    the seconds without a sign of life that end a call, `longest` the most that a call may take.
    """

    def __init__(self, silence: float, longest: float) -> None:
        self._silence, self._longest = silence, longest
        self._begun = self._alive = self._lively = self._left = self._window = time.monotonic()
        self._waiting = False
        self._fresh = self._recent = 0

    def beat(self, size: int) -> None:
        """Count bytes that came at the end of the last wait."""
        now = self._left
        if now - self._window > _AT_ONCE:
            self._window, self._recent = now, 0
        self._recent += size
        self._fresh += size
        if self._recent >= _SIGN_OF_LIFE:
            self._window, self._recent, self._lively = now, 0, now
        if self._fresh >= _SIGN_OF_LIFE:
            self._fresh, self._alive = 0, now

    def silent(self) -> float:
        """Seconds of waiting since the last sign of life, or since the request."""
        return (time.monotonic() if self._waiting else self._left) - self._lively

    async def limit(self, waiting: Awaitable[_Awaited]) -> _Awaited:
        """Wait for the beginning of the answer, or for its next piece, and give up when that takes too long.

        Raises TimeoutError: it took too long; the message says how long.
        """
        # While the agent does not take what came, the endpoint is not waited for.
        passed = time.monotonic() - self._left
        self._alive += passed
        self._lively += passed
        self._waiting = True
        try:
            async with asyncio.timeout(max(self._rest(), 0.0)) as timeout:
                return await waiting
        except TimeoutError:
            if not timeout.expired():
                raise
            raise self._too_long() from None
        finally:
            self._waiting, self._left = False, time.monotonic()

    async def read(self, content: aiohttp.StreamReader) -> bytes:
        """Next piece of an answer; empty at its end. Raises TimeoutError as `limit` does."""
        chunk = await self.limit(content.readany())
        self.beat(len(chunk))
        return chunk

    def _rest(self) -> float:
        return min(self._alive + self._silence, self._begun + self._longest) - time.monotonic()

    def _too_long(self) -> TimeoutError:
        if self._alive + self._silence < self._begun + self._longest:
            return TimeoutError(f"the endpoint was silent for {self._silence:g} s")
        return TimeoutError(f"the call took more than {self._longest:g} s")


@dataclasses.dataclass(slots=True)
class Answer:
    """Answer of an endpoint. `chunks` raises `Cut`."""

    status: int
    headers: Mapping[str, str]
    """With lower-case names, ready to be passed on."""
    chunks: AsyncIterator[bytes]
    failure: Failure | None = None
    foreign: bool = False
    """Despite its good status, no model can have made it, so it is not charged."""
    length: int | None = None
    response: Response | None = None

    @property
    def streamed(self) -> bool:
        """True for an event stream."""
        return self.headers.get("content-type", "").lower().startswith(_EVENT_STREAM)

    def keep(self) -> None:
        """Allow reuse of the connection, after an answer that ended well."""
        if self.response is not None:
            self.response.keep()

    def close(self) -> None:
        """Close it: the rest of the answer is not needed."""
        if self.response is not None:
            self.response.close()


class Asking:
    """One call of an endpoint, with its retries. `headers` are sent, with the key added."""

    def __init__(
        self,
        job: Job,
        connections: Connections,
        target: Upstream,
        call: Call,
        headers: CIMultiDict[str],
        holding: Holding | None = None,
    ) -> None:
        self._job = job
        self._holding = holding or Holding()
        self._connections = connections
        self._target = target
        self._call = call
        self._url = yarl.URL(target.endpoint.base_url.rstrip("/") + call.path, encoded=True)
        self._headers = headers
        for name, value in credentials(call.wire, target.key).items():
            self._headers[name] = ",".join([*self._headers.getall(name, ()), value])
        self._proxy = _proxy_for(self._url.scheme, self._url.host or "")
        self._pulse: Pulse | None = None
        self.failure: Failure | None = None
        """Failure of the last try."""
        self._kept_since: float | None = None
        self.sent = False
        """The endpoint has the request and has not refused it, so it may charge for it."""
        self.unanswered = 0
        """Requests that the endpoint accepted without an answer, until a timeout or a late disconnection."""
        self.discarded: list[float] = []
        """Seconds that each answer took in whose place another was asked for, though the endpoint may charge for it."""
        self.sent_again = 0
        """Requests that were sent again, since a kept connection ended without a byte of an answer."""
        self._sent_at = 0.0

    def took(self) -> float:
        """Seconds since the request was sent."""
        return time.monotonic() - self._sent_at

    def silent(self) -> float:
        """Seconds for which the endpoint has been silent; 0 while no call is under way."""
        return 0.0 if self._pulse is None else self._pulse.silent()

    def kept(self) -> float:
        """Seconds for which the gateway has kept the call back, for a turn or a pause; 0 if it does not."""
        return 0.0 if self._kept_since is None else time.monotonic() - self._kept_since

    async def answer(self, body: bytes, patient: bool) -> Answer:
        """Answer for the agent, after all retries; if not `patient`, there are none.

        Only the call's own tries and pauses use up its patience.
        """
        loop = asyncio.get_running_loop()
        rate = self._job.rates.of(self._target.endpoint.provider)
        patience = self._job.patience if patient else 0.0
        for attempt in itertools.count():
            await self._wait_for_others(rate)
            begun = loop.time()
            with self._trying(patience if attempt else 0.0):
                answer = await self._try(body)
            patience -= loop.time() - begun
            self.failure = answer.failure
            if answer.failure is None or not answer.failure.again or patience <= 0:
                return answer
            pause = min(_pause(attempt, answer.failure.wait), patience)
            if answer.failure.wait is not None:
                rate.pause(pause)
            with self._holding.held():
                await asyncio.sleep(pause)
            patience -= pause
        raise AssertionError("unreachable")

    async def _wait_for_others(self, rate: Rate) -> None:
        """Wait for the call's turn, and for the end of a pause that another call was asked for."""
        turn = rate.reserve() if self._call.metered else 0.0
        if not turn and not rate.paused():
            return
        self._kept_since = time.monotonic()
        with self._holding.held():
            if turn:
                await asyncio.sleep(turn)
            if paused := rate.paused():
                await asyncio.sleep(paused)
        self._kept_since = None

    @contextlib.contextmanager
    def _trying(self, patience: float) -> Iterator[None]:
        """Hold the call while it is tried again, for as long as its patience lasts: then the endpoint is just slow."""
        with contextlib.ExitStack() as held:
            if patience > 0:
                held.enter_context(self._holding.held())
            timer = asyncio.get_running_loop().call_later(max(patience, 0.0), held.close)
            try:
                yield
            finally:
                timer.cancel()

    async def _try(self, body: bytes) -> Answer:
        pulse = self._pulse = Pulse(self._job.silence, self._job.longest)
        response: Response | None = None
        answer: Answer | None = None
        try:
            response = await pulse.limit(
                self._connections.request(
                    self._call.method, self._url, body, self._headers, self._note_sent, self._proxy
                )
            )
            self.sent = response.status < 300
            read = functools.partial(pulse.read, response.content)
            answer = await (self._refusal if response.status >= 300 else self._begun)(response, read)
            if answer.failure is not None and response.status < 300:
                self.discarded += [] if answer.foreign else [self.took()]
        except (*_BROKEN, ValueError) as error:
            worked = isinstance(error, TimeoutError | BrokenOff) or time.monotonic() - self._sent_at > AT_WORK
            self.unanswered += self.sent and worked
            answer = Answer(502, {}, pieces(), failures.of_connection(error))
        finally:
            if response is not None and (answer is None or answer.failure is not None):
                response.close()
        if answer.failure is not None:
            self._pulse, self.sent = None, False
        return answer

    def _note_sent(self, sent: bool) -> None:
        self.sent, self._sent_at = sent, time.monotonic()
        self.sent_again += not sent

    async def _begun(self, response: Response, read: _Read) -> Answer:
        """An answer for the agent. Nothing has been sent to the agent before it, so a retry is still possible.

        A stream counts as an answer from its first byte; an answer in one piece must be complete and valid.
        """
        headers = self._incoming(response)
        encoded = response.headers.get("Content-Encoding", "identity") != "identity"
        first = await read()
        while first and _may_be_events(first) and (more := await read()):
            first += more
        chunks = _chunks(first, self._target, read)
        answer = Answer(response.status, headers, chunks, response=response)
        if not self._call.metered:
            answer.length = None if encoded else response.content_length
            return answer
        if not answer.streamed and first.lstrip().startswith(_EVENTS):
            headers["content-type"] = _EVENT_STREAM
        if answer.streamed and first:
            return _unless_error(answer, first_event(first), self._target.scrubber)
        whole = bytearray(first)
        try:
            while first and len(whole) <= LONGEST_ANSWER and (more := await read()):
                whole += more
        except _BROKEN as error:
            answer.chunks = pieces(
                self._target.scrubber.said(bytes(whole)), cut=str(error) or type(error).__name__
            )
            return answer
        content = repaired(self._target.scrubber.said(bytes(whole)))
        if (what := flaw(self._call.kind, content)) is not None:
            # No model said this.
            answer.foreign = is_foreign(content)
            content = self._target.scrubber.error(content)
            answer.failure = failures.of_rubbish(response.status, flaw(self._call.kind, content) or what)
        answer.chunks, answer.length = pieces(content), len(content)
        return answer if answer.failure is not None else _unless_error(answer, content, self._target.scrubber)

    async def _refusal(self, response: Response, read: _Read) -> Answer:
        content = bytearray()
        while len(content) < _ERROR_LENGTH + margin() and (chunk := await read()):
            content += chunk
        body = self._target.scrubber.error(bytes(content))[:_ERROR_LENGTH]
        headers = self._incoming(response)
        failure = failures.of_response(response.status, headers, body, time.time())
        return Answer(response.status, headers, pieces(body), failure, length=len(body))

    def _incoming(self, response: Response) -> dict[str, str]:
        named = {word.strip().lower() for word in response.headers.get("Connection", "").split(",")}
        dropped, holds_key = _DROPPED | named, self._target.scrubber.is_in
        return {
            lower: value
            for name, value in response.headers.items()
            if (lower := name.lower()) not in dropped and not holds_key(value)
        }


def _may_be_events(first: bytes) -> bool:
    """Return True if an answer is too short to tell whether it is an event stream."""
    begun = first.lstrip()
    return any(len(begun) < len(mark) and mark.startswith(begun) for mark in _EVENTS)


def _unless_error(answer: Answer, content: bytes, scrubber: Scrubber) -> Answer:
    """Return an answer with a good status, as a failure if its content is an error."""
    if failures.of_content(content, time.time()) is None:
        return answer
    content = scrubber.error(content)  # no model said this
    found = failures.of_content(content, time.time())
    status, failure = found or (502, failures.of_rubbish(answer.status, "it is an error"))
    headers = {**answer.headers, "content-type": "application/json"}
    return dataclasses.replace(
        answer, status=status, headers=headers, chunks=pieces(content), length=len(content), failure=failure
    )


def _pause(attempt: int, told: float | None) -> float:
    """Return the seconds until the next try: what the endpoint tells, but 0 does not allow a flood of calls."""
    pause = min(_FIRST_PAUSE * 2 ** min(attempt, 9), _LONGEST_PAUSE)
    if told is not None:
        return float(max(told, min(pause, _LEAST_PAUSE)))
    return float(pause * random.uniform(0.5, 1.0))  # noqa: S311


@functools.lru_cache(maxsize=64)
def _proxy_for(scheme: str, host: str) -> str | None:
    if host in _LOCAL or urllib.request.proxy_bypass(host):
        return None
    return urllib.request.getproxies().get(scheme)


async def pieces(*chunks: bytes, cut: str | None = None) -> AsyncIterator[bytes]:
    """Chunks that are there already, as `Answer.chunks` has them. `cut`: why there are no more."""
    for chunk in filter(None, chunks):
        yield chunk
    if cut is not None:
        raise Cut(cut)


async def _chunks(first: bytes, target: Upstream, read: _Read) -> AsyncIterator[bytes]:
    chunk, held = first, b""
    while chunk:
        certain, held = target.scrubber.split(held + chunk)
        if certain:
            yield certain
        try:
            chunk = await read()
        except _BROKEN as error:
            raise Cut(str(error) or type(error).__name__) from None
    if held:
        yield held
