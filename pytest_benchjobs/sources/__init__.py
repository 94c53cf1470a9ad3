"""Sources of scenarios: native manifests, Harbor task directories, and datasets. Imports `system` and `model`.

Start reading with `protocol.py`, the protocol of a source; then `manifest.py`, `authored.py` (the same in Python),
`harbor.py` (keys: `harbor_keys.py`), or `rows.py`. Any of the first three may name a file of Docker Compose,
`compose.py`. `catalogue/` knows benchmarks by name, and `datasets/` has a file for each. A source lists references
cheaply, and makes a whole scenario when a trial of it runs.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .protocol import Source

ENTRY_SUFFIX = ".benchmark.toml"
"""Suffix of files that contain an entry of the catalogue."""
HOLDS_NONE = (
    "holds no *.bench.yaml, *.bench.toml, task directory, or Benchmark in a test_*.py, *_test.py or conftest.py; "
    "a Python file with another name has to be named itself"
)
"""Complaint about a directory."""
MAX_DEPTH = 3
"""Levels of plain directories that `find_sources` searches."""
_LOOKED_AT = 1 << 20
_KEYS = (rb"^benchmark\s*[:=]", rb"^(\[\[)?scenarios\s*[\]:=]")
"""Expressions for keys of a manifest."""
_NEVER = frozenset({"__pycache__", "node_modules", "reports"})
_COLLECTED = ("test_*.py", "*_test.py", "conftest.py")


def open_source(path: Path, benchmark: str | None = None) -> Source | None:
    """The manifest or Harbor task at `path` (a file, a task directory or its `task.toml`); None if it is neither.

    `benchmark` is the benchmark of a task directory; default: the name of the directory above it.
    """
    from ..system.paths import exists, is_directory, is_file, is_link

    if path.name == "task.toml" and is_file(path):
        path = path.parent
    if is_directory(path):
        from .harbor import HarborTask, is_task_directory

        return HarborTask(path, benchmark) if is_task_directory(path) else None
    from .manifest import Manifest, is_manifest

    # By its name alone: a link to nothing is a broken manifest.
    return Manifest(path) if is_manifest(path) and (exists(path) or is_link(path)) else None


def find_sources(path: Path, benchmark: str | None = None) -> list[Source]:
    """Every source at or under `path`, in order of name; task directories are not searched.

    `benchmark` is the benchmark of a task directory at or directly under it.

    Raises InputError: `path` does not exist, a directory cannot be read, or a file is not a source.
    """
    from ..model.errors import InputError
    from ..system.paths import exists, is_directory

    source = open_source(path, benchmark)
    if source is not None:
        return [source]
    if is_directory(path):
        return list(_sources_under(path, MAX_DEPTH, benchmark))
    if not exists(path):
        raise InputError("no such file or directory", path=path)
    what = likely_meant(path) or "neither *.bench.yaml, *.bench.toml nor a task directory"
    raise InputError(f"is not a benchmark: {what}", path=path)


def likely_meant(path: Path) -> str | None:
    """Return what keeps a path from being a benchmark that looks like one: its name, or a file that it lacks.

    None: nothing is known, also of what cannot be read.
    """
    with contextlib.suppress(OSError):
        return _likely_meant(path)
    return None


def _likely_meant(path: Path) -> str | None:
    from ..system.paths import is_directory, is_file

    if is_directory(path):
        for place in (path, *sorted(path.iterdir())):
            if is_file(place / "instruction.md") and not is_file(place / "task.toml"):
                return f"{place.name} has instruction.md, and no task.toml, which a task needs"
        return None
    if path.suffix not in (".yaml", ".yml", ".toml") or not is_file(path):
        return None
    with path.open("rb") as file:
        beginning = file.read(_LOOKED_AT)
    if not all(re.search(key, beginning, re.MULTILINE) for key in _KEYS):
        return None
    return f"its name tells; call it {path.stem}.bench{path.suffix}"


def _sources_under(directory: Path, depth: int, benchmark: str | None = None) -> Iterable[Source]:
    from ..model.errors import InputError

    try:
        children = sorted(directory.iterdir())
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", path=directory) from None
    for child in children:
        if child.name.startswith(".") or child.name in _NEVER:
            continue
        source = open_source(child, benchmark) if child.name != "task.toml" else None
        if source is not None:
            yield source
        elif depth > 0 and child.is_dir():
            yield from _sources_under(child, depth - 1)


def python_files(path: Path) -> list[Path]:
    """Return the Python files under a directory that pytest collects by default, and that mention `Benchmark`.

    Others need not be run to know that they have no benchmark. The directories are those of `find_sources`.
    """
    return list(_python_under(path, MAX_DEPTH))


def _python_under(directory: Path, depth: int) -> Iterable[Path]:
    from .harbor import is_task_directory

    if is_task_directory(directory):
        return
    for child in sorted(directory.iterdir()):
        if child.name.startswith(".") or child.name in _NEVER:
            continue
        if child.is_dir():
            if depth > 0:
                yield from _python_under(child, depth - 1)
        elif any(map(child.match, _COLLECTED)) and _mentions_benchmarks(child):
            yield child


def _mentions_benchmarks(path: Path) -> bool:
    try:
        text = path.read_bytes()
    except OSError:
        return False
    return b"pytest_benchjobs" in text and b"Benchmark" in text


def benchmark_schema() -> dict[str, Any]:
    """JSON Schema of a native manifest, for editors and for `benchjobs schema`."""
    from .written import WrittenManifest

    schema = WrittenManifest.model_json_schema(mode="validation")
    items = schema["properties"]["scenarios"]["items"]
    own, borrowed = items.pop("anyOf")
    # Not any of the two: editors would not know which mistakes to show.
    items |= {"if": {"required": ["from"]}, "then": borrowed, "else": own}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def did_you_mean(name: str, choices: Iterable[str]) -> str:
    """` did you mean 'workdir'?`, or an empty string if no choice is similar to `name`."""
    from .complaints import did_you_mean as suggest

    return suggest(name, choices)
