"""Completions of models with the verdicts that the official harness of BigCodeBench gave them: ours are the same.

The completions are not ours to copy: `OFFICIAL_VERDICTS` names a directory with rows (`bigcodebench-hard.jsonl.gz`), with
`NAME.jsonl` and `NAME_eval_results.json` of the harness, and with `venv`, a Python that has the packages of the rows.
"""

from __future__ import annotations

import functools
import gzip
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

import pytest_benchjobs

GIVEN = Path(os.environ.get("OFFICIAL_VERDICTS") or "/nowhere")
PROGRAM = Path(pytest_benchjobs.__file__).parent / "scoring" / "bigcodebench"
GRADE = """\
import json, os, sys
sys.path.insert(0, sys.argv[1])
from program import runner
runner._user = lambda: -1
os.chown = os.setgroups = os.setresgid = os.setresuid = lambda *_: None
print(json.dumps(runner.grade(json.load(sys.stdin))))
"""
PYTHON = GIVEN / "venv" / "bin" / "python"
SEEN = ("/usr", "/bin", "/lib", "/lib64", "/etc", str(PYTHON.resolve().parents[1]), str(GIVEN), str(PROGRAM))
ISOLATED = (
    "bwrap", *(word for path in SEEN for word in ("--ro-bind-try", path, path)), "--tmpfs", "/tmp", "--dev", "/dev",
    "--proc", "/proc", "--unshare-net", "--unshare-pid", "--die-with-parent", "--setenv", "HOME", "/tmp",
    "--setenv", "MPLBACKEND", "agg", "--chdir", "/tmp",
)  # fmt: skip


@functools.cache
def rows() -> dict[str, dict[str, Any]]:
    with gzip.open(GIVEN / "bigcodebench-hard.jsonl.gz", "rt", encoding="utf-8") as file:
        return {row["task_id"]: row for row in map(json.loads, file)}


@functools.cache
def completions(name: str) -> dict[str, str]:
    lines = (GIVEN / f"{name}.jsonl").read_text("utf-8").splitlines()
    return {one["task_id"]: one["solution"] for one in map(json.loads, lines)}


@functools.cache
def official(name: str) -> dict[str, str]:
    found = json.loads((GIVEN / f"{name}_eval_results.json").read_text("utf-8"))["eval"]
    return {task: verdicts[0]["status"] for task, verdicts in found.items()}


def names() -> list[str]:
    return sorted(path.name.removesuffix("_eval_results.json") for path in GIVEN.glob("*_eval_results.json"))


def verdict(row: dict[str, Any], solution: str) -> dict[str, Any]:
    task = {
        "solution": solution, "is_reply": False, "seconds": 240, "code_prompt": row["code_prompt"],
        "test": row["test"], "entry_point": row["entry_point"],
    }  # fmt: skip
    done = subprocess.run(
        [*ISOLATED, str(PYTHON), "-I", "-c", GRADE, str(PROGRAM)],
        input=json.dumps(task), capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.extended
@pytest.mark.parametrize(
    ("name", "task"),
    [(name, task) for name in names() for task in sorted(completions(name))] or [("none", "")],
)
def test_a_completion_has_the_official_verdict(name: str, task: str) -> None:
    if not task or shutil.which("bwrap") is None:
        pytest.skip("OFFICIAL_VERDICTS names no directory with completions, or bwrap is not here")
    row = rows()[task]
    reference = verdict(row, row["complete_prompt"] + "\n" + row["canonical_solution"])
    if reference["status"] != "pass":
        pytest.skip(f"the reference does not pass with these packages: {str(reference)[:300]}")
    found = verdict(row, completions(name)[task])
    assert found["status"] == official(name)[task], found
