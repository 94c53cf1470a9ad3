"""Lines of arguments in calls in Python files. They are looked up only for a mistake."""

from __future__ import annotations

import ast
import itertools
import os.path
from pathlib import Path
from types import CodeType, FrameType
from typing import NamedTuple, Self

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
    first: str

    @classmethod
    def of(cls, frame: FrameType, first: str) -> Self:
        """The call that a frame is making."""
        path = Path(os.path.abspath(frame.f_code.co_filename))  # noqa: PTH100  `resolve` follows links
        return cls(path, frame.f_lineno, frame.f_code, frame.f_lasti, first)


class Calls:
    """Calls in files, each file parsed once."""

    def __init__(self) -> None:
        self._files: dict[Path, ast.Module | None] = {}

    def line(self, call: Call, place: Place) -> int | None:
        """Line of the value of an argument, or of the nearest around it; None if it is unknown."""
        if call.path not in self._files:
            self._files[call.path] = _parsed(call.path)
        tree = self._files[call.path]
        node: ast.expr | None = None if tree is None else _node_of(call, tree)
        line = None
        for part in place:
            if node is None:
                break
            line = node.lineno
            node = _child(node, part, call.first)
        return line if node is None else node.lineno


def _parsed(path: Path) -> ast.Module | None:
    try:
        return None if path.stat().st_size > _MOST else ast.parse(path.read_text("utf-8-sig"))
    except (OSError, ValueError, SyntaxError, RecursionError):
        return None


def _node_of(call: Call, tree: ast.Module) -> ast.Call | None:
    line, end_line, _, end = next(
        itertools.islice(call.code.co_positions(), call.at // 2, None), (None, None, None, None)
    )
    nodes = (node for node in ast.walk(tree) if isinstance(node, ast.Call) and node.end_lineno == end_line)
    return next((node for node in nodes if node.lineno == line and node.end_col_offset == end), None)


def _child(node: ast.expr, part: str | int, first: str) -> ast.expr | None:
    """The value of a part of a literal or a call."""
    match node, part:
        case ((ast.List() | ast.Tuple()), int(index)):
            return node.elts[index] if index < len(node.elts) else None
        case ast.Dict(), str(name):
            for key, value in zip(node.keys, node.values, strict=True):
                if isinstance(key, ast.Constant) and key.value == name:
                    return value
        case ast.Call(), str(name):
            for keyword in node.keywords:
                if keyword.arg is not None and keyword.arg.removesuffix("_") == name:
                    return keyword.value
            if name == first and node.args:
                return node.args[0]
    return None
