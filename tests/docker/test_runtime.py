"""Runtimes of the engine, and resources as two numbers, in real containers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pytest_benchjobs.model.owner import current_owner
from pytest_benchjobs.sandbox.docker.provider import DockerProvider
from tests.support import IMAGE, results, run

from .sandboxes import started

pytestmark = pytest.mark.docker

TASK = f"""
benchmark: words
scenarios:
  - id: write
    image: {IMAGE}
    workdir: /app
    network: none
    cpus: {{request: 0.5, limit: 64}}
    memory: 64M
    problem_statement: Write yes to out.txt.
    reference: echo yes > out.txt; dmesg | grep -i gvisor >> out.txt || true; sleep 1000 &
    scorers:
      - {{name: done, type: command, command: grep -qx yes out.txt}}
      - {{name: gvisor, type: command, command: "grep -qi gvisor out.txt && dmesg | grep -qi gvisor"}}
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "words.bench.yaml").write_text(TASK)
    return tmp_path


def test_containers_have_the_runtime_and_both_numbers(provider: DockerProvider) -> None:
    two: dict[str, Any] = {"memory": 64 << 20, "memory_request": 32 << 20, "cpus": 64, "cpus_request": 0.5}
    usual, *others = provider.runtimes()
    runtime = next((name for name in others if "runsc" not in name), usual)
    with started(provider, runtime=runtime, **two) as sandbox:
        config = provider.engine.client.inspect_container(sandbox.id)["HostConfig"]
        assert (config["Runtime"], config["Memory"], config["MemoryReservation"]) == (
            runtime,
            64 << 20,
            32 << 20,
        )
        machine = provider.services.info["NCPU"]
        assert (config["NanoCpus"], config["CpuShares"]) == (machine * 10**9, 512)
        assert sandbox.notes == (
            f"limit of cpus: {machine} instead of 64, as the engine's machine has no more",
        )


def test_an_unknown_runtime_is_an_error_before_any_trial(project: Path, provider: DockerProvider) -> None:
    done = run(project, "--bench-runtime=krunc")
    assert done.returncode == 4
    there = ", ".join(provider.runtimes())
    assert f"--bench-runtime: there is no runtime 'krunc'; available: {there}\n" in done.stdout
    assert not (project / "reports" / "jobs").exists()


def _gvisors() -> dict[bool, str]:
    """Runtimes that are gVisor, by whether they share files with the engine."""
    provider = DockerProvider(current_owner())
    try:
        listed = provider.services.info["Runtimes"].items()
    finally:
        provider.close()
    return {
        {"--overlay2=none", "--file-access=shared"} <= {*(about.get("runtimeArgs") or ())}: name
        for name, about in listed
        if str(about.get("path", "")).endswith("runsc")
    }


@pytest.mark.parametrize("shares", [True, False])
def test_gvisor_grades_or_says_why_it_cannot(project: Path, shares: bool) -> None:
    runtime = _gvisors().get(shares)
    if runtime is None:
        pytest.skip(
            f"the engine has no gVisor with{'' if shares else 'out'} --overlay2=none --file-access=shared"
        )
    done = run(project, f"--bench-runtime={runtime}")
    (result,) = results(project)
    if shares:
        assert (result["outcome"], result["resources"]["runtime"]) == ("passed", runtime), done.stdout
    else:
        assert result["failure"]["class"] == "environment", done.stdout
        assert "do not share their files with the engine" in result["failure"]["message"]
