"""What cannot be mounted is told before anything is started."""

from __future__ import annotations

import contextlib
import dataclasses
import socket
from pathlib import Path
from types import SimpleNamespace

import pytest

from pytest_benchjobs.model.errors import AgentSetupFailed, ContainerStartFailed
from pytest_benchjobs.model.owner import current_owner
from pytest_benchjobs.model.scenario import Environment
from pytest_benchjobs.sandbox.docker.creating import FilesNotSeen
from pytest_benchjobs.sandbox.docker.provider import DockerProvider
from pytest_benchjobs.sandbox.protocol import File, Mount, SandboxSpec


@pytest.mark.parametrize(
    ("host", "source", "told"),
    [
        ("unix:///no/such.sock", "missing", r"missing does not exist.*/opt/agent"),
    ],
    ids=["missing"],
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


def test_an_engine_that_sees_no_files_of_this_machine_is_given_them_and_relays_for_sockets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "door"))
        door, file = Mount(tmp_path / "door", "/bench/door"), Mount(tmp_path / "file", "/etc/file")
        mounts = (Mount(tmp_path, "/opt/agent"), file, door)
        spec = SandboxSpec(Environment(image="i"), {}, "none", 60, mounts=mounts)
        seen: list[SandboxSpec] = []

        def create(_services: object, spec: SandboxSpec, *_: object) -> None:
            seen.append(spec)
            raise FilesNotSeen("no such source") if spec.mounts else ContainerStartFailed("that is all")

        given = dataclasses.replace(
            spec,
            mounts=(),
            relayed=(door,),
            delivered=(("/opt/agent", "a-volume"),),
            files=(File("/etc/file", source=tmp_path / "file", readable=True),),
        )
        monkeypatch.setattr("pytest_benchjobs.sandbox.docker.creating.create", create)
        for host, expected in (
            ("tcp://192.0.2.1:2375", [given]),
            # A process in a container with the socket of the engine. The second time it is known.
            ("unix:///no/such.sock", [spec, given, given]),
        ):
            monkeypatch.setenv("DOCKER_HOST", host)
            seen.clear()
            with contextlib.closing(DockerProvider(current_owner())) as provider:
                provider.services.deliveries = SimpleNamespace(volume=lambda *_: "a-volume")  # type: ignore[assignment]
                for _ in range(len(expected) // 2 + 1):
                    with pytest.raises(ContainerStartFailed):
                        provider._started(spec, None, None)  # type: ignore[arg-type]
            assert seen == expected
