"""A score that was planted is worth nothing, and what was tampered with is named (`hostile/attacks.py`)."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import pytest

from tests.support import IMAGE, results, run

from .hostile.attacks import ATTACKS, OUT

pytestmark = pytest.mark.docker

# Built once for all runs: an image is kept by its content.
DOCKERFILE = f"""\
FROM {IMAGE}
RUN apt-get update \\
 && apt-get install -y --no-install-recommends git nodejs node-acorn perl python3-pytest \\
 && rm -rf /var/lib/apt/lists/*
RUN git init -q /repo && mkdir /check && echo 'require("acorn")' > /check/check.js
WORKDIR /app
"""
PROGRAMS = """\
bash -lc 'grep -q x /dev/null' >/dev/null 2>&1
perl -Mstrict -MList::Util=first -e 1
git -C /repo status >/dev/null 2>&1
awk 'BEGIN { exit 0 }'
echo x | iconv -f UTF-8 -t UTF-16 >/dev/null
node /check/check.js
"""
CHECK = f"""\
def test_right():
    with open("{OUT}") as file:
        assert file.read() == "right\\n"
"""


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def _native(directory: Path) -> None:
    _write(directory / "env" / "Dockerfile", DOCKERFILE)
    _write(directory / "tests" / "test_out.py", CHECK)
    _write(directory / "programs.sh", PROGRAMS)
    script = textwrap.indent(f"{PROGRAMS}grep -qx right {OUT} && echo score=1 || echo score=0\n", " " * 8)
    _write(
        directory / "planted.bench.yaml",
        f"""\
benchmark: planted
scenarios:
  - id: write-right
    dockerfile: env/Dockerfile
    network: none
    agent_timeout: 120
    problem_statement: Write right to out.txt.
    reference: echo right > out.txt
    scorers:
    - name: programs
      type: bash
      script: |
{script}
    - {{name: tests, type: tests, path: tests/}}
    - {{name: there, type: command, command: "grep -qx right {OUT}"}}
""",
    )


def _harbor(directory: Path) -> None:
    task = directory / "tasks" / "write-right"
    _write(task / "task.toml", 'schema_version = "1.3"\n[agent]\ntimeout_sec = 120\n')
    _write(task / "instruction.md", "Write right to /app/out.txt.\n")
    _write(task / "environment" / "Dockerfile", DOCKERFILE)
    _write(task / "solution" / "solve.sh", "#!/bin/bash\necho right > /app/out.txt\n")
    _write(task / "tests" / "test_out.py", CHECK)
    _write(
        task / "tests" / "test.sh",
        """\
#!/bin/bash
perl -Mstrict -e 1; awk 'BEGIN { exit 0 }'
cd /app
reward=0
python3 -P -m pytest -q /tests/test_out.py && grep -qx right /app/out.txt && reward=1
echo $reward > /logs/verifier/reward.txt
""",
    )


def _failed(found: list[dict[str, Any]], wanted: set[str]) -> None:
    """Every attack was tried, none has a score, and what had to be named was."""
    by_script = {result["agent"]["model"]: result for result in found}
    wrong = []
    for name in sorted(wanted):
        attack = ATTACKS[name]
        result = by_script[attack.script]
        tampered = set(result["agent_end"]["tampered"])
        if result["outcome"] == "passed" or result["score"]:
            wrong.append(f"{name}: score {result['score']}")
        if attack.named and not tampered & set(attack.named):
            wrong.append(f"{name}: {sorted(tampered)} is named instead of {attack.named}")
        if not attack.named and tampered:
            wrong.append(f"{name}: {sorted(tampered)} is named, for nothing")
        if result["agent_end"]["exit_status"] != 0:
            wrong.append(f"{name}: did not come to its end: {result['agent_end']}")
    assert not wrong, "\n".join(wrong)


def test_there_are_more_attacks_than_were_reported() -> None:
    assert len(ATTACKS) >= 29
    assert len({attack.script for attack in ATTACKS.values()}) == len(ATTACKS)


@pytest.mark.slow
def test_planted_scores_are_worth_nothing(tmp_path: Path) -> None:
    _native(tmp_path)
    agents = [f"--bench-agent=command:{attack.script}" for attack in ATTACKS.values()]
    done = run(
        tmp_path, "planted.bench.yaml", "--bench-agent=oracle", *agents, "--bench-concurrency=4", timeout=1800
    )
    found = results(tmp_path)
    (honest,) = [result for result in found if result["agent"]["name"] == "oracle"]
    assert (honest["outcome"], honest["score"]) == ("passed", 1.0), done.stdout
    assert honest["agent_end"]["tampered"] == []
    _failed([result for result in found if result is not honest], set(ATTACKS))


@pytest.mark.slow
def test_planted_scores_are_worth_nothing_in_a_harbor_task(tmp_path: Path) -> None:
    _harbor(tmp_path)
    wanted = {name for name, attack in ATTACKS.items() if attack.by_contract}
    agents = [f"--bench-agent=command:{ATTACKS[name].script}" for name in wanted]
    done = run(tmp_path, "tasks", "--bench-agent=oracle", *agents, "--bench-concurrency=4", timeout=1800)
    found = results(tmp_path)
    (honest,) = [result for result in found if result["agent"]["name"] == "oracle"]
    assert (honest["outcome"], honest["score"]) == ("passed", 1.0), done.stdout
    _failed([result for result in found if result is not honest], wanted)
