"""Places of arguments in calls in Python files. They are looked up only for a mistake."""

from __future__ import annotations

import ast
import itertools
import os.path
from pathlib import Path
from types import CodeType, FrameType
from typing import NamedTuple, Self

from .columns import Span
from .plain import Place

_MOST = 2 << 20
"""The most bytes of a file in which arguments are looked for."""


class Call(NamedTuple):
    """A call in a Python file, of a class whose first argument has the key `first`."""

    path: Path
    line: int
    code: CodeType
    at: int
    """Index of its instruction in the code."""
    name: str
    first: str

    @classmethod
    def of(cls, frame: FrameType, name: str, first: str) -> Self:
        """The call that a frame is making."""
        path = Path(os.path.abspath(frame.f_code.co_filename))  # noqa: PTH100  `resolve` follows links
        return cls(path, frame.f_lineno, frame.f_code, frame.f_lasti, name, first)


class Calls:
    """Calls in files, each file parsed once."""

    def __init__(self) -> None:
        self._files: dict[Path, tuple[ast.Module, list[str]] | None] = {}

    def find(self, call: Call, place: Place, *, at_key: bool) -> Span | None:
        """Span of the value of an argument, of its key, or of the nearest around it; None if it is unknown."""
        if call.path not in self._files:
            self._files[call.path] = _parsed(call.path)
        file = self._files[call.path]
        node = None if file is None else _node_of(call, file[0])
        if file is None or node is None:
            return None
        found = _descend(node, place, call, at_key=at_key)
        return _span(found, file[1])


def _parsed(path: Path) -> tuple[ast.Module, list[str]] | None:
    try:
        if path.stat().st_size > _MOST:
            return None
        text = path.read_text("utf-8-sig")
        return ast.parse(text), text.splitlines()
    except (OSError, ValueError, SyntaxError, RecursionError):
        return None


def _node_of(call: Call, tree: ast.Module) -> ast.Call | None:
    line, end_line, _, end = next(
        itertools.islice(call.code.co_positions(), call.at // 2, None), (None, None, None, None)
    )
    nodes = (node for node in ast.walk(tree) if isinstance(node, ast.Call) and node.end_lineno == end_line)
    return next((node for node in nodes if node.lineno == line and node.end_col_offset == end), None)


def _descend(node: ast.expr, place: Place, call: Call, *, at_key: bool) -> ast.expr | ast.keyword:
    for depth, part in enumerate(place, 1):
        key, value = _child(node, part, call.first)
        if value is None:
            break
        if at_key and depth == len(place) and key is not None:
            return key
        node = value
    return node


def _child(
    node: ast.expr, part: str | int, first: str
) -> tuple[ast.expr | ast.keyword | None, ast.expr | None]:
    """The key and the value of a part of a literal or a call."""
    match node, part:
        case ((ast.List() | ast.Tuple()), int(index)):
            return None, node.elts[index] if index < len(node.elts) else None
        case ast.Dict(), str(name):
            for key, value in zip(node.keys, node.values, strict=True):
                if isinstance(key, ast.Constant) and key.value == name:
                    return key, value
        case ast.Call(), str(name):
            for keyword in node.keywords:
                if keyword.arg is not None and keyword.arg.removesuffix("_") == name:
                    return keyword, keyword.value
            if name == first and node.args:
                return None, node.args[0]
    return None, None


def _span(node: ast.expr | ast.keyword, lines: list[str]) -> Span | None:
    if not 0 < node.lineno <= len(lines):
        return None
    raw = lines[node.lineno - 1].encode()
    start = len(raw[: node.col_offset].decode("utf-8", "replace"))
    if isinstance(node, ast.keyword):
        return Span(node.lineno, start + 1, max(1, len(node.arg or "")))
    end = node.end_col_offset if node.end_lineno == node.lineno else None
    width = len(raw[node.col_offset : end].decode("utf-8", "replace")) if end is not None else 1
    return Span(node.lineno, start + 1, max(1, width))
