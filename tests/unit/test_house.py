"""The shape of the package: how its files import each other, and how long its functions are."""

from __future__ import annotations

import ast
import functools
import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest_benchjobs

PACKAGE = "pytest_benchjobs"
PACKAGE_DIRECTORY = Path(pytest_benchjobs.__file__).parent
ROOT = Path(__file__).parents[2]
LARGEST_CIRCLE = 2
LONGEST_FUNCTION = 80

Graph = Mapping[str, frozenset[str]]


def test_no_circle_of_imports_is_larger_than_two_files() -> None:
    assert [sorted(circle) for circle in circles(imports()) if len(circle) > LARGEST_CIRCLE] == []


def test_no_circle_leads_through_two_rooms() -> None:
    rooms: dict[str, set[str]] = {}
    for file, imported in imports().items():
        rooms.setdefault(room(file), set()).update(room(other) for other in imported)
    between = {name: frozenset(others - {name}) for name, others in rooms.items()}
    assert [sorted(circle) for circle in circles(between)] == []


def test_no_function_is_long() -> None:
    long = [
        f"{name}.{function.name}: {lines(function)} lines"
        for name, tree in sources().items()
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef) and lines(function) > LONGEST_FUNCTION
    ]
    assert long == []


def test_every_file_that_the_page_of_architecture_names_is_there() -> None:
    page = (ROOT / "docs/architecture.md").read_text("utf-8")
    named = set(re.findall(r"`((?:[a-z_]+/)+[a-z_]+\.(?:py|toml|md))`", page))
    assert len(named) > 40
    assert [
        name for name in sorted(named) if not any((at / name).exists() for at in (PACKAGE_DIRECTORY, ROOT))
    ] == []


def test_the_page_of_architecture_and_the_layers_name_every_room() -> None:
    rooms = {path.parent.name for path in PACKAGE_DIRECTORY.glob("*/__init__.py")}
    page = (ROOT / "docs/architecture.md").read_text("utf-8")
    drawn = set(re.findall(r"^  ([a-z]+)/ ", page, re.MULTILINE))
    assert drawn == rooms
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    layers = [layer.replace(f"{PACKAGE}.", "").split(" | ") for layer in contracts[0]["layers"]]
    assert {room for layer in layers for room in layer} == rooms
    assert "\n".join(" · ".join(layer) for layer in layers) in page


def test_circles_are_found() -> None:
    graph = {
        "a": frozenset("b"),
        "b": frozenset("ca"),
        "c": frozenset("d"),
        "d": frozenset("c"),
        "e": frozenset("a"),
    }
    assert sorted(map(sorted, circles(graph))) == [["a", "b"], ["c", "d"]]


def lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    assert function.end_lineno is not None
    return function.end_lineno - function.lineno + 1


def room(name: str) -> str:
    """The directory below the package that a file is in; a file beside the rooms is one by itself."""
    return name.partition(".")[0]


@functools.cache
def sources() -> dict[str, ast.Module]:
    """All files, by dotted name without that of the package."""
    root = Path(pytest_benchjobs.__file__).parent
    found = {}
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name] = ast.parse(path.read_text("utf-8"))
        found[name].is_package = parts[-1] == "__init__"  # type: ignore[attr-defined]
    return found


@functools.cache
def imports() -> Graph:
    """The files that each file imports: at its top, later, or for types alone."""
    return {name: frozenset(_imported(name, tree) - {name}) for name, tree in sources().items()}


def _imported(name: str, tree: ast.Module) -> Iterable[str]:
    package = name if tree.is_package else name.rpartition(".")[0]  # type: ignore[attr-defined]
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found.update(_own(alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            if node.level:
                parts = package.split(".") if package else []
                parts = parts[: len(parts) - node.level + 1] + ([node.module] if node.module else [])
                base = ".".join(parts)
            else:
                base = _own(node.module or "")
            for alias in node.names:
                whole = f"{base}.{alias.name}" if base else alias.name
                found.add(whole if whole in sources() else base)
    return found & sources().keys()


def _own(name: str) -> str:
    """A dotted name without that of the package; of others, one that no file has."""
    if name == PACKAGE:
        return ""
    return name.removeprefix(f"{PACKAGE}.") if name.startswith(f"{PACKAGE}.") else f"?{name}"


def circles(graph: Graph) -> set[frozenset[str]]:
    """Groups of names of which each leads to each other: Tarjan's strongly connected components."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: set[frozenset[str]] = set()

    def visit(name: str) -> None:
        index[name] = low[name] = len(index)
        stack.append(name)
        for other in graph[name]:
            if other not in index:
                visit(other)
                low[name] = min(low[name], low[other])
            elif other in stack:
                low[name] = min(low[name], index[other])
        if low[name] == index[name]:
            circle = set()
            while name not in circle:
                circle.add(stack.pop())
            if len(circle) > 1:
                found.add(frozenset(circle))

    for name in graph:
        if name not in index:
            visit(name)
    return found
