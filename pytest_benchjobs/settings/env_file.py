"""Env files: `KEY=VALUE` lines, as a shell would read them. Anything that programs read differently is refused."""

from __future__ import annotations

import re
from pathlib import Path

from ..model.environ import Variable
from ..model.errors import InputError, InputErrors
from ..sources.documents import read_text

_LIMIT = 1 << 20
_START = re.compile(r"[ \t]*(?:export[ \t]+)?([A-Za-z_][A-Za-z0-9_]*)=")
_BARE = re.compile(r"[^\s'\"\\]*")
"""Unquoted value. A `#` within a word is a part of it, and so is a `$` without a name."""
_NAMING = re.compile(r"\$[A-Za-z_{(]|`")
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "\\": "\\", "$": "$", "`": "`"}
_CLOSED = {"'": re.compile(r"'([^']*)'"), '"': re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)}
_REST = re.compile(r"[ \t]*(?:[ \t]#[^\n]*)?(?:\n|\Z)")
_LITERALLY = "put the value into single quotes, which take everything literally"


def read_env_file(path: Path, shown: str | None = None) -> dict[str, Variable]:
    """Return variable -> value and place. Nothing is expanded, and no command is run.

    `shown` is the file's name in messages, by default its path.

    Raises InputError: it cannot be read; InputErrors: every mistake in it, with file and line, and without the value.
    """
    shown = shown or str(path)
    try:
        text = read_text(path, limit=_LIMIT).replace("\r\n", "\n")
    except InputError as error:
        raise InputError(error.message, path=shown, line=error.line) from None
    found: dict[str, Variable] = {}
    lines: dict[str, int] = {}
    errors: list[InputError] = []
    position, line = 0, 1
    while position < len(text):
        end = text.find("\n", position)
        following = len(text) if end < 0 else end + 1
        if text[position:following].strip()[:1] not in ("", "#"):
            try:
                name, value, following = _variable(text, position)
                if name in found:
                    raise ValueError(f"{name} is set already, in line {lines[name]}; remove one of them")
                found[name], lines[name] = Variable(value, shown), line
            except ValueError as error:
                errors.append(InputError(str(error), path=shown, line=line))
        line += text.count("\n", position, following)
        position = following
    if errors:
        raise InputErrors(errors)
    return found


def _variable(text: str, position: int) -> tuple[str, str, int]:
    """Return name, value, and the position of the next line. ValueError: there is no variable."""
    start = _START.match(text, position)
    if start is None:
        raise ValueError("KEY=VALUE is expected, without spaces around the `=`")
    name, position = start[1], start.end()
    quote = text[position : position + 1]
    if quote in _CLOSED:
        match = _CLOSED[quote].match(text, position)
        if match is None:
            raise ValueError(f"{name}: the quote is not closed")
        value = match[1] if quote == "'" else _unescaped(name, match[1])
    else:
        match = _BARE.match(text, position)
        assert match is not None  # noqa: S101  it matches nothing as well
        value = match[0]
        _refuse_naming(name, value)
    rest = _REST.match(text, match.end())
    if rest is None and quote in _CLOSED:
        raise ValueError(f"{name}: something follows the closing quote")
    if rest is None:
        raise ValueError(f"{name}: spaces, quotes and backslashes have to be quoted; {_LITERALLY}")
    if "\0" in value:
        raise ValueError(f"{name}: the value has a NUL character")
    return name, value, rest.end()


def _unescaped(name: str, quoted: str) -> str:
    def replace(match: re.Match[str]) -> str:
        if match[1] not in _ESCAPED:
            raise ValueError(f"{name}: an unknown escape in double quotes; {_LITERALLY}")
        return _ESCAPED[match[1]]

    _refuse_naming(name, _ESCAPE.sub("", quoted))
    return _ESCAPE.sub(replace, quoted)


def _refuse_naming(name: str, text: str) -> None:
    if _NAMING.search(text):
        raise ValueError(f"{name}: variables and commands are not expanded here; {_LITERALLY}")
