"""Building plain data from the events of a YAML parser.

Not a PyYAML loader: no tag can create an object, repeated keys are found, aliases cannot exhaust memory, and lines are
known. Numbers and booleans are those of YAML 1.1, except that values which people do not mean as numbers stay text:
dates, `12:30` and `0755`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ..model.errors import InputError
from .plain import MAX_DEPTH, MAX_DIGITS, Place, unfit

MAX_VALUES = 2_000_000
"""The most values in one file, with every alias expanded."""

_WORDS: dict[str, Any] = {
    form: value
    for value, words in {
        True: ("true", "yes", "on"),
        False: ("false", "no", "off"),
        None: ("null",),
    }.items()
    for word in words
    for form in (word, word.title(), word.upper())
} | {"~": None, "": None}
_INT = re.compile(r"[-+]?(?:0|[1-9][0-9_]*)\Z|0x[0-9a-fA-F]+\Z|0o[0-7]+\Z")
_FLOAT = re.compile(r"[-+]?(?:[0-9][0-9_]*\.[0-9_]*|\.[0-9]+|[0-9]+(?=[eE]))(?:[eE][-+]?[0-9]+)?\Z")
_NOT_FINITE = re.compile(r"(?i)[-+]?\.inf\Z|\.nan\Z")


class YamlBuilder:
    """Builder of plain data from YAML events."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.errors: list[InputError] = []
        self._lines: dict[int, dict[str | int, int]] = {}
        # The `id` of a container is unique as long as the container lives.
        self._keep: list[dict[str, Any] | list[Any]] = []
        self._anchors: dict[str, tuple[Any, int]] = {}
        self._values = 0
        self._plain: dict[str, Any] = {}

    def document(self, events: Iterator[Any]) -> Any:
        """The only document of a stream, None when there is none."""
        from yaml import events as kinds

        self._kinds = kinds
        self._next: Callable[[], Any] = events.__next__
        data = None
        documents = 0
        for event in events:
            if type(event) is kinds.DocumentStartEvent:
                documents += 1
                if documents > 1:
                    raise self._error("holds more than one document (`---`); make it one file each", event)
                data = self._value(self._next(), 0)
        if self._anchors and self._height(data) > MAX_DEPTH:
            raise InputError("is nested too deeply, by aliases", path=self.path)
        return data

    def _height(self, value: object) -> int:
        known: dict[int, int] = {}
        # A child is always finished before its container, so this walks `_keep` instead of the stack.
        for container in self._keep:
            items = container.values() if isinstance(container, dict) else container
            heights = [known[id(item)] for item in items if isinstance(item, dict | list)]
            known[id(container)] = 1 + max(heights, default=0)
        return known.get(id(value), 0)

    def line(self, data: object, place: Place) -> int | None:
        """Line of a place."""
        line = None
        for part in place:
            line = self._lines.get(id(data), {}).get(part)
            if line is None:
                return None
            data = data[part]  # type: ignore[index]  # `_lines` has it: a container
        return line

    def _error(self, message: str, event: Any) -> InputError:
        return InputError(message, path=self.path, line=event.start_mark.line + 1)

    def _value(self, event: Any, depth: int) -> Any:
        kinds = self._kinds
        self._values += 1
        kind = type(event)
        if kind is kinds.ScalarEvent:
            before = self._values - 1
            value = self._scalar(event)
        elif kind is kinds.AliasEvent:
            if event.anchor not in self._anchors:
                raise self._error(
                    f"*{event.anchor} comes before its anchor &{event.anchor}, or inside of it", event
                )
            value, size = self._anchors[event.anchor]
            self._values += size
            if self._values > MAX_VALUES:
                raise self._error("aliases make this file too large", event)
            return value
        else:
            before = self._values - 1
            if depth >= MAX_DEPTH:
                raise self._error("is nested too deeply", event)
            usual = "seq" if kind is kinds.SequenceStartEvent else "map"
            if event.tag not in (None, f"tag:yaml.org,2002:{usual}"):
                self.errors.append(self._error(f"the tag {event.tag!r} is not supported; remove it", event))
            value = self._sequence(depth) if kind is kinds.SequenceStartEvent else self._mapping(depth)
        if event.anchor is not None:
            self._anchors[event.anchor] = (value, self._values - before)
        return value

    def _sequence(self, depth: int) -> list[Any]:
        end = self._kinds.SequenceEndEvent
        items: list[Any] = []
        lines: dict[str | int, int] = {}
        while type(event := self._next()) is not end:
            lines[len(items)] = event.start_mark.line + 1
            items.append(self._value(event, depth + 1))
        self._remember(items, lines)
        return items

    def _mapping(self, depth: int) -> dict[str, Any]:
        end = self._kinds.MappingEndEvent
        table: dict[str, Any] = {}
        lines: dict[str | int, int] = {}
        merged: list[dict[str, Any]] = []
        while type(event := self._next()) is not end:
            key = self._value(event, depth + 1)
            value = self._value(self._next(), depth + 1)
            if key == "<<" and getattr(event, "implicit", (False,))[0]:
                merged += self._to_merge(value, event)
            elif not isinstance(key, str):
                self.errors.append(self._error(self._not_a_key(event, key), event))
            elif key in table:
                message = f"the key {key!r} is given twice in one table (first in line {lines[key]})"
                self.errors.append(self._error(message, event))
            else:
                table[key] = value
                lines[key] = event.start_mark.line + 1
        for source in merged:
            for key, value in source.items():
                if key not in table:
                    table[key] = value
                    lines[key] = self._lines[id(source)][key]
        self._remember(table, lines)
        return table

    def _remember(self, container: dict[str, Any] | list[Any], lines: dict[str | int, int]) -> None:
        self._lines[id(container)] = lines
        self._keep.append(container)

    def _to_merge(self, value: Any, event: Any) -> list[dict[str, Any]]:
        sources = value if isinstance(value, list) else [value]
        if not all(isinstance(source, dict) for source in sources):
            self.errors.append(self._error("`<<` takes a table, or a list of tables", event))
            return []
        return sources

    @staticmethod
    def _not_a_key(event: Any, key: object) -> str:
        if isinstance(key, list | dict):
            return "a key must be a single word, not a list or table"
        if key is None:
            return "a key is missing before ':'"
        read_as = str(key).lower() if isinstance(key, bool) else f"the number {key}"
        return f"YAML reads the key {event.value!r} as {read_as}; put it in quotes"

    def _scalar(self, event: Any) -> Any:
        text = event.value
        if event.tag is not None and event.tag not in ("tag:yaml.org,2002:str", "!"):
            self.errors.append(self._error(f"the tag {event.tag!r} is not supported; remove it", event))
            return text
        if event.implicit[0]:  # a plain scalar
            try:
                return self._plain[text]
            except KeyError:
                pass
            value = self._resolve(text, event)
            self._plain[text] = value
            return value
        if event.style == '"':  # the only style that can write characters which cannot be encoded or stored
            problem = unfit(text) if "\0" in text else None
            if problem is None and not text.isascii() and any("\ud800" <= char <= "\udfff" for char in text):
                problem = "contains half of a surrogate pair"
            if problem is not None:
                self.errors.append(self._error(problem, event))
                return ""
        return text

    def _resolve(self, text: str, event: Any) -> Any:
        if text in _WORDS:
            return _WORDS[text]
        if text[0] not in "0123456789+-.":
            return text
        if _INT.match(text):
            digits = text.replace("_", "")
            if len(digits) > MAX_DIGITS + 1:
                self.errors.append(
                    self._error("the number is too large; put it in quotes if it is text", event)
                )
                return 0
            return int(digits, 0)
        if _FLOAT.match(text) or _NOT_FINITE.match(text):
            number = math.inf if _NOT_FINITE.match(text) else float(text.replace("_", ""))
            problem = unfit(number)
            if problem is not None:
                self.errors.append(self._error(problem, event))
                return 0
            return number
        return text
