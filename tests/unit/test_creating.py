"""What the engine is told of a container: its limits, its rights, and whose it is."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_benchjobs.model.errors import AgentSetupFailed, EngineRefused, ImageMissing
from pytest_benchjobs.model.result import ImageRecord
from pytest_benchjobs.model.scenario import Environment
from pytest_benchjobs.sandbox.docker.creating import create
from pytest_benchjobs.sandbox.docker.dialects import DOCKER
from pytest_benchjobs.sandbox.docker.images import ResolvedImage
from pytest_benchjobs.sandbox.docker.network import Joinable
from pytest_benchjobs.sandbox.docker.provider import _shares_files
from pytest_benchjobs.sandbox.protocol import ExecResult, Mount, SandboxSpec

from .records import OWNER


class Client:
    def __init__(self) -> None:
        self.image: object = None
        self.command: object = None
        self.given: dict[str, Any] = {}
        self.error: Exception | None = None

    def create_host_config(self, **config: Any) -> Any:
        return config

    def create_container(self, image: str, command: list[str], **given: Any) -> Any:
        self.image, self.command, self.given = image, command, given
        if self.error is not None:
            raise self.error
        return {"Id": "c"}


def _created(
    client: Client,
    *,
    machine: str = "x86_64",
    image: dict[str, Any] | None = None,
    there: bool = True,
    **spec: Any,
) -> Any:
    forgotten: list[object] = []
    services: Any = SimpleNamespace(
        owner=OWNER,
        events=None,
        engine=SimpleNamespace(
            client=client,
            host="unix:///x",
            machine=machine,
            dialect=DOCKER,
            get=lambda _: {} if there else None,
        ),
        network=SimpleNamespace(of=lambda wanted, _: Joinable(f"net-{wanted}", "a note")),
        images=SimpleNamespace(forget=forgotten.append),
        forgotten=forgotten,
    )
    of = {"workdir": "/img", "user": "", "entrypoint": (), "env": {}, **(image or {})}
    resolved = ResolvedImage("sha256:1", ImageRecord(reference="x", id="sha256:1"), **of)
    environment = Environment(image="x", **spec.pop("environment", {}))
    deadline = spec.pop("deadline", 90.7)
    wanted = SandboxSpec(environment, {"job": "j"}, "none", deadline, **spec)
    try:
        return create(services, wanted, resolved)
    finally:
        client.given["forgotten"] = forgotten


def test_whose_a_container_is_and_until_when_is_written_on_it() -> None:
    client = Client()
    before = time.time()
    sandbox = _created(client)
    labels = client.given["labels"]
    whose = {"benchjobs.job": "j", "benchjobs.owner": str(OWNER), "benchjobs.host": "here"}
    assert whose.items() <= labels.items()
    assert 89 <= int(labels["benchjobs.deadline"]) - before <= 92
    assert (sandbox.id, sandbox.notes, sandbox.workdir) == ("c", ("a note",), "/img")
    assert client.image == "sha256:1"
    name = client.given["name"]
    _created(client)
    assert client.given["name"] != name, "each has a name of its own"


@pytest.mark.parametrize(
    ("environment", "image", "workdir"),
    [({"workdir": "/own"}, "/img", "/own"), ({}, "/img", "/img"), ({}, "", "/")],
)
def test_commands_run_where_the_scenario_or_else_the_image_says(
    environment: dict[str, Any], image: str, workdir: str
) -> None:
    client = Client()
    assert _created(client, environment=environment, image={"workdir": image}).workdir == workdir
    assert client.given["working_dir"] == workdir


def test_the_first_process_is_ours_or_where_there_is_none_for_the_machine_a_sleep() -> None:
    client = Client()
    assert _created(client)._first is not None
    assert (client.command, client.given["entrypoint"]) == ([], ["/bench/program", "first", "90"])
    assert client.given["host_config"]["init"] is False
    assert _created(client, machine="s390x")._first is None
    assert (client.command, client.given["entrypoint"]) == ([], ["sleep", "90"])
    assert client.given["host_config"]["init"] is True
    _created(client, machine="s390x", deadline=0.5)
    assert client.given["entrypoint"] == ["sleep", "1"]


def test_limits_and_rights_are_those_of_the_scenario(tmp_path: Path) -> None:
    client = Client()
    _created(client)
    bare = client.given["host_config"]
    assert (bare["network_mode"], bare["log_config"]) == ("net-none", {"Type": "none"})
    limits = {"network_mode", "pids_limit", "cap_drop", "log_config", "ulimits", "security_opt", "init"}
    assert set(bare) == limits
    assert bare["security_opt"] == ["no-new-privileges"]
    assert {"MKNOD", "NET_RAW", "SETPCAP"} <= set(bare["cap_drop"])
    (core,) = bare["ulimits"]
    assert (core["Name"], core["Soft"], core["Hard"]) == ("core", 0, 0)
    scenarios = {"memory": 1 << 27, "cpus": 0.5, "pids": 33, "gpus": 2, "allow_sudo": True}
    _created(client, environment=scenarios, mounts=(Mount(tmp_path, "/opt/x"),))
    full = client.given["host_config"]
    assert "security_opt" not in full
    wanted = {"mem_limit": 1 << 27, "memswap_limit": 1 << 27, "nano_cpus": 500_000_000, "pids_limit": 33}
    assert wanted.items() <= full.items()
    two = {"memory": 1 << 30, "memory_request": 1 << 20, "cpus": 4, "cpus_request": 0.5}
    _created(client, environment=two, runtime="runsc")
    wanted = {"mem_limit": 1 << 30, "mem_reservation": 6 << 20, "nano_cpus": 4 * 10**9, "cpu_shares": 512}
    assert {**wanted, "runtime": "runsc"}.items() <= client.given["host_config"].items()
    (mount,) = full["mounts"]
    wanted = {"Target": "/opt/x", "Source": str(tmp_path), "Type": "bind", "ReadOnly": True}
    assert wanted.items() <= mount.items()
    (devices,) = full["device_requests"]
    assert (devices["Count"], devices["Capabilities"]) == (2, [["gpu"]])


def test_why_a_container_cannot_be_created() -> None:
    client = Client()
    client.error = EngineRefused("refused", status=400, words="no such image")
    with pytest.raises(ImageMissing, match="image x was removed meanwhile"):
        _created(client, there=False)
    assert client.given["forgotten"] == ["sha256:1"]
    with pytest.raises(EngineRefused):
        _created(client)
    assert client.given["forgotten"] == []
    client.error = EngineRefused("refused", words="invalid mount: bind source path does not exist: /x")
    with pytest.raises(AgentSetupFailed, match="does not see this machine's files"):
        _created(client)


@pytest.mark.parametrize(
    ("layer", "shell", "shares"), [(False, True, True), (True, True, False), (True, False, None)]
)
def test_a_runtime_that_does_not_see_what_the_engine_puts_in_is_found(
    layer: bool, shell: bool, shares: bool | None
) -> None:
    files: dict[str, bytes] = {}

    def execute(argv: tuple[str, ...], **_: object) -> ExecResult:
        if shell and "/bench-out" in argv[-1]:
            files["/bench-out"] = b"" if layer else files["/bench-in/x"]
        return ExecResult(0, timed_out=False, seconds=0.0, started=shell)

    sandbox: Any = SimpleNamespace(
        put_from_outside=lambda given: files.update({one.path: one.content for one in given}),
        exec=execute,
        read=lambda path, limit: files.get(path, b"")[:limit] or None,
    )
    assert _shares_files(sandbox) is shares
