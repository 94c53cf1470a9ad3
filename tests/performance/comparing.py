"""What it costs to judge a job of 10,000 trials beside another, from the history to the verdict."""

from __future__ import annotations

import datetime
import itertools
import os
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from pytest_benchjobs.analysis.gate.judge import judge
from pytest_benchjobs.analysis.sides import Side, side
from pytest_benchjobs.model.gate import GateConfig, GateReport
from pytest_benchjobs.settings.rules import parse_rule
from pytest_benchjobs.store.bundle import JobBundle
from pytest_benchjobs.store.checked import checked
from pytest_benchjobs.store.checksum import checksum_of
from pytest_benchjobs.store.history import History
from pytest_benchjobs.store.layout import Layout
from pytest_benchjobs.store.rows import PairRow

from .history import generate

BUDGET = 0.300
SINGLE = 0.005  # of one benchmark and agent: forty of them stay well within the budget of such a gate
TRIALS = 10_000
REPEATS = 9
_CONFIG = GateConfig(rules=(parse_rule("mean:5pp"),), max_error_rate=0.2)
_DRAWN = 41
_SCORES: dict[str, Callable[[random.Random], float]] = {
    "0/1": lambda chance: float(chance.random() < 0.6),
    "continuous": lambda chance: chance.random(),
    "two digits": lambda chance: round(chance.random(), 2),
}
_AT = datetime.datetime(2026, 11, 21, tzinfo=datetime.UTC)


def measure() -> list[tuple[str, float, str, str]]:
    """Rows of (what, ratio to the budget, budget, detail)."""
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCHJOBS_PERFORMANCE_DIR")) as directory:
        path = Layout(Path(directory)).history
        (one, other), _ = generate(path, ((2, TRIALS),))
        with History(path) as history:
            for job in (one, other):
                _end(history, job)
            rows = [
                _row(
                    "gate: 40 agents x benchmarks",
                    lambda: _judged(checked(history, one).rows, checked(history, other).rows),
                    "with reading and checking",
                ),
                _row(
                    "gate: of which reading, checking, pooling",
                    lambda: _sides(checked(history, one).rows, checked(history, other).rows),
                    "a part of the above",
                ),
            ]
    chance = random.Random(0)
    before, now = ([_attempt(index, chance) for index in range(TRIALS)] for _ in range(2))
    rows.append(_row("gate: 2,000 scenarios x 5", lambda: _judged(before, now), "scores of all sorts"))
    return [*rows, *itertools.starmap(_single, itertools.product((20, 89), (1, 15), _SCORES))]


def _end(history: History, job: str) -> None:
    """Give a job what its end gives it: a checksum, and `job.json`."""
    record = history.job(job)
    assert record is not None
    record = record.model_copy(update={"checksum": checksum_of(history.paired_rows(job))})
    history.save_job(record)
    JobBundle.create(history.directory, record)


def _single(scenarios: int, attempts: int, kind: str) -> tuple[str, float, str, str]:
    """One benchmark and agent, one attempt before and some now; other scores each time, as parts of tests are cached."""
    chance = random.Random(0)

    def drawn(most: int) -> Side:
        rows = [
            _attempt(place * 5, chance)._replace(score=_SCORES[kind](chance), attempt=attempt)
            for place in range(scenarios)
            for attempt in range(1, most + 1)
        ]
        return side(str(most), [(str(most), rows)])

    ready = iter([(drawn(1), drawn(attempts)) for _ in range(_DRAWN + 1)])

    def judged() -> GateReport:
        before, now = next(ready)
        return judge(now, before, _CONFIG, job="other", at=_AT)

    return _row(f"gate: {scenarios} x 1 v {attempts}, {kind}", judged, "", SINGLE, _DRAWN)


def _row(
    what: str, question: Callable[[], object], detail: str, budget: float = BUDGET, repeats: int = REPEATS
) -> tuple[str, float, str, str]:
    question()
    times, work = [], []
    for _ in range(repeats):
        began = time.perf_counter(), time.process_time()
        question()
        times.append(time.perf_counter() - began[0])
        work.append(time.process_time() - began[1])
    seconds = statistics.median(times)
    # Nothing here waits: what the clock says beyond the processor's time is the doing of others on this machine.
    digits = 1 if budget < BUDGET else 0
    spent = f"{seconds * 1000:.{digits}f} ms, {statistics.median(work) * 1000:.{digits}f} of the processor"
    return what, seconds / budget, f"<= 1 ({budget * 1000:.0f} ms)", f"{spent}  {detail}".rstrip()


def _sides(before: list[PairRow], now: list[PairRow]) -> object:
    return side("one", [("one", before)]), side("other", [("other", now)])


def _judged(before: list[PairRow], now: list[PairRow]) -> GateReport:
    one, other = side("one", [("one", before)]), side("other", [("other", now)])
    report = judge(other, one, _CONFIG, job="other", at=_AT)
    assert sum(rule.scenarios for rule in report.rules) > 1_500
    return report


def _attempt(index: int, chance: random.Random) -> PairRow:
    values = {
        "benchmark": "texts",
        "scenario": f"s{index // 5:04}",
        "agent": "codex:model-0",
        "attempt": index % 5 + 1,
        "outcome": "failed",
        "score": chance.betavariate(0.5, 0.5),
        "threshold": 1.0,
        "seconds": chance.random(),
        "cost_usd": chance.random(),
        "input_tokens": 1,
        "output_tokens": 1,
    }
    return PairRow._make(values.get(field) for field in PairRow._fields)
