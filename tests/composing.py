"""Docker Compose for tests of services: the machine's own, or what `scripts/plugin.sh compose` unpacked for the tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pytest_benchjobs.model.errors import EnvironmentFailed
from pytest_benchjobs.sandbox.docker.compose.plugin import find_plugin

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "benchjobs-tests" / "compose"


def provide() -> None:
    """Have processes of tests find it."""
    if _problem() is not None and (CACHE / "cli-plugins" / "docker-compose").is_file():
        os.environ["DOCKER_CONFIG"] = str(CACHE)


def require() -> None:
    """Skip without it; where BENCHJOBS_REQUIRE_COMPOSE is 1, that is a failure."""
    problem = _problem()
    if problem is None:
        return
    if os.environ.get("BENCHJOBS_REQUIRE_COMPOSE") == "1":
        pytest.fail(problem, pytrace=False)
    pytest.skip(f"{problem} scripts/plugin.sh compose gets it")


def found() -> bool:
    """Whether it is there."""
    return _problem() is None


def _problem() -> str | None:
    try:
        find_plugin(Path("docker-compose.yaml"))
    except EnvironmentFailed as error:
        return str(error)
    return None
