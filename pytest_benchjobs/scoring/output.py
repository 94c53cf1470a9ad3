"""The output of a command, of which only the end is kept, and of a scorer's what it states."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable

from ..model.errors import ScoreInvalid
from ..store.text import clean
from ..system.cutting import TailSink, end_of, margin

OUTPUT_LIMIT = 64 * 1024
_STATEMENT = re.compile(rb"\s*(?:score\s*=|metric\s)", re.IGNORECASE)
_LONGEST_STATEMENT = 500
_STATEMENTS = 1000


class Tail(TailSink):
    """A sink that keeps the last `limit` bytes."""

    def __init__(self, limit: int = OUTPUT_LIMIT) -> None:
        super().__init__(limit)

    def text(self) -> str:
        """Return the kept output, safe to show."""
        return clean(self.raw().decode("utf-8", "replace"), self.limit)


class Lines:
    """A sink that finds the lines that begin with a text: `take` gets the rest of them, `other` everything else."""

    def __init__(
        self,
        take: Callable[[bytes], object],
        beginning: bytes,
        other: Callable[[bytes], object] = lambda _: None,
    ) -> None:
        self._take, self._beginning, self._other = take, beginning, other
        self._rest = bytearray()

    def __call__(self, chunk: bytes) -> None:
        """Take a chunk."""
        self._rest += chunk
        *lines, rest = self._rest.split(b"\n")
        for line in lines:
            if line.startswith(self._beginning):
                self._take(bytes(line[len(self._beginning) :]))
            else:
                self._other(bytes(line + b"\n"))
        # It may go on as such a line.
        if not rest.startswith(self._beginning[: len(rest)]):
            self._other(bytes(rest))
            rest = bytearray()
        self._rest = rest


class Statements:
    """A sink that keeps the last lines, and each before them that states a score or a metric: nothing hides it."""

    def __init__(self, limit: int = OUTPUT_LIMIT) -> None:
        self._limit = limit
        self._stated: list[bytes] = []
        self._lines: deque[bytes] = deque()
        self._size = 0
        self._rest = b""
        self._gone = b""
        """The end of what is left out, in which a secret of several lines may begin."""

    def __call__(self, chunk: bytes) -> None:
        """Take a chunk."""
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        if len(self._rest) > self._limit:
            self._rest = b"..." + end_of(self._rest, self._limit // 2)
        for line in lines:
            self._lines.append(line)
            self._size += len(line) + 1
        while self._size > self._limit:
            line = self._lines.popleft()
            self._size -= len(line) + 1
            self._gone = (self._gone + line + b"\n")[-margin() :]
            if (
                len(line) <= _LONGEST_STATEMENT
                and _STATEMENT.match(line)
                and len(self._stated) <= _STATEMENTS
            ):
                self._stated.append(line)

    def text(self) -> str:
        """Return the kept lines, safe to show. ScoreInvalid: too many were stated."""
        if len(self._stated) > _STATEMENTS:
            raise ScoreInvalid(f"its output has more than {_STATEMENTS} lines with scores or metrics")
        end = b"\n".join([*self._lines, self._rest])
        shown = b"\n".join([*self._stated, end_of(self._gone + end, len(end))])
        return clean(shown.decode("utf-8", "replace"))
