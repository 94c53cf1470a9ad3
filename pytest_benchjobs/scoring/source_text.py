r"""Text of source files as their languages read it, so that a name that is written otherwise is found as well.

Python                             the declared encoding, and names in NFKC: a wide `eval` is `eval`
Rust                               names in NFC
JavaScript, TypeScript, Java, C#   `\u0065val` is `eval`
"""

from __future__ import annotations

import functools
import io
import itertools
import re
import tokenize
import unicodedata
from collections.abc import Callable
from typing import Literal

_ENCODINGS = frozenset({"utf-8", "utf-8-sig", "ascii", "iso-8859-1", "iso8859-15", "cp1252"})
"""Encodings of Python files that are read. Others may take long, or are not those of this Python."""
# Looked for where a word begins, so that the time is linear in the text.
_BEYOND_ASCII = re.compile(r"(?<![0-9A-Za-z_])[0-9A-Za-z_]*+[^\x00-\x7f][\w\x80-\U0010ffff]*")
_ESCAPE = re.compile(r"\\\\|\\u+([0-9A-Fa-f]{4})|\\u\{0{0,20}([0-9A-Fa-f]{1,5})\}")


_LONGEST = 1000
"""The most characters of a name that is read: to sort the accents of a long one takes quadratic time."""


class Unreadable(Exception):
    """A file is not in an encoding that is read."""


def source_text(content: bytes, suffix: str) -> str:
    """Return the text of a source file; its suffix tells the language. Unreadable: in another encoding."""
    read = _READERS.get(suffix)
    return content.decode("utf-8", "replace") if read is None else read(content)


def _python(content: bytes) -> str:
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(content).readline)
    except SyntaxError:  # Python itself does not read it
        encoding = "utf-8"
    if encoding not in _ENCODINGS:
        raise Unreadable
    return _normal(content.decode(encoding, "replace"), "NFKC")


def _normal(text: str, form: Literal["NFC", "NFKC"]) -> str:
    def name(found: re.Match[str]) -> str:
        if len(found[0]) > _LONGEST or unicodedata.is_normalized(form, found[0]):
            return found[0]
        parts = ("".join(part) for _, part in itertools.groupby(found[0], _is_of_name))
        return "".join(unicodedata.normalize(form, part) if _is_of_name(part[0]) else part for part in parts)

    return _BEYOND_ASCII.sub(name, text)


@functools.lru_cache(maxsize=10_000)
def _is_of_name(character: str) -> bool:
    return f"a{character}".isidentifier()


def _unescaped(content: bytes) -> str:
    def character(found: re.Match[str]) -> str:
        one = chr(int(found[1] or found[2] or "0", 16))
        return one if _is_of_name(one) or one == "$" else found[0]

    return _ESCAPE.sub(character, content.decode("utf-8", "replace"))


_READERS: dict[str, Callable[[bytes], str]] = {
    **dict.fromkeys((".py", ".py3", ".pyi", ".bzl"), _python),
    ".rs": lambda content: _normal(content.decode("utf-8", "replace"), "NFC"),
    **dict.fromkeys(
        (".js", ".cjs", ".mjs", ".jsx", ".ts", ".cts", ".mts", ".tsx", ".java", ".cs"), _unescaped
    ),
}
