"""The calls of another system's SDK have equivalents here, which one script and one manifest use, all of them."""

from __future__ import annotations

import re
from pathlib import Path

from .commands import PAGE, Project

MANIFEST = """
benchmark: toy
version: "1"
defaults: {image: none, workdir: /app}
scenarios:
  - id: hello
    problem_statement: Write hello.
    reference: echo hello > out.txt
    scorers:
      - {name: text, type: bash, script: "grep -qx hello out.txt && echo 1 || echo 0"}
  - id: count
    problem_statement: Write three lines.
    reference: seq 3 > out.txt
    scorers:
      - {name: lines, type: line-count, params: {lines: 3}}
"""
CONFTEST = """
import pytest_benchjobs
from pytest_benchjobs.testing import FakeProvider

@pytest_benchjobs.scorer("line-count")
def line_count(context):
    return float(context.run("wc -l < out.txt")[1].strip() == str(context.spec.params["lines"]))

def pytest_benchjobs_sandboxes():
    return {"fake": FakeProvider}
"""
SCRIPT = """
import pytest_benchjobs as benchjobs
from conftest import line_count
from pytest_benchjobs.testing import FakeProvider

def one():
    return benchjobs.start("toy.bench.yaml", "hello", agent="mine", name="a test run", sandbox=FakeProvider)

with one() as trial:
    assert trial.problem_statement == "Write hello."
    assert trial.exec("echo hello > out.txt").ok
    assert trial.score().passed

def several():
    own = {"line-count": line_count}
    return benchjobs.DrivenJob(agent="mine", name="a full run", sandbox=FakeProvider, scorers=own)

with several() as job:
    for scenario in ("hello", "count"):
        with job.start("toy.bench.yaml", scenario) as trial:
            trial.exec("seq 3 > out.txt")
            trial.complete()
print(sorted(result.score for result in job.results))
"""
COMMANDS = (
    "benchjobs benchmarks list",
    "benchjobs scenario list toy.bench.yaml",
    "benchjobs run --benchmark toy.bench.yaml --agent oracle",
)


def rows() -> list[tuple[str, str]]:
    """Theirs and ours of each row."""
    section = PAGE.read_text("utf-8").partition("\n## Calls of an SDK\n")[2].partition("\n## ")[0]
    cells = [line.strip("|").split(" | ") for line in section.splitlines() if line.startswith("| ")]
    return [(theirs.strip(), ours.strip()) for theirs, ours, _ in cells[1:]]


def test_every_call_of_ours_is_among_those_that_run() -> None:
    shown = re.sub(r", sandbox=FakeProvider(, scorers=own)?", "", "\n".join((MANIFEST, SCRIPT, *COMMANDS)))
    ours = [code for _, cell in rows() for code in re.findall(r"`([^`]+)`", cell)]
    assert len(ours) > 15
    # The container of a scenario is made of one of two.
    assert [code for code in ours if code not in shown] == ["dockerfile:"]


def test_all_of_them_do_what_they_should(tmp_path: Path) -> None:
    (tmp_path / "toy.bench.yaml").write_text(MANIFEST, "utf-8")
    (tmp_path / "conftest.py").write_text(CONFTEST, "utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\nbench_sandbox = fake\n", "utf-8")
    (tmp_path / "script.py").write_text(SCRIPT, "utf-8")
    project = Project(tmp_path)
    assert project.run("python script.py").splitlines()[-1] == "[0.0, 1.0]"
    for line in COMMANDS:
        printed = project.run(line)
        assert "hello" in printed or "code-matrix" in printed or "2 passed" in printed
