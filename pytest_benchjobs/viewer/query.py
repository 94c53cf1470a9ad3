"""Parameters of a request, which come from anyone: known names only, of bounded size, each parsed strictly."""

from __future__ import annotations

import base64
import binascii
import contextlib
import json
import re
from collections.abc import Iterable
from typing import Any

from ..sources.complaints import did_you_mean
from ..store.listing import NUMBERS, SIGNS, Place, Wanted
from ..store.text import quoted

VALUES = 100
"""Most parameters of a request."""
LENGTH = 4000
"""Most characters of a value. Node ids are the longest."""
_WORDS = 8
_FILTERS = {
    "benchmark": "benchmarks",
    "agent": "agents",
    "model": "models",
    "status": "statuses",
    "branch": "branches",
    "tag": "tags",
}
"""Name of a parameter -> field of `Wanted`."""
FILTERS = ("q", *_FILTERS, "where")
PAGING = ("sort", "order", "after", "limit")


class Refused(Exception):
    """A request that is refused, with the status of HTTP and a message for people."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


class Query:
    """Parameters of a request.

    Args:
        pairs: Names and values.
        known: Names that the request may have.
    """

    def __init__(self, pairs: Iterable[tuple[str, str]], known: Iterable[str]) -> None:
        names = tuple(known)
        self._values: dict[str, list[str]] = {}
        for number, (name, value) in enumerate(pairs):
            if number >= VALUES:
                raise Refused(414, f"more than {VALUES} parameters")
            if name not in names:
                raise Refused(
                    400,
                    f"unknown parameter {quoted(name)};{did_you_mean(name, names)} known are {_list(names)}",
                )
            if len(value) > LENGTH:
                raise Refused(414, f"{name} is longer than {LENGTH} characters")
            if "\0" in value:
                raise Refused(400, f"{name} is no text")
            self._values.setdefault(name, []).append(value)

    def text(self, name: str) -> str | None:
        """Return the value of a parameter, the last one; None if it is absent or empty."""
        return self._values.get(name, [""])[-1] or None

    def needed(self, name: str) -> str:
        """Return the value of a parameter."""
        value = self.text(name)
        if value is None:
            raise Refused(400, f"the parameter {name} is missing")
        return value

    def texts(self, name: str) -> tuple[str, ...]:
        """Return all values of a parameter, without empty ones."""
        return tuple(dict.fromkeys(value for value in self._values.get(name, ()) if value))

    def number(self, name: str, default: int, low: int, high: int) -> int:
        """Return a whole number."""
        value = self.text(name)
        if value is None:
            return default
        digits = value.removeprefix("-")
        if not (digits.isascii() and digits.isdigit() and len(digits) < 16) or not low <= int(value) <= high:
            raise Refused(400, f"{name} {quoted(value)} is not a whole number from {low} to {high}")
        return int(value)

    def choice(self, name: str, default: str, choices: Iterable[str]) -> str:
        """Return one of `choices`."""
        value = self.text(name) or default
        names = tuple(choices)
        if value not in names:
            raise Refused(
                400, f"{name} {quoted(value)};{did_you_mean(value, names)} valid are {_list(names)}"
            )
        return value

    def descending(self, default: str) -> bool:
        """Return whether the order is descending."""
        return self.choice("order", default, ("asc", "desc")) == "desc"

    def wanted(self, job: str | None = None) -> Wanted:
        """Return the filter of jobs and runs."""
        words = tuple((self.text("q") or "").split())
        if len(words) > _WORDS:
            raise Refused(400, f"q has more than {_WORDS} words")
        jobs = () if job is None else (job,)
        filters: dict[str, Any] = {field: self.texts(name) for name, field in _FILTERS.items()}
        limits = tuple(map(_limit, self.texts("where")))
        return Wanted(words=words, jobs=jobs, limits=limits, **filters)

    def place(self) -> Place | None:
        """Return the sort key of `after`."""
        value = self.text("after")
        if value is None:
            return None
        try:
            found: Any = json.loads(base64.urlsafe_b64decode(value.encode() + b"=" * (-len(value) % 4)))
        except (binascii.Error, ValueError, RecursionError):
            found = None
        if not isinstance(found, list) or not all(map(_sound, found)):
            raise Refused(400, "after is not what `next` of a page was")
        return found


_LIMIT = re.compile(rf"({'|'.join(NUMBERS)})({'|'.join(SIGNS)})(-?[0-9.]{{1,20}})")


def _limit(text: str) -> tuple[str, str, float]:
    """Parse a comparison of a run with a number."""
    found = _LIMIT.fullmatch(text)
    with contextlib.suppress(ValueError):
        if found is not None:
            return found[1], found[2], float(found[3])
    raise Refused(
        400,
        f"where {quoted(text)} is not NAME, a sign and a number, as in score<0.5; names are {_list(NUMBERS)}",
    )


def as_cursor(place: Place | None) -> str | None:
    """Return a sort key as the value of `after`."""
    if place is None:
        return None
    return base64.urlsafe_b64encode(json.dumps(list(place)).encode()).decode().rstrip("=")


def _sound(value: object) -> bool:
    """Tell whether a value can be bound in a query."""
    if isinstance(value, bool):
        return False
    if isinstance(value, int):
        return -(2**63) <= value < 2**63
    if isinstance(value, str):
        return not any("\ud800" <= char <= "\udfff" for char in value)
    return value is None or isinstance(value, float)


def _list(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"
