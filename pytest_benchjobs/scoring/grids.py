r"""Finding the grid that a reply gives as its answer, in any form: JSON, rows of digits, a table, a matrix.

The grid at the reply's final answer counts; else the last one that is called the answer or output; else the last one
in a fence; else the last one of the expected size. One that is called an example, an input or coordinates never counts.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, TypeGuard

from .replies import SEARCHED, brackets, parsed, places

Grid = list[list[int]]
_MOST = 50
"""The most arrays of a reply that are looked at."""
_NEAR = 300
_NESTED = re.compile(r"\[\s*[\[\"']")
_LOOSE = (
    (re.compile(r"(?<=\d)[ \t]+(?=\d)"), ","),
    (re.compile(r"\]\s*\["), "],["),
    (re.compile(r",\s*\]"), "]"),
    (re.compile(r"'"), '"'),
)
"""JSON with trailing commas, and what numpy prints -> JSON."""
_ROW = re.compile(
    r"(?:\s*(?:[-+•]|\d{1,2}[.)])\s)?[\s>*`|\[(\"']*(?:row\s*\d{1,2}\s*[:=]\s*)?[|\[\"']*(\d(?:(?:\s*[,|;&]\s*|\s+)\d)*|\d+)[\s`*|\])\",;']*",
    re.IGNORECASE,
)
_RULE = re.compile(r"\s*\|?[\s|:+=-]*-[\s|:+=-]*|\s*\\hline\s*")
_MATRIX = re.compile(r"\\begin\{(?:[bpvBV]?matrix|array)\}(?:\{[lcr| ]*\})?(.*?)\\end\{", re.DOTALL)
_FENCE = re.compile(r"^\s*```.*$", re.MULTILINE)
_ANSWERS = re.compile(
    r"\b(?:answer|outputs?|final|result|solution|response|predict(?:ion|ed)|attempt|actually|correct(?:ed|ion)|instead)\b",
    re.IGNORECASE,
)
_SHOWS = re.compile(
    r"\b(?:examples?|inputs?|train(?:ing)?|coordinates?|positions?|cells?|locations?|points?|pixels?|pairs?|before|earlier"
    r"|initial|original|first|wrong|incorrect|not|shapes?|sizes?|indices|like|e\.g|instance)\b",
    re.IGNORECASE,
)
_OF_INPUT = re.compile(
    r"\b(?:for|from|to|of|on)\s+(?:the\s+)?(?:test\s+)?inputs?(?:\s+grid)?\b", re.IGNORECASE
)
_IS = re.compile(r"[\s*`_]*(?:is|was|are|were)\b[^.\n]{0,60}")


class Found(NamedTuple):
    """A grid in a text."""

    start: int
    end: int
    grid: Grid


def is_grid(value: Any) -> TypeGuard[Grid]:
    """Return True for rows of whole numbers."""
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(row, list) and row for row in value)
        and all(type(cell) is int for row in value for cell in row)
    )


def answer_grid(text: str, expected: Grid) -> Grid | None:
    """Return the grid that the end of a reply gives as its answer, or None. Of `expected` only the size counts."""
    text = text[-SEARCHED:]
    found = sorted([*_arrays(text), *_matrices(text)])
    found = sorted([*found, *_rows(text, found)])
    for place in places(text):
        begins = [
            one for one in found if place.at <= one.start and (not place.is_bounded or one.end <= place.end)
        ]
        if begins and (place.is_bounded or begins[0].start - place.at <= _NEAR):
            return begins[0].grid
        if re.match(r"[\s*`$]*[\[\d]", text[place.at : place.end]):
            return None
    ends = [0, *(one.end for one in found)]
    labels = [_label(text, one, end) for one, end in zip(found, ends, strict=False)]
    kept = [(one, label) for one, label in zip(found, labels, strict=True) if not _SHOWS.search(label)]
    called = [one for one, label in kept if _ANSWERS.search(label)]
    fences = [fence.end() for fence in _FENCE.finditer(text)]
    fenced = [one for one, _ in kept if sum(at <= one.start for at in fences) % 2]
    sized = [one for one, _ in kept if _size(one.grid) == _size(expected)]
    return next((some[-1].grid for some in (called, fenced, sized) if some), None)


def _size(grid: Grid) -> list[int]:
    return [len(row) for row in grid]


def _arrays(text: str) -> list[Found]:
    """Return the arrays of rows, the outermost ones: JSON, or nearly."""
    found: list[Found] = []
    for start, end in itertools.islice((one for one in brackets(text) if _NESTED.match(text, one[0])), _MOST):
        if any(one.start <= start < one.end for one in found):
            continue
        value = parsed(text[start:end])
        if value is None and end - start < 100 * _NEAR:
            loose = text[start:end]
            for pattern, instead in _LOOSE:
                loose = pattern.sub(instead, loose)
            value = parsed(loose)
        if isinstance(value, list) and value and all(isinstance(row, str) for row in value):
            value = [_cells(row) for row in value]
        if is_grid(value):
            found.append(Found(start, end, value))
    return found


def _matrices(text: str) -> Iterator[Found]:
    for matrix in itertools.islice(_MATRIX.finditer(text), _MOST):
        rows = [
            _cells(row)
            for row in re.split(r"\\\\|\n", matrix[1])
            if row.strip(" \\") and not _RULE.fullmatch(row)
        ]
        if is_grid(rows):
            yield Found(matrix.start(), matrix.end(), rows)


def _rows(text: str, others: Sequence[Found]) -> Iterator[Found]:
    """Yield blocks of lines that are rows of digits, outside of the grids found already."""
    block: list[list[int]] = []
    start = at = end = 0
    for line in itertools.chain(text.splitlines(keepends=True), [""]):
        cells = (
            _cells(line)
            if len(line) < _NEAR and not any(o.start < at + len(line) and at < o.end for o in others)
            else []
        )
        if cells:
            start, end = (start, at + len(line)) if block else (at, at + len(line))
            block.append(cells)
        elif not (block and line and _RULE.fullmatch(line.rstrip("\n"))):
            if block and len({len(row) for row in block}) == 1 and (len(block) > 1 or len(block[0]) > 1):
                yield Found(start, end, block)
            block = []
        at += len(line)


def _cells(line: str) -> list[int]:
    """Return the digits of a row; none if it is anything else."""
    row = _ROW.fullmatch(line)
    return [int(digit) for digit in re.findall(r"\d", row[1])] if row else []


def _label(text: str, one: Found, after: int) -> str:
    """Return what a grid is called: by the sentence before it, in its line or the one above, and by `is the input`."""
    named = _IS.match(text, one.end)
    return _OF_INPUT.sub("", _before(text, max(after, one.start - _NEAR), one.start)) + (
        named[0] if named else ""
    )


def _before(text: str, after: int, start: int) -> str:
    before = text[after:start]
    *_, same = before.rpartition("\n")
    if re.search(r"\w", same):
        return re.split(r"(?<=[.!?])\s", same)[-1]
    lines = [line for line in before.splitlines() if re.search(r"\w", line) and not _FENCE.match(line)]
    return re.split(r"(?<=[.!?])\s+(?=\S)", lines[-1])[-1] if lines else ""
