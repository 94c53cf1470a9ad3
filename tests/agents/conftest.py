"""Real agents, fetched once; and a model server for each test."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import forking
from tests.agents.jobs import AGENTS, Job
from tests.agents.server import ModelServer

# What Node.js and npm say when nobody answers, or something between here and there does not let them through.
UNREACHABLE = re.compile(
    r"\b(?:EAI_AGAIN|ENOTFOUND|ECONNREFUSED|ECONNRESET|ETIMEDOUT|ENETUNREACH|EHOSTUNREACH|ERR_SOCKET_TIMEOUT)\b"
    r"|tunneling socket could not be established|which is not on PATH"
)


@pytest.fixture(scope="session", autouse=True)
def _forking() -> Iterator[None]:
    with forking.served():
        yield


@pytest.fixture(scope="session")
def fetched() -> None:
    """The agents, in the cache of this machine.

    Without npm or a way to its registry there are none, and their tests are skipped, unless BENCHJOBS_REQUIRE_AGENTS
    is 1. Anything else that keeps them from being fetched is a fault of ours.
    """
    done = subprocess.run(
        [str(Path(sys.executable).with_name("benchjobs")), "agents", "fetch", *AGENTS],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )
    if done.returncode != 0:
        said = f"the agents cannot be fetched here: {done.stderr.strip()[-500:]}"
        if UNREACHABLE.search(done.stderr) and os.environ.get("BENCHJOBS_REQUIRE_AGENTS") != "1":
            pytest.skip(said)
        pytest.fail(said, pytrace=False)


@pytest.fixture
def bare(tmp_path: Path) -> Iterator[Job]:
    """A directory for jobs, and the server. Nothing has to be fetched."""
    with ModelServer() as server:
        yield Job(tmp_path, server)


@pytest.fixture
def job(bare: Job, fetched: None) -> Job:
    """The same where the agents are."""
    return bare
