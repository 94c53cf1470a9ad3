"""Run the benchmarks of conftest_examples afresh and in the agent's container, and list trials whose score differs.

Agents: the reference, one that does nothing, and one that leaves rubbish. `scripts/places.py [PATH ...]`
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RUBBISH = "command:echo rubbish > rubbish.txt; for f in *; do [ -f $f ] && echo '# x' >> $f; done; true"
PLACES = ("fresh", "agent_container")


def scores(paths: list[str], place: str) -> dict[tuple[str, str, int], object]:
    """Run everything in a place; return what each trial was worth, or how it ended."""
    with tempfile.TemporaryDirectory() as directory:
        options = [f"--bench-dir={directory}", f"--bench-grade-in={place}", "--bench-concurrency=6"]
        agents = [f"--bench-agent={agent}" for agent in ("oracle", "nop", RUBBISH)]
        command = [sys.executable, "-m", "pytest", *paths, "-q", "-p", "no:cacheprovider", "-o", "addopts="]
        subprocess.run([*command, *options, *agents], cwd=ROOT, check=False)
        found = {}
        for path in Path(directory).glob("jobs/*/trials/*/*/*/result.json"):
            result = json.loads(path.read_text())
            key = f"{result['benchmark']}::{result['scenario']}", result["agent"]["label"], result["attempt"]
            found[key] = (
                result["score"]
                if result["failure"] is None
                else (result["score"], result["failure"]["class"])
            )
        return found


def main() -> None:
    """Compare, and print the differences."""
    paths = sys.argv[1:] or ["conftest_examples"]
    fresh, own = (scores(paths, place) for place in PLACES)
    print(f"{len(fresh)} trials afresh, {len(own)} in the agent's container")
    for key in sorted(fresh.keys() | own.keys(), key=str):
        if fresh.get(key) != own.get(key):
            print(*key, f"afresh {fresh.get(key)}, in place {own.get(key)}")


if __name__ == "__main__":
    main()
