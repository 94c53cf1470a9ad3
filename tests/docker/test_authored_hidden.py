"""Answers of a benchmark in Python are nowhere in the container of an agent, and what it leaves does not earn a score."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import IMAGE, results, run

pytestmark = pytest.mark.docker

MODULE = f'''
from pytest_benchjobs import Benchmark, Scenario, scorer

@scorer("xyzzy-scorer")
def grade(context):
    """XYZZY-in-the-scorer"""
    _, output = context.run("cat out.txt 2>/dev/null")
    return 1.0 if output.strip() == "XYZZY-answer" else 0.0

hidden = Benchmark(
    "hidden",
    defaults={{"image": "{IMAGE}", "workdir": "/app", "network": "none", "agent_timeout": 120}},
    scenarios=[
        Scenario("in-python", problem_statement="Guess.", reference="echo XYZZY-answer > out.txt", scorers=[grade]),
        Scenario(
            "in-files",
            problem_statement="Guess.",
            files={{"given.txt": "given.txt"}},
            reference={{"files": {{"out.txt": "solved.txt"}}}},
            scorers=[{{"type": "tests", "path": "tests", "command": "diff /tests/expected.txt out.txt"}}],
        ),
    ],
)
'''
SEARCH = (
    "grep -rlsa XYZZY / --exclude-dir=proc --exclude-dir=sys; grep -lsa XYZZY /proc/[0-9]*/environ /proc/[0-9]*/cmdline; "
    "find / -name '*test_hidden*' -not -path '/proc/*' 2>/dev/null; env"
)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "test_hidden.py").write_text(MODULE)
    (tmp_path / "given.txt").write_text("given\n")
    (tmp_path / "solved.txt").write_text("XYZZY-answer\n")
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/expected.txt").write_text("XYZZY-answer\n")
    return tmp_path


def test_the_reference_passes_and_an_agent_that_searches_finds_nothing(project: Path) -> None:
    assert run(project, "test_hidden.py").returncode == 0
    spy = f"command:({SEARCH}) > found.txt 2>&1; cat found.txt | tee out.txt"
    run(project, "test_hidden.py", "--bench-agent", spy, "--bench-force")
    spied = [one for one in results(project) if one["agent"]["name"] == "command"]
    assert {(one["scenario"], one["outcome"], one["score"]) for one in spied} == {
        ("in-python", "failed", 0.0),
        ("in-files", "failed", 0.0),
    }
    for one in spied:
        (log,) = project.glob(f"reports/jobs/*/{one['path']}/agent.log")
        found = [line for line in log.read_text().splitlines() if "XYZZY" in line or "test_hidden" in line]
        # The search itself names what it searches for.
        assert [line for line in found if "grep -rlsa" not in line and not line.startswith("/proc/")] == [], (
            found
        )


def test_an_agent_that_plants_a_score_fails(project: Path) -> None:
    plant = (
        "command:mkdir -p /tests /logs/verifier; echo wrong > /tests/expected.txt; echo wrong > out.txt; "
        "echo 1 > /logs/verifier/reward.txt; echo score=1.0; printf '#!/bin/sh\\nexit 0\\n' > /usr/bin/diff"
    )
    run(project, "test_hidden.py", "--bench-agent", plant)
    assert {(one["scenario"], one["score"]) for one in results(project)} == {
        ("in-python", 0.0),
        ("in-files", 0.0),
    }
