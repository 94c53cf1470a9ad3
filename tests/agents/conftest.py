"""Real agents, fetched once; and a model server for each test."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agents.jobs import AGENTS, Job
from tests.agents.server import ModelServer


@pytest.fixture(scope="session")
def fetched() -> None:
    """The agents, in the cache of this machine."""
    done = subprocess.run(
        [str(Path(sys.executable).with_name("benchjobs")), "agents", "fetch", *AGENTS],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )
    if done.returncode != 0:
        pytest.skip(f"the agents cannot be fetched here: {done.stderr.strip()[-500:]}")


@pytest.fixture
def job(tmp_path: Path, fetched: None) -> Iterator[Job]:
    """A directory for jobs, and the server."""
    with ModelServer() as server:
        yield Job(tmp_path, server)
