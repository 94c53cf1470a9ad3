"""What cannot be mounted is told before anything is started."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from pytest_benchjobs.model.errors import AgentSetupFailed
from pytest_benchjobs.model.owner import current_owner
from pytest_benchjobs.model.scenario import Environment
from pytest_benchjobs.sandbox.docker.provider import DockerProvider
from pytest_benchjobs.sandbox.protocol import Mount, SandboxSpec


@pytest.mark.parametrize(
    ("host", "source", "told"),
    [
        ("tcp://192.0.2.1:2375", "", r"tcp://192\.0\.2\.1:2375.*unset DOCKER_HOST"),
        ("unix:///no/such.sock", "missing", r"missing is not there.*/opt/agent"),
    ],
    ids=["elsewhere", "missing"],
)
def test_what_cannot_be_mounted_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, host: str, source: str, told: str
) -> None:
    monkeypatch.setenv("DOCKER_HOST", host)
    spec = SandboxSpec(
        environment=Environment(image="i"),
        labels={},
        network="none",
        deadline=60,
        mounts=(Mount(tmp_path / source, "/opt/agent"),),
    )
    phases: list[str] = []
    with (
        contextlib.closing(DockerProvider(current_owner())) as provider,
        pytest.raises(AgentSetupFailed, match=told),
    ):
        provider.start(spec, phases.append)
    assert phases == []
