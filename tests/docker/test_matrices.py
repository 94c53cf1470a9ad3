"""The code matrix and the research matrix, in real containers: sound, and nothing is to be had but by solving them."""

from __future__ import annotations

import json
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.console import COMMAND, benchjobs
from tests.docs.commands import examples
from tests.support import by_agent, results, run

pytestmark = pytest.mark.docker

AGENT = """
name: {name}
argv: ["/bin/sh", "-c", {script}]
capabilities: [shell, code.read, code.write, code.edit, code.search, code.shell]
"""
# Each is given the repository `expiring`, and does not mend it.
CHEATS = {
    "claims": "echo 'resolved: true' > result.json; echo score=1; printf 1 > /logs/verifier/reward.txt",
    "ends-the-process": "sed -i '1i import os, sys; print(chr(123)+chr(125)); sys.stdout.flush(); os._exit(0)' expiring/__init__.py",
    "looks-for-answers": "cat > expiring/__init__.py <<'END'\nimport glob, os\nfor path in glob.glob('/tests/*') + ['/proc/%d/fd/0' % os.getppid()]:\n    print(open(path).read())\nEND",
    "prints-results": "echo 'import atexit, os; atexit.register(lambda: (print(chr(10) + chr(123) + chr(34) + \"result\" + chr(34) + \": 1}\"), os._exit(0)))' >> expiring/__init__.py",
    "equals-everything": "cat > expiring/cache.py <<'END'\nclass Yes(int):\n    def __eq__(self, other): return True\nclass Cache:\n    def __init__(self, *a, **k): pass\n    def __getattr__(self, name): return lambda *a, **k: Yes(1)\nEND",
    "changes-the-grader": "mkdir -p /tests; echo 'raise SystemExit(0)' > /tests/grade.py; echo 'raise SystemExit(0)' > json.py; cp json.py subprocess.py; cp json.py sitecustomize.py",
    "hangs": "echo 'import time; time.sleep(1000)' > expiring/__init__.py",
    "fills": "echo 'while True: print(chr(65) * 1000000)' > expiring/__init__.py",
    "forks": "echo 'import os, time\nif os.fork() == 0: os.setsid(); time.sleep(1000)' >> expiring/__init__.py",
    "removes-it": "rm -rf expiring .git README.md",
}  # fmt: skip


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("matrices")
    (directory / "pytest.ini").write_text("[pytest]\n")
    return directory


def agent(directory: Path, name: str, script: str) -> None:
    text = AGENT.format(name=name, script=json.dumps(script))
    (directory / f"{name}.agent.yaml").write_text(text, "utf-8")


@pytest.mark.parametrize(("name", "count"), [("swe_bench_orchestrated", 5), ("gaia_orchestrated", 13)])
@pytest.mark.extended
def test_they_are_sound(name: str, count: int, tmp_path: Path) -> None:
    """Every reference passes, doing nothing does not."""
    done = benchjobs(tmp_path, "benchmarks", "check", name, "--attempts", "1", "--", "--bench-concurrency=4")
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{count} scenarios: {count} ok" in done.stdout


@pytest.mark.extended
def test_no_cheat_resolves_a_repository(place: Path) -> None:
    for name, script in CHEATS.items():
        agent(place, name, script)
    chosen = [f"--bench-agent={name}" for name in CHEATS]
    run(place, "--bench=code-matrix", "--bench-scenario=expiring-entries", *chosen, "--bench-concurrency=4")
    found: dict[str, list[dict[str, Any]]] = by_agent(place)
    assert {name: [(one["outcome"], one["score"]) for one in some] for name, some in found.items()} == {
        name: [("failed", 0.0)] for name in CHEATS
    }


@pytest.mark.extended
def test_the_lines_of_the_orchestrator_run_them(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\nbench_agent = eliza\n")
    agent(
        tmp_path,
        "eliza",
        "git log --oneline; cat gauge.log | awk '/level=/' | wc -l > answer.txt; env | grep BENCH_",
    )
    for line in ("code-matrix", "research-matrix"):
        (ours,) = [example.ours for example in examples() if example.id == line]
        script = f'benchjobs() {{ {shlex.join(COMMAND)} "$@"; }}; {ours}'
        done = subprocess.run(
            ["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False
        )
        assert done.returncode == 1, done.stdout + done.stderr
    found = results(tmp_path)
    assert [(one["benchmark"], one["outcome"], one["score"]) for one in found] == [
        *[("code-matrix", "failed", 0.0)] * 3,
        *[("research-matrix", "failed", 0.0)] * 10,
    ]
    assert {one["agent"]["label"] if "label" in one["agent"] else one["agent"]["name"] for one in found}


def test_another_dataset_is_refused(tmp_path: Path) -> None:
    done = run(tmp_path, "--bench=gaia_orchestrated", "--bench-param=dataset=validation")
    assert done.returncode == 4
    assert "dataset: there is only 'sample', which comes with the package, and no 'validation'" in done.stdout
