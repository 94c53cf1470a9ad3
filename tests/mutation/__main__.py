"""`python -m tests.mutation map`, then `run ROOM ...`: whether tests notice small changes of the code.

`map` runs the unit tests once, and notes which of them call which function. `run` draws mutants with a fixed seed from the
modules whose path begins with a ROOM, such as `store/` or `trial/outcome.py`, and runs the tests of the function on each, in a copy
of the tree. What survives is printed: whether it matters, a person has to say. Never a test: it takes an hour. It cannot judge
what runs in the gateway's own process, which starts with a clean environment, nor what only tests with containers reach.
"""

from __future__ import annotations

import argparse
import collections
import itertools
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
import zlib
from pathlib import Path
from typing import Any

import pytest

from tests.mutation.mutate import Mutant, is_valid, mutants

TREE = Path(__file__).parents[2]
PACKAGE = "pytest_benchjobs"
_MAP = "mutation-map.json"
_COPIED = (PACKAGE, "tests", "pyproject.toml", "conftest_examples", "docs", "CHANGELOG.md", "README.md")
_FIRST_TESTS = 120
"""How many tests of a function run first, the fastest; the others only on what survives these."""


class Recorder:
    """Notes which test calls which function, by file and qualified name."""

    def __init__(self, root: Path) -> None:
        self._root = f"{root / PACKAGE}/"
        self._test = ""
        self._ran: dict[Any, set[str]] = collections.defaultdict(set)
        self._failed: set[str] = set()
        self.seconds: dict[str, float] = {}

    def _called(self, frame: Any, event: str, _: object) -> None:
        if event == "call":
            self._ran[frame.f_code].add(self._test)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Any:
        """Record one test, its fixtures included."""
        self._test = item.nodeid
        began = time.perf_counter()
        threading.setprofile(self._called)
        sys.setprofile(self._called)
        try:
            return (yield)
        finally:
            sys.setprofile(None)
            threading.setprofile(None)  # type: ignore[arg-type]
            self.seconds[item.nodeid] = time.perf_counter() - began

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Remember what fails as it is: it would seem to kill every mutant."""
        if report.failed:
            self._failed.add(report.nodeid)

    def found(self) -> dict[str, dict[str, list[str]]]:
        """Module -> qualified name of a function -> its tests."""
        modules: dict[str, dict[str, list[str]]] = {}
        for code, tests in self._ran.items():
            if code.co_filename.startswith(self._root):
                functions = modules.setdefault(code.co_filename.removeprefix(self._root), {})
                known = functions.get(code.co_qualname, [])
                functions[code.co_qualname] = sorted({*known, *tests} - self._failed)
        return modules


def copy_tree(to: Path) -> None:
    """Copy what tests need."""
    for name in _COPIED:
        source = TREE / name
        if source.is_dir():
            shutil.copytree(source, to / name, ignore=shutil.ignore_patterns("__pycache__"))
        elif source.exists():
            shutil.copy(source, to / name)


def in_copy(copy: Path, arguments: list[str], limit: float, recorder: Recorder | None = None) -> int | None:
    """Run pytest in a copy, in a fork of this process, which has imported it; its status, or None after the limit."""
    child = os.fork()
    if child == 0:
        os.setsid()
        os.chdir(copy)
        sys.path.insert(0, str(copy))
        os.environ["PYTHONPATH"] = str(copy)  # for the processes that tests start
        for name in [name for name in sys.modules if name.split(".")[0] in (PACKAGE, "tests")]:
            del sys.modules[name]
        log = os.open(copy / "log.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(log, 1)
        os.dup2(log, 2)
        options = ["-q", "-p", "no:cacheprovider", "-p", "no:randomly", f"--basetemp={copy / 'tmp'}"]
        status = int(pytest.main([*options, *arguments], plugins=[recorder] if recorder else []))
        if recorder is not None:
            (copy / _MAP).write_text(json.dumps({"tests": recorder.found(), "seconds": recorder.seconds}))
        os._exit(status)
    deadline = time.monotonic() + limit
    while time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.05)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


def make_map(out: Path, tests: list[str]) -> None:
    """Run the tests once and write which function is called by which."""
    with tempfile.TemporaryDirectory() as name:
        copy_tree(Path(name))
        status = in_copy(Path(name), tests, 3600, Recorder(Path(name)))
        print((Path(name) / "log.txt").read_text()[-300:], f"status {status}")
        shutil.copy(Path(name) / _MAP, out)


def sample(rooms: list[str], count: int, seed: int) -> list[tuple[str, Mutant]]:
    """Draw mutants of the modules of some rooms, in a random order that depends on the seed alone."""
    found = []
    for path in sorted((TREE / PACKAGE).rglob("*.py")):
        module = path.relative_to(TREE / PACKAGE).as_posix()
        if any(module.startswith(room) for room in rooms):
            found += [(module, mutant) for mutant in mutants(path.read_text("utf-8"))]
    random.Random(seed).shuffle(found)
    valid = (each for each in found if is_valid(each[1]))  # to parse them all takes half a minute
    return list(itertools.islice(valid, count))


def judge(copy: Path, module: str, mutant: Mutant, found: dict[str, Any], limit: float) -> str:
    """Say what became of a mutant: killed, survived, out of time, or that no test of the map calls its function."""
    functions = found["tests"].get(module, {})
    # Of a function that is newer than the map, the tests of its module.
    tests = functions.get(mutant.function) or sorted({test for each in functions.values() for test in each})
    if not tests:  # it may run in processes of its own
        names = {module.partition("/")[0].removesuffix(".py"), Path(module).stem}
        files = {path for name in names for path in (copy / "tests/unit").glob(f"test_{name}*.py")}
        tests = sorted(f"tests/unit/{path.name}" for path in files)
    if not tests:
        return "uncovered"
    tests = sorted(tests, key=lambda test: found["seconds"].get(test, 0))
    path = copy / PACKAGE / module
    original = path.read_text("utf-8")
    path.write_text(mutant.source, "utf-8")
    try:
        for some in filter(None, (tests[:_FIRST_TESTS], tests[_FIRST_TESTS:])):
            expected = sum(found["seconds"].get(test, 0) for test in some)
            status = in_copy(copy, ["-x", *some], limit + 3 * expected)
            if status != 0:  # a test that is gone is an error of usage
                return {None: "timeout", int(pytest.ExitCode.USAGE_ERROR): "old map"}.get(status, "killed")
        return "survived"
    finally:
        path.write_text(original, "utf-8")


def main() -> None:
    """Make the map, or run a sample."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutation")
    parser.add_argument("what", choices=["map", "run"])
    parser.add_argument("names", nargs="*", help="tests for the map, or rooms to draw from")
    parser.add_argument("--map", type=Path, default=Path(tempfile.gettempdir()) / _MAP)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--limit", type=float, default=60, help="seconds for the tests of a mutant")
    parser.add_argument("--part", default="1/1", help="N/M: the N-th of M processes")
    asked = parser.parse_args()
    if asked.what == "map":
        make_map(asked.map, asked.names or ["tests/unit"])
        return
    part, parts = map(int, asked.part.split("/"))
    found = json.loads(asked.map.read_text())
    counts: collections.Counter[str] = collections.Counter()
    with tempfile.TemporaryDirectory() as name:
        copy_tree(Path(name))
        for module, mutant in sample(asked.names, asked.count, asked.seed)[part - 1 :: parts]:
            verdict = judge(Path(name), module, mutant, found, asked.limit)
            counts[verdict] += 1
            key = zlib.crc32(f"{module}{mutant.line}{mutant.after}".encode())
            change = f"{mutant.before[:110]}  ->  {mutant.after[:110]}" if verdict != "killed" else ""
            print(f"{verdict:9} {key:08x} {module}:{mutant.line} {mutant.kind}  {change}", flush=True)
    print(dict(counts))


if __name__ == "__main__":
    main()
