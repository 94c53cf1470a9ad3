"""Reading a YAML, TOML or JSON file into plain data, with the line of each value."""

from __future__ import annotations

import datetime
import itertools
import re
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from ..model.errors import InputError
from .plain import MAX_DEPTH, Place, dotted, faults_of_plain, unfit
from .yaml_data import MAX_VALUES, YamlBuilder

MAX_BYTES = 16 << 20
"""The most bytes of a file of scenarios."""
SETTINGS_BYTES = 1 << 20
"""The most bytes of a file of settings: agents, prices, known failures, a job."""
_COLUMNS_BYTES = 2 << 20
"""The most bytes of a file in which columns are looked for, since that reads it again."""


class Span(NamedTuple):
    """Part of a line, counted from 1."""

    line: int
    column: int
    width: int = 1


class Document:
    """The plain data of one file, and the place of each value in the file."""

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
        """Mistakes after which the rest could still be read, such as a repeated key."""
        self._line = line
        self._columns: _Columns | None = None

    def line(self, place: Place) -> int | None:
        """Line of a place, or of the nearest enclosing place that is in the file."""
        for length in range(len(place), 0, -1):
            line = self._line(place[:length])
            if line is not None:
                return line
        return None

    def path_at(self, place: Place) -> Path:  # noqa: ARG002
        """File that a place is in: the one file, unless it was put together from several."""
        return self.path

    def span(self, place: Place, line: int, *, at_key: bool) -> Span | None:
        """Span of a place on its line; None if it is unknown. Reads the file again, for the first mistake."""
        if self._columns is None:
            try:
                text = read_text(self.path)
            except InputError:
                return None
            self._columns = _Columns(text, toml=self.path.suffix == ".toml")
        return self._columns.find(place, line, at_key=at_key)


def read_document(path: Path, *, keys: str, limit: int = MAX_BYTES) -> Document:
    """Read a file; `.toml` is TOML, `.json` JSON, anything else YAML. `keys` is the page of docs/ that lists its keys.

    Raises InputError: it cannot be read, is over `limit` bytes, or is not a document with a table at the top.
    """
    return parse_document(path, read_text(path, limit=limit), keys=keys)


def parse_document(path: Path, text: str, *, keys: str) -> Document:
    """Like `read_document`, for a file whose text was read already.

    Raises InputError: it is not a document with a table at the top.
    """
    if path.suffix == ".json":
        return _read_json(path, text)
    return _read_toml(path, text) if path.suffix == ".toml" else _read_yaml(path, text, keys)


def read_text(path: Path, *, limit: int = MAX_BYTES) -> str:
    """A UTF-8 text file without its byte order mark.

    Raises InputError: it cannot be read, is over `limit` bytes, or is not UTF-8.
    """
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # opening a pipe would wait for ever
            raise InputError("cannot be read: it is not a file", path=path)
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


def has_windows_line_ends(path: Path) -> bool:
    """Return True if the first line of a file ends with CRLF. Shells cannot run such a script."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            return False
        with path.open("rb") as file:
            return file.readline(4096).endswith(b"\r\n")
    except OSError:
        return False


# --- TOML


def _read_toml(path: Path, text: str) -> Document:
    from .toml_data import load_toml, toml_lines  # most manifests are YAML

    try:
        data = load_toml(text)
    except ValueError as error:
        message = str(error)
        found = re.search(r" \(at (?:line (\d+), column (\d+)|end of document)\)", message)
        line = (int(found[1]) if found[1] else text.count("\n") + 1) if found else None
        column = int(found[2]) if found and found[2] else None
        message = message.replace(found[0], "") if found else message[:200]
        wrong = "is nested too deeply" if message == "nested too deeply" else f"is not valid TOML: {message}"
        raise InputError(wrong, path=path, line=line, column=column) from None
    lines: dict[Place, int] = {}

    def line_of(place: Place) -> int | None:
        if not lines:
            lines.update(toml_lines(text))
        return lines.get(place)

    document = Document(path, data, line_of, [])
    values = itertools.count()

    def plain(value: Any, place: Place) -> Any:
        if next(values) > MAX_VALUES:
            raise InputError(f"has more than {MAX_VALUES} values", path=path)
        if len(place) > MAX_DEPTH:
            raise InputError("is nested too deeply", path=path, line=document.line(place))
        if isinstance(value, dict):
            return {key: plain(item, (*place, key)) for key, item in value.items()}
        if isinstance(value, list):
            return [plain(item, (*place, index)) for index, item in enumerate(value)]
        if isinstance(value, datetime.date | datetime.time):
            return value.isoformat()
        problem = unfit(value)
        if problem is not None:
            document.errors.append(
                InputError(f"{dotted(place)}: {problem}", path=path, line=document.line(place))
            )
            return None
        return value

    document.data = plain(data, ())
    return document


# --- JSON


def _read_json(path: Path, text: str) -> Document:
    from .json_data import load_json  # most manifests are YAML

    try:
        data = load_json(text)
    except ValueError as error:
        message = f"is not valid JSON: {getattr(error, 'msg', None) or error}"
        line, column = getattr(error, "lineno", None), getattr(error, "colno", None)
        raise InputError(message, path=path, line=line, column=column) from None
    if not isinstance(data, dict):
        raise InputError("an object of keys is expected, not a list or a single value", path=path, line=1)
    known: list[Callable[[Place], int | None]] = []

    def line_of(place: Place) -> int | None:
        if not known:
            # JSON is YAML, whose reader keeps lines, except for tabs.
            try:
                known.append(_read_yaml(path, text, "").line)
            except InputError:
                known.append(lambda _place: None)
        return known[0](place)

    document = Document(path, data, line_of, [])
    document.errors += (
        InputError(f"{dotted(place)}: {problem}", path=path, line=document.line(place))
        for place, problem in faults_of_plain(data)
    )
    return document


# --- YAML


def _read_yaml(path: Path, text: str, keys: str) -> Document:
    import yaml

    builder = YamlBuilder(path)
    try:
        data = builder.document(yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else None
        problem, column = _yaml_problem(text, error)
        raise InputError(f"is not valid YAML: {problem}", path=path, line=line, column=column) from None
    except yaml.reader.ReaderError as error:
        line = text.encode()[: error.position].count(b"\n") + 1
        raise InputError(
            f"is not valid YAML: a character that is not allowed ({error.character!r})", path=path, line=line
        ) from None
    except RecursionError:  # the pure Python parser, where libyaml is missing
        raise InputError("is nested too deeply", path=path) from None
    if data is None:
        raise InputError(f"is empty; see docs/{keys} for the keys it may have", path=path)
    if not isinstance(data, dict):
        found = "a list" if isinstance(data, list) else "a single value"
        raise InputError(
            f"a table of keys (`key: value`) is expected at the top of the file, not {found}",
            path=path,
            line=1,
        )
    return Document(path, data, lambda place: builder.line(data, place), builder.errors)


def _yaml_problem(text: str, error: Any) -> tuple[str, int | None]:
    """Describe the parser's problem to the author, with a remedy; and its column."""
    problem = ", ".join(part for part in (error.context, error.problem) if part)
    mark, context = error.problem_mark or error.context_mark, error.context_mark
    if mark is None:
        return problem, None
    column = mark.column + 1
    lines = [*text.splitlines(), ""]
    near = lines[max(0, mark.line - 1) : mark.line + 1]
    if any("\t" in line[: len(line) - len(line.lstrip())] for line in near):
        return "there is a tab in the indentation; indent with spaces", column
    if (
        "did not find expected" in problem
        and context
        and context.line < mark.line
        and column <= len(lines[mark.line])
    ):
        around = "list" if "collection" in problem else "table"
        return (
            f"wrong indentation: this line begins in column {column}, the {around} around it (from line "
            f"{context.line + 1}) in column {context.column + 1}"
        ), column
    if "mapping values are not allowed" in problem:
        here = lines[mark.line]
        above = next((number for number in range(mark.line - 1, -1, -1) if lines[number].strip()), None)
        if above is not None and _indent(here) > _indent(lines[above]) and here.count(": ") < 2:
            return (
                f"wrong indentation: this line is deeper than line {above + 1}, which has a value already; "
                "align them"
            ), _indent(here) + 1
        return "a second value on one line; put text that contains ': ' in quotes", column
    if "cannot start any token" in problem:
        return f"{problem}; put text that starts with a special character in quotes", column
    return problem, column


def _indent(line: str) -> int:
    """Return the column in which a key or an item's first key begins."""
    return len(line) - len(line.lstrip(" -"))


# --- Columns, which are computed only for a mistake: reading a valid file records lines alone


class _Columns:
    """Columns in one text, which is YAML, or TOML that was accepted."""

    def __init__(self, text: str, *, toml: bool) -> None:
        self._lines = text.splitlines()
        self._tree = None if toml or len(text) > _COLUMNS_BYTES else _composed(text)
        self._toml = toml

    def find(self, place: Place, line: int, *, at_key: bool) -> Span | None:
        """Return the position of a place on its line, of its value or its key; None if it is unknown."""
        if self._toml:
            return self._in_toml(place, line, at_key=at_key)
        spans = (_in_tree(self._tree, place, at_key=which) for which in (at_key, True))
        return next((span for span in spans if span is not None and span.line == line), None)

    def _in_toml(self, place: Place, line: int, *, at_key: bool) -> Span | None:
        keys = [part for part in place if isinstance(part, str)]
        if not keys or not 0 < line <= len(self._lines):
            return None
        text = self._lines[line - 1]
        found = re.search(rf"""(?<![\w-])["']?({re.escape(keys[-1])})["']?\s*=\s*""", text)
        if found is None:
            indent = len(text) - len(text.lstrip())
            return Span(line, indent + 1, max(1, len(text.strip())))
        if at_key:
            return Span(line, found.start(1) + 1, len(found[1]))
        value = re.match(r"""(?:"[^"]*"|'[^']*'|[^\s,#}\]]+)""", text[found.end() :])
        return Span(line, found.end() + 1, max(1, len(value[0]) if value else 1))


def _composed(text: str) -> Any:
    import yaml

    try:
        return yaml.compose(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except (yaml.YAMLError, RecursionError):
        return None


def _in_tree(tree: Any, place: Place, *, at_key: bool) -> Span | None:
    """Return the span of a node; if its key is missing, that of the table around it."""
    node: Any = tree
    for depth, part in enumerate(place, 1):
        if isinstance(part, int):
            if getattr(node, "id", "") != "sequence" or part >= len(node.value):
                return None
            node = node.value[part]
            continue
        if getattr(node, "id", "") != "mapping":
            return None
        pair = next((pair for pair in node.value if pair[0].value == part), None)
        if pair is None:
            break
        if at_key and depth == len(place):
            return _span(pair[0])
        node = pair[1]
    return None if node is None else _span(node)


def _span(node: Any) -> Span:
    start, end = node.start_mark, node.end_mark
    width = end.column - start.column if end.line == start.line else 1
    return Span(start.line + 1, start.column + 1, max(1, width))
