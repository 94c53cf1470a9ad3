"""The marker `bench_known`: made from entries of the known-failures file, and parsed again."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING

import pytest

from ..model.errors import InputError
from ..model.known_failure import Known

if TYPE_CHECKING:
    from ..settings.known import Entry

MARK = "bench_known"


class KnownMarkers:
    """Parsed markers `bench_known`. Each is parsed once, as it may be on many items."""

    def __init__(self) -> None:
        self._of_entries: dict[int, pytest.MarkDecorator] = {}
        self._said: dict[int, tuple[pytest.Mark, Known]] = {}
        """Mark and content by `id()` of the mark. The reference to the mark keeps the id unique."""

    def of(self, entry: Entry) -> pytest.MarkDecorator:
        """Return the marker of an entry."""
        known = entry.known
        if id(entry) not in self._of_entries:
            made: pytest.MarkDecorator = getattr(pytest.mark, MARK)(
                reason=known.reason,
                until=str(known.until),
                issue=known.issue,
                mode=known.mode.value,
                strict=known.strict,
            )
            self._of_entries[id(entry)] = made
            self._said[id(made.mark)] = (made.mark, known)
        return self._of_entries[id(entry)]

    def read(self, mark: pytest.Mark) -> Known:
        """Return the content of a marker.

        Raises:
            InputError: it is wrong.
        """
        if id(mark) not in self._said:
            from ..settings.known import read_marker

            if mark.args:
                raise InputError(
                    "it takes keywords only: reason=..., until=..., issue=..., mode=..., strict=..."
                )
            self._said[id(mark)] = (mark, read_marker(mark.kwargs, datetime.date.today()))
        return self._said[id(mark)][1]
