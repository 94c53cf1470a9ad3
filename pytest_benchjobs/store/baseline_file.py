"""`baseline.json`, a committed baseline: written for readable diffs, read strictly."""

from __future__ import annotations

import bisect
import hashlib
import json
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from ..model.baseline import BaselineChecksum, BaselineFile, BaselineScenario
from ..model.errors import InputError, InputErrors
from ..sources.complaints import MAX_SHOWN, in_words
from ..sources.documents import read_text
from ..sources.plain import Place, dotted
from .text import clean, one_line

_LIMIT = 256 << 20
_VERSION = "1:"
"""Changes with anything that changes the digest of the same scenarios. Digests of another version are not checked."""
_BLANK = re.compile(r"[ \t\r\n]*")
_AnyModel = TypeVar("_AnyModel", bound=BaseModel)


class JsonFile:
    """A JSON file with an object at the top, with the line of each key and list item."""

    def __init__(self, path: Path) -> None:
        """Read the file. Raises InputError: it cannot be read, is too large, or is not JSON; with the line."""
        self.path = path
        self.data: dict[str, Any] = {}
        self._text = read_text(path, limit=_LIMIT)
        self._ends: list[int] = []
        self._places: dict[Place, int] = {}
        self._decoder = json.JSONDecoder(object_pairs_hook=_table, parse_constant=_no_number)
        self._read()

    def checked(self, model: type[_AnyModel], data: object = None, place: Place = ()) -> _AnyModel:
        """Validate the data, or a part of it, as a model. Raises InputErrors: what is wrong with it, with lines."""
        try:
            return model.model_validate(self.data if data is None else data)
        except ValidationError as error:
            raise self.wrong(
                (
                    (*place, *problem["loc"]),
                    problem["msg"].removeprefix("Value error, ")
                    if problem["type"] == "value_error"
                    else in_words(problem),
                )
                for problem in error.errors(include_url=False)
            ) from None

    def wrong(self, mistakes: Iterable[tuple[Place, str]]) -> InputErrors:
        """Return the error for mistakes at these places."""
        listed = list(mistakes)
        errors = [
            InputError(
                one_line(f"{dotted(place)}: {message}" if place else message, 500),
                path=self.path,
                line=self.line(place),
            )
            for place, message in listed[:MAX_SHOWN]
        ]
        if len(listed) > MAX_SHOWN:
            errors.append(InputError(f"... and {len(listed) - MAX_SHOWN} more", path=self.path))
        return InputErrors(errors)

    def line(self, place: Place) -> int:
        """Return the line of a place, or of the nearest enclosing one."""
        for length in range(len(place), 0, -1):
            if place[:length] in self._places:
                return self._line(self._places[place[:length]])
        return 1

    def _read(self) -> None:
        position = self._skip(0)
        if self._text[position : position + 1] != "{":
            raise self._error("a table of keys is expected at the top of the file", position)
        position = self._items(position, "}", self._pair)
        if position != len(self._text):
            raise self._error("nothing is expected behind the table", position)

    def _items(self, position: int, end: str, read: Callable[[int], int]) -> int:
        """Read the items of a table or list up to its last bracket; `read` returns where an item ends."""
        position = self._skip(position + 1)
        while self._text[position : position + 1] != end:
            after = self._skip(read(position))
            position = self._skip(after + 1)
            sign = self._text[after : after + 1]
            if sign == end:
                return position
            if sign != "," or self._text[position : position + 1] == end:
                raise self._error(f"a comma or {end} is expected", after)
        return self._skip(position + 1)

    def _pair(self, position: int) -> int:
        key, after = self._value(position)
        if not isinstance(key, str):
            raise self._error("a key in quotes is expected", position)
        if key in self.data:
            raise self._error(f"{one_line(key, 100)!r} is there twice", position)
        self._places[key,] = position
        after = self._skip(after)
        if self._text[after : after + 1] != ":":
            raise self._error("a colon is expected", after)
        after = self._skip(after + 1)
        if self._text[after : after + 1] != "[":
            self.data[key], after = self._value(after)
            return after
        items = self.data[key] = []

        def read(position: int) -> int:
            self._places[key, len(items)] = position
            item, after = self._value(position)
            items.append(item)
            return after

        return self._items(after, "]", read)

    def _value(self, position: int) -> tuple[Any, int]:
        try:
            return self._decoder.raw_decode(self._text, position)
        except json.JSONDecodeError as error:
            raise self._error(f"is not valid JSON: {error.msg}", error.pos) from None
        except RecursionError:
            raise self._error("is nested too deeply", position) from None
        except ValueError as error:
            # Raised by the hooks below; or for a number with thousands of digits.
            raise self._error(one_line(str(error).partition(";")[0], 200), position) from None

    def _skip(self, position: int) -> int:
        found = _BLANK.match(self._text, position)
        return position if found is None else found.end()

    def _error(self, message: str, position: int) -> InputError:
        return InputError(message, path=self.path, line=self._line(position))

    def _line(self, position: int) -> int:
        if not self._ends:
            self._ends = [found.start() for found in re.finditer("\n", self._text)]
        return bisect.bisect_left(self._ends, position) + 1


def baseline_of(file: JsonFile) -> BaselineFile:
    """Validate the content of a `baseline.json`.

    Raises InputErrors: everything that is wrong with it, with file and line.
    """
    found = file.checked(BaselineFile)
    mistakes: list[tuple[Place, str]] = [
        ((name,), "has characters that are no text")
        for name in ("name", "jobs", "branch", "commit", "reason", "ran_on")
        if not _is_clean(getattr(found, name))
    ]
    seen: dict[tuple[str, str, str], int] = {}
    for index, scenario in enumerate(found.scenarios):
        place: Place = ("scenarios", index)
        if not all(_is_clean(value) for _, value in scenario):
            mistakes.append((place, "has characters that are no text"))
        elif scenario.key in seen:
            first = file.line(("scenarios", seen[scenario.key]))
            mistakes.append((place, f"line {first} is about the same scenario and agent; remove one"))
        seen.setdefault(scenario.key, index)
    if not mistakes and (why := _changed(found)) is not None:
        mistakes.append((("checksum",), why))
    if mistakes:
        raise file.wrong(mistakes)
    return found


def baseline_json(file: BaselineFile) -> bytes:
    """Return the whole file, UTF-8: a line for each scenario, sorted by name."""
    lines = _lines(file.scenarios)
    head = json.dumps(
        {
            "format": file.format,
            "schema_version": file.schema_version,
            **file.model_dump(
                exclude={"format", "schema_version", "checksum", "scenarios"}, exclude_none=True
            ),
            "checksum": _checksum(lines).model_dump(),
        },
        indent=1,
        ensure_ascii=False,
    ).removesuffix("\n}")
    body = ",\n  ".join(lines)
    return f'{head},\n "scenarios": [\n  {body}\n ]\n}}\n'.encode()


def _lines(scenarios: Iterable[BaselineScenario]) -> list[str]:
    return [
        json.dumps(scenario.model_dump(exclude_defaults=True), ensure_ascii=False)
        for scenario in sorted(scenarios, key=lambda scenario: scenario.key)
    ]


def _checksum(lines: Sequence[str]) -> BaselineChecksum:
    digest = hashlib.blake2b("\n".join(lines).encode(), digest_size=16)
    return BaselineChecksum(scenarios=len(lines), digest=f"{_VERSION}{digest.hexdigest()}")


def _changed(file: BaselineFile) -> str | None:
    """Return how the scenarios differ from those that were written; None if they do not, or nothing tells."""
    written = file.checksum
    if written is None or not written.digest.startswith(_VERSION):
        return None
    here = _checksum(_lines(file.scenarios))
    if here == written:
        return None
    how = "scenarios were changed after they had been written"
    if here.scenarios != written.scenarios:
        how = f"{written.scenarios} scenarios were written, and {here.scenarios} are here"
    return (
        f"{how}; `benchjobs baseline export` writes the file anew, and without this key it is taken as it is"
    )


def _is_clean(value: object) -> bool:
    """Return whether a text, each in a list, or each key of a table, is as the history would store it."""
    if isinstance(value, tuple | dict):
        return all(map(_is_clean, value))
    return not isinstance(value, str) or clean(value) == value


def _table(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"{one_line(twice, 100)!r} is there twice")
    return table


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is no number that can be used")
