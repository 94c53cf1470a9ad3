"""The shape of the package: how its files import each other, and how long its functions are."""

from __future__ import annotations

import ast
import functools
import re
import tomllib
from collections.abc import Iterator, Mapping
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

UNREDACTED = ("sandbox.", "scoring.", "trial.", "gateway.", "agents.completion", "agents.conversation")
"""Where texts of sandboxes and endpoints are before they are redacted."""
NO_TEXT_OF_OTHERS = {
    # Lists, and a name of ours.
    "sandbox.docker.build: re.sub('[^a-z0-9]+', '-', name.lower()).strip('-')[:60]",
    "sandbox.kubernetes.pod: _LABEL_VALUE.sub('-', text)[:_LONGEST_VALUE]",
    "scoring.ast_grep: held[:100]",
    "scoring.own_runner: ends[0][1][:_NAMES]",
    "scoring.replies: found[:_CANDIDATES]",
    "scoring.swebench.pro: failing[:_SHOWN]",
    "scoring.swebench.verified: verdict.failing[:_SHOWN]",
    "scoring.told: files[:_FILES]",
    "trial.agent_programs: words[:_MOST_WORDS]",
    "trial.artifacts: good[:MATCH_LIMIT]",
    "trial.artifacts: said[:_NOTES]",
    "gateway.counts: said[:_MOST_VALUES]",
    "gateway.record: _UNSAFE.sub('_', part).lstrip('.')[:_LONGEST_NAME]",
    # Searched, and not shown.
    "scoring.expected_files: text[:_SEARCHED]",
    "scoring.answers: text[:SEARCHED]",
    "scoring.grids: text[-SEARCHED:]",
    "scoring.replies: place.inside[:LONGEST]",
    "scoring.values: text[:LONGEST + 1]",
    # Redacted already.
    "gateway.retrying: self._target.scrubber.error(bytes(content))[:_ERROR_LENGTH]",
    # Of a compiler, which knows none.
    "sandbox.program.compiling: said[:2000]",
    # Programs by themselves, which know no secrets: what they print is cut shorter where it is read.
    "scoring.bigcodebench.program.examine: f'{type(error).__name__}: {error}'[:_TRACE]",
    "scoring.bigcodebench.program.examine: trace[-_TRACE:]",
    "scoring.bigcodebench.program.examine: str(test.id()).rsplit('.', 1)[-1][:NAME_LIMIT]",
    "sandbox.docker.reaper: text[:500]",
}

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


def test_errors_of_a_call_of_pytest_are_made_in_one_place() -> None:
    """There they are escaped and cut, as every `InputError` is."""
    files = (PACKAGE_DIRECTORY / "plugin").glob("*.py")
    assert [path.name for path in files if "pytest.UsageError(" in path.read_text("utf-8")] == ["options.py"]


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


def test_texts_of_others_are_cut_in_one_place_which_knows_the_secrets() -> None:
    found = {
        f"{name}: {ast.unparse(cut)}"
        for name, tree in sources().items()
        if name.startswith(UNREDACTED)
        for cut in _cuts(tree)
    }
    assert sorted(found - NO_TEXT_OF_OTHERS) == []
    assert sorted(NO_TEXT_OF_OTHERS - found) == []


def _cuts(tree: ast.Module) -> Iterator[ast.Subscript]:
    """Slices that end or begin at a constant of at least 20; what has both ends is a piece of something."""
    numbers = {
        target.id: statement.value
        for statement in tree.body
        if isinstance(statement, ast.Assign)
        for target in statement.targets
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice) and not _is_list(node.value):
            ends = filter(None, (node.slice.lower, node.slice.upper))
            if [abs(_number(end, numbers)) >= 20 for end in ends] == [True]:
                yield node


def _is_list(node: ast.expr) -> bool:
    return isinstance(node, ast.List | ast.ListComp) or (
        isinstance(node, ast.Call)
        and ast.unparse(node.func).rpartition(".")[2] in ("list", "sorted", "tuple", "hexdigest")
    )


def _number(node: ast.expr, numbers: Mapping[str, ast.expr]) -> int:
    """The number that an expression has by constants of its file, or 0."""
    if isinstance(node, ast.Name):
        imported = 20 if node.id.isupper() else 0
        return _number(numbers[node.id], {}) if node.id in numbers else imported
    if isinstance(node, ast.UnaryOp):
        return _number(node.operand, numbers)
    if isinstance(node, ast.BinOp):
        return max(_number(node.left, numbers), _number(node.right, numbers))
    value = node.value if isinstance(node, ast.Constant) else 0
    return value if isinstance(value, int) else 0


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


def test_nothing_outside_of_the_room_of_sandboxes_knows_an_engine_by_name() -> None:
    """But in texts for people, and in names of a format: `dockerfile`, `docker_image`, `no_docker` of options."""
    engines = re.compile(r"(?i)bubblewrap|bwrap|podman|kubernetes|docker(?!file|_image|hub)")
    formats = {
        "settings": {"no_docker"},
        "sources": {"COMPOSE_FILE"},
    }
    found = {
        f"{name}: {word}"
        for name, tree in sources().items()
        if not name.startswith("sandbox.")
        for node in ast.walk(tree)
        for word in _identifiers(node)
        if engines.search(word) and word not in formats.get(name.partition(".")[0], ())
    }
    assert sorted(found) == []


def _identifiers(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Name(id=word) | ast.Attribute(attr=word) | ast.arg(arg=word) | ast.keyword(arg=str(word)):
            yield word
        case ast.FunctionDef(name=word) | ast.AsyncFunctionDef(name=word) | ast.ClassDef(name=word):
            yield word
        case ast.Import(names=names) | ast.ImportFrom(names=names):
            yield from (one.name for one in names)
            yield getattr(node, "module", None) or ""
