"""Small changes of a module, one at a time: comparisons, constants, calls, conditions, `except` bodies, returns."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Iterator

_COMPARED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
_COMPUTED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult,
}  # fmt: skip
_SWAPPED = {"min": "max", "max": "min", "any": "all", "all": "any"}


@dataclasses.dataclass(frozen=True)
class Mutant:
    """A change of a module."""

    function: str
    """Qualified name of its function, as in `Outer.method` or `f.<locals>.inner`."""
    line: int
    kind: str
    before: str
    after: str
    source: str
    """The whole module with the change."""


def mutants(source: str) -> Iterator[Mutant]:
    """Every change there is of what a module's functions do, in the order of its lines; see `is_valid`."""
    text = source.encode()
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    for function, node in _in_functions(ast.parse(source)):
        for kind, after in _changes(node):
            begin = starts[node.lineno - 1] + node.col_offset
            end = starts[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or 0)
            if isinstance(node, ast.ExceptHandler):  # its body alone
                begin = starts[node.body[0].lineno - 1] + node.body[0].col_offset
            changed = text[:begin] + after.encode() + text[end:]
            before = " ".join(text[begin:end].decode().split())
            yield Mutant(function, node.lineno, kind, before, after, changed.decode())


def is_valid(mutant: Mutant) -> bool:
    """Whether the change is Python: it is not where a precedence does not show in the text."""
    try:
        ast.parse(mutant.source)
    except SyntaxError:
        return False
    return True


def _in_functions(tree: ast.Module) -> Iterator[tuple[str, ast.expr | ast.stmt | ast.ExceptHandler]]:
    stack: list[tuple[str, str, ast.AST]] = [("", "", tree)]
    found = []
    while stack:
        function, prefix, node = stack.pop()
        children = list(ast.iter_child_nodes(node))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            function = f"{prefix}{node.name}"
            prefix = f"{function}.<locals>."
            children = node.body  # no default, decorator or annotation
        elif isinstance(node, ast.ClassDef):
            prefix = f"{prefix}{node.name}."
        elif isinstance(node, ast.JoinedStr):
            continue  # a text for people
        elif isinstance(node, ast.AnnAssign):
            children = [] if node.value is None else [node.value]
        elif isinstance(node, ast.Raise | ast.Assert):
            continue
        stack += [(function, prefix, child) for child in children]
        if function and isinstance(node, ast.expr | ast.stmt | ast.ExceptHandler):
            found.append((function, node))
    yield from sorted(found, key=lambda each: (each[1].lineno, each[1].col_offset))


def _changes(node: ast.AST) -> Iterator[tuple[str, str]]:
    match node:
        case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _COMPARED:
            yield "comparison", _text(ast.Compare(left, [_COMPARED[type(op)]()], [right]))
        case ast.BoolOp(op=op, values=values):
            other = ast.Or() if isinstance(op, ast.And) else ast.And()
            yield "and/or", _text(ast.BoolOp(other, values))
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield "not", _text(operand)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _COMPUTED and not _has_text(left, right):
            yield "arithmetic", _text(ast.BinOp(left, _COMPUTED[type(op)](), right))
        case ast.Constant(value=bool(value)):
            yield "constant", repr(not value)
        case ast.Constant(value=int(value)):
            yield "constant", repr(value + 1)
        case ast.Call(func=ast.Name(id=name), args=args, keywords=keywords) if name in _SWAPPED:
            yield name, ast.unparse(ast.Call(ast.Name(_SWAPPED[name]), args, keywords))
        case ast.IfExp(test=test, body=body, orelse=orelse):
            yield "condition", _text(ast.IfExp(test, orelse, body))
        case ast.Expr(value=ast.Call()):
            yield "call", "pass"
        case ast.Return(value=value) if value is not None and not isinstance(value, ast.Constant):
            yield "return", "return None"
        case ast.ExceptHandler(body=[*_, last]) if not isinstance(last, ast.Raise):
            yield "except", "raise"
        case ast.Continue():
            yield "continue", "break"


def _text(node: ast.expr) -> str:
    return f"({ast.unparse(node)})"


def _has_text(*nodes: ast.expr) -> bool:
    return any(
        isinstance(each, ast.JoinedStr) or (isinstance(each, ast.Constant) and isinstance(each.value, str))
        for each in nodes
    )
