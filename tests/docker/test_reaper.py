"""Whatever dies, nothing is left, and nobody else's things are touched."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
import time

import docker
import pytest

from pytest_benchjobs.model.owner import current_owner
from pytest_benchjobs.sandbox.docker.engine import Engine
from pytest_benchjobs.sandbox.docker.provider import DockerProvider
from pytest_benchjobs.sandbox.docker.sweep import sweep
from tests.support import IMAGE, PATIENCE, containers, containers_left

pytestmark = pytest.mark.docker

OWNER = textwrap.dedent(f"""
    import sys, time
    from pytest_benchjobs.model.owner import current_owner
    from pytest_benchjobs.model.scenario import Environment
    from pytest_benchjobs.sandbox.docker.provider import DockerProvider
    from pytest_benchjobs.sandbox.protocol import SandboxSpec
    provider = DockerProvider(current_owner())
    environment = Environment(image="{IMAGE}", network="none")
    for number in range(3):
        provider.start(
            SandboxSpec(environment, {{"job": sys.argv[1]}}, "none", 120), lambda phase: None
        )
        print("started", flush=True)
    if sys.argv[2] == "close":
        provider.close()
    else:
        time.sleep(600)
    """)


def _start(job: str, ending: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", OWNER, job, ending], stdout=subprocess.PIPE, text=True)


def test_the_reaper_removes_what_a_killed_process_leaves() -> None:
    process = _start("test-reaper-kill", "wait")
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.readline()
    process.send_signal(signal.SIGKILL)
    # The pipe ends with the process: the reaper does not hold it open.
    assert process.communicate(timeout=60)[0] in ("", "started\n")
    assert containers_left("test-reaper-kill") == []


def test_closing_leaves_neither_containers_nor_a_reaper() -> None:
    process = _start("test-reaper-close", "close")
    output, _ = process.communicate(timeout=PATIENCE)
    assert (process.returncode, output) == (0, "started\n" * 3)
    assert containers_left("test-reaper-close") == []
    alive = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert f"/{process.pid}/" not in alive


def _leave(client: docker.APIClient, **labels: str) -> str:
    created: str = client.create_container(
        IMAGE,
        ["true"],
        labels={
            "benchjobs.job": "test-sweep",
            **{f"benchjobs.{name}": value for name, value in labels.items()},
        },
    )["Id"]
    return created


@pytest.mark.alone
def test_a_sweep_takes_what_is_dead_and_leaves_what_may_live(client: docker.APIClient) -> None:
    me = current_owner()
    later, earlier = str(int(time.time()) + 600), str(int(time.time()) - 5)
    dead = me.model_copy(update={"started": "1"})
    rebooted = me.model_copy(update={"boot": "an-earlier-one"})
    try:
        gone = {
            _leave(client, owner=str(dead), host=me.host, deadline=later),
            _leave(client, owner=str(rebooted), host=me.host, deadline=later),
            _leave(client, owner=str(me), host="elsewhere", deadline=earlier),
        }
        kept = {
            _leave(client, owner=str(me), host=me.host, deadline=earlier),
            _leave(client, owner=str(dead), host="elsewhere", deadline=later),
            _leave(client, owner="nonsense", host=me.host),
        }
        network = client.create_network(
            "bench-test-sweep", labels={"benchjobs.owner": str(dead), "benchjobs.host": me.host}
        )["Id"]
        client.create_volume(
            "bench-test-sweep", labels={"benchjobs.owner": str(dead), "benchjobs.host": me.host}
        )
        swept = sweep(Engine(), me)
        left = set(containers("test-sweep"))
        assert (left & gone, left & kept) == (set(), kept)
        assert swept >= 5
        assert client.networks(ids=[network]) == []
        assert not client.volumes(filters={"name": "bench-test-sweep"})["Volumes"]
    finally:
        for container in containers("test-sweep"):
            client.remove_container(container, force=True)


@pytest.mark.alone
def test_a_provider_sweeps_when_asked(client: docker.APIClient) -> None:
    me = current_owner()
    left = _leave(client, owner=str(me.model_copy(update={"started": "1"})), host=me.host, deadline="0")
    provider = DockerProvider(me)
    try:
        assert provider.sweep() >= 1
        assert left not in containers("test-sweep")
    finally:
        provider.close()
