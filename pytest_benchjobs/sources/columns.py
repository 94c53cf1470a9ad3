"""Columns of mistakes in a file. They are computed only for a mistake: reading a valid file records lines alone."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from .plain import Place

_MOST = 2 << 20
"""The most bytes of a file in which columns are looked for, since that reads it again."""


class Span(NamedTuple):
    """Part of a line, counted from 1."""

    line: int
    column: int
    width: int = 1


class Columns:
    """Columns in one text, which is YAML, or TOML that was accepted."""

    def __init__(self, text: str, *, toml: bool) -> None:
        self._lines = text.splitlines()
        self._tree = None if toml or len(text) > _MOST else _composed(text)
        self._toml = toml

    def find(self, place: Place, line: int, *, at_key: bool) -> Span | None:
        """Return the position of a place on its line, of its value or its key; None if it is unknown."""
        if self._toml:
            return self._in_toml(place, line, at_key=at_key)
        spans = (_in_tree(self._tree, place, at_key=which) for which in (at_key, True))
        return next((span for span in spans if span is not None and span.line == line), None)

    def _in_toml(self, place: Place, line: int, *, at_key: bool) -> Span | None:
        keys = [part for part in place if isinstance(part, str)]
        if not keys or not 0 < line <= len(self._lines):
            return None
        text = self._lines[line - 1]
        found = re.search(rf"""(?<![\w-])["']?({re.escape(keys[-1])})["']?\s*=\s*""", text)
        if found is None:
            indent = len(text) - len(text.lstrip())
            return Span(line, indent + 1, max(1, len(text.strip())))
        if at_key:
            return Span(line, found.start(1) + 1, len(found[1]))
        value = re.match(r"""(?:"[^"]*"|'[^']*'|[^\s,#}\]]+)""", text[found.end() :])
        return Span(line, found.end() + 1, max(1, len(value[0]) if value else 1))


def _composed(text: str) -> Any:
    import yaml

    try:
        return yaml.compose(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except (yaml.YAMLError, RecursionError):
        return None


def _in_tree(tree: Any, place: Place, *, at_key: bool) -> Span | None:
    """Return the span of a node; if its key is missing, that of the table around it."""
    node: Any = tree
    for depth, part in enumerate(place, 1):
        if isinstance(part, int):
            if getattr(node, "id", "") != "sequence" or part >= len(node.value):
                return None
            node = node.value[part]
            continue
        if getattr(node, "id", "") != "mapping":
            return None
        pair = next((pair for pair in node.value if pair[0].value == part), None)
        if pair is None:
            break
        if at_key and depth == len(place):
            return _span(pair[0])
        node = pair[1]
    return None if node is None else _span(node)


def _span(node: Any) -> Span:
    start, end = node.start_mark, node.end_mark
    width = end.column - start.column if end.line == start.line else 1
    return Span(start.line + 1, start.column + 1, max(1, width))
