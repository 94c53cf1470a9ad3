"""Input nobody here wrote: task directories of Terminal-Bench 2.0, as they are.

`BENCHJOBS_TB2` names the directory that holds them; they are not part of this project. Where no registry answers,
`scripts/standins.sh` builds the base images they ask for.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support import results, run

ROOT = Path(__file__).resolve().parent.parent.parent
TASKS = (
    "constraints-scheduling", "log-summary-date-ranges", "polyglot-c-py", "regex-log", "sqlite-db-truncate",
)  # fmt: skip

pytestmark = [pytest.mark.docker, pytest.mark.slow]


@pytest.fixture
def tasks() -> Path:
    directory = Path(os.environ.get("BENCHJOBS_TB2", ""))
    missing = [name for name in TASKS if not (directory / name / "task.toml").is_file()]
    if missing:
        pytest.skip(
            f"BENCHJOBS_TB2 names no directory with the Terminal-Bench 2.0 tasks {', '.join(missing)}"
        )
    return directory


@pytest.fixture
def image_map() -> list[str]:
    done = subprocess.run([ROOT / "scripts" / "standins.sh"], check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout.split()


def test_the_oracle_solves_each_task_and_nop_none(tasks: Path, image_map: list[str], tmp_path: Path) -> None:
    for name in TASKS:
        shutil.copytree(tasks / name, tmp_path / "terminal-bench" / name)
    (tmp_path / "pytest.ini").write_text("[pytest]\n", "utf-8")
    agents = ["--bench-agent=oracle", "--bench-agent=nop"]
    done = run(tmp_path, "terminal-bench", *agents, *image_map, "--bench-concurrency=4", timeout=3600)
    verdicts = {
        (result["scenario"], result["agent"]["name"]): (
            result["outcome"],
            result["score"],
            result["failure"] and result["failure"]["message"],
        )
        for result in results(tmp_path)
    }
    passed = ("passed", 1.0, None)
    failed = ("failed", 0.0, "score 0 is below the threshold 1")
    assert verdicts == {
        (task, agent): verdict for task in TASKS for agent, verdict in (("oracle", passed), ("nop", failed))
    }
    assert done.returncode == pytest.ExitCode.TESTS_FAILED, done.stdout
