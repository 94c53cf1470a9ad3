"""Asking the real endpoint, patiently, until there is something to tell the agent."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import itertools
import random
import time
import urllib.request
from collections.abc import AsyncIterator, Mapping

import aiohttp
import yarl
from multidict import CIMultiDict

from ..model.endpoint import Endpoint
from . import failures
from .failures import Failure
from .job import Job
from .meter import LONGEST_ANSWER, flaw
from .wires import Call, credentials

_ERROR_LENGTH = 1 << 20
_SIGN_OF_LIFE = 256
_AT_ONCE = 10.0
_EVENT_STREAM = "text/event-stream"
_BROKEN = (aiohttp.ClientError, TimeoutError, OSError)
# What a stream of events begins with. Some servers call theirs something else.
_EVENTS = (b"data:", b"event:", b"id:", b"retry:", b": ", b":\n")
_FIRST_PAUSE, _LONGEST_PAUSE = 0.25, 8.0
_LOCAL = frozenset({"localhost", "127.0.0.1", "::1"})
# Of an answer: hop by hop, or what we decide.
_DROPPED = frozenset(
    [
        *("connection", "keep-alive", "proxy-authenticate", "proxy-connection", "te", "trailer", "upgrade"),
        *("transfer-encoding", "content-length", "content-encoding", "set-cookie", "alt-svc"),
    ]
)


@dataclasses.dataclass(frozen=True, slots=True)
class Target:
    """A real endpoint and its key."""

    endpoint: Endpoint
    key: str | None = dataclasses.field(repr=False)

    def scrub(self, data: bytes) -> bytes:
        """Copy without the key, which some endpoints quote when they refuse it. As long as it was."""
        key = (self.key or "").encode()
        return data.replace(key, b"*" * len(key)) if key and key in data else data


class Cut(Exception):
    """The answer broke off."""


class Pulse:
    """How long an answer has been standing still. A byte now and then is no sign of life, 256 within 10 seconds are.

    A call is given up later than that: what pings, such as a model that thinks, gives 256 bytes in the end.

    Args:
        silence: Seconds without a sign of life that end a call.
        longest: Seconds that a call may take.

    """

    def __init__(self, silence: float, longest: float) -> None:
        self._silence, self._longest = silence, longest
        self._begun = self._alive = self._lively = self._left = self._window = time.monotonic()
        self._waiting = False
        self._fresh = self._recent = 0

    def beat(self, size: int) -> None:
        """So many bytes came."""
        now = time.monotonic()
        if now - self._window > _AT_ONCE:
            self._window, self._recent = now, 0
        self._recent += size
        self._fresh += size
        if self._recent >= _SIGN_OF_LIFE:
            self._window, self._recent, self._lively = now, 0, now
        if self._fresh >= _SIGN_OF_LIFE:
            self._fresh, self._alive = 0, now

    def silent(self) -> float:
        """Seconds of waiting since the last sign of life, or since it was asked."""
        return (time.monotonic() if self._waiting else self._left) - self._lively

    @contextlib.asynccontextmanager
    async def limit(self) -> AsyncIterator[None]:
        """Wait for the endpoint, and give it up when that takes too long.

        Raises:
            TimeoutError: it did; says how long.

        """
        now = time.monotonic()
        # As long as the agent does not take what came, the endpoint is not waited for.
        self._alive += now - self._left
        self._lively += now - self._left
        silence, rest = self._alive + self._silence - now, self._begun + self._longest - now
        self._waiting = True
        try:
            async with asyncio.timeout(max(min(silence, rest), 0.0)):
                yield
        except TimeoutError:
            if silence < rest:
                raise TimeoutError(f"the endpoint was silent for {self._silence:g} s") from None
            raise TimeoutError(f"the call took more than {self._longest:g} s") from None
        finally:
            self._waiting, self._left = False, time.monotonic()


@dataclasses.dataclass(slots=True)
class Answer:
    """What the endpoint said. `chunks` raises `Cut`."""

    status: int
    headers: Mapping[str, str]
    """With lower-case names, fit to be passed on."""
    chunks: AsyncIterator[bytes]
    failure: Failure | None = None
    length: int | None = None
    response: aiohttp.ClientResponse | None = None

    @property
    def streamed(self) -> bool:
        """Whether it is a stream of events."""
        return self.headers.get("content-type", "").startswith(_EVENT_STREAM)

    def close(self) -> None:
        """Nobody wants the rest of it."""
        if self.response is not None:
            self.response.close()


class Asking:
    """One call of an endpoint, as often as it takes.

    Args:
        job: Its patience and its rates.
        target: Whom to ask.
        call: What.
        headers: To be sent, without the key.

    """

    def __init__(self, job: Job, target: Target, call: Call, headers: CIMultiDict[str]) -> None:
        self._job = job
        self._target = target
        self._call = call
        self._url = yarl.URL(target.endpoint.base_url.rstrip("/") + call.path, encoded=True)
        self._headers = headers
        for name, value in credentials(call.wire, target.key).items():
            self._headers[name] = ",".join([*self._headers.getall(name, ()), value])
        self._proxy = _proxy_for(self._url)
        self._pulse: Pulse | None = None
        self.sent = False
        """The endpoint has a request that it has not refused: whatever it does now may have to be paid."""
        self.unanswered = 0
        """Requests that the endpoint took, and said nothing to until we gave up."""

    def silent(self) -> float:
        """Seconds for which the endpoint has kept the call waiting; 0 while none is under way."""
        return 0.0 if self._pulse is None else self._pulse.silent()

    async def answer(self, body: bytes, patient: bool) -> Answer:
        """What the agent is to be told in the end.

        Args:
            body: Of the request.
            patient: Whether to try again when that may help.

        """
        loop = asyncio.get_running_loop()
        rate = self._job.rates.of(self._target.endpoint.provider)
        deadline: float | None = None
        for attempt in itertools.count():
            if self._call.metered and (turn := rate.reserve()):
                await asyncio.sleep(turn)
            if deadline is None:  # waiting for one's turn is no failure of the endpoint
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
        response: aiohttp.ClientResponse | None = None
        answer: Answer | None = None
        try:
            async with pulse.limit():
                response = await self._job.session.request(
                    self._call.method,
                    self._url,
                    data=body or None,
                    headers=self._headers,
                    allow_redirects=False,
                    proxy=self._proxy,
                    skip_auto_headers=("User-Agent", "Accept", "Content-Type"),
                    trace_request_ctx=self,
                )
            self.sent = response.status < 300
            answer = await (self._refusal if response.status >= 300 else self._begun)(response, pulse)
        except (*_BROKEN, ValueError) as error:
            self.unanswered += self.sent and isinstance(error, TimeoutError)
            answer = _no_answer(error)
        finally:
            if response is not None and (answer is None or answer.failure is not None):
                response.close()
        if answer.failure is not None:
            self._pulse, self.sent = None, False
        return answer

    async def _begun(self, response: aiohttp.ClientResponse, pulse: Pulse) -> Answer:
        """An answer that the agent may be given: nothing has been promised to it until now, and we may try again.

        A stream is one from its first byte; what comes in one piece has to be all there, and be an answer.
        """
        headers = self._incoming(response)
        encoded = response.headers.get("Content-Encoding", "identity") != "identity"
        first = await _read(response, pulse)
        if not self._call.metered:
            length = None if encoded else response.content_length
            chunks = _chunks(first, response, self._target, pulse)
            return Answer(response.status, headers, chunks, length=length, response=response)
        stream = headers.get("content-type", "").startswith(_EVENT_STREAM)
        if not stream and first.lstrip().startswith(_EVENTS):
            stream, headers["content-type"] = True, _EVENT_STREAM
        if stream and first:
            chunks = _chunks(first, response, self._target, pulse)
            return Answer(response.status, headers, chunks, response=response)
        whole = bytearray(first)
        try:
            while first and len(whole) <= LONGEST_ANSWER and (more := await _read(response, pulse)):
                whole += more
        except _BROKEN as error:
            chunks = _once(self._target.scrub(bytes(whole)), _reason(error))
            return Answer(response.status, headers, chunks, response=response)
        content = self._target.scrub(bytes(whole))
        what = flaw(self._call.kind, content)
        failure = None if what is None else failures.of_rubbish(response.status, what)
        return Answer(response.status, headers, _once(content), failure, len(content), response)

    async def _refusal(self, response: aiohttp.ClientResponse, pulse: Pulse) -> Answer:
        content = bytearray()
        while len(content) < _ERROR_LENGTH and (chunk := await _read(response, pulse)):
            content += chunk
        body = self._target.scrub(bytes(content[:_ERROR_LENGTH]))
        headers = self._incoming(response)
        failure = failures.of_response(response.status, headers, body, time.time())
        return Answer(response.status, headers, _once(body), failure, length=len(body))

    def _incoming(self, response: aiohttp.ClientResponse) -> dict[str, str]:
        named = {word.strip().lower() for word in response.headers.get("Connection", "").split(",")}
        return {
            name.lower(): value
            for name, value in response.headers.items()
            if name.lower() not in _DROPPED | named and not (self._target.key and self._target.key in value)
        }


def _proxy_for(url: yarl.URL) -> str | None:
    host = url.host or ""
    if host in _LOCAL or urllib.request.proxy_bypass(host):
        return None
    return urllib.request.getproxies().get(url.scheme)


def _no_answer(error: BaseException) -> Answer:
    return Answer(502, {}, _once(b""), failures.of_connection(error))


async def _once(body: bytes, cut: str | None = None) -> AsyncIterator[bytes]:
    if body:
        yield body
    if cut is not None:
        raise Cut(cut)


async def _read(response: aiohttp.ClientResponse, pulse: Pulse) -> bytes:
    """What comes next of an answer; nothing at its end."""
    async with pulse.limit():
        chunk = await response.content.readany()
    pulse.beat(len(chunk))
    return chunk


async def _chunks(
    first: bytes, response: aiohttp.ClientResponse, target: Target, pulse: Pulse
) -> AsyncIterator[bytes]:
    chunk = first
    while chunk:
        yield target.scrub(chunk)
        try:
            chunk = await _read(response, pulse)
        except _BROKEN as error:
            raise Cut(_reason(error)) from None


def _reason(error: BaseException) -> str:
    return str(error) or type(error).__name__
