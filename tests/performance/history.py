"""What a history of a million trials costs those who look at it."""

from __future__ import annotations

import datetime
import functools
import hashlib
import itertools
import os
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from pytest_benchjobs.model.job import JobConfig, JobRecord, JobStatus, Owner
from pytest_benchjobs.report.overview import summary_document
from pytest_benchjobs.store.database import transaction
from pytest_benchjobs.store.history import _NEW_RUN, History
from pytest_benchjobs.store.layout import Layout
from pytest_benchjobs.store.listing import JOBS, RUNS, Wanted, page
from pytest_benchjobs.store.reader import HistoryReader
from pytest_benchjobs.store.results import find_job
from pytest_benchjobs.store.rows import SCORE_COLUMNS, TRIAL_COLUMNS

SIZES = ((60, 10_000), (360, 1_000), (580, 69))
"""How many jobs, of how many trials: a million in all, in a thousand jobs."""
START = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
PAGE, COMPARE = 0.020, 0.300
REPEATS = 21
AGENTS = tuple(f"{agent}:model-{number}" for agent in ("codex", "goose") for number in range(4))
BENCHMARKS = ("swebench", "terminal-bench", "text-tools", "aime", "arc")


def measure() -> list[tuple[str, float, str, str]]:
    """Rows of (what, ratio to the budget, budget, detail)."""
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCHJOBS_PERFORMANCE_DIR")) as directory:
        path = Layout(Path(directory)).history
        began = time.perf_counter()
        jobs, trials = generate(path)
        made = (
            f"{trials:,} trials, {path.stat().st_size >> 20} MB, made in {time.perf_counter() - began:.0f} s"
        )
        rows = [("history: open", _median(lambda: HistoryReader(path).close()), PAGE, made)]
        with HistoryReader(path) as history:
            rows += [
                (f"history: {what}", _median(question), budget, "")
                for what, question, budget in _questions(history, jobs)
            ]
    return [
        (
            what,
            seconds / budget,
            f"<= 1 ({budget * 1000:.0f} ms)",
            f"{seconds * 1000:.2f} ms  {more}".rstrip(),
        )
        for what, seconds, budget, more in rows
    ]


def _questions(history: History, jobs: list[str]) -> Iterator[tuple[str, Callable[[], object], float]]:
    big, other = jobs[-1], jobs[-2]
    week = START + datetime.timedelta(days=180)
    row = history.trials(big)[5_000]
    assert row.signature is not None
    signature = row.signature
    newest = page(history, JOBS, limit=700).rows[-1]
    middle = (newest.created_at.isoformat(), newest.id)
    yield "list, 50 jobs", lambda: page(history, JOBS, limit=50), PAGE
    yield "list, page 15", lambda: page(history, JOBS, limit=50, after=middle), PAGE
    ended, lately = Wanted(statuses=("failed", "timeout")), Wanted(since=week)
    yield "list, failed ones", lambda: page(history, JOBS, ended, limit=50), PAGE
    yield "list, since a day", lambda: page(history, JOBS, lately, limit=50), PAGE
    runs = functools.partial(page, history, RUNS, limit=200)
    yield "runs, 200 by agent", lambda: runs(sort="agent", descending=False), PAGE
    yield "runs, 200 of a status", lambda: runs(Wanted(statuses=("failed",)), sort="agent"), PAGE
    for sort in ("mean_score", "cost_usd", "started_at", "seconds", "job_name"):
        yield f"runs, 200 by {sort}", lambda sort=sort: runs(sort=sort), PAGE  # type: ignore[misc]
    yield "summary: job and runs", lambda: (history.job_row(big), history.runs(big)), PAGE
    yield "summary: 50 trials", lambda: list(itertools.islice(history.each_trial(big), 50)), PAGE
    failed = functools.partial(history.each_trial, big, outcomes=("failed",))
    yield "summary: 50 failed trials", lambda: list(itertools.islice(failed(), 50)), PAGE
    yield "summary: a scenario", lambda: history.trials(big, scenario=row.scenario), PAGE
    yield "find by prefix", lambda: find_job(history, big[:-2]), PAGE
    yield "find by name", lambda: find_job(history, "nightly"), PAGE
    yield "samples of a signature", lambda: history.samples(signature, row.attempt), PAGE
    latest = (row.benchmark, row.scenario, row.agent, row.attempt)
    yield "latest of a scenario", lambda: history.latest(*latest), PAGE
    yield "compare two jobs of 10,000", lambda: _compare(history, big, other), COMPARE
    # No page, but everything of a job: percentiles and classes of all its trials.
    directory = history.path.parent
    yield "whole summary of 10,000", lambda: summary_document(directory, history, big), COMPARE


def _compare(history: History, one: str, two: str) -> list[tuple[float, float]]:
    """The scores of two jobs, paired by trial."""
    before = {row[:4]: row.score for row in history.paired_rows(one)}
    pairs = []
    for row in history.paired_rows(two):
        score = before.get(row[:4])
        if score is not None and row.score is not None:
            pairs.append((score, row.score))
    assert len(pairs) > 5_000
    return pairs


def generate(path: Path, jobs: Sequence[tuple[int, int]] = SIZES) -> tuple[list[str], int]:
    """Make a history with the package's own schema; returns the ids of its jobs, big ones last, and its trials."""
    chance = random.Random(0)
    sizes = [size for count, size in jobs[1:] for _ in range(count)]
    chance.shuffle(sizes)
    sizes += [jobs[0][1]] * jobs[0][0]
    ids = []
    marks = ", ".join("?" * (len(TRIAL_COLUMNS) + 1))
    trial = f"INSERT INTO trials ({', '.join(TRIAL_COLUMNS)}, run) VALUES ({marks})"
    score = f"INSERT INTO scores (trial, position, {', '.join(SCORE_COLUMNS)}) VALUES (?, 0, 'right', 'bash', 1, ?, NULL, 1)"
    number = 0
    with History(path) as history:
        connection = history.connection
        for place, size in enumerate(sizes):
            record = _job(path.parent, place, size, chance)
            ids.append(record.id)
            agents = AGENTS if size > 1_000 else chance.sample(AGENTS, 2)
            benchmarks = BENCHMARKS if size > 1_000 else chance.sample(BENCHMARKS, 2)
            with transaction(connection):
                history.write_job(record)
                runs = [(benchmark, agent) for agent in agents for benchmark in benchmarks]
                connection.executemany(_NEW_RUN, [(record.id, *run) for run in runs])
                rows = [_trial(record, runs, index, chance) for index in range(size)]
                connection.executemany(trial, rows)
                first = number + 1
                connection.executemany(score, [(first + index, row[12]) for index, row in enumerate(rows)])
                number += size
                history._sum_up(record.id)
    return ids, number


def _job(directory: Path, place: int, size: int, chance: random.Random) -> JobRecord:
    began = START + datetime.timedelta(hours=8 * place)
    return JobRecord(
        id=f"{began:%Y%m%d-%H%M%S}-{chance.getrandbits(24):06x}",
        name="nightly" if place % 7 == 0 else f"try-{place}",
        status=JobStatus.COMPLETED if place % 20 else JobStatus.FAILED,
        created_at=began,
        finished_at=began + datetime.timedelta(hours=2),
        owner=Owner(host="somewhere", boot="b", pid=1, started="1"),
        config=JobConfig(directory=directory),
        planned=size,
    )


def _trial(
    record: JobRecord, runs: list[tuple[str, str]], index: int, chance: random.Random
) -> tuple[object, ...]:
    run = index % len(runs)
    benchmark, agent = runs[run]
    scenario = f"scenario-{index // len(runs):05d}"
    outcome = chance.choices(("passed", "failed", "error"), (6, 3, 1))[0]
    began = record.created_at + datetime.timedelta(seconds=index / 2)
    seconds = 5 + 100 * chance.random()
    node_id = f"benchmarks/{benchmark}/{benchmark}.bench.yaml::{scenario}[{agent}]"
    values: dict[str, object] = {
        "job": record.id,
        "node_id": node_id,
        "benchmark": benchmark,
        "benchmark_version": "1.0",
        "scenario": scenario,
        "agent": agent,
        "model": agent.partition(":")[2],
        "attempt": 1,
        "tries": 1,
        "outcome": outcome,
        "class": None if outcome == "passed" else "below_threshold" if outcome == "failed" else "engine_lost",
        "message": None if outcome == "passed" else "score 0.0 < 1.0",
        "score": {"passed": 1.0, "failed": 0.0}.get(outcome),
        "threshold": 1.0,
        "started_at": began.isoformat(),
        "finished_at": (began + datetime.timedelta(seconds=seconds)).isoformat(),
        "seconds": seconds,
        "input_tokens": chance.randrange(100_000),
        "output_tokens": chance.randrange(10_000),
        "cost_usd": chance.random(),
        "path": f"trials/{agent}/{scenario}/1",
        "signature": hashlib.sha256(node_id.encode()).hexdigest()[:32],
    }
    return (*(values.get(name) for name in TRIAL_COLUMNS), run + 1)


def _median(question: Callable[[], object]) -> float:
    question()
    times = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        question()
        times.append(time.perf_counter() - began)
    return statistics.median(times)
