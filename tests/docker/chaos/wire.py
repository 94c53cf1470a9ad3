"""HTTP/1.1 over sockets, as little of it as a socket between a client and the engine needs."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import re
import select
import socket
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import parse_qs, unquote

_HEAD_END = b"\r\n\r\n"
_PIECE = 64 * 1024
_WORDS = {
    "containers": {"create", "json", "prune"},
    "images": {"json", "create", "load", "get", "search", "prune"},
    "networks": {"create", "prune"},
    "volumes": {"create", "prune"},
    "exec": set(),
}


class HungUp(Exception):
    """The other side is gone."""


class Reader:
    """Reads from a socket; `waits` is called before each read that may take long, and may raise."""

    def __init__(self, connection: socket.socket, waits: Callable[[], None] = lambda: None) -> None:
        self.connection = connection
        self.buffered = b""
        self._waits = waits

    def _more(self) -> bool:
        self._waits()
        more = self.connection.recv(_PIECE)
        self.buffered += more
        return bool(more)

    def head(self) -> bytes | None:
        """Return a head with its last empty line; None: nothing came."""
        while _HEAD_END not in self.buffered:
            if not self._more():
                if self.buffered:
                    raise HungUp("in the middle of a head")
                return None
        head, _, self.buffered = self.buffered.partition(_HEAD_END)
        return head + _HEAD_END

    def line(self) -> bytes:
        while b"\r\n" not in self.buffered:
            if not self._more():
                raise HungUp("in the middle of a line")
        line, _, self.buffered = self.buffered.partition(b"\r\n")
        return line

    def pieces(self, size: int | None) -> Iterator[bytes]:
        """Yield `size` bytes as they come; None: all until the end."""
        left = size
        while left is None or left > 0:
            if not self.buffered and not self._more():
                if left is not None:
                    raise HungUp("in the middle of a body")
                return
            piece = self.buffered if left is None else self.buffered[:left]
            self.buffered = self.buffered[len(piece) :]
            left = None if left is None else left - len(piece)
            yield piece


@dataclasses.dataclass(slots=True)
class Message:
    """A request or an answer: its head, and its body as it comes."""

    start: str
    headers: dict[str, str]
    head: bytes
    reader: Reader

    @property
    def status(self) -> int:
        return int(self.start.split(None, 2)[1])

    @property
    def chunked(self) -> bool:
        return "chunked" in self.headers.get("transfer-encoding", "").lower()

    def body(self, *, answers: str = "") -> Iterator[bytes]:
        """Yield the body without its framing. `answers`: the method that this is an answer to."""
        if answers == "HEAD" or (answers and self.status in (204, 304)):
            return
        if self.chunked:
            while (size := int(self.reader.line().split(b";")[0], 16)) > 0:
                yield from self.reader.pieces(size)
                self.reader.line()
            while self.reader.line():
                pass
        elif "content-length" in self.headers:
            yield from self.reader.pieces(int(self.headers["content-length"]))
        elif answers:
            yield from self.reader.pieces(None)


def message(reader: Reader) -> Message | None:
    """Read the head of a message; None: the other side had no more to say."""
    head = reader.head()
    if head is None:
        return None
    start, *lines = head.decode("latin-1").strip().split("\r\n")
    headers = {}
    for line in lines:
        name, _, value = line.partition(":")
        headers[name.strip().lower()] = value.strip()
    return Message(start, headers, head, reader)


@dataclasses.dataclass(slots=True)
class Request:
    """One call of the engine, with its whole body."""

    method: str
    call: str
    """The call by name: version stripped, ids replaced by `{}`."""
    ids: tuple[str, ...]
    query: dict[str, list[str]]
    upgrades: bool
    body: bytes
    head: bytes

    @property
    def json(self) -> dict[str, Any]:
        with contextlib.suppress(ValueError):
            found = json.loads(self.body)
            if isinstance(found, dict):
                return found
        return {}

    def written(self) -> bytes:
        """As the engine is to get it: with the length of the body, and no chunks."""
        lines = [
            line
            for line in self.head.rstrip().split(b"\r\n")
            if not line.lower().startswith((b"transfer-encoding:", b"content-length:", b"expect:"))
        ]
        if self.body or self.method in ("POST", "PUT"):
            lines.append(b"Content-Length: %d" % len(self.body))
        return b"\r\n".join(lines) + _HEAD_END + self.body


def request(reader: Reader) -> Request | None:
    found = message(reader)
    if found is None:
        return None
    method, target = found.start.split()[:2]
    body = b"".join(found.body())
    path, _, query = target.partition("?")
    call, ids = named(method, path)
    return Request(method, call, ids, parse_qs(query), "upgrade" in found.headers, body, found.head)


def named(method: str, path: str) -> tuple[str, tuple[str, ...]]:
    """Return the name of a call, and the ids that were in its path."""
    parts = [unquote(part) for part in re.sub(r"^/v\d+\.\d+(?=/)", "", path).strip("/").split("/")]
    kind, *rest = parts
    if kind not in _WORDS or not rest or (len(rest) == 1 and rest[0] in _WORDS[kind]):
        return f"{method} /{'/'.join(parts)}", ()
    # Names of images have slashes of their own.
    keeps = 1 if kind != "images" or rest[-1] in ("json", "tag", "push", "history", "get") else 0
    verb = rest[1:] if kind != "images" else rest[len(rest) - keeps :] if len(rest) > 1 else []
    name = "/".join(rest[: len(rest) - len(verb)])
    return f"{method} /{'/'.join([kind, '{}', *verb])}", (name,)


def relay(client: socket.socket, answer: Message, method: str) -> None:
    """Give an answer on as it comes, with its own framing."""
    client.sendall(answer.head)
    for piece in answer.body(answers=method):
        client.sendall(b"%x\r\n%b\r\n" % (len(piece), piece) if answer.chunked else piece)
    if answer.chunked:
        client.sendall(b"0\r\n\r\n")


def tunnel(client: Reader, engine: Reader) -> None:
    """Give on what either side says, and that it has no more to say."""
    pairs = {client.connection: engine.connection, engine.connection: client.connection}
    for reader in (client, engine):
        if reader.buffered:
            pairs[reader.connection].sendall(reader.buffered)
            reader.buffered = b""
    while pairs:
        readable, _, _ = select.select(list(pairs), [], [])
        for side in readable:
            data = side.recv(_PIECE)
            if data:
                pairs[side].sendall(data)
                continue
            with contextlib.suppress(OSError):
                pairs[side].shutdown(socket.SHUT_WR)
            if side is engine.connection:
                return
            del pairs[side]


def plain(status: int, text: str) -> bytes:
    """A whole answer of the engine that refuses."""
    body = json.dumps({"message": text}).encode()
    return (
        b"HTTP/1.1 %d Harmed\r\nApi-Version: 1.41\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"
        % (status, len(body), body)
    )


def unframed(head: bytes, *more: bytes) -> bytes:
    """A head without what it says of the length of its body, and with these lines instead."""
    lines = [
        line
        for line in head.rstrip().split(b"\r\n")
        if not line.lower().startswith((b"transfer-encoding:", b"content-length:"))
    ]
    return b"\r\n".join([*lines, *more]) + _HEAD_END


def members(archive: bytes) -> list[int]:
    """Where in a tar archive each member ends; what comes behind the last is its end."""
    ends, at = [], 0
    while at + 512 <= len(archive) and archive[at] != 0:
        field = archive[at + 124 : at + 136].strip(b"\0 ")
        size = int(field, 8) if field else 0
        at += 512 + (size + 511) // 512 * 512
        ends.append(at)
    return ends
