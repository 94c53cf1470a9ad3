"""Parts of the package that a test leans on, found by what it imports, and whether they changed.

A test marked `when_changed` takes long and is about few rooms. It is one for every day when one of their files changed,
else one of `make extended`. A file counts as changed that differs from the commit at `refs/benchjobs/extended`, which a
green `make extended` sets; where there is none, from the parent of HEAD. What is not committed yet counts, too.

Tests of `DIRECTORIES` start processes, containers or browsers. Each is for today when what its file imports, a room that
is named there, or one that its own name has, changed; and at each eighth commit, whatever changed. Those that are marked
`daily` are for every day.

    @pytest.mark.when_changed                     what the file of the test imports
    @pytest.mark.when_changed("scoring", "gate")  everything below directories, and files, of these names, and its own file
    @pytest.mark.when_changed(..., page="docs/gates.md")
                                                  this page, too; and each fourth commit, changed or not
"""

from __future__ import annotations

import ast
import functools
import zlib
from pathlib import Path

import pytest

from .shares import ROOT, commit, git

PACKAGE = "pytest_benchjobs"
REFERENCE = "refs/benchjobs/extended"
DIRECTORIES = {
    "agents": ("agents", "gateway"),
    "docker": ("sandbox", "trial", "scoring"),
    "kubernetes": ("kubernetes",),
    "local": ("sandbox",),
    "plugin": ("plugin",),
    "viewer": ("viewer",),
}
"""Directory of tests -> parts of the package that each of them goes through."""
_TURNS = 8
_TURNS_OF_PAGES = 4
"""By how many commits in a row each test of a directory, or of a page, has run once, whatever changed."""


def is_due(item: pytest.Item) -> bool:
    """Tell whether a test is for today."""
    changes = changed(ROOT)
    if changes is None:
        return True
    if has_turns(item):
        words = (*DIRECTORIES[_directory(item)], *item.path.stem.split("_")[1:])
        return its_turn(item.nodeid, _TURNS) or bool(changes & (leaning(item.path) | named(words)))
    mark = item.get_closest_marker("when_changed")
    if mark is None:
        return True
    page = mark.kwargs.get("page")
    if page and (page in changes or its_turn(item.name, _TURNS_OF_PAGES)):
        return True
    if str(item.path.relative_to(ROOT)) in changes:
        return True
    return bool(changes & (named(mark.args) if mark.args or page else leaning(item.path)))


def has_turns(item: pytest.Item) -> bool:
    """Tell whether a test is chosen by its directory."""
    own = any(item.get_closest_marker(marker) for marker in ("when_changed", "daily"))
    return _directory(item) in DIRECTORIES and not own


def _directory(item: pytest.Item) -> str:
    return item.path.relative_to(ROOT / "tests").parts[0]


@functools.cache
def leaning(test: Path) -> frozenset[str]:
    """Return the files, by their paths in the repository, that a file of tests is about: itself, what it imports of tests
    and of the package, and what those of the package import of their own room.
    """
    found: set[str] = set()
    waiting = [(test, True)]
    while waiting:
        path, follow = waiting.pop()
        name = str(path.relative_to(ROOT))
        if name in found:
            continue
        found.add(name)
        for imported in imports(path):
            inside = str(imported.relative_to(ROOT))
            if inside.startswith("tests/") or follow or room(inside) == room(name):
                waiting.append((imported, inside.startswith("tests/")))
    return frozenset(found)


def room(name: str) -> str:
    """Return the first directory of the package on a path, or the file there."""
    return name.removeprefix(f"{PACKAGE}/").partition("/")[0]


@functools.cache
def imports(path: Path) -> tuple[Path, ...]:
    """Return the files of this repository that a file imports, anywhere in it."""
    package = path.relative_to(ROOT).parent.parts
    found: dict[Path, None] = {}
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        names: list[tuple[str, ...]] = []
        if isinstance(node, ast.Import):
            names = [tuple(alias.name.split(".")) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else ()
            module = (*above, *(node.module.split(".") if node.module else ()))
            names = [(*module, alias.name) for alias in node.names]
        for parts in names:
            if parts[0] in (PACKAGE, "tests") and (file := _file(parts)):
                found[file] = None
    return tuple(found)


def _file(parts: tuple[str, ...]) -> Path | None:
    """Return the file of a module, or of that which has the last part as a name in it."""
    for some in (parts, parts[:-1]):
        for path in (ROOT.joinpath(*some).with_suffix(".py"), ROOT.joinpath(*some, "__init__.py")):
            if len(some) > 0 and path.is_file():
                return path
    return None


@functools.cache
def named(words: tuple[str, ...]) -> frozenset[str]:
    """Return the files of the package in whose path a directory or file has one of these names, in singular or plural."""
    return frozenset(
        name
        for name in _files()
        for part in Path(name).with_suffix("").parts[1:]
        if any(part in (word, f"{word}s", word.removesuffix("s")) for word in words)
    )


@functools.cache
def _files() -> tuple[str, ...]:
    found = (path.relative_to(ROOT) for path in sorted((ROOT / PACKAGE).rglob("*")) if path.is_file())
    return tuple(str(path) for path in found if path.suffix != ".pyc")


@functools.cache
def changed(root: Path) -> frozenset[str] | None:
    """Return the paths of the files that changed; None, for all, where nothing tells."""
    for reference in (REFERENCE, "HEAD^"):
        if (tracked := git(root, "diff", "--name-only", reference)) is not None:
            new = git(root, "ls-files", "--others", "--exclude-standard")
            return frozenset([*tracked, *(new or ())])
    return None


def its_turn(name: str, turns: int) -> bool:
    """Tell whether this commit runs the test of this name, which so many in a row do once."""
    return zlib.crc32(name.encode()) % turns == commit() % turns
