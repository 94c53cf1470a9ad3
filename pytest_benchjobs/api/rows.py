"""Rows of the history: filters of them, an iterable, a table for a data frame, and one for a notebook."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import html
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, Generic, TypeVar

from ..model.errors import InputError
from ..sources.complaints import did_you_mean
from ..store.text import one_line

_SHOWN = 20
_CELL_LIMIT = 80
AnyRow = TypeVar("AnyRow")


class Rows(Generic[AnyRow]):
    """Jobs, runs or trials: to be iterated, as often as one likes, or taken as a table.

    They are read anew each time, a page at a time. In a notebook it shows the first of them.
    """

    def __init__(
        self, kind: type[AnyRow], read: Callable[[], Iterator[AnyRow]], shown: Sequence[str]
    ) -> None:
        self._kind = kind
        self._read = read
        self._shown = shown

    def __iter__(self) -> Iterator[AnyRow]:
        return self._read()

    def table(self) -> dict[str, list[Any]]:
        """Columns by name, as `pandas.DataFrame` and `polars.DataFrame` take them. Unknown is None, times are UTC."""
        columns: dict[str, list[Any]] = {name: [] for name in names_of(self._kind)}
        for row in self:
            for name, column in columns.items():
                value = getattr(row, name)
                column.append(list(value) if isinstance(value, tuple) else value)
        return {name.rstrip("_"): column for name, column in columns.items()}

    def _repr_html_(self) -> str:
        rows: list[str] = []
        more = ""
        for row in self:
            if len(rows) == _SHOWN:
                more = "<p>and more</p>"
                break
            rows.append("".join(f"<td>{cell(getattr(row, name))}</td>" for name in self._shown))
        head = "".join(f"<th>{name.rstrip('_')}</th>" for name in self._shown)
        body = "".join(f"<tr>{row}</tr>" for row in rows)
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


def names_of(kind: Any) -> list[str]:
    """Names of the fields of a kind of row, or of a row."""
    return [field.name for field in dataclasses.fields(kind) if not field.name.startswith("_")]


def cell(value: object) -> str:
    """A value as HTML."""
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, datetime.datetime):
        return f"{value:%Y-%m-%d %H:%M:%S}"
    return html.escape(one_line(str(value), _CELL_LIMIT))


def several(texts: Collection[str], valid: type[enum.StrEnum], what: str) -> tuple[str, ...]:
    """Words of `valid`; a text alone is one of them, not a collection of letters.

    Raises:
        InputError: there is no such word.
    """
    words = (texts,) if isinstance(texts, str) else tuple(texts)
    known = [one.value for one in valid]
    for word in words:
        if word not in known:
            hint = did_you_mean(str(word), known)
            raise InputError(f"there is no {what} {word!r};{hint} valid are {', '.join(known)}")
    return words


def instant(since: datetime.datetime | datetime.timedelta | None) -> datetime.datetime | None:
    """A time, or so long ago.

    Raises:
        TypeError: it is neither.
    """
    if isinstance(since, datetime.timedelta):
        return datetime.datetime.now(datetime.UTC) - since
    if since is None or isinstance(since, datetime.datetime):
        return since
    raise TypeError(f"since has to be a datetime, or a timedelta for so long ago, not {since!r}")
