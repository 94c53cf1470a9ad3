"""Find the line of every key in a TOML text that `tomllib` has already accepted, which keeps no lines itself."""

from __future__ import annotations

import re
import tomllib

_TOKEN = re.compile(
    r'"""(?:\\.|[^\\])*?"{3,5}'
    r"|'''.*?'{3,5}"
    r'|"(?:\\.|[^"\\\n])*"'
    r"|'[^'\n]*'"
    r"|(?P<comment>\#[^\n]*)"
    r"|(?P<space>[^\S\n]+)"
    r"|[A-Za-z0-9_-]+"
    r"|.",
    re.DOTALL,
)
_Place = tuple[str | int, ...]


def toml_lines(text: str) -> dict[_Place, int]:
    """Place of each table, key and list item -> the line it is written in."""
    return _Scanner(text).scan()


class _Scanner:
    def __init__(self, text: str) -> None:
        self.lines: dict[_Place, int] = {}
        self._tokens: list[tuple[str, int]] = []
        line = 1
        for match in _TOKEN.finditer(text.replace("\r\n", "\n")):
            if match.lastgroup is None:
                self._tokens.append((match[0], line))
            line += match[0].count("\n")
        self._tokens.append(("", line))
        self._at = 0
        self._counts: dict[_Place, int] = {}

    def scan(self) -> dict[_Place, int]:
        table: _Place = ()
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

    def _header(self) -> _Place:
        line = self._line()
        many = self._tokens[self._at + 1][0] == "["
        self._at += 2 if many else 1
        table: _Place = ()
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

    def _pair(self, table: _Place) -> None:
        line = self._line()
        place = table
        for key in self._key():
            place = (*place, key)
            self.lines.setdefault(place, line)
        self._at += 1  # the "="
        self._value(place)

    def _value(self, place: _Place) -> None:
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
