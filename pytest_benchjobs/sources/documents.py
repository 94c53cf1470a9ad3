"""Read a YAML or TOML file into plain data (what JSON can say), knowing the line of everything in it.

YAML is built from parser events rather than by a PyYAML loader: no tag can make an object, a key given twice is seen,
an alias cannot blow up the file, and lines come for free. Numbers and booleans are those of YAML 1.1, except that what
people do not mean as a number stays text: dates, `12:30` and `0755`.
"""

from __future__ import annotations

import datetime
import math
import re
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ..model.errors import InputError
from .toml_lines import toml_lines

Place = tuple[str | int, ...]
"""Where something is in a document: keys and indexes, from the top."""

MAX_BYTES = 16 << 20
MAX_DEPTH = 50
MAX_VALUES = 2_000_000
"""Values in one file with every alias written out."""
_MAX_DIGITS = 18

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


def dotted(place: Place) -> str:
    """`scenarios[2].scorers[0].weight`."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place)
    return text.removeprefix(".")


class Document:
    """The plain data of one file, and where in the file each part of it is."""

    def __init__(
        self,
        path: Path,
        data: dict[str, Any],
        line: Callable[[Place], int | None],
        errors: list[InputError],
    ) -> None:
        self.path = path
        self.data = data
        self.errors = errors
        """Mistakes that did not keep the rest from being read, such as a key given twice."""
        self._line = line

    def line(self, place: Place) -> int | None:
        """Line of a place, or of the nearest thing around it that is in the file."""
        for length in range(len(place), 0, -1):
            line = self._line(place[:length])
            if line is not None:
                return line
        return None


def read_document(path: Path) -> Document:
    """Read a file; `.toml` is TOML, anything else YAML.

    Raises:
        InputError: it cannot be read, or is not a document with a table at the top.
    """
    text = read_text(path)
    return _read_toml(path, text) if path.suffix == ".toml" else _read_yaml(path, text)


def read_text(path: Path, *, limit: int = MAX_BYTES) -> str:
    """A UTF-8 text file without its byte order mark.

    Raises:
        InputError: it cannot be read, is over `limit` bytes, or is not UTF-8.
    """
    try:
        with path.open("rb") as file:
            raw = file.read(limit + 1)
    except (OSError, ValueError) as error:
        raise InputError(f"cannot be read: {getattr(error, 'strerror', None) or error}", path=path) from None
    if len(raw) > limit:
        raise InputError(f"is larger than {limit} bytes", path=path)
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise InputError("is not UTF-8 text; save it as UTF-8", path=path, line=line) from None


def _table_expected(path: Path, data: object) -> InputError:
    found = "a list" if isinstance(data, list) else "a single value"
    return InputError(
        f"a table of keys (`key: value`) is expected at the top of the file, not {found}", path=path, line=1
    )


# --- TOML


def _read_toml(path: Path, text: str) -> Document:
    try:
        data = tomllib.loads(text)
    except RecursionError:
        raise InputError("is nested too deeply", path=path) from None
    except ValueError as error:
        message = str(error)
        found = re.search(r" \(at (?:line (\d+), column \d+|end of document)\)", message)
        line = (int(found[1]) if found[1] else text.count("\n") + 1) if found else None
        message = message.replace(found[0], "") if found else message[:200]
        raise InputError(f"is not valid TOML: {message}", path=path, line=line) from None
    lines: dict[Place, int] = {}

    def line_of(place: Place) -> int | None:
        if not lines:
            lines.update(toml_lines(text))
        return lines.get(place)

    document = Document(path, data, line_of, [])

    def plain(value: Any, place: Place) -> Any:
        if len(place) > MAX_DEPTH:
            raise InputError("is nested too deeply", path=path, line=document.line(place))
        if isinstance(value, dict):
            return {key: plain(item, (*place, key)) for key, item in value.items()}
        if isinstance(value, list):
            return [plain(item, (*place, index)) for index, item in enumerate(value)]
        if isinstance(value, datetime.date | datetime.time):
            return value.isoformat()
        problem = _unfit(value)
        if problem is not None:
            document.errors.append(
                InputError(f"{dotted(place)}: {problem}", path=path, line=document.line(place))
            )
            return None
        return value

    document.data = plain(data, ())
    return document


def _unfit(value: object) -> str | None:
    if isinstance(value, str):
        return "contains a NUL character" if "\0" in value else None
    if isinstance(value, float):
        return None if math.isfinite(value) else "NaN and infinity are not numbers this file can use"
    if isinstance(value, int) and abs(value) >= 10**_MAX_DIGITS:
        return "the number is too large"
    return None


# --- YAML


def _read_yaml(path: Path, text: str) -> Document:
    import yaml

    builder = _Builder(path)
    try:
        data = builder.document(yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else None
        problem = ", ".join(part for part in (error.context, error.problem) if part)
        hint = _yaml_hint(text, line, problem)
        raise InputError(f"is not valid YAML: {problem}{hint}", path=path, line=line) from None
    except yaml.reader.ReaderError as error:
        line = text.encode()[: error.position].count(b"\n") + 1
        raise InputError(
            f"is not valid YAML: a character that is not allowed ({error.character!r})", path=path, line=line
        ) from None
    except RecursionError:  # the pure Python parser, where libyaml is missing
        raise InputError("is nested too deeply", path=path) from None
    if data is None:
        raise InputError("is empty; see docs/manifest.md for the keys of a manifest", path=path)
    if not isinstance(data, dict):
        raise _table_expected(path, data)
    return Document(path, data, lambda place: builder.line(data, place), builder.errors)


def _yaml_hint(text: str, line: int | None, problem: str) -> str:
    lines = text.splitlines()
    around = lines[max(0, line - 2) : line] if line else []
    if any("\t" in near[: len(near) - len(near.lstrip())] for near in around):
        return "; indent with spaces, not tabs"
    if "mapping values are not allowed" in problem:
        return "; put text that contains ': ' in quotes"
    if "cannot start any token" in problem:
        return "; put text that starts with a special character in quotes"
    return ""


class _Builder:
    """Plain data out of YAML events."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.errors: list[InputError] = []
        self._lines: dict[int, dict[str | int, int]] = {}
        self._keep: list[
            dict[str, Any] | list[Any]
        ] = []  # an `id` stays that of one container as long as the container lives
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
        # A child is always finished before what holds it, so this walks `_keep` instead of the stack.
        for container in self._keep:
            items = container.values() if isinstance(container, dict) else container
            heights = [known[id(item)] for item in items if isinstance(item, dict | list)]
            known[id(container)] = 1 + max(heights, default=0)
        return known.get(id(value), 0)

    def line(self, data: object, place: Place) -> int | None:
        """Line where a place is written."""
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
                raise self._error(f"*{event.anchor} stands before &{event.anchor}, or inside of it", event)
            value, size = self._anchors[event.anchor]
            self._values += size
            if self._values > MAX_VALUES:
                raise self._error("aliases make this file too large", event)
            return value
        else:
            before = self._values - 1
            if depth >= MAX_DEPTH:
                raise self._error("is nested too deeply", event)
            if event.tag not in (None, "tag:yaml.org,2002:map", "tag:yaml.org,2002:seq"):
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
        if event.implicit[0]:  # written plain
            try:
                return self._plain[text]
            except KeyError:
                pass
            value = self._resolve(text, event)
            self._plain[text] = value
            return value
        if event.style == '"':  # the only style that can write what cannot be encoded or stored
            problem = _unfit(text)
            if problem is None and any("\ud800" <= char <= "\udfff" for char in text):
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
            if len(digits) > _MAX_DIGITS + 1:
                self.errors.append(
                    self._error("the number is too large; put it in quotes if it is text", event)
                )
                return 0
            return int(digits, 0)
        if _FLOAT.match(text) or _NOT_FINITE.match(text):
            number = math.inf if _NOT_FINITE.match(text) else float(text.replace("_", ""))
            problem = _unfit(number)
            if problem is not None:
                self.errors.append(self._error(problem, event))
                return 0
            return number
        return text
