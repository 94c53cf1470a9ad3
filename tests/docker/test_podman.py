"""What Podman does otherwise than Docker comes to the same in trials."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_benchjobs.model.owner import current_owner
from pytest_benchjobs.sandbox.docker.provider import DockerProvider
from pytest_benchjobs.sandbox.protocol import Promise
from tests.console import COMMAND
from tests.docker.podman import Podman, podman  # noqa: F401  a fixture
from tests.docker.sandboxes import sh, started
from tests.support import IMAGE, in_flight, jobs, results, run, start, until

pytestmark = [pytest.mark.docker, pytest.mark.slow]

QUICKSTART = Path(__file__).parents[2] / "conftest_examples" / "quickstart"


@pytest.fixture(scope="module")
def provider(podman: Podman) -> Iterator[DockerProvider]:  # noqa: F811  the fixture
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DOCKER_HOST", podman.host)
        provider = DockerProvider(current_owner())
    yield provider
    provider.close()


def test_it_says_what_it_lacks(provider: DockerProvider, podman: Podman) -> None:  # noqa: F811
    limits = {Promise.MEMORY, Promise.CPUS, Promise.PIDS} if podman.name.endswith("user") else set()
    assert set(provider.lacks()) == {Promise.OUT_OF_MEMORY, Promise.SERVICES, *limits}


def test_a_command_that_was_not_started_is_told_from_one_that_ends_the_same_way(
    provider: DockerProvider,
) -> None:
    with started(provider) as sandbox:
        forged = "echo 'Error: runc: exec failed: exec: \"x\": OCI permission denied'; exit 126"
        for script, status in (("exit 127", 127), (forged, 126), ("exit 125", 125)):
            ended = sh(sandbox, script)[0]
            assert (ended.started, ended.exit_status) == (True, status)
        for how in (
            {"argv": ["/nothing"]},
            {"argv": ["/etc/passwd"]},
            {"user": "nobody-such"},
            {"workdir": "/nowhere"},
        ):
            output = bytearray()
            result = sandbox.exec(**{"argv": ["true"], "timeout": 30, "sink": output.extend, **how})  # type: ignore[arg-type]
            assert not result.started, output


def test_processes_are_listed_without_a_program_of_the_image_and_all_are_ended(
    provider: DockerProvider,
) -> None:
    with started(provider) as sandbox:
        sh(
            sandbox,
            "setsid sleep 93 >/dev/null 2>&1 & printf '#!/bin/sh\n' > /bin/ps; chmod +x /bin/ps; sleep 0.1",
        )
        assert sandbox.processes() == ("sleep 93",)
        sandbox.end_processes()
        assert sandbox.processes() == ()
        # A signal to our first process is no kill by somebody else.
        assert sh(sandbox, "kill -KILL $$")[0].exit_status == 137
        assert provider.engine.client.inspect_container(sandbox.id)["Config"]["StopSignal"] in (
            "SIGKILL",
            9,
            "9",
        )


def test_a_network_is_left_and_joined_and_closed_to_the_machine(provider: DockerProvider) -> None:
    interfaces = "cd /sys/class/net && echo *"
    with started(provider) as sandbox:
        assert sh(sandbox, interfaces)[1] == "lo\n"
        sandbox.set_network("public")
        assert sh(sandbox, interfaces)[1] == "eth0 lo\n"
        sandbox.set_network("none")
        assert sh(sandbox, interfaces)[1] == "lo\n"
        (note,) = sandbox.notes
        assert note.startswith("public trials can reach each other")
        is_root = not provider.services.info["Rootless"]
        assert is_root == ("link-local" not in note)


def test_jobs_have_the_scores_of_docker_and_leave_nothing(podman: Podman, tmp_path: Path) -> None:  # noqa: F811
    name = "quickstart" if podman.name != "trixie" else "made"
    if name == "made":
        scorer = {"name": "made", "type": "bash", "script": "echo score=$(cat made.txt || echo 0)"}
        scenario = {
            "id": "made",
            "problem_statement": "x",
            "reference": "echo 0.5 > made.txt",
            "scorers": [scorer],
        }
        defaults = {"image": IMAGE, "workdir": "/app", "network": "none", "memory": "64M", "threshold": 0.5}
        manifest = {"benchmark": "made", "defaults": defaults, "scenarios": [scenario]}
        (tmp_path / "made.bench.yaml").write_text(json.dumps(manifest))
    path = QUICKSTART / "quickstart.bench.yaml" if name == "quickstart" else tmp_path / "made.bench.yaml"
    agents = ("--bench-agent=oracle", "--bench-agent=nop", f"--bench-dir={tmp_path}/reports")
    done = run(tmp_path, str(path), *agents, DOCKER_HOST=podman.host)
    found = {
        agent: [one["score"] for one in results(tmp_path) if one["agent"]["name"] == agent]
        for agent in ("oracle", "nop")
    }
    if name == "made":
        assert found == {"oracle": [0.5], "nop": [0]}, done.stdout
    else:
        assert found["oracle"] == [1] * 8, done.stdout
        assert sorted(found["nop"]) == pytest.approx([0] * 6 + [0.25, 12 / 19]), done.stdout
    assert podman.left() == []


@pytest.mark.parametrize("by", ["reaper", "gc", "recover"])
def test_a_killed_job_leaves_nothing(podman: Podman, tmp_path: Path, by: str) -> None:  # noqa: F811
    """Its reaper sees to it; where that is killed too, `gc` does, or the next start, which finds the job closed."""
    scorer = {"name": "s", "type": "command", "command": "true"}
    defaults = {"image": IMAGE, "workdir": "/app", "network": "none"}
    scenarios = [{"id": "slow", "problem_statement": "x", "scorers": [scorer]}]
    manifest = {"benchmark": "made", "defaults": defaults, "scenarios": scenarios}
    (tmp_path / "made.bench.yaml").write_text(json.dumps(manifest))
    (tmp_path / "slow.agent.yaml").write_text('name: slow\nargv: [sleep, "100"]\n')
    process = start(tmp_path, "made.bench.yaml", "--bench-agent=slow", DOCKER_HOST=podman.host)
    until(lambda: in_flight(tmp_path))
    assert podman.left()
    reaper = [] if by == "reaper" else _reapers(process.pid)
    for pid in (*reaper, process.pid):
        os.kill(pid, signal.SIGKILL)
    process.communicate()
    if by != "reaper":
        assert (len(reaper), bool(podman.left())) == (1, True)
    if by == "gc":
        _benchjobs(podman, tmp_path, "gc", "-y")
        assert podman.left() == []
    if by == "recover":
        assert jobs(tmp_path) == set(re.findall(r"\d{8}-\d{6}-\w+", _benchjobs(podman, tmp_path, "recover")))
        again = run(tmp_path, "made.bench.yaml", "--bench-agent=nop", DOCKER_HOST=podman.host)
        assert again.returncode == 0, again.stdout
    until(lambda: not podman.left(), what=lambda: f"left: {podman.left()}")


def _reapers(pid: int) -> list[int]:
    children = subprocess.run(
        ["pgrep", "-P", str(pid), "-f", "reaper"], capture_output=True, text=True, check=False
    )
    return [int(one) for one in children.stdout.split()]


def _benchjobs(podman: Podman, directory: Path, *arguments: str) -> str:  # noqa: F811
    return subprocess.run(
        [*COMMAND, *arguments],
        cwd=directory,
        env={**os.environ, "DOCKER_HOST": podman.host},
        check=True,
        capture_output=True,
        text=True,
    ).stdout
