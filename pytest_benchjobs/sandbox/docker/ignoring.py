"""Patterns of a `.dockerignore`, matched as Docker matches them, oddities and all."""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Iterator
from pathlib import Path

_RANGE = r"(?:\\.|[^\\\]-])"
# What Go's `filepath.Match` takes for a pattern. Docker refuses all others.
_VALID = re.compile(rf"(?:[^\\\[]|\\.|\[\^?(?:{_RANGE}(?:-{_RANGE})?)+\])*", re.DOTALL)
_TOKEN = re.compile(r"\*\*/?|\\.|.", re.DOTALL)
_SPECIAL = re.compile(r"[*?\[\]\\]")
_POSIX = {
    "alnum": "0-9A-Za-z", "alpha": "A-Za-z", "ascii": r"\x00-\x7f", "blank": r"\t ", "cntrl": r"\x00-\x1f\x7f",
    "digit": "0-9", "graph": "!-~", "lower": "a-z", "print": " -~", "punct": r"!-/:-@\[-`{-\~", "space": r"\t-\r ",
    "upper": "A-Z", "word": "0-9A-Za-z_", "xdigit": "0-9A-Fa-f",
}  # fmt: skip
_NAMED = r"\[:\^?\w+:\]"
_CLASS = re.compile(rf"\\.|\[\^?(?>{_NAMED}|\\.|[^\]\\])+\]|\[", re.DOTALL)
_MEANING = {"*": "[^/]*", "?": "[^/]", **{one: f"\\{one}" for one in ".+()$"}}


class BadPattern(ValueError):
    """A line that Docker refuses. The message begins with its number."""


class Ignored:
    """What the text of a `.dockerignore` leaves out of a build context.

    The last pattern that matches a path, or a directory it is in, decides.

    Raises:
        BadPattern: a line is no pattern.
    """

    def __init__(self, text: str) -> None:
        self._rules = [*_rules(text)]
        self._readmits = any(readmits for readmits, _ in self._rules)

    def __contains__(self, path: str) -> bool:
        """Return True if a path, relative to the context, is left out."""
        ways = _ways(path)
        out = False
        for readmits, pattern in self._rules:
            if readmits is out and any(map(pattern.search, ways)):
                out = not readmits
        return out

    def kept(self, directory: Path) -> set[str]:
        """Return the paths that stay, with the directories that they are in.

        Raises:
            OSError: a directory cannot be read.
        """
        kept, left = set[str](), [""]
        while left:
            above = left.pop()
            with os.scandir(directory / above) as entries:
                for entry in entries:
                    path = f"{above}{entry.name}"
                    out = path in self
                    if not out:
                        kept.update(_ways(path))
                    if entry.is_dir(follow_symlinks=False) and (self._readmits or not out):
                        left.append(f"{path}/")
        return kept


def _ways(path: str) -> list[str]:
    """Return a path, and the directories that it is in."""
    parts = path.split("/")
    return ["/".join(parts[:end]) for end in range(len(parts), 0, -1)]


def _rules(text: str) -> Iterator[tuple[bool, re.Pattern[str]]]:
    """Yield of each pattern whether it readmits what others leave out, and what it matches."""
    for number, line in enumerate(text.removeprefix("\ufeff").split("\n"), 1):
        written = line.strip()
        if line.startswith("#") or not written:
            continue
        readmits = written.startswith("!")
        pattern = written[readmits:].strip()
        pattern = posixpath.normpath(pattern).lstrip("/") if pattern else ""
        try:
            if not _VALID.fullmatch(pattern) or (readmits and not pattern):
                raise re.error("it is none")
            yield readmits, re.compile(_expression(pattern), re.ASCII)
        except re.error as error:
            raise BadPattern(f"{number}: {written} cannot be read as a pattern: {error}") from None


def _expression(pattern: str) -> str:
    """Return what matches as a pattern does."""
    begin, end = pattern.removeprefix("**"), pattern.removesuffix("**")
    if not _SPECIAL.search(pattern):
        return rf"^{re.escape(pattern)}\Z"
    if not _SPECIAL.search(begin):
        return rf"{re.escape(begin)}\Z|^{re.escape(begin.removeprefix('/'))}\Z"
    if not _SPECIAL.search(end):
        return rf"^{re.escape(end)}"

    def translated(found: re.Match[str]) -> str:
        token = found[0]
        if token.startswith("**"):
            return ".*" if found.end() == len(pattern) else "(?:.*/)?"
        return _MEANING.get(token, token)

    # Docker lets | and braces through, so this may have alternatives.
    return _CLASS.sub(_closed, rf"^{_TOKEN.sub(translated, pattern)}\Z")


def _closed(found: re.Match[str]) -> str:
    """Return a class whose brackets are characters, as they are in Go, and whose named classes are written out."""
    if found[0].startswith("\\"):
        return found[0]
    if found[0] == "[":
        raise re.error("a class does not end")
    return "[" + re.sub(rf"({_NAMED})|\\.|[\[&~|]", _written_out, found[0][1:])


def _written_out(part: re.Match[str]) -> str:
    if part[1] is None:
        return part[0] if len(part[0]) > 1 else f"\\{part[0]}"
    name = part[1][2:-2]
    members = _POSIX.get(name.removeprefix("^"))
    if members is None:
        raise re.error(f"there is no class {part[1]}")
    if not name.startswith("^"):
        return members
    others = (f"\\x{code:02x}" for code in range(128) if not re.match(f"[{members}]", chr(code)))
    return "".join(others) + "\x80-\U0010ffff"
