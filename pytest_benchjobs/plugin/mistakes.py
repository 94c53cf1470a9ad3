"""Mistakes in files, as their authors see them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ..model.errors import InputError, InputErrors
from ..model.escape import escaped
from ..store.text import clean, harmless

if TYPE_CHECKING:
    import pytest


def in_words(config: pytest.Config, error: InputError) -> str:
    """Every mistake in a line, with file and line number."""
    errors = error.errors if isinstance(error, InputErrors) else [error]
    lines = []
    for each in errors:
        if each.path is None:
            lines.append(each.message)
            continue
        where = shown(config, Path(each.path))
        lines.append(f"{where}:{each.line}: {each.message}" if each.line else f"{where}: {each.message}")
    return harmless(clean("\n".join(lines)))


def shown(config: pytest.Config, path: Path) -> str:
    """A path as pytest shows it: from the rootdir, where it is below."""
    try:
        return escaped(path.relative_to(config.rootpath).as_posix())
    except ValueError:
        return escaped(str(path))
