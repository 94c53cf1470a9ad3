"""Processes that we start have no key of a model, nor any other secret they have no use for, in their environment."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pytest_benchjobs.agents import fetch
from pytest_benchjobs.agents.packages import Package
from pytest_benchjobs.gateway.client import Gateway, GatewaySettings
from pytest_benchjobs.model.errors import InfrastructureError
from pytest_benchjobs.model.owner import current_owner
from pytest_benchjobs.sandbox.docker.services import EngineServices
from pytest_benchjobs.store.reproducibility import head
from tests.support import until

SECRET = "the-secret-value-of-this-test"
NAMES = ("OPENAI_API_KEY", "CLAUDE_CODE_OAUTH_TOKEN", "GITHUB_TOKEN", "MY_PASSWORD", "AWS_SECRET_ACCESS_KEY")


@pytest.fixture(autouse=True)
def secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in NAMES:
        monkeypatch.setenv(name, SECRET)


def _environment(pid: int) -> bytes:
    # While a program is being loaded, it has none yet.
    return until(Path(f"/proc/{pid}/environ").read_bytes, what=f"{pid} has no environment")


@pytest.mark.parametrize("host", ["unix:///nowhere.sock", "tcp://127.0.0.1:1"])
def test_the_reaper(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_CERT_PATH", "/certificates")
    monkeypatch.setenv("DOCKER_HOST", host)
    reaper = EngineServices(current_owner())._reaper
    reaper.start()
    assert reaper._process is not None
    try:
        seen = _environment(reaper._process.pid)
        assert SECRET.encode() not in seen
        assert b"DOCKER_CERT_PATH=/certificates" in seen
    finally:
        reaper.close(nothing_left=True)


def test_the_gateway() -> None:
    gateway = Gateway.start(GatewaySettings())
    try:
        assert SECRET.encode() not in _environment(gateway._process.pid)
    finally:
        gateway.close()


def test_git_and_npm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("git", "npm"):
        # It writes down what it was given.
        (tmp_path / name).write_text(f"#!/bin/sh\nenv > {tmp_path}/{name}.env\nexit 1\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    head(tmp_path)
    package = Package("x", "1", "linux-x64", "x@1", "", (), None)
    with pytest.raises(InfrastructureError):
        fetch._download(package, tmp_path / "x", lambda line: None)
    for name in ("git", "npm"):
        assert SECRET not in (tmp_path / f"{name}.env").read_text()
