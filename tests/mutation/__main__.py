"""`python -m tests.mutation [ROOM ...]`: whether tests notice small changes of the code.

Draws mutants from the modules of all rooms, or of those whose path begins with a ROOM such as `store/`, in proportion to
their lines, and runs on each the tests for every day that reach its function (`reach.py`), the quickest first, until
one fails; on what survives, the extended ones too if asked. What survives is printed: whether it matters, a
person has to say.

Each processor has a copy of the tree with an environment of its own, so that processes which tests start have the mutant,
too. A test that also fails without a mutant is found at the end, and what it killed is tried again without that test.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import functools
import json
import os
import queue
import random
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests import building, rooms
from tests.mutation.mutate import Mutant, is_valid, mutants
from tests.mutation.reach import Reach, reached

TREE = rooms.ROOT
PACKAGE = TREE / rooms.PACKAGE
_DAILY, _EXTENDED = "not extended and not alone", "extended"
_FIRST = ("unit", "plugin")
"""Rooms of tests that need no engine."""
_STEPS = 4.0, 60.0
"""Seconds of the first and of a late step of tests, by what they took before and what it takes to collect one."""
_COLLECTION = 0.1
_SLOWER = 3.0
"""A mutant may make tests so many times slower before it is said to hang."""


@dataclasses.dataclass
class Verdict:
    """What became of a mutant."""

    module: str
    mutant: Mutant
    said: str = "survived"
    killer: str = ""
    """The test that failed, or how pytest ended where none did."""
    step: tuple[str, ...] = ()
    """What to run to see it fail: that test, or all that ran."""

    def __str__(self) -> str:
        change = f"{self.mutant.before[:110]}  ->  {self.mutant.after[:110]}"
        rest = self.killer if self.said == "killed" else change
        return f"{self.said:10} {self.module}:{self.mutant.line} {self.mutant.kind}  {rest}"


def sample(wanted: list[str], count: int, seed: int) -> list[tuple[str, Mutant]]:
    """Draw mutants, each from a module that is drawn by its lines."""
    chance = random.Random(seed)
    texts = {
        path.relative_to(PACKAGE).as_posix(): path.read_text("utf-8")
        for path in sorted(PACKAGE.rglob("*.py"))
    }
    texts = {
        name: text
        for name, text in texts.items()
        if "/samples/" not in name and (not wanted or name.startswith(tuple(wanted)))
    }
    left: dict[str, list[Mutant]] = {}
    weights = {name: text.count("\n") for name, text in texts.items()}
    drawn: list[tuple[str, Mutant]] = []
    while len(drawn) < count and weights:
        [name] = chance.choices([*weights], [*weights.values()])
        if name not in left:
            left[name] = list(mutants(texts[name]))
        if not left[name]:
            del weights[name]
            continue
        mutant = left[name].pop(chance.randrange(len(left[name])))
        if is_valid(mutant):
            drawn.append((name, mutant))
    return drawn


@functools.cache
def _leaning() -> dict[str, frozenset[str]]:
    """File of tests -> what it leans on. One that starts processes leans on what its name names as well."""
    found = {}
    for path in sorted((TREE / "tests").rglob("test_*.py")):
        name = str(path.relative_to(TREE))
        called = () if name.startswith("tests/unit/") else tuple(path.stem.split("_")[1:])
        found[name] = rooms.leaning(path) | rooms.named(called)
    return found


def killers(module: str) -> list[list[str]]:
    """Return the files of tests for a module, in the steps in which they are tried: the likeliest to fail first."""
    name = f"{rooms.PACKAGE}/{module}"
    words = {*Path(module).stem.split("_"), Path(module).parent.name}
    steps: dict[tuple[bool, bool], list[str]] = collections.defaultdict(list)
    for test, leaning in _leaning().items():
        near = name in leaning
        if near or any(
            rooms.room(other) == rooms.room(name) for other in leaning if other.startswith(rooms.PACKAGE)
        ):
            steps[not near, test.split("/")[1] not in _FIRST].append(test)
    for tests in steps.values():
        tests.sort(key=lambda test: (-len(words & set(re.split(r"[_/.]", test))), len(_leaning()[test])))
    return [steps[step] for step in sorted(steps)]


def reaching(module: str, mutant: Mutant, reach: Reach, most: float) -> list[list[str]]:
    """Return the tests that reach a mutant's function, the quickest first, in steps of ever more seconds.

    All of them take `most` seconds at the most.
    """
    known = reach.tests.get(f"{module} {mutant.function}")
    if not known:  # in a process that was not seen, or by no test
        return killers(module)
    steps: list[list[str]] = []
    length, left = _STEPS[0] / 2, 0.0
    for test in sorted(known, key=reach.seconds.__getitem__):
        most -= reach.seconds[test]
        if most < 0:
            break
        if left <= 0:
            length = min(2 * length, _STEPS[1])
            left = length
            steps.append([])
        steps[-1].append(test)
        left -= reach.seconds[test] + _COLLECTION
    return steps


class Copy:
    """A copy of the tree, its environment, and a process in it that runs tests in forks."""

    def __init__(self, directory: Path, reach: Reach) -> None:
        self._reach = reach
        self._tree = directory / "tree"
        building.clone(self._tree)
        python = building.environment(directory / "environment", [self._tree, *building.packages()])
        self._server = subprocess.Popen(
            [python, "-m", "tests.mutation.server"],
            cwd=self._tree,
            env=building.variables(python),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._written = 1_000_000_000

    def run(
        self, tests: list[str], marks: str, seconds: float, without: Iterable[str] = ()
    ) -> dict[str, Any]:
        """Run tests but some until one fails; says which, and whether time was up."""
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        asked = {"tests": tests, "marks": marks, "seconds": seconds, "without": [*without]}
        self._server.stdin.write(json.dumps(asked) + "\n")
        self._server.stdin.flush()
        return json.loads(self._server.stdout.readline())  # type: ignore[no-any-return]

    def allowed(self, tests: list[str], seconds: float) -> float:
        """Return how many seconds these tests may take: at least so many."""
        known = (self._reach.seconds.get(test.partition("[")[0], 0.0) for test in tests)
        return max(seconds, _SLOWER * sum(known))

    def write(self, module: str, source: str) -> None:
        """Write a module, with a time of its own: bytecode is known by that and the length."""
        path = self._tree / rooms.PACKAGE / module
        path.write_text(source, "utf-8")
        self._written += 10
        os.utime(path, (self._written, self._written))

    def judge(self, module: str, mutant: Mutant, without: set[str], asked: argparse.Namespace) -> Verdict:
        """Try a mutant, without those tests that fail anyway."""
        verdict = Verdict(module, mutant)
        seconds = asked.limit
        daily = reaching(module, mutant, self._reach, asked.most)
        further = killers(module) if asked.extended else []
        self.write(module, mutant.source)
        try:
            for marks, steps in ((_DAILY, daily), (_EXTENDED, further)):
                for tests in steps:
                    allowed = self.allowed(tests, seconds)
                    found = self.run(tests, marks, allowed, without)
                    if found["hangs"] and "::" in found["hangs"]:  # or the machine is slow
                        alone = self.run([found["hangs"]], marks, allowed, without)
                        if alone["failed"] or alone["hangs"]:
                            found["failed"] = found["hangs"]
                    if found["failed"]:
                        verdict.said = "killed" if marks == _DAILY else "killed+"
                        verdict.killer = found["failed"]
                        verdict.step = (verdict.killer,) if "::" in verdict.killer else tuple(tests)
                        return verdict
                    if found["hangs"]:
                        verdict.said = "not judged"
                        return verdict
            return verdict
        finally:
            self.write(module, (PACKAGE / module).read_text("utf-8"))

    def close(self) -> None:
        """End its process."""
        self._server.communicate()


def judge_all(drawn: list[tuple[str, Mutant]], base: Path, asked: argparse.Namespace) -> list[Verdict]:
    """Try all; then what killed one, without any mutant; and those mutants again without what fails anyway."""
    reach = reached(base / "reach", _DAILY, ("-n", str(2 * (os.cpu_count() or 1))))
    copies: queue.SimpleQueue[Copy] = queue.SimpleQueue()
    for number in range(asked.processes):
        copies.put(Copy(base / str(number), reach))

    def lent(work: Callable[[Copy, Any], Any], given: Any) -> Any:
        copy = copies.get()
        try:
            return work(copy, given)
        finally:
            copies.put(copy)

    def judge(copy: Copy, given: tuple[str, Mutant]) -> Verdict:
        verdict = copy.judge(*given, without, asked)
        print(verdict, flush=True)
        return verdict

    def fails(copy: Copy, step: tuple[str, ...]) -> bool:
        found = copy.run([*step], "", copy.allowed([*step], asked.limit))
        return bool(found["failed"] or found["hangs"])

    verdicts: list[Verdict] = []
    without: set[str] = set()
    with ThreadPoolExecutor(asked.processes) as pool:
        while drawn:
            new = [*pool.map(functools.partial(lent, judge), drawn)]
            steps = sorted({verdict.step for verdict in new if verdict.said.startswith("killed")})
            wrong = {
                step
                for step, failed in zip(steps, pool.map(functools.partial(lent, fails), steps), strict=True)
                if failed
            }
            print(*(f"fails without a mutant: {' '.join(step)}" for step in sorted(wrong)), sep="\n")
            without |= {step[0] for step in wrong if len(step) == 1}
            drawn = []
            for verdict in new:
                if verdict.step not in wrong or not verdict.said.startswith("killed"):
                    verdicts.append(verdict)
                elif "::" in verdict.killer:
                    drawn.append((verdict.module, verdict.mutant))
                else:
                    verdicts.append(dataclasses.replace(verdict, said="not judged"))
    while not copies.empty():
        copies.get().close()
    return verdicts


def main() -> None:
    """Draw a sample, try it, and list what survives."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutation")
    parser.add_argument(
        "rooms", nargs="*", help="beginnings of paths below the package (default: everything)"
    )
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument(
        "--limit", type=float, default=300, help="seconds for a step of tests of a mutant, at least"
    )
    parser.add_argument(
        "--most", type=float, default=900, help="seconds that all daily tests of a mutant may take"
    )
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument(
        "--extended", action="store_true", help="run the extended tests on what survives, too"
    )
    asked = parser.parse_args()
    print(f"seed {asked.seed}: {asked.count} mutants", flush=True)
    base = Path(tempfile.mkdtemp(prefix="mutation-"))
    try:
        verdicts = judge_all(sample(asked.rooms, asked.count, asked.seed), base, asked)
    finally:
        shutil.rmtree(base, ignore_errors=True)
    counts = collections.Counter(verdict.said for verdict in verdicts)
    print("", *(verdict for verdict in verdicts if not verdict.said.startswith("killed")), sep="\n")
    judged = max(1, len(verdicts) - counts["not judged"])
    daily, both = counts["killed"], counts["killed"] + counts["killed+"]
    print(
        f"seed {asked.seed}: {dict(counts)}; killed each day {daily / judged:.1%}, by all {both / judged:.1%}"
    )


if __name__ == "__main__":
    main()
