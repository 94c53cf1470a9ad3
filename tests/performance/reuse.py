"""What it costs to run nothing: 500 trials whose results are there already."""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.performance.plugin import child

TRIALS = 500
BUDGET_SECONDS = 2.0
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
    """Seconds of the whole pytest process over the budget."""
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
        seconds = []
        for _ in range(runs):
            started = time.perf_counter()
            assert child(directory, "many.bench.yaml", "--bench-reuse", *_PLAIN).status == 0
            seconds.append(time.perf_counter() - started)
        whole = statistics.median(seconds)
        yield (
            f"rerun of {TRIALS} unchanged trials",
            whole / BUDGET_SECONDS,
            f"<= {BUDGET_SECONDS:g} s",
            f"{whole:.2f} s, nothing started",
        )
