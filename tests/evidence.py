"""What a failed test adds to its report, so that the log alone tells what happened: seed, jobs, end of the engine's log."""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

ENGINE_LOG = Path(os.environ.get("BENCHJOBS_ENGINE_STATE") or "/var/tmp/benchjobs-engine") / "dockerd.log"
"""Log of the engine that `scripts/engine.sh` started. Another engine's is not ours to read."""
SEED = os.environ.get("BENCHJOBS_TEST_SEED") or str(random.SystemRandom().randrange(10**9))
_LINES = 20
_ROUTINE = re.compile(r"level=info|msg=\"(?:cleanup warnings|cleaning up after shim)")
_JOBS = 3
_BEGAN = pytest.StashKey[int]()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Seed the module `random`, and note how far the engine's log has come."""
    random.seed(f"{SEED} {item.nodeid}")
    item.stash[_BEGAN] = ENGINE_LOG.stat().st_size if ENGINE_LOG.is_file() else 0


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the sections to the report of a failed phase."""
    report = yield
    if report.failed:
        report.sections.append(("seed", f"BENCHJOBS_TEST_SEED={SEED}, for what uses the module `random`"))
        for directory in jobs(getattr(item, "funcargs", {})):
            report.sections.append((f"job {directory}", told(directory)))
        if item.get_closest_marker("docker") and (said := engine(item.stash.get(_BEGAN, 0))):
            report.sections.append((f"{ENGINE_LOG}, since the test began", said))
    return report


def jobs(fixtures: dict[str, Any]) -> list[Path]:
    """Directories of the newest jobs below those that the fixtures of a test are, or have."""
    values = list(fixtures.values())
    values += [getattr(value, name, None) for value in values for name in ("path", "directory")]
    places = {value for value in values if isinstance(value, Path) and value.is_dir()}
    found = {path for place in places for path in _below(place)}
    return sorted(found, key=lambda path: path.name)[-_JOBS:]


def _below(place: Path) -> Iterator[Path]:
    for results in ("reports/jobs", "*/reports/jobs", "*/*/reports/jobs", "*/jobs"):
        # A directory may vanish meanwhile: processes of the test may still run.
        with contextlib.suppress(OSError):
            yield from (path.parent for path in place.glob(f"{results}/*/job.json"))


def told(directory: Path) -> str:
    """Say how a job stands: its record's last word, what did not pass, the end of its log."""
    record = _read(directory / "job.json")
    lines = [f"{record.get('status')}, planned {record.get('planned')}: {record.get('message')}"]
    for path in sorted(directory.glob("trials/*/*/*/result.json")):
        result = _read(path)
        if result.get("outcome") != "passed":
            lines.append(f"{result.get('outcome')} {result.get('node_id')}: {result.get('failure')}"[:600])
    with contextlib.suppress(OSError):
        lines += (directory / "pytest.log").read_text("utf-8", "replace").splitlines()[-_LINES:]
    return "\n".join(lines)


def _read(path: Path) -> dict[str, Any]:
    with contextlib.suppress(OSError, ValueError):
        found = json.loads(path.read_bytes())
        if isinstance(found, dict):
            return found
    return {"status": f"{path.name} cannot be read", "outcome": f"{path} cannot be read"}


def engine(began: int) -> str:
    """Return the last complaints that the engine wrote since its log had this length."""
    with contextlib.suppress(OSError), ENGINE_LOG.open("rb") as log:
        log.seek(max(began, ENGINE_LOG.stat().st_size - 200_000))
        lines = log.read().decode("utf-8", "replace").splitlines()
        return "\n".join([line for line in lines if not _ROUTINE.search(line)][-_LINES:])
    return ""
