"""Plain data, as in JSON: notation of places, and checks of values."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

Place = tuple[str | int, ...]
"""Path of a value in a document: keys and indexes, from the top."""

MAX_DEPTH = 50
MAX_DIGITS = 18


def dotted(place: Place) -> str:
    """`scenarios[2].scorers[0].weight`."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place)
    return text.removeprefix(".")


def table_of(value: object) -> dict[str, Any]:
    """Return a table; an empty one for anything else."""
    return value if isinstance(value, dict) else {}


def unfit(value: object) -> str | None:
    """Reason why a single value is invalid, if it is."""
    if isinstance(value, str):
        return "contains a NUL character" if "\0" in value else None
    if isinstance(value, float):
        return None if math.isfinite(value) else "NaN and infinity are not numbers this file can use"
    if isinstance(value, int) and abs(value) >= 10**MAX_DIGITS:
        return "the number is too large"
    return None


def faults_of_plain(data: object) -> Iterator[tuple[Place, str]]:
    """Places whose value no file can have, and why: a NaN, a number too large, a NUL, anything nested too deeply."""
    left: list[tuple[Place, object]] = [((), data)]
    while left:
        place, value = left.pop()
        if len(place) > MAX_DEPTH:
            yield place[:MAX_DEPTH], "is nested too deeply"
        elif isinstance(value, dict):
            left.extend(((*place, key), item) for key, item in value.items())
            yield from (((*place, key), problem) for key in value if (problem := unfit(key)))
        elif isinstance(value, list):
            left.extend(((*place, index), item) for index, item in enumerate(value))
        elif problem := unfit(value):
            yield place, problem
