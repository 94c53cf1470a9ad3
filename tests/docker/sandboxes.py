"""Containers that tests start as trials do: removed whatever happens, and told what to run."""

from __future__ import annotations

import contextlib
import ipaddress
import subprocess
from collections.abc import Iterator, Mapping
from typing import Any

from pytest_benchjobs.model.scenario import Environment
from pytest_benchjobs.sandbox.docker.container import DockerSandbox
from pytest_benchjobs.sandbox.docker.provider import DockerProvider
from pytest_benchjobs.sandbox.protocol import ExecResult, File, Mount, SandboxSpec
from tests.support import IMAGE


def spec(
    *files: File,
    labels: Mapping[str, str] | None = None,
    mounts: tuple[Mount, ...] = (),
    kept: str | None = None,
    allowed_hosts: tuple[str, ...] = (),
    limited: bool = False,
    trusted: bool = False,
    runtime: str | None = None,
    **environment: object,
) -> SandboxSpec:
    """Describe a container of these files, with the keys of a scenario's environment; without network by default."""
    wanted = Environment(**{"image": IMAGE, "workdir": "/app", "network": "none", **environment})
    return SandboxSpec(
        environment=wanted,
        labels={"job": "test", "trial": "t"} if labels is None else labels,
        network=wanted.network,
        deadline=300,
        files=files,
        mounts=mounts,
        kept=kept,
        allowed_hosts=allowed_hosts,
        limited=limited,
        opened=True,
        trusted=trusted,
        runtime=runtime,
    )


@contextlib.contextmanager
def started(provider: DockerProvider, *files: File, **more: Any) -> Iterator[DockerSandbox]:
    """Start one; see `spec`."""
    sandbox = provider.start(spec(*files, **more), lambda phase: None)
    try:
        yield sandbox
    finally:
        sandbox.remove()


def sh(sandbox: DockerSandbox, script: str, *, timeout: float = 30, **how: Any) -> tuple[ExecResult, str]:
    """Run a script in it; returns what came of it, and what it printed."""
    output = bytearray()
    result = sandbox.exec(["/bin/sh", "-c", script], timeout=timeout, sink=output.extend, **how)
    return result, output.decode()


def out(sandbox: DockerSandbox, script: str, **how: Any) -> str:
    """Run a script that has to succeed; returns what it printed."""
    result, output = sh(sandbox, script, **how)
    assert result.exit_status == 0, output
    return output


def said(sandbox: DockerSandbox, *argv: str, user: str | None = None) -> str:
    """Run a program in it; returns what it printed."""
    output = bytearray()
    sandbox.exec(argv, timeout=60, sink=output.extend, user=user)
    return output.decode()


def machine_on(network: str) -> str:
    """Return the address of this machine on a network of the engine."""
    asked = ["docker", "network", "inspect", "-f", "{{(index .IPAM.Config 0).Subnet}}", network]
    subnet = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
    return str(next(ipaddress.IPv4Network(subnet).hosts()))
