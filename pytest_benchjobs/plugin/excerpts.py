"""Messages about mistakes in files, with excerpts."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import TYPE_CHECKING

from ..model.errors import InputError
from ..model.escape import escaped
from ..store.text import clean, harmless

if TYPE_CHECKING:
    import pytest

_WIDTH = 110
"""Most characters shown of a line."""
_BEFORE = 70
"""Most characters shown before the mistake."""


def in_words(config: pytest.Config, error: InputError) -> str:
    """Format every mistake: a line with file and line number, and an excerpt below it."""
    errors = error.errors
    lines = []
    for each in errors:
        if each.path is None:
            lines.append(each.message)
            continue
        where = shown(config, Path(each.path))
        lines.append(f"{where}:{each.line}: {each.message}" if each.line else f"{where}: {each.message}")
        lines += _excerpt(each)
    return harmless(clean("\n".join(lines)))


def _excerpt(error: InputError) -> list[str]:
    """Return the line of a mistake with carets below the mistake."""
    if error.path is None or error.line is None or error.column is None:
        return []
    try:
        with Path(error.path).open(encoding="utf-8-sig", errors="replace") as file:
            text = next(itertools.islice(file, error.line - 1, None), "").rstrip("\r\n")
    except OSError:
        return []
    start = max(0, error.column - 1 - _BEFORE)
    part = "".join(char if char.isprintable() else " " for char in text[start : start + _WIDTH])
    at = error.column - 1 - start
    marks = "^" * max(1, min(error.width, len(part) - at))
    gutter = f"{error.line:5} | "
    return [f"{gutter}{part}", f"{' ' * 5} | {' ' * at}{marks} column {error.column}"]


def shown(config: pytest.Config, path: Path) -> str:
    """Return a path as pytest shows it: relative to the rootdir if it is below."""
    try:
        return escaped(path.relative_to(config.rootpath).as_posix())
    except ValueError:
        return escaped(str(path))
