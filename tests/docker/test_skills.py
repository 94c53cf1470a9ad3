"""Skills that a scenario has for its agent are where the agent looks for them, and are the agent's own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support import IMAGE, results, run

pytestmark = pytest.mark.docker

_AGENT = """
name = "reader"
argv = ["/bin/sh", "-c", "id -u; cat {state}/skills/kind/SKILL.md; rm -r {state}/skills/kind; ls {state}/skills"]
stdin = false
capabilities = ["skills"]
skills = "{state}/skills"
"""


def _run(path: Path, *arguments: str) -> dict[str, Any]:
    (path / "reader.agent.toml").write_text(_AGENT)
    run(path, *arguments, "--bench-agent", "reader")
    (result,) = results(path)
    return result


def _log(path: Path, result: dict[str, Any]) -> str:
    return (path / "reports/jobs" / result["job"] / result["path"] / "agent.log").read_text()


def _manifest(path: Path, **keys: object) -> None:
    scenario = {
        "id": "one",
        "problem_statement": "Be kind.",
        "image": IMAGE,
        "workdir": "/app",
        "scorers": [{"type": "bash", "script": "echo 1"}],
        **keys,
    }
    (path / "skills.bench.yaml").write_text(json.dumps({"benchmark": "skills", "scenarios": [scenario]}))


def test_skills_are_the_agents_own_whoever_it_is(tmp_path: Path) -> None:
    setup = "mkdir -p /srv/skills/kind && echo be kind > /srv/skills/kind/SKILL.md"
    _manifest(tmp_path, skills_dir="/srv/skills", setup=[setup], agent_user="1234")
    result = _run(tmp_path, "skills.bench.yaml")
    assert result["outcome"] == "passed"
    assert _log(tmp_path, result) == "1234\nbe kind\n"


def test_a_directory_that_is_not_there_is_an_error_of_the_environment(tmp_path: Path) -> None:
    _manifest(tmp_path, skills_dir="/srv/skills")
    failure = _run(tmp_path, "skills.bench.yaml")["failure"]
    assert failure["class"] == "environment"
    assert failure["message"] == "skills_dir: there is no directory /srv/skills in the container"


@pytest.mark.parametrize("there", [True, False])
def test_a_harbor_task_may_have_skills_at_the_usual_place(tmp_path: Path, there: bool) -> None:
    task = tmp_path / "tasks" / "kind"
    for name in ("environment", "tests"):
        (task / name).mkdir(parents=True)
    (task / "task.toml").write_text("[agent]\ntimeout_sec = 60\n")
    (task / "instruction.md").write_text("Be kind.\n")
    made = (
        "RUN mkdir -p /harbor/skills/kind && echo be kind > /harbor/skills/kind/SKILL.md\n" if there else ""
    )
    (task / "environment" / "Dockerfile").write_text(f"FROM {IMAGE}\n{made}")
    (task / "tests" / "test.sh").write_text("echo 1 > /logs/verifier/reward.txt\n")
    result = _run(tmp_path, "tasks/kind")
    said = _log(tmp_path, result)
    assert ("be kind" in said) is there, said
    assert (result["outcome"] == "passed") is there
