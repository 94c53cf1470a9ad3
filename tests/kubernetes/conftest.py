"""A fake cluster for tests, where a Docker Engine answers."""

from __future__ import annotations

import os
from collections.abc import Iterator

import docker.errors
import pytest

from .fake_cluster import FakeCluster


@pytest.fixture
def fake() -> Iterator[FakeCluster]:
    """A cluster of a test's own. Without an engine: a failure in CI, lest nobody notices that nothing was tested."""
    try:
        cluster = FakeCluster()
    except docker.errors.DockerException as error:
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(f"no Docker Engine answers: {error}")
    with cluster:
        yield cluster
