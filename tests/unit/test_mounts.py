"""What cannot be mounted is told before anything is started."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from pytest_benchjobs.model.errors import AgentSetupFailed, ContainerStartFailed
from pytest_benchjobs.model.owner import current_owner
from pytest_benchjobs.model.scenario import Environment
from pytest_benchjobs.sandbox.docker.creating import FilesNotSeen
from pytest_benchjobs.sandbox.docker.provider import DockerProvider, _mountable
from pytest_benchjobs.sandbox.protocol import File, Mount, SandboxSpec


@pytest.mark.parametrize(
    ("host", "source", "told"),
    [
        ("tcp://192.0.2.1:2375", "", r"tcp://192\.0\.2\.1:2375.*unset DOCKER_HOST"),
        ("unix:///no/such.sock", "missing", r"missing does not exist.*/opt/agent"),
    ],
    ids=["elsewhere", "missing"],
)
def test_what_cannot_be_mounted_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, host: str, source: str, told: str
) -> None:
    monkeypatch.setenv("DOCKER_HOST", host)
    mounts = (Mount(tmp_path / source, "/opt/agent"),)
    spec = SandboxSpec(Environment(image="i"), {}, "none", 60, mounts=mounts)
    phases: list[str] = []
    with (
        contextlib.closing(DockerProvider(current_owner())) as provider,
        pytest.raises(AgentSetupFailed, match=told),
    ):
        provider.start(spec, phases.append)
    assert phases == []


def test_an_engine_that_sees_no_files_of_this_machine_gets_copies_of_an_agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mounts = (Mount(tmp_path, "/opt/agent", may_be_copied=True),)
    spec = SandboxSpec(Environment(image="i"), {}, "none", 60, mounts=mounts)
    copies = (File("/opt/agent", source=tmp_path, readable=True),)
    seen: list[tuple[tuple[Mount, ...], tuple[File, ...]]] = []

    def create(_services: object, spec: SandboxSpec, *_: object) -> None:
        seen.append((spec.mounts, spec.files))
        if spec.mounts:
            raise FilesNotSeen("no such source")
        raise ContainerStartFailed("that is all")

    monkeypatch.setattr("pytest_benchjobs.sandbox.docker.creating.create", create)
    for host, expected in (
        ("tcp://192.0.2.1:2375", [((), copies)]),
        # A process in a container with the socket of the engine. The second time it is known.
        ("unix:///no/such.sock", [(spec.mounts, ()), ((), copies), ((), copies)]),
    ):
        monkeypatch.setenv("DOCKER_HOST", host)
        seen.clear()
        with contextlib.closing(DockerProvider(current_owner())) as provider:
            for _ in range(len(expected) // 2 + 1):
                given = _mountable(spec, provider.engine, sees_files=provider._sees_files)
                with pytest.raises(ContainerStartFailed):
                    provider._started(given, None, None)  # type: ignore[arg-type]
        assert seen == expected
