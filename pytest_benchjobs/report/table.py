"""Tables for the terminal: aligned, and no wider than the terminal."""

from __future__ import annotations

import dataclasses
import os
import shutil
import sys
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from ..store.text import one_line

_GAP = "  "


@dataclasses.dataclass(frozen=True, slots=True)
class Column:
    """A column. `title` may be broken at its last space where the table is too wide."""

    title: str
    number: bool = False
    """True to align cells at the right."""
    least: int | None = None
    """Fewest characters to which cells may be cut, in the middle, if the table is too wide. None: cells are not cut."""
    most: int | None = None
    """Most characters of a cell."""
    size: int | None = None
    """Width, whatever the cells are."""
    fill: bool = False
    """True for the column that takes the room that the others leave."""
    spare: bool = False
    """True to leave the column out if the table is still too wide."""
    rare: bool = False
    """True to leave the column out if every cell is 0 or `-`."""
    foreign: bool = False
    """True for text of others: Markdown has it in code spans."""


@dataclasses.dataclass(frozen=True, slots=True)
class Cell:
    """Text with a colour."""

    text: str
    colour: str | None = None


def count_cell(count: int, colour: str | None) -> Cell:
    """Return a count, in its colour unless it is 0."""
    return Cell(str(count), colour if count else None)


def width() -> int:
    """Return the columns of the terminal; without a terminal 10,000, so that files and pipes have whole cells."""
    return shutil.get_terminal_size(fallback=(10_000, 24)).columns


def paint(text: str, colour: str | None) -> str:
    """Return the text in a colour, but not with NO_COLOR. Without a terminal `click.echo` removes the colour."""
    if colour is None or os.environ.get("NO_COLOR"):
        return text
    import click  # pytest does not need click

    return click.style(text, fg=colour)


def marks() -> dict[str, str]:
    """Return the mark of each outcome, in ASCII where the encoding of stdout lacks the others."""
    try:
        "✓✗".encode(sys.stdout.encoding or "ascii")
    except UnicodeError:
        passed, failed = "+", "x"
    else:
        passed, failed = "✓", "✗"
    return {"passed": passed, "failed": failed, "error": "!", "cancelled": "-", "skipped": "-"}


Shown = tuple[Column, Callable[[Any], str | Cell]]
"""A column, and the function that makes its cell from an item."""


def tabulate(items: Sequence[Any], room: int, shown: Sequence[Shown]) -> Iterator[str]:
    """Yield titles and a row for each item, as `render` does."""
    columns, cells = zip(*shown, strict=True)
    return render(columns, [[cell(item) for cell in cells] for item in items], room)


def aligned(
    rows: Sequence[Sequence[str | Cell]], right: Sequence[int] = (), room: int = 500, least: int | None = None
) -> Iterator[str]:
    """Yield rows without titles; `right` are the places of numbers, `least` as of a column, of all but the first."""
    places = range(len(rows[0]) if rows else 0)
    columns = [Column("", number=place in right, least=least if place else None) for place in places]
    return render(columns, rows, room)


def facts(pairs: Iterable[tuple[str, str | None]], size: int) -> Iterator[str]:
    """Yield a line for each title with a text, which begins at column `size`; its further lines are below the first."""
    for title, text in pairs:
        if text:
            first, *others = text.split("\n")
            yield f"{title + ':':<{size}}{first}"
            yield from (" " * size + line for line in others)


def section(title: str, lines: Iterable[str]) -> Iterator[str]:
    """Yield a blank line, a title and indented lines; nothing without lines."""
    shown = [f"  {line}" for line in lines]
    yield from ("", title, *shown) if shown else ()


def limited(items: Sequence[Any], most: int, line: Callable[[Any], str] = str) -> Iterator[str]:
    """Yield a line of each item, at most `most`, and the number of the others."""
    yield from map(line, items[:most])
    if len(items) > most:
        yield f"... and {len(items) - most} more"


def render(columns: Sequence[Column], rows: Sequence[Sequence[str | Cell]], room: int) -> Iterator[str]:
    """Yield titles, if any, and rows; at most `room` wide as far as columns may be cut or left out."""
    cells = [[_cell(column, cell) for column, cell in zip(columns, row, strict=True)] for row in rows]
    kept = filled(columns, [[cell.text for cell in row] for row in cells])
    titles: list[tuple[str, ...]] = [(column.title,) for column in columns]
    sizes = _sizes(columns, titles, cells)
    if _total(sizes, kept) > room:
        titles = [_broken(column.title) for column in columns]
        sizes = _sizes(columns, titles, cells)
    for index in reversed(range(len(columns))):
        smallest = [min(size, columns[i].least or size) for i, size in enumerate(sizes)]
        if index in kept and _total(smallest, kept) > room and columns[index].spare:
            kept.remove(index)
    sizes = _squeezed(columns, sizes, kept, room)
    height = max(len(title) for title in titles) if any(column.title for column in columns) else 0
    for line in range(height):
        # The second part of broken titles is on the line of the other titles.
        words = [("",) * (height - len(titles[i])) + titles[i] for i in kept]
        yield _line([(columns[i], sizes[i], Cell(word[line])) for i, word in zip(kept, words, strict=True)])
    for row in cells:
        yield _line([(columns[i], sizes[i], row[i]) for i in kept])


def filled(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> list[int]:
    """Return the places of the columns that are shown: of rare ones those with anything in them."""
    return [
        place
        for place, column in enumerate(columns)
        if not column.rare or any(row[place] not in ("0", "-") for row in rows)
    ]


def _broken(title: str) -> tuple[str, ...]:
    head, _, tail = title.rpartition(" ")
    return (head, tail) if head and "/" not in title else (title,)


def _sizes(
    columns: Sequence[Column], titles: Sequence[Sequence[str]], rows: Sequence[Sequence[Cell]]
) -> list[int]:
    natural = (
        max([*map(_cells, title), *(_cells(row[index].text) for row in rows)])
        for index, title in enumerate(titles)
    )
    return [
        size if column.size is None else column.size for column, size in zip(columns, natural, strict=True)
    ]


def _total(sizes: Sequence[int], kept: Sequence[int]) -> int:
    return sum(sizes[index] for index in kept) + len(_GAP) * (len(kept) - 1)


def _squeezed(columns: Sequence[Column], sizes: list[int], kept: Sequence[int], room: int) -> list[int]:
    """Return sizes that fit: the widest cuttable column is cut first."""
    sizes = list(sizes)
    excess = _total(sizes, kept) - room
    for place in kept:
        if columns[place].fill:
            sizes[place], excess = max(1, sizes[place] - excess), 0
    while excess > 0:
        giving = [i for i in kept if sizes[i] > (columns[i].least or sizes[i])]
        if not giving:
            break
        sizes[max(giving, key=lambda index: sizes[index])] -= 1
        excess -= 1
    return sizes


def _line(parts: Sequence[tuple[Column, int, Cell]]) -> str:
    texts = []
    for column, size, cell in parts:
        text = _fit(cell.text, size)
        blank = " " * (size - _cells(text))
        text = paint(text, cell.colour)
        texts.append(blank + text if column.number else text + blank)
    return _GAP.join(texts).rstrip()


def _cell(column: Column, cell: str | Cell) -> Cell:
    text, colour = (cell.text, cell.colour) if isinstance(cell, Cell) else (cell, None)
    text = one_line(text)
    return Cell(text if column.most is None else _fit(text, column.most), colour)


def _fit(text: str, size: int) -> str:
    limit = size
    shorter = text
    while _cells(shorter) > size and limit > 0:
        shorter = one_line(text, limit)
        limit -= 1
    return shorter


def _cells(text: str) -> int:
    """Return the width of the text on a terminal, in columns."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1
        for char in text
    )
