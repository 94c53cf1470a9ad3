"""What it costs to run nothing: 500 trials whose results are there already."""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.performance.plugin import STOCK, child

TRIALS = 500
BUDGET_SECONDS = 2.0
STOCK_SECONDS = 0.5
"""What a process of stock pytest with so many empty tests takes on a machine of today, which the budget is for."""
_PLAIN = ("-p", "no:hypothesispytest")  # a development tool that takes half a second to import

_CONFTEST = """
import os
from pytest_benchjobs.testing import FakeProvider

class Strict(FakeProvider):
    def start(self, spec, on_phase):
        assert os.environ.get("MAY_RUN"), "a sandbox was started"
        return super().start(spec, on_phase)

def pytest_benchjobs_sandboxes(config):
    return {"fake": Strict}
"""


def measure(runs: int = 5) -> Iterator[tuple[str, float, str, str]]:
    """Seconds of the whole pytest process over the budget, and over those of stock pytest."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        (directory / "conftest.py").write_text(_CONFTEST.replace('os.environ.get("MAY_RUN")', "True"))
        (directory / "pytest.ini").write_text("[pytest]\nbench_sandbox = fake\n")
        scenarios = [
            {
                "id": f"s{number}",
                "problem_statement": "Try.",
                "reference": "true",
                "scorers": [{"name": "s", "type": "bash", "script": "echo score=1"}],
            }
            for number in range(TRIALS)
        ]
        manifest = {"benchmark": "many", "defaults": {"image": "none"}, "scenarios": scenarios}
        (directory / "many.bench.yaml").write_text(json.dumps(manifest))
        assert child(directory, "many.bench.yaml", *_PLAIN).status == 0
        (directory / "conftest.py").write_text(_CONFTEST)
        (stock := directory / "stock").mkdir()
        (stock / "conftest.py").write_text(STOCK.format(count=TRIALS))
        (stock / "pytest.ini").write_text("[pytest]\n")
        (stock / "stock.txt").touch()
        seconds, beside = [], []
        for _ in range(runs):  # by turns: on a shared machine the clock means little by itself
            started = time.perf_counter()
            assert child(directory, "many.bench.yaml", "--bench-reuse", *_PLAIN).status == 0
            seconds.append(time.perf_counter() - started)
            started = time.perf_counter()
            assert child(stock, "stock.txt", "-p", "no:benchjobs", *_PLAIN).status == 0
            beside.append(time.perf_counter() - started)
        whole, empty = statistics.median(seconds), statistics.median(beside)
        yield (
            f"rerun of {TRIALS} unchanged trials",
            whole / BUDGET_SECONDS,
            f"<= {BUDGET_SECONDS:g} s",
            f"{whole:.2f} s, nothing started",
        )
        times = BUDGET_SECONDS / STOCK_SECONDS
        yield (
            "beside as many empty tests",
            whole / empty / times,
            f"<= {times:g} times",
            f"{whole / empty:.2f} times the {empty:.2f} s of stock pytest",
        )
