"""Reading TOML of others, within bounds and with lines: `tomllib` takes a minute for one dotted key of 100 KB."""

from __future__ import annotations

import re
import tomllib
from typing import Any

from .plain import MAX_DEPTH, Place

# Each part matches completely or not at all, and only from its beginning, so the time is linear in the line.
_PART = r"""(?>[A-Za-z0-9_-]++|"(?>[^"\\\n]|\\.)*+"|'[^'\n]*+')"""
_DEEP_KEY = re.compile(rf"(?<![A-Za-z0-9_-])(?>{_PART}[ \t]*+\.[ \t]*+){{{MAX_DEPTH}}}")
_TOKEN = re.compile(
    # Possessive, as a text of 10 MB would take a gigabyte.
    r'"""(?>[^"\\]++|\\.|"{1,2}(?!"))*+"{3,5}'
    r"|'''(?>[^']++|'{1,2}(?!'))*+'{3,5}"
    r'|"(?>[^"\\\n]++|\\.)*+"'
    r"|'[^'\n]*'"
    r"|(?P<comment>\#[^\n]*)"
    r"|(?P<space>[^\S\n]+)"
    r"|[A-Za-z0-9_-]+"
    r"|.",
    re.DOTALL,
)


def load_toml(text: str) -> dict[str, Any]:
    """Return the data of a TOML text. Raises tomllib.TOMLDecodeError: it is not TOML, or is nested too deeply."""
    for number, line in enumerate(text.split("\n"), 1):
        if line.count(".") >= MAX_DEPTH and _DEEP_KEY.search(line):
            raise tomllib.TOMLDecodeError(f"nested too deeply (at line {number}, column 1)")
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise tomllib.TOMLDecodeError("nested too deeply") from None


def toml_lines(text: str) -> dict[Place, int]:
    """Place of each table, key and list item -> its line, in a text that `tomllib` has accepted: it keeps no lines."""
    return _Scanner(text).scan()


class _Scanner:
    def __init__(self, text: str) -> None:
        self.lines: dict[Place, int] = {}
        self._tokens: list[tuple[str, int]] = []
        line = 1
        for match in _TOKEN.finditer(text.replace("\r\n", "\n")):
            if match.lastgroup is None:
                self._tokens.append((match[0], line))
            line += match[0].count("\n")
        self._tokens.append(("", line))
        self._at = 0
        self._counts: dict[Place, int] = {}

    def scan(self) -> dict[Place, int]:
        table: Place = ()
        while self._peek():
            if self._peek() == "\n":
                self._at += 1
            elif self._peek() == "[":
                table = self._header()
            else:
                self._pair(table)
        return self.lines

    def _peek(self) -> str:
        return self._tokens[self._at][0]

    def _line(self) -> int:
        return self._tokens[self._at][1]

    def _header(self) -> Place:
        line = self._line()
        many = self._tokens[self._at + 1][0] == "["
        self._at += 2 if many else 1
        table: Place = ()
        keys = self._key()
        for depth, key in enumerate(keys):
            table = (*table, key)
            self.lines.setdefault(table, line)
            if many and depth == len(keys) - 1:
                self._counts[table] = self._counts.get(table, -1) + 1
            if table in self._counts:  # `[a.b]` after `[[a]]` is in the last of `a`
                table = (*table, self._counts[table])
                self.lines.setdefault(table, line)
        self.lines[table] = line
        while self._peek() not in ("\n", ""):
            self._at += 1
        return table

    def _key(self) -> list[str]:
        keys: list[str] = []
        while True:
            word = self._peek()
            if not word or word in "=]\n":
                return keys
            if word != ".":
                keys.append(next(iter(tomllib.loads(f"{word} = 0"))) if word[0] in "\"'" else word)
            self._at += 1

    def _pair(self, table: Place) -> None:
        line = self._line()
        place = table
        for key in self._key():
            place = (*place, key)
            self.lines.setdefault(place, line)
        self._at += 1  # the "="
        self._value(place)

    def _value(self, place: Place) -> None:
        opening = self._peek()
        if opening not in ("[", "{"):
            while self._peek() not in (",", "\n", "]", "}", ""):
                self._at += 1
            return
        closing = "]" if opening == "[" else "}"
        self._at += 1
        index = 0
        while self._peek() not in (closing, ""):
            if self._peek() in ("\n", ","):
                self._at += 1
            elif opening == "{":
                self._pair(place)
            else:
                self.lines[(*place, index)] = self._line()
                self._value((*place, index))
                index += 1
        self._at += 1
