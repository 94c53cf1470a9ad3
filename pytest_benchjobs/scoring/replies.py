"""Reading an answer from a text: the whole of a file, or the end of a model's reply. Pure functions."""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Callable, Iterator
from typing import Any

_MARKS = (
    re.compile(r"\banswer\b[\s*_]*:|\\boxed\s*(?=\{)|\\fbox\s*(?=\{)", re.IGNORECASE),
    re.compile(r"\banswer\s+is\b[\s*_]*:?", re.IGNORECASE),
)
"""Marks of an answer in a reply. One of the second kind counts only if there is none of the first."""
_WRAPPING = re.compile(
    r"(?:\s|\\(?:boxed|fbox|mbox|emph|underline|boldsymbol|bm|displaystyle|left|quad|qquad"
    r"|(?:text|math)(?:bf|it|md|normal|rm|sf|tt|up)?)(?![A-Za-z])|\\[,;:!> ]|\\\(|\\\[|[*_`${(\[~])*"
)
_INTEGER = re.compile(r"[+-]?[0-9]{1,400}", re.ASCII)
_GROUPED = re.compile(r"[+-]?[0-9]{1,3}(?:,[0-9]{3}){1,100}(?![0-9])", re.ASCII)
_GOES_ON = re.compile(
    r"[0-9A-Za-z_%!]|[.,:/][0-9]|(?!\^\{?\\circ)[ \t]*[\^*/+-][ \t]*[0-9(\\]|[ \t]*\\[cdt]?frac", re.ASCII
)
"""Characters after an integer that make it a part of something else."""
_BRACKET = re.compile(r"[\[\]]")
_NESTED = re.compile(r"\[\s*[\[{]")
_FENCE = re.compile(r"```[A-Za-z]*\n?(.*?)```", re.DOTALL)
SEARCHED = 100_000
"""Characters of an answer in which a pattern is searched for."""
_CANDIDATES = 50


class Wrong(Exception):
    """The answer is not right; the message says in which way, without the answer or the expected one."""


def integer_in(text: str, *, is_reply: bool) -> int:
    """Read a whole number: all of a file; in a reply the text behind its last mark, or all of it."""
    whole = text.strip()
    if _INTEGER.fullmatch(whole):
        return int(whole)
    mark = last_mark(text) if is_reply else None
    if mark is None:
        raise Wrong("it is not an integer" if not is_reply else "it has no integer after ANSWER:")
    line = text[mark:].lstrip().partition("\n")[0]
    number = _leading_integer(line)
    if number is None and "=" in line:
        number = _leading_integer(line.rpartition("=")[2])
    if number is None:
        raise Wrong("the text after its last ANSWER: is not an integer")
    return number


def _leading_integer(line: str) -> int | None:
    """Return the integer at the beginning of a line, inside marks of emphasis and mathematics."""
    wrapping = _WRAPPING.match(line)
    place = 0 if wrapping is None else wrapping.end()
    found = _GROUPED.match(line, place) or _INTEGER.match(line, place)
    if found is None or _GOES_ON.match(line, found.end()):
        return None
    return int(found[0].replace(",", ""))


def last_mark(text: str) -> int | None:
    """Return the position behind the last mark of an answer."""
    for marks in _MARKS:
        places = [mark.end() for mark in marks.finditer(text)]
        if places:
            return places[-1]
    return None


def value_in(text: str, *, is_reply: bool) -> Any:
    """Read JSON: all of a file; in a reply the text behind its last mark, else its last fence."""
    try:
        return _json(text)
    except ValueError:
        if not is_reply:
            raise Wrong("it is not JSON") from None
    for candidate in _candidates(text):
        try:
            return _json(candidate)
        except ValueError:
            continue
    raise Wrong("it has no JSON after ANSWER:")


def _candidates(text: str) -> Iterator[str]:
    mark = last_mark(text)
    if mark is not None:
        tail = text[mark:].strip()
        yield tail.strip("*`$. \t\n")
        yield tail.partition("\n")[0].strip("*`$. \t")
        yield from (fence[1] for fence in _FENCE.finditer(tail))
    yield from reversed([fence[1] for fence in _FENCE.finditer(text)][-_CANDIDATES:])
    yield text.strip().rpartition("\n")[2]


def _json(text: str) -> Any:
    """Parse JSON.

    Raises:
        ValueError: it is not JSON, too deep, or has a number that is not finite.
    """
    try:
        return json.loads(text, parse_constant=_refuse, parse_float=_finite)
    except RecursionError:
        raise ValueError("too deep") from None


def parsed(text: str) -> Any:
    """Parse JSON; None if it is not JSON."""
    try:
        return _json(text)
    except ValueError:
        return None


def _refuse(name: str) -> float:
    raise ValueError(name)


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError("not finite")
    return number


def last_array(text: str, fits: Callable[[Any], bool]) -> Any:
    """Return the last JSON array of arrays or objects in a text that `fits`; None: there is none."""
    nested = (span for span in _brackets(text) if _NESTED.match(text, span[0]))
    for start, end in itertools.islice(nested, _CANDIDATES):
        found = parsed(text[start:end])
        if found is not None and fits(found):
            return found
    return None


def _brackets(text: str) -> Iterator[tuple[int, int]]:
    """Yield the spans of matching brackets, the last first. Unmatched brackets are ignored."""
    opened: list[int] = []
    spans = []
    for bracket in _BRACKET.finditer(text):
        if bracket[0] == "[":
            opened.append(bracket.start())
        elif opened:
            spans.append((opened.pop(), bracket.end()))
    return reversed(spans)
