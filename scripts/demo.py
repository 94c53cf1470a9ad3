"""Runs the quickstart with two agents, and shows that it came out as it must.

One pytest command runs every scenario twice: `oracle` applies the reference solution, `nop` does nothing. A benchmark
that holds is solved by the first and not by the second. To pytest an unsolved trial is a failed test, so the command
itself ends with status 1, as it should; this script ends with 0 when, and only when, the picture is the right one.

    scripts/demo.py [more pytest options]
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
BENCHMARKS = ("conftest_examples/quickstart", "conftest_examples/harbor-task")
AGENTS = ("oracle", "nop")
UNSOLVED = 1
JOBS = ROOT / "reports" / "jobs"
NEXT = """\
Next, after `. .venv/bin/activate`:
  benchjobs summary demo -e         every scenario of this job, and why nop did not solve it
  pytest conftest_examples/quickstart --bench-scenario access-log --bench-agent 'command:echo 24 > server-errors.txt'
                                    an agent of your own, here one shell command: a third is right, which is worth 0.2
  benchjobs run --benchmarks conftest_examples/quickstart --agent oracle -n before
                                    the job again: nothing runs, its results are reused
  benchjobs baseline set before --name main --reason "first one"
  pytest conftest_examples/quickstart --bench-agent nop --bench-baseline main
                                    a red gate: nop is worse than oracle was, and the build fails with status 10
README.md goes on from there; docs/guide.md writes a first scenario."""


def main() -> int:
    """Run it, print the table, and judge."""
    options = [f"--bench-agent={agent}" for agent in AGENTS]
    shown = ["pytest", *BENCHMARKS, *options, *sys.argv[1:]]
    print("demo: $", " ".join(shown), flush=True)
    command = [sys.executable, "-m", *shown, "-p", "no:cacheprovider", "--bench-job-name=demo"]
    earlier = newest_job(JOBS)
    status = subprocess.run(command, cwd=ROOT, check=False, stdin=subprocess.DEVNULL).returncode
    job = newest_job(JOBS)
    if status not in (0, UNSOLVED) or job is None or job == earlier:
        print(f"demo: pytest ended with status {status}, and there is nothing to show", file=sys.stderr)
        return status or 1
    results = json.loads((job / "report.json").read_text("utf-8"))["results"]
    print_table(results)
    wrong = complaints(results)
    if status != UNSOLVED:
        wrong.append(f"pytest ended with status {status} although trials are unsolved")
    for line in wrong:
        print(f"demo: {line}", file=sys.stderr)
    if wrong:
        return 1
    print(
        f"\ndemo: as it must be. oracle solved all {len(results) // 2} scenarios, nop none, and nothing went wrong on\n"
        f"the way. pytest itself ended with status {UNSOLVED}, since nop's unsolved trials are failed tests.\n"
        f"demo: the report is in {job.relative_to(ROOT)}/ (summary.md, report.json, junit.xml, trials/)\n"
    )
    print(NEXT)
    return 0


def newest_job(directory: Path) -> Path | None:
    """Find the newest job that has a report. Job ids sort by time."""
    return max((report.parent for report in directory.glob("*/report.json")), default=None)


def complaints(results: list[dict[str, Any]]) -> list[str]:
    """Say what is not as it must be: a line for each."""
    wanted = {"oracle": "passed", "nop": "failed"}
    lines = [
        f"{result['scenario']} with {agent(result)} {result['outcome']}, and should have {wanted[agent(result)]}: "
        f"{(result.get('failure') or {}).get('message', '')}"
        for result in results
        if result["outcome"] != wanted[agent(result)]
    ]
    scenarios = {result["scenario"] for result in results}
    if not results or len(results) != len(AGENTS) * len(scenarios):
        lines.append(f"{len(results)} results for {len(scenarios)} scenarios x {len(AGENTS)} agents")
    return lines


def print_table(results: list[dict[str, Any]]) -> None:
    """Print a line for each scenario: score and seconds of either agent."""
    rows: dict[str, dict[str, str]] = {}
    for result in results:
        score = "error" if result["score"] is None else f"{result['score']:.2f}"
        rows.setdefault(result["scenario"], {})[agent(result)] = (
            f"{score} {result['outcome']} {result['seconds']:5.1f} s"
        )
    width = max(len(name) for name in rows)
    print("\n" + " " * (width + 2) + "  ".join(f"{name:<22}" for name in AGENTS).rstrip())
    for name, cells in rows.items():
        print((f"{name:<{width}}" + "".join(f"  {cells.get(agent, '-'):<22}" for agent in AGENTS)).rstrip())


def agent(result: dict[str, Any]) -> str:
    """Name the agent of a result."""
    return str(result["agent"]["name"])


if __name__ == "__main__":
    sys.exit(main())
