"""Connections of one trial to its endpoints. A connection is reused only if everything on it ended cleanly.

Trials do not share connections: whatever an endpoint makes of a trial's requests, it can only answer that trial's
calls.
"""

from __future__ import annotations

import asyncio
import functools
import select
import time
from collections.abc import Callable, Mapping
from typing import Any, cast

import aiohttp
import yarl
from aiohttp.client_proto import ResponseHandler
from aiohttp.client_reqrep import ClientRequest
from aiohttp.connector import Connection
from aiohttp.http import HttpVersion11

_CONNECT_TIMEOUT = 15.0
_LONGEST_IDLE = 60.0
"""Seconds for which an unused connection is kept. Proxies in between drop idle connections silently, but later."""
_MOST_IDLE = 8
AT_WORK = 2.0
"""Seconds after which an endpoint that drops a request may have worked on it."""
_LOST = (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError)
_END_OF_HEAD = b"\r\n\r\n"


class BrokenOff(aiohttp.ClientConnectionError):
    """The connection ended when the endpoint had begun to answer."""


class _Line(ResponseHandler):
    """A connection to an endpoint."""

    used = False
    """It was given to an earlier request."""
    heard = False
    """The endpoint has sent something since the request."""
    kept = False
    """It is kept for the next request."""

    def data_received(self, data: bytes) -> None:
        """Override: the transport calls it."""
        if self.kept:  # no request is under way, so this is no answer
            self.close()
            return
        self.heard = True
        super().data_received(data)

    def resume_reading(self, resume_parser: bool = True) -> None:
        """Override: a reader calls it after each piece, paused or not."""
        if self._reading_paused:
            super().resume_reading(resume_parser)


class Response(aiohttp.ClientResponse):
    """An answer. Its connection is closed with it, unless `keep` finds that it can be reused."""

    _line: _Line | None = None
    _connector: _Connector | None = None

    async def start(self, connection: Connection) -> aiohttp.ClientResponse:
        """Override: `aiohttp` calls it, and forgets the connection when the answer is complete."""
        self._line = cast("_Line", connection.protocol)
        return await super().start(connection)

    def began(self, connector: _Connector, body: _Body | None) -> None:
        """Note that the head of the answer is here; to be called at once."""
        transport = None if self._line is None else self._line.transport
        written = body is None or body.written
        if transport is not None and written and transport.get_write_buffer_size() == 0:
            self._connector = connector

    def keep(self) -> None:
        """Keep the connection for reuse, after an answer that was read to its end without an error."""
        if self._line is not None and self._connector is not None and self._is_clean():
            self._connector.keep(self._line)
            self._line = None

    def close(self) -> None:
        """Close it: the rest of the answer is not needed."""
        super().close()
        if self._line is not None:
            self._line.close()

    def _is_clean(self) -> bool:
        """True if the headers leave no doubt about the end of the answer."""
        lengths = self.headers.getall("Content-Length", [])
        codings = [coding.lower() for coding in self.headers.getall("Transfer-Encoding", [])]
        return (
            self.status == 200
            and self.version == HttpVersion11
            and (codings == ["chunked"] if codings else len(lengths) == 1)
            and not (codings and lengths)
            and "Content-Encoding" not in self.headers
            and self.content.is_eof()
            and self.content.exception() is None
        )


class Connections:
    """The connections of one trial, until `close`."""

    def __init__(self) -> None:
        self._connector = _Connector(limit=0, ttl_dns_cache=60, keepalive_timeout=_LONGEST_IDLE)
        self._session = aiohttp.ClientSession(
            # No cookies, no credentials from files.
            connector=self._connector,
            response_class=Response,
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_TIMEOUT),
            trust_env=False,
            read_bufsize=1 << 16,
        )

    async def request(
        self,
        method: str,
        url: yarl.URL,
        content: bytes,
        headers: Mapping[str, str],
        on_sent: Callable[[bool], None],
        proxy: str | None,
    ) -> Response:
        """Send a request, and return the beginning of its answer.

        If the endpoint closes a kept connection without sending a byte, it had closed it before the request: the
        request is sent again on a new one. `headers` must be complete, except for those that frame the body. `on_sent`
        is called with True when the endpoint begins to get a body, with False when it turns out that it did not.

        Raises BrokenOff: the connection ended in the beginning of the answer.
        """
        anew = False
        while True:
            body = _Body(content, on_sent, anew) if content else None
            try:
                response = await self._session.request(
                    method,
                    url,
                    data=body,
                    headers=headers,
                    allow_redirects=False,
                    proxy=proxy,
                    skip_auto_headers=("User-Agent", "Accept", "Content-Type"),
                )
            except _LOST as error:
                if body is None or body.line is None:
                    raise
                if body.line.heard:
                    raise BrokenOff(str(error)) from error
                if not body.on_kept or body.seconds > AT_WORK:
                    raise
                on_sent(False)
                anew = True
            else:
                response = cast("Response", response)
                response.began(self._connector, body)
                return response

    async def close(self) -> None:
        """Close all connections."""
        await self._session.close()


class _Body(aiohttp.BytesPayload):
    """Body of a request, which notes how far it was sent. `anew`: not on a kept connection."""

    def __init__(self, content: bytes, on_sent: Callable[[bool], None], anew: bool) -> None:
        super().__init__(content)
        self._on_sent = on_sent
        self._sent_at: float | None = None
        self.anew = anew
        self.line: _Line | None = None
        """The connection that it was sent over."""
        self.on_kept = False
        """True if that connection was a kept one."""
        self.written = False

    @property
    def seconds(self) -> float:
        """Seconds since the endpoint began to get it."""
        return 0.0 if self._sent_at is None else time.monotonic() - self._sent_at

    async def write_with_length(self, writer: Any, content_length: int | None) -> None:
        """Override: `aiohttp` calls it."""
        self._sent_at = time.monotonic()
        self._on_sent(True)
        await super().write_with_length(writer, content_length)
        self.written = True


class _Connector(aiohttp.TCPConnector):
    """Connector that reuses only connections that `keep` accepted: the rules of `aiohttp` for reuse are weaker."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self._factory = functools.partial(cast("type[ResponseHandler]", _Line), loop=self._loop)
        self._kept: set[_Line] = set()

    def keep(self, line: _Line) -> None:
        """Allow reuse of the connection, unless the endpoint has sent more than its answer."""
        # A parser ignores this before an answer. After half a head it completes that head, or is an error.
        line.data_received(_END_OF_HEAD)
        clean = line.is_connected() and not line.should_close
        self._kept = {kept for kept in self._kept if kept.is_connected()}
        if (
            clean
            and line.transport is not None
            # TLS reads ahead, so data behind an answer would be taken for the next one.
            and line.transport.get_extra_info("ssl_object") is None
            and len(self._kept) < _MOST_IDLE
        ):
            self._kept.add(line)
            line.kept = True
        else:
            line.close()

    async def connect(
        self, req: ClientRequest, traces: list[Any], timeout: aiohttp.ClientTimeout
    ) -> Connection:
        """Override: `aiohttp` calls it."""
        body = req.body if isinstance(req.body, _Body) else None
        while True:
            connection = await super().connect(req, traces, timeout)
            line = cast("_Line", connection.protocol)
            if line.used:
                wanted = line.kept and not (body is not None and body.anew)
                line.kept = False
                self._kept.discard(line)
                if not (wanted and line.transport and _is_quiet(line.transport)):
                    connection.close()
                    continue
            if body is not None:
                body.line, body.on_kept = line, line.used
            line.used, line.heard = True, False
            return connection


def _is_quiet(transport: asyncio.Transport) -> bool:
    """True if the endpoint has neither sent anything nor closed the connection since it was kept."""
    if transport.is_closing():
        return False
    poll = select.poll()
    poll.register(transport.get_extra_info("socket").fileno(), select.POLLIN)
    return not poll.poll(0)
