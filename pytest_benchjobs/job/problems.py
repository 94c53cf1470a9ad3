"""Problems of a job itself: lines for the user, kept so that trials which have ended are not lost to an exception."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator

from ..store.text import clean


class Problems:
    """Lines, each of them once."""

    def __init__(self, lines: Iterable[str] = ()) -> None:
        self.lines = list(lines)

    def add(self, line: str) -> None:
        """Add a line, unless it is there."""
        if line not in self.lines:
            self.lines.append(line)

    @contextlib.contextmanager
    def noting(self, step: str) -> Iterator[None]:
        """Swallow what goes wrong inside, and add a line about it."""
        try:
            yield
        except Exception as error:
            self.add(f"{step}: {clean(str(error) or type(error).__name__, 500)}")
