"""`benchjobs run` as a user types it: one pytest, here or in the background."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from pytest_benchjobs.model.job import JobStatus
from pytest_benchjobs.model.owner import is_alive
from pytest_benchjobs.report.documents import schema_of
from pytest_benchjobs.store.bundle import JobBundle
from tests.support import until

from .conftest import PATIENCE, Bench, command

SLOW = """
benchmark: slow
scenarios:
  - id: wait
    image: none
    problem_statement: Wait.
    reference: touch {started}; while [ ! -e {go} ]; do sleep 0.05; done
    scorers: [{{name: s, type: command, command: "true"}}]
"""


@pytest.fixture
def slow(bench: Bench) -> Iterator[Bench]:
    """A benchmark whose only trial ends when the file `go` is there; it is, in the end."""
    bench.write("slow.bench.yaml", SLOW.format(go=bench.path / "go", started=bench.path / "started"))
    yield bench
    (bench.path / "go").touch()


def ended(bench: Bench, job: str) -> dict[str, Any]:
    bundle = JobBundle(bench.path / "reports", job)
    until(lambda: bundle.read().status.ended)
    until(lambda: not is_alive(bundle.read().owner))
    return bundle.read().model_dump(mode="json")


# --- here


def test_the_output_and_the_status_are_those_of_pytest(bench: Bench) -> None:
    bench.toy()
    done = bench.benchjobs("run", "--benchmark", "toy", "-n", "first")
    assert done.returncode == 1
    assert "1 passed, 1 error, 1 unsolved" in done.stdout
    assert done.stderr == ""
    assert bench.job()["job"]["name"] == "first"
    again = bench.benchjobs("run", "--benchmark", "toy", "--scenarios-", "x")
    assert again.returncode == 2
    solved = bench.benchjobs("run", "--benchmarks", "toy", "--scenarios", "solved", "--", "-v")
    assert solved.returncode == 0
    # It ran before, and nothing has changed.
    assert "toy.bench.yaml::solved[oracle] PASSED score=1.0 reused" in solved.stdout


def test_what_only_pytest_can_know_is_a_mistake_too(bench: Bench) -> None:
    bench.toy()
    message = "--bench: there is no benchmark 'toyy'; did you mean 'toy'?"
    done = bench.benchjobs("run", "--benchmark", "toyy", "-o", "json")
    assert (done.returncode, done.stdout) == (2, "")
    assert f"ERROR: {message}" in done.stderr.splitlines()
    assert "Traceback" not in done.stderr
    assert done.stderr.count(message) == 1
    assert not (bench.path / "reports").exists()


def test_options_of_pytest_can_be_pasted(bench: Bench) -> None:
    bench.toy()
    done = bench.benchjobs(
        "run", "--bench=toy", "--bench-scenario=solved", "--bench-attempts=2", "--bench-agent=nop", "oracle"
    )
    assert done.returncode == 1, done.stderr
    assert len(bench.results()) == 4


def test_a_document_is_alone_on_stdout(bench: Bench) -> None:
    bench.toy()
    done = bench.benchjobs("run", "--all", "-o", "json")
    assert done.returncode == 1
    document = json.loads(done.stdout)
    jsonschema.validate(document, schema_of("summary"))
    assert (document["id"], document["status"]) == (bench.job()["job"]["id"], "completed")
    assert document["totals"]["trials"] == 3
    assert "1 passed, 1 error, 1 unsolved" in done.stderr


@pytest.mark.usefixtures("from_nothing")
def test_values_of_variables_are_in_no_command_line(slow: Bench) -> None:
    value = f"hidden-{os.getpid()}-value"
    slow.write(
        "slow.bench.yaml",
        (slow.path / "slow.bench.yaml").read_text().replace("touch ", "echo $MINE; touch ", 1),
    )
    process = subprocess.Popen(
        command("run", "--all", "--env-vars", f"MINE={value}", "--", "-n", "1"),
        cwd=slow.path,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    until((slow.path / "started").exists)
    holders = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().decode("utf-8", "replace").split("\0")
        except OSError:
            continue
        if any(value in word for word in words):
            holders.append(int(path.parent.name))
    # What the user typed himself is his own doing.
    assert holders == [process.pid]
    (slow.path / "go").touch()
    assert process.wait(PATIENCE) == 0
    log = next(slow.bundle().glob("trials/*/*/*/agent.log")).read_text()
    assert f"{value}\n" in log
    for path in slow.bundle().glob("*.*"):
        assert value not in path.read_text("utf-8", "replace")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_pytest_which_cleans_up(slow: Bench, number: signal.Signals) -> None:
    process = subprocess.Popen(
        command("run", "--all"),
        cwd=slow.path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    until((slow.path / "started").exists)
    if number == signal.SIGINT:
        os.killpg(process.pid, number)  # as a terminal does
    else:
        process.send_signal(number)
    output, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == pytest.ExitCode.INTERRUPTED, output
    assert "Traceback" not in output
    assert JobBundle(slow.path / "reports", slow.bundle().name).read().status is JobStatus.CANCELLED


# --- in the background


def test_a_detached_job_goes_on_by_itself(slow: Bench) -> None:
    done = slow.benchjobs(
        "run", "--all", "--detach", "-n", "far", "-o", "json", "--timeout", "50", "--env-vars", "X_KEY=s3cret"
    )
    assert done.returncode == 0
    document = json.loads(done.stdout)
    jsonschema.validate(document, schema_of("detach"))
    job = document["job"]
    assert document["status"] in ("initializing", "running")
    assert done.stderr == f'Follow the run with "benchjobs watch {job}"\n'
    until((slow.path / "started").exists)
    bundle = JobBundle(slow.path / "reports", job)
    record = bundle.read()
    assert record.status is JobStatus.RUNNING
    assert is_alive(record.owner)
    # The process that made the bundle is pytest now, in a session of its own, with nobody at its stdin.
    owner = Path(f"/proc/{record.owner.pid}")
    words = (owner / "cmdline").read_bytes().split(b"\0")
    assert b"pytest" in words
    assert b"s3cret" not in b" ".join(words)
    assert os.getsid(record.owner.pid) != os.getsid(0)
    assert (owner / "fd/0").readlink() == Path("/dev/null")
    (slow.path / "go").touch()
    after = ended(slow, job)
    assert (after["status"], after["name"], after["totals"]["passed"]) == ("completed", "far", 1)
    assert after["created_at"] == record.model_dump(mode="json")["created_at"]
    log = (bundle.root / "pytest.log").read_text()
    assert "1 passed" in log
    assert "s3cret" not in log
    listed = json.loads(slow.benchjobs("list", "-o", "json").stdout)
    assert [(one["id"], one["status"]) for one in listed["jobs"]] == [(job, "completed")]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--benchmark", "bad.bench.yaml"], "bad.bench.yaml:2: scenarios: *"),
        (["--all", "--", "-k", "nothing"], "there is nothing to run"),
        (["--all", "--", "--nonsense"], "*unrecognized arguments: --nonsense"),
    ],
)
def test_a_mistake_shows_at_once_and_fails_the_job(slow: Bench, arguments: list[str], message: str) -> None:
    from fnmatch import fnmatchcase

    if "--benchmark" in arguments:
        slow.write("bad.bench.yaml", "benchmark: bad\nscenarios: []\n")
    before, rest = (arguments[:2], []) if "--" not in arguments else (arguments[:1], arguments[1:])
    done = slow.benchjobs("run", *before, "--detach", *rest)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert fnmatchcase(line, f"benchjobs: {message}"), line
    (job,) = json.loads(slow.benchjobs("list", "-o", "json").stdout)["jobs"]
    assert job["status"] == "failed"
    record = JobBundle(slow.path / "reports", job["id"]).read()
    assert fnmatchcase(record.message or "", message)
    assert record.finished_at is not None


def test_a_detached_job_without_a_place_for_it(bench: Bench) -> None:
    bench.toy()
    (bench.path / "full").write_text("")
    done = bench.benchjobs("run", "--all", "--detach", "--dir", "full/x")
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith("benchjobs: ")
    assert "full" in line


def test_a_detached_job_can_be_killed_and_taken_up(slow: Bench) -> None:
    done = slow.benchjobs("run", "--all", "--detach", "--timeout", "50")
    first, second = done.stdout.splitlines()
    job = first.split()[3]
    assert first == f"Benchmark job created: {job} (agent timeout = 50s)"
    assert second == f'Follow the run with "benchjobs watch {job}"'
    until((slow.path / "started").exists)
    bundle = JobBundle(slow.path / "reports", job)
    os.kill(bundle.read().owner.pid, signal.SIGKILL)
    until(lambda: not is_alive(bundle.read().owner))
    (slow.path / "go").touch()
    resumed = slow.benchjobs("resume", job)
    assert resumed.returncode == 0, resumed.stderr
    after = ended(slow, job)
    assert (after["id"], after["status"], after["totals"]["passed"]) == (job, "completed", 1)
