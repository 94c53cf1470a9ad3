"""Running pytest as a user does, in a directory of its own, and reading what it left."""

from __future__ import annotations

import glob
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import junitparser

IMAGE = "debian:bookworm-slim"

# Nothing of the session that runs the tests may reach the sessions under test.
_CLEAN = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST_", "BENCH", "COV_"))}


def command(*args: str) -> list[str]:
    return [sys.executable, "-m", "pytest", "--color=no", *args]


def start(directory: Path, *args: str, **env: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command(*args),
        cwd=directory,
        env={**_CLEAN, **env},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )


def run(directory: Path, *args: str, timeout: float = 240, **env: str) -> subprocess.CompletedProcess[str]:
    process = start(directory, *args, **env)
    try:
        output, _ = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        output, _ = process.communicate()
        raise AssertionError(f"pytest did not end within {timeout} s:\n{output}") from None
    return subprocess.CompletedProcess(process.args, process.returncode, output)


def results(directory: Path) -> list[dict[str, Any]]:
    """Every committed result of every job below `directory`, in a fixed order."""
    # Not Path.glob: that one raises where a directory vanishes under it, as those of running trials do.
    paths = glob.glob("reports/jobs/*/trials/*/*/*/result.json", root_dir=directory)  # noqa: PTH207
    found = [json.loads((directory / path).read_text()) for path in paths]
    return sorted(found, key=lambda result: (result["job"], result["node_id"]))


def by_agent(directory: Path) -> dict[str, list[dict[str, Any]]]:
    grouped: dict[str, list[dict[str, Any]]] = {}
    for result in results(directory):
        grouped.setdefault(result["agent"]["name"], []).append(result)
    return grouped


def junit_cases(path: Path) -> dict[str, str]:
    """Test case name -> passed, failure, error or skipped."""
    cases: dict[str, str] = {}
    for suite in junitparser.JUnitXml.fromfile(str(path)):
        for case in suite:
            name = f"{case.classname}::{case.name}"
            assert name not in cases, f"{name} is reported twice"
            kinds = [type(result).__name__.lower() for result in case.result]
            cases[name] = kinds[0] if kinds else "passed"
    return cases


def containers(job: str | None = None) -> list[str]:
    """Ids of containers of ours, of one job or of all."""
    import docker

    client = docker.APIClient(version="auto")
    try:
        label = f"benchjobs.job={job}" if job else "benchjobs.owner"
        return [found["Id"] for found in client.containers(all=True, filters={"label": label})]
    finally:
        client.close()
