"""The output of a command, of which only the end is kept."""

from __future__ import annotations

from collections import deque

from ..store.text import clean

OUTPUT_LIMIT = 64 * 1024


class Tail:
    """A sink that keeps the last `limit` bytes."""

    def __init__(self, limit: int = OUTPUT_LIMIT) -> None:
        self._limit = limit
        self._chunks: deque[bytes] = deque()
        self._size = 0

    def __call__(self, chunk: bytes) -> None:
        """Take a chunk."""
        self._chunks.append(chunk)
        self._size += len(chunk)
        while self._size - len(self._chunks[0]) >= self._limit:
            self._size -= len(self._chunks.popleft())

    def text(self) -> str:
        """Return the kept output, safe to show."""
        return clean(self.raw().decode("utf-8", "replace"), self._limit)

    def raw(self) -> bytes:
        """Return the kept output, unchanged."""
        return b"".join(self._chunks)[-self._limit :]
