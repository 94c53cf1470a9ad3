"""What the plugin costs pytest: unused, collecting, and for each trial."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from tests.console import COMMAND

# Runs pytest in a child of its own and says what it cost, pytest's own output aside.
_CHILD = """
import json, os, resource, sys, time
out = os.dup(1)
os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
start = time.perf_counter()
import pytest
resident = loop = 0

class Measure:
    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self):
        global resident
        with open("/proc/self/statm") as statm:
            resident = int(statm.read().split()[1]) * resource.getpagesize() // 1024

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtestloop(self):
        global loop
        start = time.thread_time()
        result = yield
        loop = time.thread_time() - start
        return result

status = int(pytest.main(sys.argv[1:], plugins=[Measure()]))
seconds = time.perf_counter() - start
sys.stdout.flush()
cpu = time.process_time()  # in finer steps than `getrusage`
os.write(out, json.dumps([status, seconds, cpu, loop, resident]).encode())
"""

STOCK = """
import pytest

class Stock(pytest.Item):
    def runtest(self):
        if self.config.getoption("verbose") < -5 and int(self.name[1:]) % 2:
            raise AssertionError("no")

class Stocks(pytest.File):
    def collect(self):
        for number in range({count}):
            yield Stock.from_parent(self, name=f"t{{number}}")

def pytest_collect_file(file_path, parent):
    if file_path.name == "stock.txt":
        return Stocks.from_parent(parent, path=file_path)
"""

# Trials that end at once: what is left is pytest's cost and ours.
_INSTANT = """
import datetime
import pytest_benchjobs.trial.run as trial
from pytest_benchjobs.model.result import Failure, Outcome, ScorerResult, TrialResult

FAIL_EVERY = {fail_every}
LOGS = {logs}  # each trial has a log of 6 KB and a scorer that printed 4
AGENT = "the agent did something and said so\\n" * 170
SCORER = "expected 1, found 0 in line 17\\n" * 130
NOW = datetime.datetime.now(datetime.UTC)

def run_trial(trial, services, cancellation, **options):
    failed = FAIL_EVERY and trial.attempt % FAIL_EVERY == 0
    scorers = ()
    directory = services.bundle.begin(trial)
    if LOGS:
        (directory.path / "agent.log").write_text(AGENT)
        scorers = (ScorerResult(name="right", type="bash", weight=1, score=0.0 if failed else 1.0, output=SCORER),)
    result = TrialResult(
        scorers=scorers,
        job=services.bundle.id, node_id=trial.node_id, benchmark="b", scenario=trial.scenario.id, agent=trial.agent,
        attempt=trial.attempt, outcome=Outcome.FAILED if failed else Outcome.PASSED, score=0.0 if failed else 1.0,
        path=f"trials/{{trial.scenario.id}}/{{trial.attempt}}", threshold=1.0, started_at=NOW, finished_at=NOW, seconds=0.0,
        failure=Failure(class_="below_threshold", message="score 0 is below the threshold 1") if failed else None,
    )
    return directory.commit(result)

trial.run_trial = run_trial
"""

_FAKE_SANDBOX = """
from pytest_benchjobs.testing import FakeProvider

def pytest_benchjobs_sandboxes(config):
    return {"fake": FakeProvider}
"""


# Plugins that came with a dependency, and look at every item: what they cost is not ours.
_WITHOUT = ("-p", "no:hypothesispytest", "-p", "no:anyio")


class Cost(NamedTuple):
    """What one pytest run cost."""

    status: int
    seconds: float
    cpu: float
    """CPU seconds of the process."""
    loop: float
    """CPU seconds of the main thread, which is pytest's, in the run loop."""
    resident: int
    """KiB after collection."""


def child(directory: Path, *args: str) -> Cost:
    """Run pytest, and nothing else, in a process of its own."""
    # As installed, modules have their byte code beside them; only its absence would make every start slow.
    env = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(
        [sys.executable, "-c", _CHILD, "-p", "no:cacheprovider", *_WITHOUT, *args],
        cwd=directory,
        env=env,
        capture_output=True,
        check=True,
    )
    return Cost(*json.loads(done.stdout))


def _manifest(directory: Path, scenarios: int) -> None:
    rows = "".join(
        f"""
  - id: scenario-{number:05}
    problem_statement: Write the number {number} to out.txt, and nothing else.
    tags: [easy]
    reference: echo {number} > out.txt
    scorers: [{{name: right, type: command, command: grep -qx {number} out.txt}}]"""
        for number in range(scenarios)
    )
    directory.mkdir(exist_ok=True)
    (directory / "wide.bench.yaml").write_text(
        f"benchmark: wide\ndefaults: {{image: 'debian:bookworm-slim', workdir: /app}}\nscenarios:{rows}\n"
    )


def measure(rounds: int = 11) -> list[tuple[str, float, str, str]]:
    """Rows of (what, ratio to the budget or the baseline, budget, detail)."""
    with tempfile.TemporaryDirectory() as name:
        return [
            *_unused(Path(name), rounds),
            *_collection(Path(name)),
            *_fetched(Path(name)),
            *_per_trial(Path(name)),
        ]


def _unused(root: Path, rounds: int) -> list[tuple[str, float, str, str]]:
    directory = root / "unused"
    directory.mkdir()
    (directory / "test_one.py").write_text("def test_one(): pass\n")
    child(directory)
    with_plugin, without = [], []
    for _ in range(rounds):
        without.append(child(directory, "-p", "no:benchjobs").cpu)
        with_plugin.append(child(directory).cpu)
    bare, ours = statistics.median(without), statistics.median(with_plugin)
    cost = (ours - bare) * 1000
    return [
        (
            "plugin installed, unused",
            cost / 5,
            "<= 1 (5 ms)",
            f"{cost:.1f} ms of CPU over {bare * 1000:.0f} ms",
        )
    ]


def _collection(root: Path) -> list[tuple[str, float, str, str]]:
    empty = root / "empty"
    empty.mkdir()
    bare = statistics.median(child(empty, "--co", "-qq", "-p", "no:benchjobs").cpu for _ in range(3))
    rows = []
    peaks = {}
    for trials, budget in ((10_000, 0.5), (100_000, 5.0)):
        directory = root / f"wide-{trials}"
        _manifest(directory, trials // 10)
        runs = [
            child(directory, "--co", "-qq", "--bench-attempts", "10", "wide.bench.yaml") for _ in range(3)
        ]
        assert all(run.status == 0 for run in runs), runs
        seconds = statistics.median(run.cpu for run in runs) - bare
        peaks[trials] = min(run.resident for run in runs)
        rows.append(
            (
                f"collecting {trials:,} trials",
                seconds / budget,
                f"<= 1 ({budget:g} s)",
                f"{seconds:.2f} s of CPU over bare pytest",
            )
        )
    kib = (peaks[100_000] - peaks[10_000]) / 90_000
    rows.append(("resident memory of an item", kib / 1.5, "<= 1 (1.5 KiB)", f"{kib:.2f} KiB"))
    return rows


_ENTRY = """
name = "rows"
version = "1"
title = "Rows"
source = "pytest_benchjobs.sources.datasets.aime:sources"
scenarios = 500
licence = "none"
environment = "none"
scoring = "exact"

[[files]]
name = "test2024.jsonl"
"""


def _fetched(root: Path) -> list[tuple[str, float, str, str]]:
    """500 rows of 10 KB of a benchmark that was fetched."""
    directory = root / "rows"
    directory.mkdir()
    (directory / "rows.benchmark.toml").write_text(_ENTRY)
    rows = (json.dumps({"id": number, "problem": "x" * 10_000, "answer": "1"}) for number in range(500))
    (directory / "test2024.jsonl").write_text("".join(f"{row}\n" for row in rows))
    os.environ["BENCHJOBS_CACHE"] = str(root / "cache")
    try:
        fetch = ["benchmarks", "fetch", "rows", "--from", "test2024.jsonl"]
        console = [*COMMAND, *fetch]
        subprocess.run(console, cwd=directory, capture_output=True, check=True)
        bare = statistics.median(child(directory, "--co", "-qq", "-p", "no:benchjobs").cpu for _ in range(3))
        runs = [child(directory, "--co", "-qq", "--bench", "rows") for _ in range(3)]
    finally:
        del os.environ["BENCHJOBS_CACHE"]
    assert all(run.status == 0 for run in runs), runs
    seconds = statistics.median(run.cpu for run in runs) - bare
    return [
        (
            "collecting 500 rows that were fetched",
            seconds / 0.3,
            "<= 1 (0.3 s)",
            f"{seconds:.2f} s of CPU over bare pytest",
        )
    ]


def _per_trial(root: Path) -> list[tuple[str, float, str, str]]:
    stock, ours, failing = root / "stock", root / "instant", root / "failing"
    trials = 10_000
    stock.mkdir()
    (stock / "conftest.py").write_text(STOCK.format(count=trials))
    (stock / "stock.txt").write_text("")
    logged, explained = root / "logged", root / "explained"
    for directory, fail_every, logs in ((ours, 0, 0), (failing, 2, 0), (logged, 0, 1), (explained, 1, 1)):
        _manifest(directory, trials // 10)
        (directory / "conftest.py").write_text(
            _FAKE_SANDBOX + _INSTANT.format(fail_every=fail_every, logs=logs)
        )
    args = (
        "--bench-sandbox", "fake", "--bench-attempts", "10", "--bench-concurrency", "16", "wide.bench.yaml",
    )  # fmt: skip
    stock_cpu = statistics.median(child(stock, "-p", "no:benchjobs", "stock.txt").loop for _ in range(3))
    passing = [child(ours, *args) for _ in range(3)]
    halves = [child(failing, *args) for _ in range(3)]
    assert {run.status for run in passing} == {0}
    assert {run.status for run in halves} == {1}
    junit = f"--junitxml={root / 'out.xml'}"
    quiet = [child(logged, *args, junit) for _ in range(3)]
    loud = [child(explained, *args, junit) for _ in range(3)]
    assert {run.status for run in quiet} == {0}
    assert {run.status for run in loud} == {1}
    own_cpu = statistics.median(run.loop for run in passing)
    return [
        (
            "pytest's cost of a trial, no-op", own_cpu / stock_cpu, "<= 1.5 x",
            f"{own_cpu / trials * 1e6:.0f} us against {stock_cpu / trials * 1e6:.0f} us stock, in pytest's thread and loop",
        ),
        (
            f"{trials:,} trials, half of them failing",
            statistics.median(run.seconds for run in halves) / statistics.median(run.seconds for run in passing),
            "<= 1.2 x", "against all passing",
        ),
        (
            f"{trials:,} failing trials that have logs",
            statistics.median(run.seconds for run in loud) / statistics.median(run.seconds for run in quiet),
            "<= 1.2 x", "against all passing with the same logs, both with --junitxml",
        ),
    ]  # fmt: skip
