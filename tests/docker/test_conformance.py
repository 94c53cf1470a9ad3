"""Containers of an engine keep every promise: Docker's here, under gVisor and elsewhere, and Podman's."""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path
from typing import ClassVar

import pytest

from pytest_benchjobs.model.errors import ContainerLost
from pytest_benchjobs.model.owner import current_owner
from pytest_benchjobs.sandbox.docker.container import DockerSandbox
from pytest_benchjobs.sandbox.docker.provider import DockerProvider
from pytest_benchjobs.sandbox.protocol import Promise, Sandbox, SandboxProvider
from pytest_benchjobs.testing.conformance import SandboxConformance, Start, promise, sh
from tests import composing
from tests.docker.elsewhere import Elsewhere, elsewhere  # noqa: F401  a fixture
from tests.docker.podman import Podman, podman  # noqa: F401  a fixture
from tests.support import IMAGE

pytestmark = pytest.mark.docker


class TestDocker(SandboxConformance):
    make = DockerProvider
    environment = {"image": IMAGE}

    def end_behind_its_back(self, provider: SandboxProvider, sandbox: Sandbox) -> None:
        assert isinstance(provider, DockerProvider)
        provider.engine.client.remove_container(sandbox.id, force=True)

    @promise(Promise.SERVICES, harmless=True)
    def test_a_service_runs_beside_it_and_goes_with_it(self, start: Start, tmp_path: Path) -> None:
        composing.require()
        super().test_a_service_runs_beside_it_and_goes_with_it(start, tmp_path)

    def left(self, sandbox: str) -> bool:
        with contextlib.closing(DockerProvider(current_owner())) as provider:
            try:
                provider.engine.client.inspect_container(sandbox)
            except ContainerLost:
                return False
            return True


@pytest.mark.slow
@pytest.mark.extended
class TestTls(TestDocker):
    way: ClassVar[str] = "tls"

    @pytest.fixture
    def surroundings(self, elsewhere: Elsewhere, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
        for name, value in elsewhere.environment(self.way).items():
            monkeypatch.setenv(name, value)


class TestSsh(TestTls):
    way = "ssh"


@pytest.mark.skipif(shutil.which("runsc") is None, reason="needs gVisor's runsc on PATH")
class TestGvisor(TestTls):
    runtime = "gvisor"

    @promise(Promise.CPUS)
    def test_no_more_processors_are_had_than_the_limit(self, start: Start) -> None:
        """By the engine: a kernel of its own counts the time for which it waited, too."""
        sandbox = start(cpus=0.5)
        assert isinstance(sandbox, DockerSandbox)
        sh(sandbox, "for n in 1 2 3; do timeout 3 sh -c 'while :; do :; done' & done; wait")
        assert sandbox.cpu_seconds() < 2.3


@pytest.mark.slow
@pytest.mark.extended
class _OnPodman(TestDocker):
    """One class for each, as each has a provider and a row of the table of its own."""

    @pytest.fixture
    def surroundings(self, podman: Podman, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
        monkeypatch.setenv("DOCKER_HOST", podman.host)

    @promise(Promise.SERVICES)
    def test_a_service_runs_beside_it_and_goes_with_it(self, start: Start, tmp_path: Path) -> None:
        """Not harmless: one runs on 5.4, but from its network the machine can be reached."""
        super().test_a_service_runs_beside_it_and_goes_with_it(start, tmp_path)


def _on(name: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("podman", [name], indirect=True)


@_on("trixie")
class TestPodman54(_OnPodman): ...


@_on("trixie-user")
class TestPodman54User(_OnPodman): ...


@_on("bookworm")
class TestPodman43(_OnPodman): ...


@_on("bookworm-user")
class TestPodman43User(_OnPodman): ...
