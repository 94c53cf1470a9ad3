"""Read a YAML or TOML file into plain data, knowing the line of everything in it."""

from __future__ import annotations

import datetime
import re
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..model.errors import InputError
from .plain import MAX_DEPTH, Place, dotted, unfit
from .yaml_data import YamlBuilder

MAX_BYTES = 16 << 20


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


def read_document(path: Path, *, keys: str) -> Document:
    """Read a file; `.toml` is TOML, anything else YAML. `keys` is the page of docs/ that has its keys.

    Raises:
        InputError: it cannot be read, or is not a document with a table at the top.
    """
    return parse_document(path, read_text(path), keys=keys)


def parse_document(path: Path, text: str, *, keys: str) -> Document:
    """As `read_document`, of a file that was read.

    Raises:
        InputError: it is not a document with a table at the top.
    """
    return _read_toml(path, text) if path.suffix == ".toml" else _read_yaml(path, text, keys)


def read_text(path: Path, *, limit: int = MAX_BYTES) -> str:
    """A UTF-8 text file without its byte order mark.

    Raises:
        InputError: it cannot be read, is over `limit` bytes, or is not UTF-8.
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
    """Tell whether the first line of a file ends with CRLF. Shells cannot run such a script."""
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
        found = re.search(r" \(at (?:line (\d+), column \d+|end of document)\)", message)
        line = (int(found[1]) if found[1] else text.count("\n") + 1) if found else None
        message = message.replace(found[0], "") if found else message[:200]
        wrong = "is nested too deeply" if message == "nested too deeply" else f"is not valid TOML: {message}"
        raise InputError(wrong, path=path, line=line) from None
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
        problem = unfit(value)
        if problem is not None:
            document.errors.append(
                InputError(f"{dotted(place)}: {problem}", path=path, line=document.line(place))
            )
            return None
        return value

    document.data = plain(data, ())
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
        raise InputError(f"is empty; see docs/{keys} for the keys it may have", path=path)
    if not isinstance(data, dict):
        found = "a list" if isinstance(data, list) else "a single value"
        raise InputError(
            f"a table of keys (`key: value`) is expected at the top of the file, not {found}",
            path=path,
            line=1,
        )
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
