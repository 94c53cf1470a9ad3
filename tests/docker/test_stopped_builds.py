"""A job that is stopped while an image is built or pulled ends at once, whoever stops it."""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import docker
import pytest

from tests.console import benchjobs
from tests.support import IMAGE, PATIENCE, jobs, results, start, until

from .registry import Registry

pytestmark = pytest.mark.docker

# Nothing but the trial itself ends its wait: whoever waits for trials to clean up would wait for ever.
FOR_EVER = """
from pytest_benchjobs.plugin import loop, worker
from pytest_benchjobs.sandbox.docker import pulling

loop._CLEANUP_SECONDS = worker._CLEANUP_SECONDS = 100_000.0
pulling._FIRST_WORD = 100_000.0
"""


def _manifest(directory: Path, environment: str) -> None:
    (directory / "conftest.py").write_text(FOR_EVER)
    (directory / "slow.bench.yaml").write_text(
        "benchmark: slow\nscenarios:\n"
        + "".join(
            f"""
  - id: {name}
    problem_statement: x
    {environment}
    build_timeout: 100000
    reference: "true"
    scorers: [{{name: s, type: command, command: "true"}}]
"""
            for name in ("one", "two")
        )
    )


def _stop(directory: Path, process: subprocess.Popen[str], how: str) -> None:
    if how == "cancel":
        (job,) = jobs(directory)
        assert benchjobs(directory, "cancel", job, "--dir", "reports").returncode == 0
    else:
        os.kill(process.pid, signal.Signals[how])


def _stopped(directory: Path, how: str, options: tuple[str, ...], waits: Callable[[], object]) -> None:
    process = start(directory, "slow.bench.yaml", *options)
    try:
        until(waits)
        _stop(directory, process, how)
        output, _ = process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
        process.communicate()
    (job,) = jobs(directory)
    record = json.loads((directory / "reports" / "jobs" / job / "job.json").read_text())
    assert record["status"] == "cancelled", output
    assert results(directory) == [], "what did not run has no result"
    assert "Traceback" not in output


@pytest.mark.parametrize("options", [(), ("-n", "2")], ids=["one process", "xdist"])
@pytest.mark.parametrize("how", ["SIGINT", "SIGTERM", "cancel"])
def test_while_an_image_is_built(
    tmp_path: Path, client: docker.APIClient, how: str, options: tuple[str, ...]
) -> None:
    marker = f"sleep 4{secrets.randbelow(10**6):06}"
    (tmp_path / "Dockerfile").write_text(f"FROM {IMAGE}\nRUN {marker}\n")
    _manifest(tmp_path, "dockerfile: Dockerfile")

    def building() -> list[str]:
        return [found["Id"] for found in client.containers(all=True) if marker in found["Command"]]

    try:
        _stopped(tmp_path, how, options, building)
        until(lambda: not building())
    finally:
        for container in building():
            client.remove_container(container, force=True)


@pytest.mark.parametrize("how", ["SIGTERM", "cancel"])
def test_while_an_image_is_pulled(tmp_path: Path, how: str) -> None:
    registry = Registry()
    registry.silent = True
    registry.start()
    _manifest(tmp_path, f"image: {registry.image('slow')}")
    try:
        _stopped(tmp_path, how, (), registry.hanging.is_set)
    finally:
        registry.stop()
