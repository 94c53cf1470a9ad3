"""What the end of a job of 20,000 trials costs: reading them all, and writing every report of them."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from pytest_benchjobs.model.job import JobStatus
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
from tests.unit.records import record, result, trial

TRIALS = 20_000
BUDGET = 150
_PHASES = (
    "prepare", "image", "start", "setup", "agent", "end", "put", "score:exists", "score:right", "remove",
)  # fmt: skip
_PARTS = ("scenario", "environment", "scorers", "agent", "parameters", "limits", "image")


def measure() -> list[tuple[str, float, str, str]]:
    """Rows of (what, ratio to the budget, budget, detail)."""
    with tempfile.TemporaryDirectory() as directory:
        _make(Path(directory))
        code = "from tests.performance.reports import end; import sys; end(sys.argv[1])"
        done = subprocess.run(
            [sys.executable, "-c", code, directory], capture_output=True, text=True, check=True
        )
    more, seconds = map(float, done.stdout.split())
    return [
        (
            f"reports of {TRIALS:,} trials",
            more / BUDGET,
            f"<= 1 ({BUDGET} MB)",
            f"{more:.0f} MB, {seconds:.1f} s",
        )
    ]


def end(directory: str) -> None:
    """Do what the end of a job does, in a process of its own; prints megabytes above those before, and seconds."""
    from pytest_benchjobs.analysis.gate import job as job_gate
    from pytest_benchjobs.analysis.verdict import verdicts
    from pytest_benchjobs.report import json, junit, markdown
    from pytest_benchjobs.report.ci import comment, metrics_text
    from pytest_benchjobs.report.write import write_reports
    from pytest_benchjobs.store.rows import pair_row
    from pytest_benchjobs.store.totals import totals

    assert all((job_gate, json, junit, markdown))
    bundle = next(JobBundle.all(Path(directory)))
    job = bundle.read()
    list(zip(bundle.results(), range(100), strict=False))
    Path("/proc/self/clear_refs").write_text("5")
    before, began = _status("VmRSS"), time.perf_counter()
    found = bundle.outlines(job.config)
    job = job.model_copy(update={"totals": totals(found)})
    rows = list(map(pair_row, found))
    write_reports(bundle, job, found)
    told = verdicts(found, job.config)
    metrics_text(job, found, None)
    comment(job, found, markdown.summary_markdown(job, found, None), None)
    assert len(told) == len(rows) == TRIALS
    print(_status("VmHWM") - before, time.perf_counter() - began)


def _status(field: str) -> float:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError(f"no {field} here")


def _make(directory: Path) -> None:
    bundle = JobBundle.create(directory, record(directory, status=JobStatus.COMPLETED, planned=TRIALS))
    for number in range(TRIALS):
        of = trial(f"scenario-{number:05}", f"command:agent-{number % 4}")
        bundle.put(of, _result(number, of))


def _result(number: int, of: object) -> TrialResult:
    passed = number % 3 != 0
    output = "".join(f"line {line} of what a scorer printed about {number}\n" for line in range(30))
    scorers = (
        ScorerResult(
            name="exists", type="bash", weight=1, score=1.0, seconds=0.1, details={"exit_status": 0}
        ),
        ScorerResult(name="right", type="tests", weight=3, score=float(passed), seconds=1.5, output=output),
    )
    return result(
        of,  # type: ignore[arg-type]
        benchmark_version="1.0",
        outcome=Outcome.PASSED if passed else Outcome.FAILED,
        score=1.0 if passed else 0.25,
        failure=None
        if passed
        else Failure(
            class_="below_threshold",
            message=f"score 0.25 is below the threshold 1 in {number}",
            phase="score",
            detail=output,
        ),
        scorers=scorers,
        agent_end=AgentEnd(exit_status=0, leftovers=("sleep 600",), output_bytes=number),
        usage=Usage(input_tokens=number, output_tokens=7, cost_usd=0.0001 * number),
        phases=tuple(Phase(name=name, start=place, end=place + 0.5) for place, name in enumerate(_PHASES)),
        image=ImageRecord(reference="debian:bookworm-slim", id=f"sha256:{number:064x}", key=f"{number:064x}"),
        signature=Signature(value=f"{number:032x}", parts=dict.fromkeys(_PARTS, f"{number:016x}")),
        tags=("easy", "text"),
    )
