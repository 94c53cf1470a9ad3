"""Feedback on a real engine: the agent goes on in its container, and never sees what it is graded by."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import IMAGE, by_agent, run

pytestmark = pytest.mark.docker

MANIFEST = f"""\
benchmark: turns
defaults:
  image: {IMAGE}
  workdir: /app
  network: none
  agent_timeout: 120
  fresh_container: {{paths: [.]}}
  feedback: {{statement: "{{problem}} It failed: {{output}}"}}
scenarios:
  - id: lines
    problem_statement: Write two lines to out.txt.
    reference: printf '1\\n2\\n' > out.txt
    scorers:
      - {{name: tests, type: tests, path: tests}}
"""
TESTS = """#!/bin/sh
test_two() { test $(cat out.txt | wc -l) -eq 2 || echo '<failure>hidden</failure>'; }
echo hidden
echo "<testsuite><testcase name='test_two'>$(test_two)</testcase></testsuite>" > $BENCH_JUNIT
"""
LEARNS = "grep hidden /bench/problem.md; if grep -qx -- '- test_two' /bench/problem.md; then echo 2 >> out.txt; else echo 1 > out.txt; fi"
LOOKS = "ls -d /tests /logs/verifier 2>&1 | grep -v cannot; echo x >> out.txt"
IN_THE_WAY = (
    "echo x >> out.txt; rm -rf /bench/problem.md; mkdir -p /bench/problem.md/x; (sleep 600 &) >/dev/null 2>&1; "
    "cp /bin/true /usr/local/bin/test; rm -rf /bin/ls"
)
GONE = "rm -rf /app /bin/sh /bin/bash /bin/dash"


@pytest.mark.extended
def test_an_agent_goes_on_in_its_container(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test.sh").write_text(TESTS)
    (tmp_path / "turns.bench.yaml").write_text(MANIFEST)
    agents = [f"--bench-agent=command:{script}" for script in (LEARNS, LOOKS, IN_THE_WAY, GONE)]
    done = run(tmp_path, "turns.bench.yaml", "--bench-agent=oracle", "--bench-agent=nop", *agents)
    found = by_agent(tmp_path)
    assert [(result["outcome"], result["turns"]) for result in found["oracle"]] == [("passed", [1.0])], (
        done.stdout
    )
    assert [(result["outcome"], result["turns"]) for result in found["nop"]] == [("failed", [0.0])]
    others = {result["agent"]["model"]: result for result in found["command"]}
    for script in (LEARNS, LOOKS, IN_THE_WAY):
        result = others[script]
        assert (result["outcome"], result["turns"]) == ("passed", [0.0, 1.0]), result
    for script, word in ((LOOKS, "/tests"), (LEARNS, "hidden")):
        log = tmp_path / "reports/jobs" / others[script]["job"] / others[script]["path"] / "agent.log"
        assert word not in log.read_text()
    assert (others[GONE]["outcome"], others[GONE]["score"]) == ("failed", 0.0), others[GONE]
