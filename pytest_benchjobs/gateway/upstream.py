"""Calling the real endpoint, with retries, until there is an answer or an error for the agent."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import itertools
import random
import time
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Mapping
from typing import TypeVar

import aiohttp
import yarl
from multidict import CIMultiDict

from . import failures
from .client import Upstream
from .connections import AT_WORK, BrokenOff, Connections, Response
from .failures import Failure
from .job import Job
from .meter import LONGEST_ANSWER, flaw
from .wires import Call, credentials

_ERROR_LENGTH = 1 << 20
_SIGN_OF_LIFE = 256
_AT_ONCE = 10.0
_EVENT_STREAM = "text/event-stream"
_BROKEN = (aiohttp.ClientError, TimeoutError, OSError)
# Beginnings of an event stream. Some servers give it another content type.
_EVENTS = (b"data:", b"event:", b"id:", b"retry:", b": ", b":\n")
_FIRST_PAUSE, _LONGEST_PAUSE = 0.25, 8.0
_LOCAL = frozenset({"localhost", "127.0.0.1", "::1"})
# Headers of an answer that are hop by hop, or that the gateway decides.
_DROPPED = frozenset(
    [
        *("connection", "keep-alive", "proxy-authenticate", "proxy-connection", "te", "trailer", "upgrade"),
        *("transfer-encoding", "content-length", "content-encoding", "set-cookie", "alt-svc"),
    ]
)


_Begun = TypeVar("_Begun")


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
        self._content: aiohttp.StreamReader | None = None
        self._timer: asyncio.TimerHandle | None = None

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

    async def limit(self, asked: Awaitable[_Begun]) -> _Begun:
        """Wait for the beginning of the answer, and give up when that takes too long.

        Raises:
            TimeoutError: it took too long; the message says how long.
        """
        self._wait()
        try:
            async with asyncio.timeout(max(self._rest(), 0.0)) as timeout:
                return await asked
        except TimeoutError:
            if not timeout.expired():
                raise
            raise self._too_long() from None
        finally:
            self._waiting, self._left = False, time.monotonic()

    def watch(self, content: aiohttp.StreamReader) -> None:
        """Make `content` what `read` reads, with one timer for all of it, until `stop`."""
        self._content = content

    async def read(self) -> bytes:
        """Next piece of an answer; empty at its end.

        Raises:
            TimeoutError: it took too long; the message says how long.
        """
        assert self._content is not None  # noqa: S101
        self._wait()
        if self._timer is None:
            self._look()
        try:
            chunk = await self._content.readany()
        finally:
            self._waiting, self._left = False, time.monotonic()
        self.beat(len(chunk))
        return chunk

    def stop(self) -> None:
        """Stop the timer: nothing more is waited for."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None

    def _wait(self) -> None:
        # While the agent does not take what came, the endpoint is not waited for.
        passed = time.monotonic() - self._left
        self._alive += passed
        self._lively += passed
        self._waiting = True

    def _look(self) -> None:
        """Give up waiting if it has taken too long, or look again at the time when it would have."""
        self._timer = None
        if not self._waiting or self._content is None:
            return
        if (rest := self._rest()) > 0:
            self._timer = asyncio.get_running_loop().call_later(rest, self._look)
        else:
            self._content.set_exception(self._too_long())

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
    length: int | None = None
    response: Response | None = None
    pulse: Pulse | None = None

    @property
    def streamed(self) -> bool:
        """True for an event stream."""
        return self.headers.get("content-type", "").startswith(_EVENT_STREAM)

    def keep(self) -> None:
        """Allow reuse of the connection, after an answer that ended well."""
        if self.response is not None:
            self.response.keep()

    def close(self) -> None:
        """Close it: the rest of the answer is not needed."""
        if self.pulse is not None:
            self.pulse.stop()
        if self.response is not None:
            self.response.close()


class Asking:
    """One call of an endpoint, with its retries. `headers` are sent, with the key added."""

    def __init__(
        self, job: Job, connections: Connections, target: Upstream, call: Call, headers: CIMultiDict[str]
    ) -> None:
        self._job = job
        self._connections = connections
        self._target = target
        self._call = call
        self._url = yarl.URL(target.endpoint.base_url.rstrip("/") + call.path, encoded=True)
        self._headers = headers
        for name, value in credentials(call.wire, target.key).items():
            self._headers[name] = ",".join([*self._headers.getall(name, ()), value])
        self._proxy = _proxy_for(self._url.scheme, self._url.host or "")
        self._pulse: Pulse | None = None
        self.sent = False
        """The endpoint has the request and has not refused it, so it may charge for it."""
        self.unanswered = 0
        """Requests that the endpoint accepted without an answer, until a timeout or a late disconnection."""
        self._sent_at = 0.0

    def silent(self) -> float:
        """Seconds for which the endpoint has been silent; 0 while no call is under way."""
        return 0.0 if self._pulse is None else self._pulse.silent()

    async def answer(self, body: bytes, patient: bool) -> Answer:
        """Answer for the agent, after all retries; if not `patient`, there are none."""
        loop = asyncio.get_running_loop()
        rate = self._job.rates.of(self._target.endpoint.provider)
        deadline: float | None = None
        for attempt in itertools.count():
            if self._call.metered and (turn := rate.reserve()):
                await asyncio.sleep(turn)
            if deadline is None:  # waiting for a turn is no failure of the endpoint
                deadline = loop.time() + (self._job.patience if patient else 0.0)
            if paused := min(rate.paused(), deadline - loop.time()):
                await asyncio.sleep(max(paused, 0.0))
            answer = await self._try(body)
            failure = answer.failure
            left = deadline - loop.time()
            if failure is None or not failure.again or left <= 0:
                return answer
            if failure.wait is None:
                pause = min(_FIRST_PAUSE * 2**attempt, _LONGEST_PAUSE) * random.uniform(0.5, 1.0)  # noqa: S311
            else:
                pause = min(failure.wait, left)
                rate.pause(pause)
            await asyncio.sleep(min(pause, left))
        raise AssertionError("unreachable")

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
            pulse.watch(response.content)
            answer = await (self._refusal if response.status >= 300 else self._begun)(response, pulse)
        except (*_BROKEN, ValueError) as error:
            worked = isinstance(error, TimeoutError | BrokenOff) or time.monotonic() - self._sent_at > AT_WORK
            self.unanswered += self.sent and worked
            answer = Answer(502, {}, pieces(), failures.of_connection(error))
        finally:
            if answer is None or answer.failure is not None:
                pulse.stop()
                if response is not None:
                    response.close()
        if answer.failure is not None:
            self._pulse, self.sent = None, False
        return answer

    def _note_sent(self, sent: bool) -> None:
        self.sent, self._sent_at = sent, time.monotonic()

    async def _begun(self, response: Response, pulse: Pulse) -> Answer:
        """An answer for the agent. Nothing has been sent to the agent before it, so a retry is still possible.

        A stream counts as an answer from its first byte; an answer in one piece must be complete and valid.
        """
        headers = self._incoming(response)
        encoded = response.headers.get("Content-Encoding", "identity") != "identity"
        first = await pulse.read()
        chunks = _chunks(first, self._target, pulse)
        answer = Answer(response.status, headers, chunks, response=response, pulse=pulse)
        if not self._call.metered:
            answer.length = None if encoded else response.content_length
            return answer
        if not answer.streamed and first.lstrip().startswith(_EVENTS):
            headers["content-type"] = _EVENT_STREAM
        if answer.streamed and first:
            return answer
        whole = bytearray(first)
        try:
            while first and len(whole) <= LONGEST_ANSWER and (more := await pulse.read()):
                whole += more
        except _BROKEN as error:
            answer.chunks = pieces(self._target.scrub(bytes(whole)), cut=str(error) or type(error).__name__)
            return answer
        content = self._target.scrub(bytes(whole))
        answer.chunks, answer.length = pieces(content), len(content)
        if (what := flaw(self._call.kind, content)) is not None:
            answer.failure = failures.of_rubbish(response.status, what)
        return answer

    async def _refusal(self, response: Response, pulse: Pulse) -> Answer:
        content = bytearray()
        while len(content) < _ERROR_LENGTH and (chunk := await pulse.read()):
            content += chunk
        body = self._target.scrub(bytes(content[:_ERROR_LENGTH]))
        headers = self._incoming(response)
        failure = failures.of_response(response.status, headers, body, time.time())
        return Answer(response.status, headers, pieces(body), failure, length=len(body))

    def _incoming(self, response: Response) -> dict[str, str]:
        named = {word.strip().lower() for word in response.headers.get("Connection", "").split(",")}
        dropped, key = _DROPPED | named, self._target.key
        return {
            lower: value
            for name, value in response.headers.items()
            if (lower := name.lower()) not in dropped and not (key and key in value)
        }


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


async def _chunks(first: bytes, target: Upstream, pulse: Pulse) -> AsyncIterator[bytes]:
    chunk = first
    while chunk:
        yield target.scrub(chunk)
        try:
            chunk = await pulse.read()
        except _BROKEN as error:
            raise Cut(str(error) or type(error).__name__) from None
