"""What tests against a real engine share."""

from __future__ import annotations

import os
from collections.abc import Iterator

import docker
import pytest

from pytest_benchjobs.model.errors import EngineUnavailable
from pytest_benchjobs.model.owner import current_owner
from pytest_benchjobs.sandbox.docker.container import DockerSandbox
from pytest_benchjobs.sandbox.docker.provider import DockerProvider

from .. import forking
from ..support import engine_client
from .sandboxes import started


@pytest.fixture(scope="session", autouse=True)
def _forking() -> Iterator[None]:
    with forking.served():
        yield


@pytest.fixture(scope="session", autouse=True)
def engine() -> None:
    """Skip without an engine; in CI that is a failure, lest nobody notices that nothing was tested."""
    provider = DockerProvider(current_owner())
    try:
        provider.check()
    except EngineUnavailable as error:
        if os.environ.get("CI") == "true":
            pytest.fail(str(error), pytrace=False)
        pytest.skip(str(error))
    finally:
        provider.close()


@pytest.fixture(scope="module")
def provider() -> Iterator[DockerProvider]:
    provider = DockerProvider(current_owner())
    yield provider
    provider.close()


@pytest.fixture(scope="module")
def sandbox(provider: DockerProvider) -> Iterator[DockerSandbox]:
    with started(provider) as sandbox:
        yield sandbox


@pytest.fixture(scope="module")
def client() -> Iterator[docker.APIClient]:
    client = engine_client()
    yield client
    client.close()
