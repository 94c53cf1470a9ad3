"""The same tasks under Harbor and here: what each says of them, and seconds of a trial. See docs/performance.md.

Needs `HARBOR`, the path of its command, and Docker Compose, which Harbor asks for: `HARBOR=venv/bin/harbor python -m
tests.performance peers`. Figures come from files of results, not from what is printed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from tests.support import IMAGE, results

FEW, MANY = 4, 12
_TASK = """\
version = "1.0"
[agent]
timeout_sec = {seconds}
[verifier]
timeout_sec = 60.0
[environment]
cpus = 1
memory_mb = 256
"""
_SOLVE = "#!/bin/bash\necho 6 > /app/out.txt\n"
_GRADE = """\
#!/bin/bash
sleep {seconds}
if grep -qx 6 /app/out.txt; then echo 1; else echo 0; fi > /logs/verifier/reward.txt
"""
# Writes the answer three seconds after its time is up, and two before it is graded.
_LATE = "#!/bin/bash\n(sleep 8; echo 6 > /app/out.txt) &\nsleep 600\n"


class Run(NamedTuple):
    """What a system made of a directory of tasks."""

    seconds: float
    status: int
    scores: dict[str, float | None]
    """Score of each task that was tried; None for an error."""


def task(directory: Path, name: str, **files: str) -> None:
    """Write a task which its solution solves, with other contents of the named files."""
    content = {
        "task.toml": _TASK.format(seconds="60.0"),
        "instruction.md": "Write 6 to /app/out.txt.\n",
        "environment/Dockerfile": f"FROM {IMAGE}\nWORKDIR /app\n",
        "solution/solve.sh": _SOLVE,
        "tests/test.sh": _GRADE.format(seconds=0),
        **files,
    }
    for path, text in content.items():
        target = directory / name / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
        target.chmod(0o755)


def here(tasks: Path, agent: str) -> Run:
    """Run tasks here, one at a time."""
    reports = tasks.parent / "reports"
    command = [
        sys.executable,
        "-m",
        "pytest",
        str(tasks),
        "--continue-on-collection-errors",
        "-p",
        "no:cacheprovider",
    ]
    more = [
        "-c",
        os.devnull,
        "--rootdir",
        str(tasks.parent),
        "--bench-agent",
        agent,
        "--bench-dir",
        str(reports),
    ]
    started = time.perf_counter()
    status = subprocess.run(
        [*command, *more, "--bench-concurrency", "1"], capture_output=True, check=False
    ).returncode
    seconds = time.perf_counter() - started
    return Run(seconds, status, {one["scenario"]: one["score"] for one in results(tasks.parent)})


def harbor(tasks: Path, agent: str) -> Run:
    """Run tasks under Harbor, one at a time."""
    jobs = tasks.parent / "jobs"
    command = [os.environ["HARBOR"], "run", "-p", str(tasks), "-a", agent, "-n", "1", "-o", str(jobs)]
    started = time.perf_counter()
    status = subprocess.run(command, capture_output=True, check=False).returncode
    seconds = time.perf_counter() - started
    scores: dict[str, float | None] = {}
    for path in jobs.glob("*/*/result.json"):
        trial = json.loads(path.read_text())
        rewards = (trial.get("verifier_result") or {}).get("rewards") or {}
        scores[trial["task_name"].rpartition("/")[2]] = rewards.get("reward")
    return Run(seconds, status, scores)


def verdicts(run: Callable[[Path, str], Run]) -> Iterator[str]:
    """Yield sentences about what a system says of tasks that fail, cannot be built, cannot be read, or end late."""
    with tempfile.TemporaryDirectory() as name:
        task(tasks := Path(name) / "zeros", "solves")
        zeros = run(tasks, "nop")
        yield f"a score of 0: exit status {zeros.status}"
    with tempfile.TemporaryDirectory() as name:
        task(tasks := Path(name) / "four", "solves")
        task(tasks, "image", **{"environment/Dockerfile": f"FROM {IMAGE}\nRUN exit 7\n"})
        task(tasks, "broken", **{"task.toml": 'timeout_sec = "soon'})
        late = {"task.toml": _TASK.format(seconds="5.0"), "solution/solve.sh": _LATE}
        task(tasks, "late", **late, **{"tests/test.sh": _GRADE.format(seconds=5)})
        four = run(tasks, "oracle")
        yield f"of 4 tasks, one with an image that does not build and one that cannot be read: exit status {four.status}"
        yield f"tasks in the results: {', '.join(sorted(four.scores))}"
        yield f"score of the one whose image does not build: {four.scores.get('image')}"
        yield f"score of work that was done after the agent's time was up: {four.scores.get('late')}"


def slope(run: Callable[[Path, str], Run]) -> float:
    """Return the seconds that a trial more takes."""
    seconds = []
    for count in (FEW, MANY):
        with tempfile.TemporaryDirectory() as name:
            tasks = Path(name) / "many"
            for number in range(count):
                task(tasks, f"t{number}")
            seconds.append(run(tasks, "oracle").seconds)
    return (seconds[1] - seconds[0]) / (MANY - FEW)


def measure() -> Iterator[tuple[str, float, str, str]]:
    """Print what each says of the same tasks, and yield how long a trial takes, over Harbor's."""
    for run in (harbor, here):
        for sentence in verdicts(run):
            print(f"{run.__name__}: {sentence}", flush=True)
    theirs, ours = slope(harbor), slope(here)
    yield (
        "a trivial trial beside Harbor's",
        ours / theirs,
        "<= 1",
        f"{ours:.2f} s, Harbor {theirs:.2f} s, one at a time",
    )
