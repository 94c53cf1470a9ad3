"""Parse and forward a request to a proxy: a tunnel (`CONNECT`), or one request of HTTP.

A request goes on alone: what a client sends after it on the same connection might be for another host, and is not read.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import http
import re
from urllib.parse import urlsplit

_LONGEST_HEAD = 32 << 10
_PIECE = 1 << 16
_METHOD = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,40}")
_FIELD = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+:[^\r\n\0]*")
_HEX = re.compile(rb"[0-9A-Fa-f]{1,12}")
_TARGET = re.compile(rb"[\x21-\x7e]{1,16384}")
_OF_A_HOP = frozenset({b"connection", b"keep-alive", b"host", b"te", b"trailer", b"upgrade"})


Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Refused(Exception):
    """A refused connection or request: the status of HTTP and the reason, for its sender."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status

    def answer(self) -> bytes:
        """Return what is sent instead."""
        body = f"benchjobs: {self}\n".encode("utf-8", "replace")
        head = (
            f"HTTP/1.1 {self.status} {http.HTTPStatus(self.status).phrase}\r\n"
            "Content-Type: text/plain; charset=utf-8\r\n"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        )
        return head.encode() + body


@dataclasses.dataclass(frozen=True, slots=True)
class Head:
    """A request, as far as it is for the proxy."""

    host: str
    port: int
    tunnel: bool
    request: bytes = b""
    """Head of the request for the host."""
    length: int = 0
    """Bytes of its body."""
    chunked: bool = False


async def read_head(reader: asyncio.StreamReader) -> Head:
    """Read the head of a request; `Refused`, if it is none, `asyncio.IncompleteReadError`, if the client has gone."""
    lines: list[bytes] = []
    left = _LONGEST_HEAD
    while (line := await _line(reader, left)) or not lines:
        left -= len(line) + 2
        if line:
            lines.append(line)
    words = lines[0].split(b" ")
    if len(words) != 3 or not _METHOD.fullmatch(words[0]) or words[2] not in (b"HTTP/1.0", b"HTTP/1.1"):
        raise Refused(400, "this is an HTTP proxy; it takes CONNECT and requests of http://")
    method, target, version = words
    if not _TARGET.fullmatch(target) or not all(map(_FIELD.fullmatch, lines[1:])):
        raise Refused(400, "the request is malformed")
    if method == b"CONNECT":
        host, port = _host_and_port(f"//{target.decode()}")
        if port is None:
            raise Refused(400, "CONNECT needs a host and a port")
        return Head(host, port, tunnel=True)
    return _request(method, target.decode(), version, lines[1:])


async def relay(inner: Streams, outer: Streams) -> None:
    """Pass on both ways, until both sides have said all, or one is gone."""
    ways = [asyncio.create_task(_pump(inner[0], outer[1])), asyncio.create_task(_pump(outer[0], inner[1]))]
    try:
        await asyncio.gather(*ways)
    finally:
        await end(*ways)


async def forward(head: Head, inner: Streams, outer: Streams) -> None:
    """Pass on one request and its answer."""
    outer[1].write(head.request)
    sending = asyncio.create_task(_send_body(head, inner[0], outer[1]))
    try:
        await _pump(outer[0], inner[1])  # the answer may come before the body is sent
    finally:
        await end(sending)


def _request(method: bytes, target: str, version: bytes, fields: list[bytes]) -> Head:
    """Return a request for the host, of one for the proxy."""
    parts = urlsplit(target)
    if parts.scheme.lower() != "http":
        raise Refused(400, "this is an HTTP proxy; it takes CONNECT and requests of http://")
    host, port = _host_and_port(target)
    path = target[len(parts.scheme) + 3 :][len(parts.netloc) :].partition("#")[0]
    path = path if path.startswith("/") else f"/{path}"
    kept, lengths, codings, named = [], set(), [], set()
    for line in fields:
        name, _, value = line.partition(b":")
        lower, value = name.lower(), value.strip()
        if lower == b"content-length":
            lengths.add(value)
        elif lower == b"transfer-encoding":
            codings.append(value.lower())
        elif lower == b"connection":
            named |= {one.strip().lower() for one in value.split(b",")}
        if lower not in _OF_A_HOP and not lower.startswith(b"proxy-"):
            kept.append((lower, name + b": " + value))
    if (lengths and codings) or len(lengths) > 1 or codings not in ([], [b"chunked"]):
        raise Refused(400, "the length of the request is not clear")
    length = lengths.pop() if lengths else b"0"
    if not length.isdigit() or len(length) > 15:
        raise Refused(400, "the length of the request is not clear")
    lines = [method + b" " + path.encode() + b" " + version]
    lines.append(b"Host: " + parts.netloc.rpartition("@")[2].encode())
    lines += [
        line
        for lower, line in kept
        if lower not in named or lower in (b"content-length", b"transfer-encoding")
    ]
    lines += [b"Connection: close", b"", b""]
    return Head(
        host, port or 80, tunnel=False, request=b"\r\n".join(lines), length=int(length), chunked=bool(codings)
    )


def _host_and_port(target: str) -> tuple[str, int | None]:
    try:
        parts = urlsplit(target)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if not host or port == 0:
        raise Refused(400, "the host of the request is malformed")
    return host, port


async def _line(reader: asyncio.StreamReader, left: int) -> bytes:
    try:
        line = await reader.readuntil(b"\n")
    except asyncio.LimitOverrunError:
        raise Refused(400, "the head of the request is too long") from None
    if len(line) > left:
        raise Refused(400, "the head of the request is too long")
    return line.removesuffix(b"\n").removesuffix(b"\r")


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Pass on all that comes, and its end."""
    while piece := await reader.read(_PIECE):
        writer.write(piece)
        await writer.drain()
    with contextlib.suppress(OSError):
        if writer.can_write_eof():
            writer.write_eof()


async def end(*tasks: asyncio.Task[None]) -> None:
    """End tasks, and wait for that."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _send_body(head: Head, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Pass on the body of a request, without trailers."""
    try:
        if not head.chunked:
            await _send(head.length, reader, writer)
            return
        size = 1
        while size:
            line = (await _line(reader, 1024)).partition(b";")[0].strip()
            if not _HEX.fullmatch(line):
                raise Refused(400, "the body of the request is malformed")
            size = int(line, 16)
            writer.write(line + b"\r\n")
            await _send(size, reader, writer)
            if size and await reader.readexactly(2) != b"\r\n":
                raise Refused(400, "the body of the request is malformed")
            writer.write(b"\r\n")
        await writer.drain()
    except (Refused, OSError, asyncio.IncompleteReadError):
        writer.transport.abort()  # the host would wait for the rest


async def _send(length: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while length:
        piece = await reader.read(min(_PIECE, length))
        if not piece:
            raise ConnectionResetError("the client has gone in the middle of its request")
        writer.write(piece)
        await writer.drain()
        length -= len(piece)
