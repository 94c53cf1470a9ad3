"""The shape of the package: how its files import each other, and how long its functions are."""

from __future__ import annotations

import ast
import functools
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path

import grimp
import numpy
import scipy.sparse.csgraph

import pytest_benchjobs

PACKAGE = "pytest_benchjobs"
PACKAGE_DIRECTORY = Path(pytest_benchjobs.__file__).parent
ROOT = Path(__file__).parents[2]
LARGEST_CIRCLE = 2
LONGEST_FUNCTION = 80

Graph = Mapping[str, frozenset[str]]


def test_no_circle_of_imports_is_larger_than_two_files() -> None:
    assert len(imports()) > 500
    assert [circle for circle in circles(imports()) if len(circle) > LARGEST_CIRCLE] == []


def test_no_circle_leads_through_two_rooms() -> None:
    rooms: dict[str, set[str]] = {}
    for file, imported in imports().items():
        rooms.setdefault(room(file), set()).update(room(other) for other in imported)
    between = {name: frozenset(others - {name}) for name, others in rooms.items()}
    assert circles(between) == []


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


def lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    assert function.end_lineno is not None
    return function.end_lineno - function.lineno + 1


def room(name: str) -> str:
    """The directory below the package that a file is in; a file beside the rooms is one by itself."""
    return name.partition(".")[0]


@functools.cache
def sources() -> dict[str, ast.Module]:
    """All files, by dotted name without that of the package."""
    found = {}
    for path in sorted(PACKAGE_DIRECTORY.rglob("*.py")):
        parts = path.relative_to(PACKAGE_DIRECTORY).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = ast.parse(path.read_text("utf-8"))
    return found


@functools.cache
def imports() -> Graph:
    """The files that each file imports: at its top, later, or for types alone."""
    graph = grimp.build_graph(PACKAGE, cache_dir=None)
    return {
        _own(name): frozenset(map(_own, graph.find_modules_directly_imported_by(name)))
        for name in graph.modules
    }


def _own(name: str) -> str:
    """A dotted name without that of the package."""
    return name.removeprefix(PACKAGE).removeprefix(".")


def circles(graph: Graph) -> list[list[str]]:
    """Groups of names of which each leads to each other."""
    names = sorted(graph)
    leads = [[other in graph[name] for other in names] for name in names]
    _, groups = scipy.sparse.csgraph.connected_components(numpy.array(leads), connection="strong")
    found = [[name for name, of in zip(names, groups, strict=True) if of == group] for group in set(groups)]
    return [circle for circle in found if len(circle) > 1]
