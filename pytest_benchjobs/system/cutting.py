"""Cuts of texts that others wrote: none goes through a secret.

A text is cut where it is read, deep down, and redacted where it is written. What a cut left of a secret would not be
recognised there. So a secret is left out whole: every text that is cut before it is redacted is cut here, and every
secret of this process is known here. A house test looks for other cuts.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable
from typing import overload

from .redact import Redactor

_lock = threading.Lock()
_known: frozenset[str] = frozenset()
_redactor = Redactor({})


def know_secrets(values: Iterable[str]) -> None:
    """Let no cut of this process go through these values, in whatever form."""
    global _known, _redactor
    with _lock:
        if new := frozenset(values) - _known:
            _known |= new
            _redactor = Redactor({f"S{number}": value for number, value in enumerate(sorted(_known))})


def margin() -> int:
    """Return how many bytes beyond a cut it has to see, to see a secret that it would go through."""
    return _redactor.longest


@overload
def beginning_of(text: str, limit: int) -> str: ...
@overload
def beginning_of(text: bytes, limit: int) -> bytes: ...
def beginning_of(text: str | bytes, limit: int) -> str | bytes:
    """Return the first `limit` characters, or as many as are before a secret that would be cut."""
    return text if len(text) <= limit else text[: _around(text, limit)[0]]


def on_one_line(text: str, limit: int) -> str:
    """Return the beginning of a text whose words are a blank apart."""
    return beginning_of(" ".join(text.split()), limit)


@overload
def end_of(text: str, limit: int) -> str: ...
@overload
def end_of(text: bytes, limit: int) -> bytes: ...
def end_of(text: str | bytes, limit: int) -> str | bytes:
    """Return the last `limit` characters, or as many as are after a secret that would be cut."""
    return text if len(text) <= limit else text[_around(text, len(text) - limit)[1] :]


def last_line(text: str, limit: int) -> str:
    """Return the beginning of the last line that is not empty; empty if there is none."""
    text = text.rstrip()
    start = max((text.rfind(end) for end in "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"), default=-1) + 1
    return beginning_of(text[_around(text, start)[1] :].strip() if start else text.strip(), limit)


def _around(text: str | bytes, at: int) -> tuple[int, int]:
    """Return where the secret begins and ends that a cut at a place goes through; else twice the place."""
    longest = _redactor.longest
    start = max(0, at - longest + 1)
    before, after = text[start:at], text[at : at + longest - 1]
    data, middle = _bytes(before) + _bytes(after), len(_bytes(before))
    for begin, end in _redactor.places(data):
        if begin >= middle:
            break
        if end > middle:
            if isinstance(text, bytes):
                return start + begin, start + end
            return start + _characters(data[:begin]), start + _characters(data[:end])
    return at, at


def _bytes(text: str | bytes) -> bytes:
    return text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")


def _characters(data: bytes) -> int:
    return len(data.decode("utf-8", "surrogatepass"))


class HeadSink:
    """A sink that keeps the first `limit` bytes."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._kept = bytearray()

    def __call__(self, chunk: bytes) -> None:
        """Take a chunk."""
        self._kept += chunk[: max(0, self._limit + margin() - len(self._kept))]

    def raw(self) -> bytes:
        """Return what is kept, unchanged."""
        return beginning_of(bytes(self._kept), self._limit)

    def text(self) -> str:
        """Return what is kept as text, without blanks around it."""
        return self.raw().decode("utf-8", "replace").strip()


class TailSink:
    """A sink that keeps the last `limit` bytes."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._chunks: deque[bytes] = deque()
        self._size = 0

    def __call__(self, chunk: bytes) -> None:
        """Take a chunk."""
        self._chunks.append(chunk)
        self._size += len(chunk)
        while self._size - len(self._chunks[0]) >= self.limit + margin():
            self._size -= len(self._chunks.popleft())

    def raw(self) -> bytes:
        """Return what is kept, unchanged."""
        return end_of(b"".join(self._chunks), self.limit)
