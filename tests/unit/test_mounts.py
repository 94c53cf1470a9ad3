"""What cannot be mounted is told before anything is started."""

from __future__ import annotations

import contextlib
import dataclasses
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_benchjobs.model.errors import AgentSetupFailed, ContainerStartFailed
from pytest_benchjobs.model.owner import current_owner
from pytest_benchjobs.model.scenario import Environment
from pytest_benchjobs.sandbox.docker.calling import Caller, caller, on_behalf_of
from pytest_benchjobs.sandbox.docker.creating import FilesNotSeen
from pytest_benchjobs.sandbox.docker.delivery import Deliveries
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
                provider.services.network = None  # type: ignore[assignment]
                for _ in range(len(expected) // 2 + 1):
                    with pytest.raises(ContainerStartFailed):
                        provider._start_alone(spec, None, lambda _: None)  # type: ignore[arg-type]
            assert seen == expected


class _Stopped(Exception):
    """The trial is to stop."""


class _SlowEngine:
    """An engine that takes the archive of a delivery piece by piece, and tells when it has the first one."""

    def __init__(self) -> None:
        self.client: Any = self
        self.uploading = threading.Event()
        self.go_on = threading.Event()
        self.removed: list[str] = []

    @contextlib.contextmanager
    def guard(self, who: Caller | None = None) -> Iterator[None]:
        with on_behalf_of(who):
            yield

    def get(self, path: str) -> object:
        return {} if path.startswith("/images/") else None

    def create_host_config(self, **_: object) -> None: ...

    def create_container(self, *_: object, **__: object) -> dict[str, str]:
        return {"Id": "made"}

    def put_archive(self, _id: str, _path: str, archive: Any) -> None:
        archive.read(10)
        self.uploading.set()
        assert self.go_on.wait(60)
        while archive.read(10):
            pass

    def remove_container(self, container: str, **_: object) -> None:
        caller().check()  # as every call of the engine does
        self.removed.append(container)


def test_a_trial_that_is_cancelled_ends_its_upload_and_its_wait_for_that_of_another(tmp_path: Path) -> None:
    (tmp_path / "program").write_bytes(b"x" * 100_000)
    engine, ends = _SlowEngine(), dict[str, BaseException]()
    deliveries = Deliveries(engine)  # type: ignore[arg-type]
    stop = {"first": False, "second": False}

    def deliver(name: str) -> None:
        def check() -> None:
            if stop[name]:
                raise _Stopped

        try:
            with on_behalf_of(Caller(check)):
                deliveries.volume(tmp_path, "/opt/agent")
        except _Stopped as error:
            ends[name] = error

    threads = {name: threading.Thread(target=deliver, args=(name,), daemon=True) for name in stop}
    threads["first"].start()
    assert engine.uploading.wait(60)
    threads["second"].start()
    stop["second"] = True
    threads["second"].join(60)
    assert [*ends] == ["second"], "it waits for the upload of the first, and no longer"
    stop["first"] = True
    engine.go_on.set()
    threads["first"].join(60)
    assert [*ends] == ["second", "first"]
    assert engine.removed == ["made"], "half a delivery stays nowhere"
