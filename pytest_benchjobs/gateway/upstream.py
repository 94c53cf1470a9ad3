"""Asking the real endpoint, patiently, until there is something to tell the agent."""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import random
import time
import urllib.request
from collections.abc import AsyncIterator, Mapping

import aiohttp
import yarl
from multidict import CIMultiDict, CIMultiDictProxy

from ..model.endpoint import Endpoint
from . import failures
from .failures import Failure
from .job import Job
from .wires import Call, credentials

_ERROR_LENGTH = 1 << 20
_FIRST_PAUSE, _LONGEST_PAUSE = 0.25, 8.0
_LOCAL = frozenset({"localhost", "127.0.0.1", "::1"})
# Hop by hop, or about the agent's connection; credentials and accounts of its own; what we decide.
_DROPPED = frozenset(
    [
        *("connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "te"),
        *("trailer", "transfer-encoding", "upgrade", "expect", "host"),
        *("content-length", "content-encoding", "accept-encoding", "cookie", "set-cookie"),
        *("forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-real-ip"),
        *("authorization", "x-api-key", "x-goog-api-key", "api-key"),
        *("x-goog-user-project", "openai-organization", "openai-project"),
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


@dataclasses.dataclass(slots=True)
class Answer:
    """What the endpoint said. `chunks` raises `Cut`."""

    status: int
    headers: Mapping[str, str]
    """With lower-case names, fit to be passed on."""
    chunks: AsyncIterator[bytes]
    failure: Failure | None = None
    framed: bool = True
    """Its end is more than the end of a connection."""
    length: int | None = None
    response: aiohttp.ClientResponse | None = None

    @property
    def streamed(self) -> bool:
        """Whether it is a stream of events."""
        return self.headers.get("content-type", "").startswith("text/event-stream")

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
        headers: Of the agent's request.

    """

    def __init__(self, job: Job, target: Target, call: Call, headers: CIMultiDictProxy[str]) -> None:
        self._job = job
        self._target = target
        self._call = call
        self._url = yarl.URL(target.endpoint.base_url.rstrip("/") + call.path, encoded=True)
        self._headers = _outgoing(headers)
        for name, value in credentials(call.wire, target.key).items():
            self._headers[name] = ",".join([*self._headers.getall(name, ()), value])
        self._proxy = _proxy_for(self._url)

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
        try:
            response = await self._job.session.request(
                self._call.method,
                self._url,
                data=body or None,
                headers=self._headers,
                allow_redirects=False,
                proxy=self._proxy,
                skip_auto_headers=("User-Agent", "Accept", "Content-Type"),
            )
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            return _no_answer(error)
        try:
            if response.status >= 300:
                return await self._refusal(response)
            # Until the first byte is here nothing has been promised to the agent, and we may try again.
            first = await response.content.readany()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            response.close()
            return _no_answer(error)
        except BaseException:
            response.close()
            raise
        encoded = response.headers.get("Content-Encoding", "identity") != "identity"
        return Answer(
            response.status,
            self._incoming(response),
            _chunks(first, response, self._target),
            framed="Content-Length" in response.headers
            or response.headers.get("Transfer-Encoding") == "chunked",
            length=None if encoded else response.content_length,
            response=response,
        )

    async def _refusal(self, response: aiohttp.ClientResponse) -> Answer:
        content = bytearray()
        while len(content) < _ERROR_LENGTH and (chunk := await response.content.readany()):
            content += chunk
        response.close()
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


def _outgoing(headers: CIMultiDictProxy[str]) -> CIMultiDict[str]:
    named = {word.strip().lower() for word in headers.get("Connection", "").split(",")}
    kept = CIMultiDict(
        (name, value) for name, value in headers.items() if name.lower() not in _DROPPED | named
    )
    # What is metered, recorded and replayed has to be readable.
    kept["Accept-Encoding"] = "identity"
    return kept


def _proxy_for(url: yarl.URL) -> str | None:
    host = url.host or ""
    if host in _LOCAL or urllib.request.proxy_bypass(host):
        return None
    return urllib.request.getproxies().get(url.scheme)


def _no_answer(error: BaseException) -> Answer:
    return Answer(502, {}, _once(b""), failures.of_connection(error))


async def _once(body: bytes) -> AsyncIterator[bytes]:
    if body:
        yield body


async def _chunks(first: bytes, response: aiohttp.ClientResponse, target: Target) -> AsyncIterator[bytes]:
    chunk = first
    while chunk:
        yield target.scrub(chunk)
        try:
            chunk = await response.content.readany()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise Cut(str(error) or type(error).__name__) from None
