"""What the viewer costs with a million trials in a hundred thousand runs."""

from __future__ import annotations

import datetime
import functools
import itertools
import json
import os
import random
import re
import statistics
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pytest_benchjobs.model.agent import AgentSpec
from pytest_benchjobs.model.job import JobConfig, JobRecord, JobStatus, Owner
from pytest_benchjobs.model.result import (
    AgentEnd,
    Failure,
    ImageRecord,
    Outcome,
    Phase,
    ScorerResult,
    Signature,
    TrialResult,
)
from pytest_benchjobs.model.usage import Usage
from pytest_benchjobs.store.bundle import JobBundle
from pytest_benchjobs.store.database import transaction
from pytest_benchjobs.store.history import _NEW_RUN, History
from pytest_benchjobs.store.layout import Layout, trial_path
from pytest_benchjobs.store.reader import HistoryReader
from pytest_benchjobs.store.rows import TRIAL_COLUMNS
from pytest_benchjobs.store.trials import as_json
from pytest_benchjobs.viewer.export import Export
from pytest_benchjobs.viewer.results import Results
from tests.console import COMMAND
from tests.performance import browsing

JOBS, RUNS, TRIALS = 25_000, 4, 10
"""Jobs, runs of each, and trials of a run: a million trials in 100,000 runs."""
LARGE = 10_000
"""Trials of one more job."""
START = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
FIRST, SORT, WHOLE_JOB, MEMORY, REPORT = 0.6, 0.3, 1.0, 150, 5
"""Seconds until a page is shown in Chromium, of which the rows named `viewer` are what the server needs; MB of the server, and of a report without logs."""
REPEATS = 5
_AGENTS = [f"codex:model-{number}" for number in range(20)]
_BENCHMARKS = [f"bench-{number}" for number in range(10)]


def measure() -> list[tuple[str, float, str, str]]:
    """Rows of (what, ratio to the budget, budget, detail)."""
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCHJOBS_PERFORMANCE_DIR")) as place:
        directory = Path(place) / "reports"
        began = time.perf_counter()
        large = generate(directory)
        size = Layout(directory).history.stat().st_size >> 20
        made = (
            f"{JOBS * RUNS * TRIALS + LARGE:,} trials, {size} MB, made in {time.perf_counter() - began:.0f} s"
        )
        rows = [("viewer: results", 0.0, "", made)]
        with serving(directory) as (url, pid):
            for what, path, budget in _pages(url, large):
                seconds, kilobytes = _asked(url + path)
                detail = f"{seconds * 1000:.0f} ms  {kilobytes:.0f} KB"
                rows.append((f"viewer: {what}", seconds / budget, f"<= 1 ({budget * 1000:.0f} ms)", detail))
            for what, seconds in browsing.shown(url, large, Layout(directory).history):
                budget = _budget(what)
                detail = f"{seconds * 1000:.0f} ms"
                rows.append((f"Chromium: {what}", seconds / budget, f"<= 1 ({budget * 1000:.0f} ms)", detail))
            memory = _memory(pid)
        rows.append(("viewer: server memory", memory / MEMORY, f"<= 1 ({MEMORY} MB)", f"{memory:.0f} MB"))
        return [*rows, *_report(Path(place) / "report")]


def _report(place: Path) -> Iterator[tuple[str, float, str, str]]:
    """Measure a report of a job of 10,000 trials in one file, without logs: its size, and how soon it is shown."""
    job = job_with_files(place, LARGE)
    began = time.perf_counter()
    with HistoryReader.of(place) as history:
        written = Export("html", Results(place), history, [job])
        written.write(place / "report.html")
    seconds = time.perf_counter() - began
    size = written.size / 1e6
    detail = f"{size:.1f} MB, made in {seconds:.0f} s"
    yield "viewer: report of 10,000 trials", size / REPORT, f"<= 1 ({REPORT} MB)", detail
    shown = browsing.opened(f"{(place / 'report.html').as_uri()}#?page=job&job={job}")
    detail = f"{shown * 1000:.0f} ms, from its file, without network"
    yield "Chromium: report of 10,000 trials", shown / WHOLE_JOB, f"<= 1 ({WHOLE_JOB * 1000:.0f} ms)", detail


def _budget(what: str) -> float:
    """Seconds that a page may take in Chromium."""
    return FIRST if what.startswith("first page") else WHOLE_JOB if what.startswith("job") else SORT


def job_with_files(directory: Path, trials: int) -> str:
    """Make a job with a result for each trial, of four agents; returns its id."""
    chance = random.Random(0)
    agents = [AgentSpec.parse(agent) for agent in _AGENTS[:4]]
    record = _record(directory, 0, chance, trials)
    bundle = JobBundle.create(directory, record)
    results = []
    for number in range(trials):
        result = _result(record, agents[number % 4], number // 4, chance)
        path = trial_path(result.agent.label, result.scenario, 1)
        result = result.model_copy(update={"path": path})
        place = bundle.root / path
        place.mkdir(parents=True)
        (place / "result.json").write_bytes(as_json(result))
        results.append(result)
    with History.of(directory) as history:
        history.replace_job(record, results)
    return record.id


def _result(record: JobRecord, agent: AgentSpec, number: int, chance: random.Random) -> TrialResult:
    score = chance.choice((0.0, 0.25, 1.0))
    began = record.created_at + datetime.timedelta(seconds=number)
    times = sorted(chance.uniform(0, 60) for _ in range(6))
    failure = Failure(class_="below_threshold", message=f"score {score} < 1.0")
    return TrialResult(
        job=record.id,
        node_id=f"bench.bench.yaml::scenario-{number}[{agent.label}]",
        benchmark="bench",
        benchmark_version="1.0",
        scenario=f"scenario-{number}",
        agent=agent,
        agent_version="0.50.1",
        attempt=1,
        outcome=Outcome.PASSED if score == 1.0 else Outcome.FAILED,
        score=score,
        threshold=1.0,
        failure=None if score == 1.0 else failure,
        scorers=tuple(
            ScorerResult(
                name=name,
                type="tests",
                weight=1,
                score=score,
                seconds=chance.random(),
                output=f"{number} checks\n",
            )
            for name in ("exists", "right")
        ),
        agent_end=AgentEnd(exit_status=0, output_bytes=chance.randrange(100_000)),
        usage=Usage(
            input_tokens=chance.randrange(100_000),
            output_tokens=chance.randrange(5_000),
            cost_usd=chance.random(),
            calls=chance.randrange(50),
            source="gateway",
        ),
        models={"gpt-5-2026-08-01": chance.randrange(50)},
        phases=tuple(
            Phase(name=name, start=start, end=end)
            for name, start, end in zip(
                ("prepare", "setup", "agent", "ending", "grading"), times[:-1], times[1:], strict=True
            )
        ),
        started_at=began,
        finished_at=began + datetime.timedelta(seconds=times[-1]),
        seconds=times[-1],
        image=ImageRecord(reference="debian:bookworm", id=f"sha256:{number % 10:064x}"),
        signature=Signature(
            value=f"{chance.getrandbits(128):032x}",
            parts={
                **dict.fromkeys(("scenario", "scorers"), f"{number * 2**40 + 1:016x}"),
                **dict.fromkeys(("environment", "agent", "parameters", "limits", "image"), "0" * 16),
            },
        ),
        tags=("easy", f"group-{number % 10}"),
    )


def _pages(url: str, large: str) -> Iterator[tuple[str, str, float]]:
    yield "first page of jobs", "api/jobs", FIRST
    yield "first page of runs", "api/runs", FIRST
    yield "overview", "api/overview", FIRST
    yield "choices", "api/meta", FIRST
    for sort in ("mean_score", "delta", "total_tokens", "agent", "seconds"):
        yield f"runs by {sort}", f"api/runs?sort={sort}&order=asc", SORT
    with urllib.request.urlopen(f"{url}api/runs?sort=mean_score&limit=500") as answer:
        following = json.load(answer)["next"]
    yield "runs, a page further on", f"api/runs?sort=mean_score&after={following}", SORT
    for sort in ("mean_score", "trials", "name", "verdict", "benchmarks"):
        yield f"jobs by {sort}", f"api/jobs?sort={sort}", SORT
    yield (
        "runs of a benchmark and agent",
        "api/runs?benchmark=bench-3&agent=codex:model-7&sort=mean_score",
        SORT,
    )
    yield "runs of a branch by score", "api/runs?branch=branch-3&sort=mean_score", SORT
    yield "runs of a tag", "api/runs?tag=tag-3", SORT
    yield "jobs of a model", "api/jobs?model=model-7", SORT
    yield "runs, search, found often", "api/runs?q=model-7", SORT
    yield "runs, search, found nowhere", "api/runs?q=nothing-like-it", SORT
    yield "jobs, search", "api/jobs?q=nightly+model-3", SORT
    yield "job of 10,000 trials", f"api/jobs/{large}", WHOLE_JOB
    yield "its matrix", f"api/jobs/{large}/matrix", WHOLE_JOB
    yield "scenario", "api/scenario?benchmark=bench-3&scenario=scenario-3", WHOLE_JOB
    yield "trend", "api/trend?benchmark=bench-3&agent=codex:model-7&by=day", WHOLE_JOB


def _asked(url: str) -> tuple[float, float]:
    """Median seconds of a request, and the kilobytes that come."""
    request = urllib.request.Request(url, headers={"Accept-Encoding": "gzip"})
    taken, size = [], 0
    for _ in range(REPEATS):
        began = time.perf_counter()
        with urllib.request.urlopen(request) as answer:
            size = len(answer.read())
        taken.append(time.perf_counter() - began)
    return statistics.median(taken), size / 1024


@contextmanager
def serving(directory: Path) -> Iterator[tuple[str, int]]:
    """A server of its own process: its URL and process id."""
    high = directory.parent / "high.toml"
    high.write_text("".join(f"[{benchmark}]\nscore = 0.8\n" for benchmark in _BENCHMARKS))
    options = ("--dir", str(directory), "--port", "0", "--high-scores", str(high))
    command = [*COMMAND, "serve", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().split()[-1]
            yield url, process.pid
        finally:
            process.terminate()


def _memory(pid: int) -> float:
    """Most memory that a process had, in MB."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found[1]) / 1024


def generate(directory: Path, jobs: int = JOBS, large: int = LARGE) -> str:
    """Make a history, with the files of its large job; returns the id of that."""
    chance = random.Random(0)
    with History.of(directory) as history:
        connection = history.connection
        connection.execute("PRAGMA synchronous = OFF")
        for first in range(0, jobs, 500):
            with transaction(connection):
                for place in range(first, min(jobs, first + 500)):
                    _add(history, _record(directory, place, chance, RUNS * TRIALS), RUNS, TRIALS, chance)
        record = _record(directory, jobs + 1, chance, large)
        JobBundle.create(directory, record)
        with transaction(connection):
            _add(history, record, 20, large // 20, chance)
    return record.id


def _add(history: History, record: JobRecord, runs: int, trials: int, chance: random.Random) -> None:
    history.write_job(record)
    pairs = [*itertools.product(_BENCHMARKS[:1], _AGENTS)] if runs == len(_AGENTS) else [
        (benchmark, agent)
        for benchmark in chance.sample(_BENCHMARKS, 2)
        for agent in chance.sample(_AGENTS, runs // 2)
    ]  # fmt: skip
    history.connection.executemany(_NEW_RUN, [(record.id, *pair) for pair in pairs])
    insert = functools.partial(_trial, record, chance)
    rows = [insert(number, *pair, one) for number, pair in enumerate(pairs, 1) for one in range(trials)]
    columns = ", ".join((*TRIAL_COLUMNS, "run"))
    marks = ", ".join("?" * (len(TRIAL_COLUMNS) + 1))
    history.connection.executemany(f"INSERT INTO trials ({columns}) VALUES ({marks})", rows)
    history._sum_up(record.id)


def _record(directory: Path, place: int, chance: random.Random, planned: int) -> JobRecord:
    began = START + datetime.timedelta(minutes=15 * place)
    git = {"branch": f"branch-{place % 20}", "commit": f"{place // 3:040x}", "dirty": False}
    return JobRecord(
        id=f"{began:%Y%m%d-%H%M%S}-{chance.getrandbits(24):06x}",
        name="nightly" if place % 7 == 0 else None,
        status=JobStatus.COMPLETED if place % 20 else JobStatus.FAILED,
        created_at=began,
        finished_at=began + datetime.timedelta(hours=2),
        owner=Owner(host="somewhere", boot="b", pid=1, started="1"),
        config=JobConfig(directory=directory),
        planned=planned,
        reproducibility={"git": git},
    )


def _trial(
    record: JobRecord, chance: random.Random, run: int, benchmark: str, agent: str, number: int
) -> tuple[object, ...]:
    scenario = f"scenario-{number}"
    score = chance.choice((0.0, 0.25, 1.0))
    at = record.created_at + datetime.timedelta(seconds=number)
    values = {
        "job": record.id,
        "node_id": f"{benchmark}.bench.yaml::{scenario}[{agent}]",
        "benchmark": benchmark,
        "scenario": scenario,
        "agent": agent,
        "model": agent.partition(":")[2],
        "attempt": 1,
        "tries": 1,
        "outcome": "passed" if score == 1.0 else "failed",
        "class": None if score == 1.0 else "below_threshold",
        "score": score,
        "threshold": 1.0,
        "started_at": at.isoformat(),
        "finished_at": (at + datetime.timedelta(seconds=60)).isoformat(),
        "seconds": chance.uniform(1, 60),
        "input_tokens": chance.randrange(10_000),
        "output_tokens": chance.randrange(1_000),
        "cost_usd": chance.random(),
        "calls": chance.randrange(50),
        "path": f"trials/{run}/{scenario}/1",
        "comparable": f"{hash((benchmark, scenario)) & 0xFFFF:016x}",
        "tags": json.dumps([f"tag-{number % 10}", "all"]),
    }
    return (*(values.get(name) for name in TRIAL_COLUMNS), run)
