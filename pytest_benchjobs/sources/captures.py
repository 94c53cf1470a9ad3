"""Captured runs: the events of one run of an agent, and the outcome that was recorded with them.

    {"events": [{"kind": "llm", "ts": 0, "duration_ms": 900, "text": "I look at the file."},
                {"kind": "tool", "ts": 900, "name": "bash", "args": {"command": "cat in.txt"}, "result": "1 2 3"}],
     "outcome": {"success": true}}

A file may come from anywhere, so nothing in it is trusted but its shape. `ts` is a number of milliseconds or a time in
ISO 8601. Whether a run succeeded is unknown if the file does not say.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, StrictStr, model_validator

from ..model.base import Model
from ..model.errors import InputError
from .documents import parse_document, read_text
from .plain import Place, dotted

FILE_LIMIT = 64 << 20
"""The most bytes of a file."""
EVENT_LIMIT = 100_000
_DEPTH = 100
_KIND = re.compile(r"[a-z][a-z0-9_.-]{0,49}")
_STRING_OR_CONSTANT = re.compile(r'"(?:[^"\\]|\\.)*"|(NaN|-?Infinity)', re.DOTALL)
_QUOTED = 100


@dataclasses.dataclass(frozen=True, slots=True)
class CapturedEvent:
    """One event of a run."""

    kind: str
    """`llm`, `tool`, `decision`, or any other word."""
    at_ms: float | None
    """Time of the event; None: unknown."""
    duration_ms: float | None
    data: Mapping[str, Any]
    """All of it, as it was captured."""


@dataclasses.dataclass(frozen=True, slots=True)
class Capture:
    """One run."""

    events: Sequence[CapturedEvent]
    success: bool | None
    """Recorded outcome; None: unknown."""
    duration_ms: float | None
    """Time between its first and its last event, unless it says itself; None: unknown."""
    problem: str | None
    """Task of the agent, if it says."""

    @property
    def kinds(self) -> dict[str, int]:
        """Number of events by kind."""
        return dict(sorted(Counter(event.kind for event in self.events).items()))


class Check(Model):
    """A bound for what happened in a run: for the number of some events, or for their seconds."""

    kind: StrictStr | None = None
    """Kind of the events; None: any."""
    where: dict[StrictStr, Any] = {}
    """Values that the events have: key -> value, with points between nested keys."""
    contains: Annotated[StrictStr, Field(min_length=1)] | None = None
    """Text within any text of the events."""
    measure: Literal["count", "seconds"] = "count"
    """`seconds`: the sum of their durations; without `kind`, `where` and `contains`, the duration of the run."""
    min: Annotated[float, Field(ge=0)] | None = None
    max: Annotated[float, Field(ge=0)] | None = None

    @model_validator(mode="after")
    def _is_a_bound(self) -> Self:
        if self.measure == "seconds" and self.min is None and self.max is None:
            raise ValueError("measure: seconds needs min, max or both")
        if self.min is not None and self.max is not None and self.min > self.max:
            raise ValueError("min is above max")
        return self

    @property
    def bounds(self) -> tuple[float, float]:
        """Least and most. Without any bound, one event is needed."""
        least = self.min if self.min is not None else (0.0 if self.max is not None else 1.0)
        return least, math.inf if self.max is None else self.max

    def measured(self, capture: Capture) -> float | None:
        """Count or seconds of a run; None: unknown."""
        if self.measure == "seconds" and self.kind is None and not self.where and self.contains is None:
            return None if capture.duration_ms is None else capture.duration_ms / 1000
        events = [event for event in capture.events if self._means(event)]
        if self.measure == "count":
            return len(events)
        times = [event.duration_ms for event in events if event.duration_ms is not None]
        return math.fsum(times) / 1000 if len(times) == len(events) else None

    def _means(self, event: CapturedEvent) -> bool:
        return (
            (self.kind is None or event.kind == self.kind)
            and all(_is(_at(event.data, key), value) for key, value in self.where.items())
            and (self.contains is None or any(self.contains in text for text in _texts(event.data)))
        )

    def __str__(self) -> str:
        where = [f"{key}={json.dumps(value)}" for key, value in self.where.items()]
        what = [*([self.kind] if self.kind else []), *where]
        what += [f"contains {json.dumps(self.contains)}"] if self.contains is not None else []
        return f"{self.measure} of {' '.join(what) or ('events' if self.measure == 'count' else 'the run')}"


def read_capture(path: Path) -> Capture:
    """Read a captured run. Raises InputError: the file cannot be read, or is not one."""
    text = read_text(path, limit=FILE_LIMIT)
    try:
        data = json.loads(text, parse_constant=_no_number, object_pairs_hook=_no_key_twice)
    except json.JSONDecodeError as error:
        raise InputError(
            f"is not JSON: {error.msg} (column {error.colno}, offset {error.pos})",
            path=path,
            line=error.lineno,
            column=error.colno,
        ) from None
    except _NotPlain as error:
        raise InputError(str(error), path=path, line=_line_of(path, text, error)) from None
    except RecursionError:
        raise InputError("is nested too deeply", path=path) from None
    except ValueError as error:
        raise InputError(f"is not JSON: {str(error)[:200]}", path=path) from None
    try:
        return _capture(data)
    except _Misshapen as error:
        why = f"{error}; a captured run is expected: events, and an outcome"
        raise InputError(why, path=path, line=_line(path, text, error.place)) from None


class _Misshapen(ValueError):
    def __init__(self, place: Place, message: str) -> None:
        super().__init__(f"{dotted(place)}: {message}" if place else message)
        self.place = place


def _line(path: Path, text: str, place: Place) -> int | None:
    """Return the line of a value, or of what it should be in; the file is parsed once more for that."""
    try:
        return parse_document(path, text, keys="").line(place) or 1
    except InputError:
        return None


def _capture(data: Any) -> Capture:
    if not isinstance(data, dict):
        raise _Misshapen((), "is no object")
    events = data.get("events")
    if not isinstance(events, list):
        raise _Misshapen(("events",), "a list is expected")
    if len(events) > EVENT_LIMIT:
        raise _Misshapen(("events",), f"there are {len(events)}, more than {EVENT_LIMIT}")
    if _is_deep(data):
        raise _Misshapen((), f"is nested more than {_DEPTH} levels deep")
    found = tuple(_event(("events", number), event) for number, event in enumerate(events))
    times = [event.at_ms for event in found if event.at_ms is not None]
    duration = _milliseconds(("duration_ms",), data.get("duration_ms"))
    if duration is None and times and len(times) == len(found):
        duration = max(times) - min(times)
    problem = data.get("problem")
    return Capture(
        events=found,
        success=_success(data.get("outcome")),
        duration_ms=duration,
        problem=problem if isinstance(problem, str) and problem.strip() else None,
    )


def _event(place: Place, event: Any) -> CapturedEvent:
    if not isinstance(event, dict):
        raise _Misshapen(place, "an object is expected")
    kind = event.get("kind")
    if not isinstance(kind, str) or _KIND.fullmatch(kind) is None:
        raise _Misshapen(
            (*place, "kind"), f"llm, tool, decision or another word is expected, not {_shown(kind)}"
        )
    return CapturedEvent(
        kind=kind,
        at_ms=_time((*place, "ts"), event.get("ts")),
        duration_ms=_milliseconds((*place, "duration_ms"), event.get("duration_ms")),
        data=event,
    )


def _success(outcome: Any) -> bool | None:
    if outcome is None:
        return None
    success = outcome.get("success") if isinstance(outcome, dict) else outcome
    if isinstance(outcome, dict) and (success is None or isinstance(success, bool)):
        return success
    raise _Misshapen(("outcome", "success"), f"true or false is expected, not {_shown(success)}")


def _time(place: Place, value: Any) -> float | None:
    if isinstance(value, str):
        try:
            at = datetime.datetime.fromisoformat(value)
        except ValueError:
            raise _Misshapen(
                place, f"a time in ISO 8601 or a number of milliseconds is expected, not {_shown(value)}"
            ) from None
        return (at if at.tzinfo is not None else at.replace(tzinfo=datetime.UTC)).timestamp() * 1000
    return _number(place, value)


def _milliseconds(place: Place, value: Any) -> float | None:
    number = _number(place, value)
    if number is not None and number < 0:
        raise _Misshapen(place, f"it is below 0: {_shown(value)}")
    return number


def _number(place: Place, value: Any) -> float | None:
    if value is None:
        return None
    if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e18:
        return float(value)
    raise _Misshapen(place, f"a number is expected, not {_shown(value)}")


def _shown(value: Any) -> str:
    return "nothing" if value is None else repr(value)[:_QUOTED]


class _NotPlain(ValueError):
    def __init__(self, message: str, constant: str | None = None) -> None:
        super().__init__(message)
        self.constant = constant


def _no_number(name: str) -> Any:
    raise _NotPlain(f"is not JSON: {name} is no number", name)


def _no_key_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = Counter(key for key, _ in pairs).most_common(1)[0][0]
        raise _NotPlain(
            f"has the key {twice[:_QUOTED]!r} twice in one object, so it is not clear which counts"
        )
    return found


def _line_of(path: Path, text: str, error: _NotPlain) -> int | None:
    if error.constant is None:
        with contextlib.suppress(InputError):  # JSON is YAML, whose reader tells where a key is given again
            return next(
                (twice.line for twice in parse_document(path.with_suffix(".yaml"), text, keys="").errors),
                None,
            )
        return None
    found = next((match for match in _STRING_OR_CONSTANT.finditer(text) if match[1] == error.constant), None)
    return None if found is None else text.count("\n", 0, found.start()) + 1


def _is_deep(data: Any) -> bool:
    """Tell whether a value is too deep for what reads it later. Without recursion."""
    level = [data]
    for _ in range(_DEPTH):
        level = [
            item
            for value in level
            if isinstance(value, dict | list)
            for item in (value.values() if isinstance(value, dict) else value)
        ]
        if not level:
            return False
    return any(isinstance(value, dict | list) for value in level)


def _at(data: Any, key: str) -> Any:
    if isinstance(data, Mapping) and key in data:
        return data[key]
    for part in key.split("."):
        data = data.get(part) if isinstance(data, Mapping) else None
    return data


def _is(found: Any, wanted: Any) -> bool:
    return type(found) is type(wanted) and found == wanted


def _texts(data: Any) -> Iterator[str]:
    """Yield every text in a value, keys left out."""
    if isinstance(data, str):
        yield data
    elif isinstance(data, Mapping | list):
        for item in data.values() if isinstance(data, Mapping) else data:
            yield from _texts(item)


class Checks(Model):
    """Parameters of a scorer of captured runs: one of the two."""

    outcome: Literal[True] | None = None
    """1 for a run that succeeded by its own record, 0 for one that did not."""
    checks: Annotated[tuple[Check, ...], Field(max_length=1000)] = ()
    """The share of checks that hold."""

    @model_validator(mode="after")
    def _one(self) -> Self:
        if bool(self.outcome) is bool(self.checks):
            raise ValueError("give outcome: true, or checks")
        return self
