"""Run benchmarks afresh and in the agent's container, and list trials whose score differs.

`scripts/places.py [--attempts N] [PATH or benchmark of the catalogue ...]`, or else all of conftest_examples and what
of the catalogue comes with the package. Agents: the reference, one that does nothing, one that leaves rubbish, and one
that moves, links and removes files.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
AGENTS = (
    "oracle",
    "nop",
    "command:echo rubbish > rubbish.txt; for f in *; do [ -f $f ] && echo '# x' >> $f; done; true",
    "command:mkdir -p 'a b/c' && ln -s ../x 'a b/c/l'; for f in *.*; do [ -f $f ] && ln $f 'a b' && rm $f; done; true",
)
PLACES = ("fresh", "agent_container")
CATALOGUE = ("code-matrix",)


def scores(benchmark: str, place: str, attempts: int) -> dict[str, object]:
    """Run a benchmark in a place; return what each trial was worth, or how it ended."""
    with tempfile.TemporaryDirectory() as directory:
        path = ROOT / benchmark
        what = [f"--rootdir={path}", "."] if path.is_dir() else [f"--bench={benchmark}"]
        options = [f"--bench-dir={directory}", f"--bench-grade-in={place}", "--bench-concurrency=6"]
        agents = [f"--bench-agent={agent}" for agent in AGENTS]
        command = [sys.executable, "-m", "pytest", *what, "-q", "-p", "no:cacheprovider", "-o", "addopts="]
        subprocess.run(
            [*command, *options, *agents, f"--bench-attempts={attempts}"],
            cwd=path if path.is_dir() else directory,
            env={name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"},
            check=False,
        )
        found = {}
        for trial in Path(directory).glob("jobs/*/trials/*/*/*"):
            result = json.loads((trial / "result.json").read_text("utf-8"))
            score, failure = result["score"], result["failure"]
            found["/".join(trial.parts[-3:])] = score if failure is None else (score, failure["class"])
        return found


def main() -> None:
    """Compare, and print the differences."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--attempts", type=int, default=2)
    parser.add_argument("benchmarks", nargs="*")
    asked = parser.parse_args()
    examples = [str(path.relative_to(ROOT)) for path in sorted(ROOT.glob("conftest_examples/*/"))]
    count, differing = 0, []
    for benchmark in asked.benchmarks or [*examples, *CATALOGUE]:
        fresh, own = (scores(benchmark, place, asked.attempts) for place in PLACES)
        count += len(fresh.keys() & own.keys())
        differing += [
            f"{key}: afresh {fresh.get(key)}, in place {own.get(key)}"
            for key in sorted(fresh.keys() | own.keys())
            if fresh.get(key) != own.get(key)
        ]
        print(f"{benchmark}: {len(fresh)} afresh, {len(own)} in place", flush=True)
    print(f"{count} trials ran in both places; {len(differing)} differ", *differing, sep="\n")


if __name__ == "__main__":
    main()
