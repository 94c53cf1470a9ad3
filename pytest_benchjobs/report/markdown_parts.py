"""Parts of Markdown: code spans, tables, lists, and the cut to a size. Text of others is escaped here, in `code`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ..store.text import one_line
from .table import Cell, Column, Shown, filled

_MOST = 300
"""Most characters of a code span."""
_BACKTICKS = re.compile(r"`+")
_NOTE = "\nThe rest is left out: see `{}` of the job.\n"


def code(text: str, limit: int = _MOST) -> str:
    """Return a code span of `text` on one line, safe inside tables."""
    # In a table a pipe needs a backslash, and a literal backslash before a pipe cannot be told from that.
    text = one_line(text, limit).replace("\\|", "\\\u00a6").replace("|", "\\|")
    if not text:
        return ""
    fence = "`" * (max((len(run) for run in _BACKTICKS.findall(text)), default=0) + 1)
    edge = " " if text.startswith(("`", " ")) or text.endswith(("`", " ")) else ""
    return f"{fence}{edge}{text}{edge}{fence}"


def table(items: Sequence[Any], shown: Sequence[Shown], most: int) -> Iterator[str]:
    """Yield a table of at most `most` items, the number of the others, and a blank line; nothing without items."""
    if not items:
        return
    columns = [column for column, _ in shown]
    rows = [[_cell(column, make(item)) for column, make in shown] for item in items[:most]]
    kept = filled(columns, rows)
    yield _row(columns[place].title for place in kept)
    yield f"|{'|'.join('--:' if columns[place].number else '---' for place in kept)}|"
    for row in rows:
        yield _row(row[place] for place in kept)
    if len(items) > most:
        yield ""
        yield f"... and {len(items) - most} more."
    yield ""


def listed(texts: Sequence[str], most: int, noun: str = "") -> Iterator[str]:
    """Yield the items of a list, at most `most`, and the number of the others."""
    yield from (f"- {text}" for text in texts[:most])
    if len(texts) > most:
        yield f"- and {len(texts) - most} more{noun and f' {noun}'}"


def folded(summary: str, lines: Iterable[str]) -> Iterator[str]:
    """Yield lines that a click on the summary opens, and a blank line."""
    yield from (f"<details><summary>{summary}</summary>", "", *lines, "</details>", "")


def fitted(markdown: str, limit: int, *, whole: str = "summary.md", characters: bool = False) -> str:
    """Cut Markdown to `limit` bytes or characters: at the end of a line, all blocks closed, with the file of the whole.

    Empty where there is no room even for the note.
    """
    size = len if characters else lambda text: len(text.encode())
    if size(markdown) <= limit:
        return markdown
    note = _NOTE.format(whole)
    room = limit - size(note) - len("\n</details>\n")
    kept: list[str] = []
    opened = 0
    for line in markdown.splitlines(keepends=True):
        room -= size(line)
        if room < 0:
            break
        kept.append(line)
        opened += line.startswith("<details>") - line.startswith("</details>")
    return "".join(kept) + "\n</details>\n" * min(opened, 1) + note if kept else ""


def _cell(column: Column, cell: str | Cell) -> str:
    text = cell.text if isinstance(cell, Cell) else cell
    return code(text, column.most or _MOST) if column.foreign else text


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"
