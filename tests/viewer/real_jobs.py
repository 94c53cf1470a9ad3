"""Real jobs in containers to look at: three agents, one that a gate calls regressed, one that runs, one that died."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import yaml

from pytest_benchjobs.model.errors import InputError
from pytest_benchjobs.store.listing import JOBS, each
from pytest_benchjobs.store.reader import HistoryReader
from pytest_benchjobs.store.rows import JobRow
from tests.support import PATIENCE, until

EXAMPLE = Path(__file__).resolve().parents[2] / "conftest_examples" / "quickstart"
SOME = "access-log or csv-report or warehouse or lost-branch or locked-vault or crash-recovery"
SLEEPS = "sleeper=command:sleep 300"


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
        usual = ("quickstart.bench.yaml", "-q", "-p", "no:cacheprovider")
        return subprocess.Popen(
            [sys.executable, "-m", "pytest", *usual, *words],
            cwd=project,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )

    def benchjobs(*words: str) -> None:
        program = str(Path(sys.executable).with_name("benchjobs"))
        subprocess.run(
            [program, *words], cwd=project, check=True, capture_output=True, stdin=subprocess.DEVNULL
        )

    careful = _solver(project, "careful", lambda _: True)
    hasty = _solver(project, "hasty", lambda scenario: scenario in ("lost-branch", "locked-vault"))
    twice = ("--bench-attempts", "2", "--bench-concurrency", "6")
    pytest(*(f"--bench-agent={one}" for one in ("oracle", "nop", careful)), *twice).wait(5 * PATIENCE)
    benchjobs("baseline", "set", "last", "--name", "main")
    gate = ("--bench-baseline", "main", "--bench-fail-on-regression", "mean:5pp")
    allowed = ("--bench-allow-missing", "agent=nop", "--bench-allow-missing", "agent=oracle")
    pytest(f"--bench-agent={hasty}", *twice, *gate, *allowed).wait(5 * PATIENCE)
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


def _solver(project: Path, name: str, knows: Callable[[str], bool]) -> str:
    """Write an agent that knows the references of some scenarios, and reports its steps; returns its option."""
    scenarios = yaml.safe_load((project / "quickstart.bench.yaml").read_text())["scenarios"]
    cases = "\n".join(
        f'if grep -qF {shlex.quote(one["problem_statement"].splitlines()[0])} "$BENCH_PROBLEM_FILE"; then\n'
        + "".join(_calls(one["reference"] if knows(one["id"]) else "ls -a\nwc -c *"))
        + f"say 'I am done with {one['id']}.'\nfi"
        for one in scenarios
        if isinstance(one.get("reference"), str)
    )
    place = project / name
    place.mkdir()
    (place / "solve.sh").write_text(f"{_REPORTS}{cases}\n{_DONE}")
    (place / "solver.agent.toml").write_text(
        'name = "solver"\nsource = { path = "." }\nargv = ["/bin/bash", "{agent}/solve.sh"]\nreads = "codex"\n'
    )
    return f"solver=./{name}"


_REPORTS = r"""#!/bin/bash
# Prints what it does as `codex exec --json` does.
escaped() { sed -e 's/\\/\\\\/g' -e 's/"/\\"/g' -e 's/\t/\\t/g' "$1" | tr -d '\000-\010\013-\037' | awk '{printf "%s\\n", $0}'; }
say() { printf '{"type":"item.completed","item":{"id":"say","type":"agent_message","text":"%s"}}\n' "$1"; }
number=0
call() {  # a command as JSON, and as the shell has it
  number=$((number + 1))
  eval "$2" > /tmp/output 2>&1; status=$?
  printf '{"type":"item.completed","item":{"id":"%s","type":"command_execution","command":%s,' "$number" "$1"
  printf '"aggregated_output":"%s","exit_code":%s}}\n' "$(escaped /tmp/output)" "$status"
}
printf '\033[32mreading\033[0m the task\n'
say 'I read the task first.'
call '"cat $BENCH_PROBLEM_FILE"' 'cat "$BENCH_PROBLEM_FILE"'
"""
_DONE = r"""
printf '{"type":"turn.completed","usage":{"input_tokens":%s,"cached_input_tokens":100,"output_tokens":%s}}\n' \
  $((900 + 400 * number)) $((60 * number))
"""


def _calls(script: str) -> Iterator[str]:
    """Yield a call for each line of a script, or one for all where a line is no command by itself."""
    lines = script.strip().split("\n")
    try:
        alone = "<<" not in script and all(shlex.split(line) for line in lines)
    except ValueError:
        alone = False
    for command in lines if alone else [script.strip()]:
        yield f"call {shlex.quote(json.dumps(command))} {shlex.quote(command)}\n"


def _jobs(reports: Path) -> list[JobRow]:
    with HistoryReader.of(reports) as history:
        return list(each(history, JOBS))


def _begun(reports: Path, number: int) -> str:
    """Wait until so many jobs have begun, and the newest one has an agent at work; returns its id."""

    def newest() -> str | None:
        with contextlib.suppress(InputError, FileNotFoundError):  # what it looks at moves meanwhile
            ids = sorted(row.id for row in _jobs(reports))
            if len(ids) == number and list((reports / "jobs" / ids[-1]).glob("**/agent.log")):
                return ids[-1]
        return None

    return str(until(newest, what=f"job {number} did not begin"))
