"""A scenario of Runloop, imported and run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.console import benchjobs
from tests.support import IMAGE, results, run

pytestmark = pytest.mark.docker

SCENARIO = {
    "name": "two files",
    "input_context": {"problem_statement": "Write b to x."},
    "environment_parameters": {"working_directory": "/srv/app", "launch_parameters": {"launch_commands": ["echo a > x"]}},
    "reference_output": "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n",
    "scoring_contract": {
        "scoring_function_parameters": [
            {"name": "script", "weight": 0.5, "scorer": {"type": "bash_script_scorer", "bash_script": "grep -qx b x && echo score=1.0 || echo 0"}},
            {
                "name": "tests",
                "weight": 0.5,
                "scorer": {
                    "type": "test_based_scorer",
                    "test_command": "sh checks/run.sh",
                    "test_files": [{"file_path": "checks/run.sh", "file_contents": "cmp x checks/expected\n"},
                                   {"file_path": "checks/expected", "file_contents": "b\n"}],
                },
            },
        ]
    },
}  # fmt: skip


def test_it_is_graded_as_there_and_its_tests_are_hidden_until_then(tmp_path: Path) -> None:
    (tmp_path / "two.json").write_text(json.dumps(SCENARIO))
    done = benchjobs(tmp_path, "scenario", "import", "two.json", "--image", IMAGE)
    assert done.returncode == 0, done.stderr
    agents = {
        "right=command:echo b > x": 1.0,
        "nop": 0.0,
        "half=command:echo b > x; mkdir -p checks; echo c > checks/expected; echo c > /tests": 1.0,
        "spy=command:cat checks/expected /tests/files/checks/expected > x": 0.0,
    }
    run(tmp_path, "benchmarks", *(f"--bench-agent={agent}" for agent in agents))
    assert {one["agent"]["name"]: one["score"] for one in results(tmp_path)} == {
        agent.partition("=")[0]: score for agent, score in agents.items()
    }
