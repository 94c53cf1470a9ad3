"""Real jobs in containers to look at: three agents, one that a gate calls regressed, one that runs, one that died."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import yaml

from pytest_benchjobs.model.errors import InputError
from pytest_benchjobs.store.reader import HistoryReader
from pytest_benchjobs.store.rows import JobRow

EXAMPLE = Path(__file__).resolve().parents[2] / "conftest_examples" / "quickstart"
SOME = "access-log or csv-report or warehouse or lost-branch or locked-vault or crash-recovery"
SLEEPS = "sleeper=command:sleep 300"
_PATIENCE = 180.0


class RealJobs(NamedTuple):
    """Ids of jobs."""

    directory: Path
    first: str
    """Three agents."""
    gated: str
    """Worse than the baseline."""
    died: str
    runs: str


@contextlib.contextmanager
def real_jobs(place: Path) -> Iterator[RealJobs]:
    """Make the jobs in `place`, and end what still runs afterwards."""
    project = place / "quickstart"
    shutil.copytree(EXAMPLE, project, ignore=shutil.ignore_patterns("reports", "__pycache__"))
    (project / "pytest.ini").write_text("[pytest]\n")
    _committed(project)
    reports = project / "reports"

    def pytest(*words: str) -> subprocess.Popen[bytes]:
        command = [
            sys.executable,
            "-m",
            "pytest",
            "quickstart.bench.yaml",
            "-q",
            "-p",
            "no:cacheprovider",
            *words,
        ]
        return subprocess.Popen(
            command, cwd=project, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, start_new_session=True
        )

    def benchjobs(*words: str) -> None:
        program = str(Path(sys.executable).with_name("benchjobs"))
        subprocess.run(
            [program, *words], cwd=project, check=True, capture_output=True, stdin=subprocess.DEVNULL
        )

    solver = _solver(project)
    twice = ("--bench-attempts", "2", "--bench-concurrency", "6")
    pytest(*(f"--bench-agent={one}" for one in ("oracle", "nop", solver)), *twice).wait(_PATIENCE)
    benchjobs("baseline", "set", "last", "--name", "main")
    gate = ("--bench-baseline", "main", "--bench-fail-on-regression", "mean:5pp")
    allowed = ("--bench-allow-missing", "agent=nop", "--bench-allow-missing", "agent=oracle")
    pytest("--bench-agent=solver=command:true", *twice, *gate, *allowed).wait(_PATIENCE)
    asleep = ("-k", SOME, "--bench-agent", SLEEPS, "--bench-concurrency", "2")
    running = pytest(*asleep)
    try:
        runs = _begun(reports, 3)
        # A job that begins later would close the one that died.
        dying = pytest(*asleep)
        died = _begun(reports, 4)
        os.killpg(dying.pid, signal.SIGKILL)
        dying.wait()
        first, gated = sorted(row.id for row in _jobs(reports))[:2]
        yield RealJobs(reports, first, gated, died, runs)
    finally:
        os.killpg(running.pid, signal.SIGINT)
        try:
            running.wait(60)
        except subprocess.TimeoutExpired:
            os.killpg(running.pid, signal.SIGKILL)
            running.wait()
        benchjobs("recover")
        benchjobs("gc")


def _committed(project: Path) -> None:
    """Make the project a repository with one commit, of somebody in particular."""
    ann = ("-c", "user.name=Ann", "-c", "user.email=ann@example.org")
    for words in (
        ("init", "-q", "-b", "main"),
        ("add", "."),
        (*ann, "commit", "-qm", "A benchmark"),
        ("config", "user.name", "Ann"),
    ):
        subprocess.run(
            ["git", *words], cwd=project, check=True, capture_output=True, stdin=subprocess.DEVNULL
        )


def _solver(project: Path) -> str:
    """Write an agent that knows the answers of those scenarios whose reference is a script; returns its option."""
    scenarios = yaml.safe_load((project / "quickstart.bench.yaml").read_text())["scenarios"]
    cases = "\n".join(
        f'if grep -qF {shlex.quote(one["problem_statement"].splitlines()[0])} "$BENCH_PROBLEM_FILE"; then\n'
        f"echo 'this is {one['id']}'\n{one['reference']}\nfi"
        for one in scenarios
        if isinstance(one.get("reference"), str)
    )
    (project / "solver.sh").write_text(
        f"#!/bin/bash\nprintf '\\033[32mreading\\033[0m the task\\n'\n{cases}\nexit 0\n"
    )
    (project / "solver.sh").chmod(0o755)
    return "solver=./solver.sh"


def _jobs(reports: Path) -> list[JobRow]:
    with HistoryReader.of(reports) as history:
        return list(history.each_job())


def _begun(reports: Path, number: int) -> str:
    """Wait until so many jobs have begun, and the newest one has an agent at work; returns its id."""
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline:
        with contextlib.suppress(InputError):
            ids = sorted(row.id for row in _jobs(reports))
            if len(ids) == number and list((reports / "jobs" / ids[-1]).glob("**/agent.log")):
                return ids[-1]
        time.sleep(0.2)
    raise AssertionError(f"job {number} did not begin")
