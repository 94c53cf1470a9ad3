"""The program in a model's reply, by the rules of BigCodeBench's official `sanitize`. Pure, with the standard library.

It runs in the container for grading, with the Python that also runs the program. The official one has the same rules
with another parser. Its oddities are kept, since its figures have them: decorated functions, statements that neither
import, define nor assign, and definitions that the tested function does not need are left out.
"""

from __future__ import annotations

import ast
import bisect
import io
import keyword
import tokenize
from collections.abc import Iterator, Mapping


def sanitize(reply: str, entry_point: str) -> str:
    """Return the imports of a reply and the definitions that `entry_point` needs; else its longest valid lines."""
    program = _needed(longest_program(reply.strip()), entry_point).strip()
    return program or longest_program(reply)


def longest_program(text: str) -> str:
    """Return the first of the longest valid programs of two lines or more, blank ones not counted; else line one."""
    lines = text.split("\n")
    for first, last in _spans(lines):
        if _is_valid("\n".join(lines[first : last + 1])):
            return "\n".join(lines[first : last + 1])
    return lines[0]


def _spans(lines: list[str]) -> Iterator[tuple[int, int]]:
    """Yield spans of lines, those with the most non-blank lines first."""
    before = [0]
    for line in lines:
        before.append(before[-1] + bool(line.strip()))
    starts = [at for at in range(len(lines)) if not _begins_indented(lines, at)]
    for wanted in range(before[-1], 0, -1):
        for first in starts:
            if before[-1] - before[first] < wanted:
                break
            last = max(bisect.bisect_left(before, before[first] + wanted) - 1, first + 1)
            while last < len(lines) and before[last + 1] - before[first] == wanted:
                yield first, last
                last += 1


def _begins_indented(lines: list[str], first: int) -> bool:
    """True if no program begins there, since its first statement is indented."""
    for line in lines[first:]:
        if line.strip() and not line.strip().startswith("#"):
            return line[0] in " \t"
    return False


def _is_valid(code: str) -> bool:
    try:
        ast.parse(code)
    except (SyntaxError, MemoryError, RecursionError, ValueError):
        return False
    return True


def _needed(code: str, entry_point: str) -> str:
    if not _is_valid(code):
        return ""
    imports: list[str] = []
    defined: dict[str, str] = {}
    lines = code.encode("utf-8", "replace").splitlines(keepends=True)
    for node in ast.parse(code).body:
        text = _text(lines, node)
        if isinstance(node, ast.Import) or (isinstance(node, ast.ImportFrom) and node.module != "__future__"):
            imports.append(text)
        elif (name := _name(node)) is not None:
            defined.setdefault(name, text)
    needed = _reachable(entry_point, {name: _names(text) for name, text in defined.items()})
    kept = [*imports, *(text for name, text in defined.items() if name in needed)]
    return _without_end("\n".join(kept), entry_point)


def _text(lines: list[bytes], node: ast.stmt) -> str:
    """The source of a statement. Offsets are in bytes."""
    first, last = node.lineno - 1, (node.end_lineno or node.lineno) - 1
    chosen = lines[first : last + 1]
    chosen[-1] = chosen[-1][: node.end_col_offset]
    chosen[0] = chosen[0][node.col_offset :]
    return b"".join(chosen).decode("utf-8", "replace")


def _name(node: ast.stmt) -> str | None:
    """The name that a statement defines: a function or class without decorators, or a variable."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return None if node.decorator_list else node.name
    target = (
        node.targets[0]
        if isinstance(node, ast.Assign)
        else node.target
        if isinstance(node, ast.AnnAssign)
        else None
    )
    return target.id if isinstance(target, ast.Name) else None


def _names(text: str) -> set[str]:
    """All names in a piece of a program, of any kind, including f-strings."""
    found = {
        token.string
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type == tokenize.NAME and not keyword.iskeyword(token.string)
    }
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Name):
            found.add(node.id)
        elif isinstance(node, ast.Attribute):
            found.add(node.attr)
    return found


def _reachable(name: str, needs: Mapping[str, set[str]]) -> set[str]:
    seen, waiting = {name}, [name]
    while waiting:
        for other in needs.get(waiting.pop(), set()) - seen:
            seen.add(other)
            waiting.append(other)
    return seen


def _without_end(code: str, entry_point: str) -> str:
    """The program without its trailing part: after its last indented line, from the first line that has the name."""
    lines = code.splitlines()
    cut = None
    for at in range(len(lines) - 1, -1, -1):
        if lines[at].startswith(" "):
            break
        if entry_point in lines[at]:
            cut = at
    return code if cut is None else "\n".join(lines[:cut])
