"""Running pytest as a user does, in a directory of its own, and reading what it left."""

from __future__ import annotations

import contextlib
import glob
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any, TypeVar

import junitparser
import pytest

from pytest_benchjobs.sources.catalogue import find
from pytest_benchjobs.sources.catalogue.fetching import fetch

from . import forking

if TYPE_CHECKING:
    import docker

T = TypeVar("T")

IMAGE = "debian:bookworm-slim"

_CLEAN: dict[str, str] = {}


def take_environment() -> None:
    """Have sessions under test get the environment as it is now, but nothing of the session that runs the tests."""
    ours = ("PYTEST_", "BENCH", "COV_")
    _CLEAN.update((key, value) for key, value in os.environ.items() if not key.startswith(ours))


def set_clock(monkeypatch: pytest.MonkeyPatch, module: ModuleType, clock: Callable[[], float]) -> None:
    """Have one module read a clock instead of `time.monotonic`, which servers in threads of this process wait by."""
    monkeypatch.setattr(module, "time", SimpleNamespace(**{**vars(time), "monotonic": clock}))


def command(*args: str) -> list[str]:
    return [sys.executable, "-m", "pytest", "--color=no", *args]


def start(directory: Path, *args: str, **env: str) -> subprocess.Popen[str]:
    return forking.Popen(
        command(*args),
        cwd=directory,
        env={**_CLEAN, **env},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )


def run(directory: Path, *args: str, timeout: float = 600, **env: str) -> subprocess.CompletedProcess[str]:
    process = start(directory, *args, **env)
    try:
        output, _ = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        output, _ = process.communicate()
        raise AssertionError(f"pytest did not end within {timeout} s:\n{output}") from None
    return subprocess.CompletedProcess(process.args, process.returncode, output)


def fetched(name: str, directory: Path) -> str:
    """Fetch a benchmark from `given` below a directory into a cache below it; returns the cache."""
    cache = str(directory / "cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BENCHJOBS_CACHE", cache)
        entry = find(name)
        assert entry is not None
        fetch(entry, lambda *_: None, given=directory / "given")
    return cache


def paths(directory: Path, pattern: str) -> list[Path]:
    """Those below `directory` that fit, also where jobs run.

    `Path.glob` raises where a directory vanishes under it, as those of running trials do.
    """
    return sorted(directory / path for path in glob.glob(pattern, root_dir=directory))  # noqa: PTH207


RESULTS = "reports/jobs/*/trials/*/*/*/result.json"


def results(directory: Path) -> list[dict[str, Any]]:
    """Every committed result of every job below `directory`, in a fixed order."""
    found = [json.loads(path.read_text()) for path in paths(directory, RESULTS)]
    return sorted(found, key=lambda result: (result["job"], result["node_id"]))


def by_agent(directory: Path) -> dict[str, list[dict[str, Any]]]:
    grouped: dict[str, list[dict[str, Any]]] = {}
    for result in results(directory):
        grouped.setdefault(result["agent"]["name"], []).append(result)
    return grouped


def junit_cases(path: Path) -> dict[str, str]:
    """Test case name -> passed, failure, error or skipped."""
    cases: dict[str, str] = {}
    for suite in junitparser.JUnitXml.fromfile(str(path)):
        for case in suite:
            name = f"{case.classname}::{case.name}"
            assert name not in cases, f"{name} is reported twice"
            kinds = [type(result).__name__.lower() for result in case.result]
            cases[name] = kinds[0] if kinds else "passed"
    return cases


def jobs(directory: Path) -> set[str]:
    """Ids of the jobs below `directory`, also of those that have only begun."""
    return {path.name for path in paths(directory, "reports/jobs/*")}


def engine_client() -> docker.APIClient:
    """A client of the engine that the environment names, as `DockerProvider` takes it."""
    import docker

    return docker.APIClient(**docker.utils.kwargs_from_env(), version="auto")


def containers(*of: str) -> list[str]:
    """Ids of containers of these jobs. Others on this machine are nobody's business: tests run side by side."""
    client = engine_client()
    try:
        found = client.containers(all=True, filters={"label": "benchjobs.job"})
        return [one["Id"] for one in found if one["Labels"]["benchjobs.job"] in of]
    finally:
        client.close()


def containers_left(*of: str) -> list[str]:
    """Ids of containers of these jobs that stay. On a busy machine the engine, or the reaper, may need a moment."""
    deadline = time.monotonic() + PATIENCE
    while (left := containers(*of)) and time.monotonic() < deadline:
        time.sleep(0.1)  # between two looks
    return left


def in_flight(directory: Path, *but: str) -> bool:
    """Whether an agent works, or has worked, in a job below `directory` that is not one of these."""
    for job in jobs(directory) - set(but):
        root = directory / "reports" / "jobs" / job
        for path in paths(root, ".flight/events/*.jsonl"):
            with contextlib.suppress(FileNotFoundError):
                if '"phase":"agent"' in path.read_text():
                    return True
        if paths(root, "trials/*/*/*/result.json"):
            return True
    return False


PATIENCE = 180.0
"""Seconds. Only against hanging, so they are as many as a slow machine may need."""


def until(
    condition: Callable[[], T],
    seconds: float = PATIENCE,
    what: str | Callable[[], str] = "it did not come to that",
) -> T:
    """What `condition` says once it is something; else the test fails with `what`."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, what if isinstance(what, str) else what()
        time.sleep(0.05)  # between two looks
    return found
