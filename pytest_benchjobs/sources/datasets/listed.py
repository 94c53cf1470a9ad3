"""Lists in the rows of datasets, which are written as a list, as JSON in a string, or as Python writes one."""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping
from typing import Any

MAX_TEXT = 8 * 1024 * 1024
"""Characters of a list that is read from a string."""


def names(row: Mapping[str, Any], key: str) -> list[str]:
    """Return a list of texts of a row; none where the row has nothing.

    Raises:
        KeyError: the row has no such key.
        ValueError: what is there is no list of texts.
    """
    value = row[key]
    if isinstance(value, str):
        value = _read(value.strip(), key)
    if value is None:
        return []
    if not isinstance(value, list | tuple) or not all(isinstance(name, str) for name in value):
        raise ValueError(f"{key}: a list of texts is expected, as a list or in a string")
    return list(value)


def _read(text: str, key: str) -> Any:
    if not text:
        return None
    if len(text) > MAX_TEXT or text[0] not in "[(":
        raise ValueError(f"{key}: a list is expected in at most {MAX_TEXT} characters")
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        pass
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        raise ValueError(f"{key}: neither JSON nor a list of Python: {text[:80]!r}") from None
