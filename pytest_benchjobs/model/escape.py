"""Names of files and messages as they are shown: a name may hold any characters."""

from __future__ import annotations

import re
from collections.abc import Callable

# Control characters, other ends of lines, changes of direction, half characters; what CI systems take for a command:
# `::name` at the beginning of a line, where any part of a path may come to stand, `##[name]` and `##name[` anywhere.
_ODD = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
    r"|(?<![^/]):(?=:)|#(?=#\w*\[)"
)
_SEPARATOR = re.compile(r":(?=:)")
_UNPRINTABLE = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)
_LINE, _LINES = 1000, 100
"""The most characters of a line of a message, and the most lines."""


def escaped(path: str) -> str:
    r"""Escape a path to one line without commands to terminals or CI systems: `\n` or `\x1b` for odd characters."""
    return path if path.isascii() and path.isprintable() and _plain(path) else _ODD.sub(_code, path)


def address(path: str) -> str:
    """A path as the first part of a node id, which ends at the first `::`."""
    return _SEPARATOR.sub(_code, escaped(path))


def legible(message: str) -> str:
    """Escape and shorten a message to people, which may quote anything: orders to a terminal, a text of 10 MB."""
    lines = message.split("\n", _LINES)
    if len(lines) > _LINES:
        lines[_LINES] = "..."
    return "\n".join(squeezed(_UNPRINTABLE.sub(_code, line), _LINE) for line in lines)


def squeezed(
    text: str,
    limit: int,
    beginning_of: Callable[[str, int], str] = lambda text, limit: text[:limit],
    end_of: Callable[[str, int], str] = lambda text, limit: text[len(text) - limit :],
) -> str:
    """Shorten a text to `limit` characters: its beginning, three points, its end, which two functions cut."""
    if len(text) <= limit:
        return text
    if limit < 5:
        return beginning_of(text, max(limit, 0))
    head = (limit - 3 + 1) // 2
    return f"{beginning_of(text, head)}...{end_of(text, limit - 3 - head)}"


def _plain(path: str) -> bool:
    return "##" not in path and "::" not in path


def _code(found: re.Match[str]) -> str:
    code = ord(found[0])
    return {10: r"\n", 13: r"\r", 9: r"\t"}.get(code) or (
        rf"\x{code:02x}" if code < 256 else rf"\u{code:04x}"
    )
