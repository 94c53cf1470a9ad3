"""An engine that dies under a running command is an error of ours, never an end of the command."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from pytest_benchjobs.model.errors import EngineLost, EngineUnavailable
from pytest_benchjobs.model.owner import current_owner
from pytest_benchjobs.model.scenario import Environment
from pytest_benchjobs.sandbox.docker import calling
from pytest_benchjobs.sandbox.docker.container import DockerSandbox
from pytest_benchjobs.sandbox.docker.provider import DockerProvider
from pytest_benchjobs.sandbox.protocol import SandboxSpec
from tests.docker.engines import OwnEngine, own_engine  # noqa: F401  a fixture
from tests.support import IMAGE

pytestmark = [pytest.mark.docker, pytest.mark.slow]


def test_an_engine_that_dies_in_mid_command_is_lost(
    own_engine: OwnEngine,  # noqa: F811  the fixture
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("DOCKER_HOST", own_engine.host)
    provider = DockerProvider(current_owner())
    environment = Environment(image=IMAGE, network="none", memory=64 << 20)
    spec = SandboxSpec(environment, {"job": "test-engine-lost"}, "none", 120)
    sandbox = provider.start(spec, lambda phase: None)
    monkeypatch.setattr(calling, "OUTAGE", 5.0)
    assert isinstance(sandbox, DockerSandbox)
    sandbox._caller.patience = 5.0
    output = bytearray()
    power_cut = threading.Thread(target=own_engine.kill)

    def hear(data: bytes) -> None:
        output.extend(data)
        power_cut.start()

    started = time.monotonic()
    with pytest.raises(EngineLost, match="does not answer any more"):
        sandbox.exec(["sh", "-c", "echo began; sleep 300"], timeout=200, sink=hear)
    assert time.monotonic() - started < 150
    assert bytes(output) == b"began\n"
    power_cut.join()
    with pytest.raises(EngineUnavailable):
        sandbox.put([])
    sandbox.kill()
    sandbox.remove()
    with pytest.raises(EngineUnavailable, match="no Docker Engine answers"):
        provider.check()
    with pytest.raises(EngineUnavailable):
        provider.start(spec, lambda phase: None)
    provider.close()
