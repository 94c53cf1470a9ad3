"""What a job says of itself while it runs, and only then: whoever looks sees where it is."""

from __future__ import annotations

import fcntl
import json
import os
import sqlite3
from pathlib import Path
from typing import Any

import pytest

import pytest_benchjobs
from pytest_benchjobs.store.liveness import hold, last_beat

from ..support import until
from .conftest import Bench

EVERY = ("s1", "s2", "s3", "s4", "s5", "s6")


def _command(bench: Bench, *words: str) -> Any:
    done = bench.benchjobs(*words, "-o", "json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def _held(path: Path) -> bool:
    descriptor = os.open(path, os.O_RDWR)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def _history(bench: Bench) -> tuple[list[Any], list[Any]]:
    """The job and its trials, as somebody else reads them."""
    with sqlite3.connect(f"file:{bench.path}/reports/history.sqlite?mode=ro", uri=True) as reader:
        jobs = reader.execute("SELECT status, planned FROM jobs").fetchall()
        trials = reader.execute("SELECT scenario, outcome FROM trials").fetchall()
    return jobs, trials


@pytest.mark.parametrize("workers", ["0", "2"])
def test_a_job_in_full_flight(bench: Bench, workers: str) -> None:
    # Whichever comes first ends at once; the others wait for us.
    wait = f"touch {bench.path}/began-$$; until test -e {bench.path}/go; do sleep 0.05; done; echo 1"
    script = f"if mkdir {bench.path}/first 2>/dev/null; then echo 1; else {wait}; fi"
    bench.manifest(dict.fromkeys(EVERY, script))
    process = bench.start("-n", workers, "--bench-concurrency", "2")
    try:
        until(lambda: len(list(bench.path.glob("began-*"))) == 2 and list(bench.path.glob("**/result.json")))
        root = bench.bundle()
        (quick,) = [result["scenario"] for result in bench.results()]
        record = json.loads((root / "job.json").read_text())
        assert (record["status"], record["planned"], record["finished_at"]) == ("running", len(EVERY), None)
        assert record["owner"]["pid"] == process.pid
        # It is alive, and nobody else's to take.
        assert last_beat(root) < 60
        assert hold(root) is None
        # Two trials at once, no more, and each says where it is.
        tokens = sorted((root / ".flight" / "tokens").iterdir())
        assert [_held(token) for token in tokens] == [True, True]
        phases = _phases(root)
        running = {name for name, seen in phases.items() if name != quick}
        assert [phases[name][-1] for name in running] == ["score:score"] * 2
        assert _will_of(root) - {quick} == (running if workers != "0" else set())
        # The history has what ended, and knows how much is to come.
        until(lambda: _history(bench) == ([("running", len(EVERY))], [(quick, "passed")]))
        (listed,) = _command(bench, "list")["jobs"]
        assert (listed["id"], listed["status"], listed["dead"]) == (root.name, "running", False)
        (job,) = pytest_benchjobs.open(bench.path / "reports").jobs()
        assert (job.status, [trial.scenario for trial in job.trials()]) == ("running", [quick])
        assert not (root / "report.json").exists()
    finally:
        (bench.path / "go").touch()
        output, _ = process.communicate()
    assert process.returncode == 0, output
    record = json.loads((root / "job.json").read_text())
    assert (record["status"], record["planned"], record["totals"]["passed"]) == ("completed", 6, 6)
    assert not (root / ".flight").exists()
    assert not (root / ".heartbeat").exists()
    assert _history(bench)[0] == [("completed", len(EVERY))]


def _phases(root: Path) -> dict[str, list[str]]:
    """Scenario -> phases its trial has entered."""
    found: dict[str, list[str]] = {}
    for path in (root / ".flight" / "events").glob("*.jsonl"):
        for line in path.read_text().splitlines():
            event = json.loads(line)
            if event.get("phase"):
                name = event["node_id"].rpartition("::")[2].partition("[")[0]
                found.setdefault(name, []).append(event["phase"])
    return found


def _will_of(root: Path) -> set[str]:
    """Scenarios whose trial a worker has left word of."""
    wills = (root / ".flight").glob("gw*/*.json")
    return {json.loads(path.read_text())["trial"]["scenario"]["id"] for path in wills}
