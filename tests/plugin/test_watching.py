"""`benchjobs watch` on jobs that pytest runs: several watchers at once, from before the first trial to the end."""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
from collections.abc import Iterator

import pytest

from tests.console import COMMAND
from tests.schemas import obeys
from tests.support import paths, until
from tests.terminal import BENCHJOBS, TMUX, Terminal

from .conftest import Bench

SCENARIOS = 25
TRIALS = 2 * SCENARIOS
EVENTS = "reports/jobs/*/.flight/events/*.jsonl"


@pytest.fixture
def fifty(bench: Bench) -> Bench:
    """Scenarios for two agents. A trial takes a moment, and every seventh fails.

    None goes on before there is a file `go`, and only some of them before there is one called `rest`.
    """
    scenarios = {
        f"s{number:02}": {
            "reference": f"sh {bench.path}/work.sh",
            "script": f"echo score={0 if number % 7 == 0 else 1}",
        }
        for number in range(SCENARIOS)
    }
    bench.manifest(scenarios, "fifty.bench.yaml")
    bench.write(
        "work.sh",
        f"""
        cd {bench.path}
        while ! test -e go; do sleep 0.05; done
        echo >> began
        while test $(wc -l < began) -gt 15 && ! test -e rest; do sleep 0.05; done
        sleep 0.3
        """,
    )
    return bench


@contextlib.contextmanager
def job(bench: Bench, *more: str) -> Iterator[subprocess.Popen[str]]:
    """A job with at most five trials in flight, whose first ones are."""
    agents = ("--bench-agent", "oracle", "--bench-agent", f"command:sh {bench.path}/work.sh")
    process = bench.start(
        "-p", "no:cacheprovider", "fifty.bench.yaml", *agents, "--bench-concurrency", "5", *more
    )
    try:
        yield process
        process.communicate(timeout=180)
    finally:
        process.kill()
        process.communicate()


def began(bench: Bench, process: subprocess.Popen[str], trials: int) -> None:
    """Wait until so many trials are in flight."""

    def seen() -> bool:
        assert process.poll() is None, process.communicate()[0]
        found = sum(path.read_text().count('"phase":"agent"') for path in paths(bench.path, EVENTS))
        return found >= trials

    until(seen, what=f"not {trials} trials at a time")


def let_go(bench: Bench) -> None:
    """Let every trial end."""
    for name in ("rest", "go"):
        (bench.path / name).touch()


def piped(bench: Bench, *arguments: str) -> subprocess.Popen[str]:
    command, pipe = [*COMMAND, "watch", *arguments], subprocess.PIPE
    return subprocess.Popen(command, cwd=bench.path, stdout=pipe, stderr=pipe, text=True)


def written(bench: Bench, name: str, *arguments: str) -> subprocess.Popen[bytes]:
    with (bench.path / name).open("wb") as file:
        return subprocess.Popen([*COMMAND, "watch", *arguments], cwd=bench.path, stdout=file)


@pytest.mark.skipif(TMUX is None, reason="there is no tmux")
@pytest.mark.parametrize(
    "workers", [pytest.param((), marks=pytest.mark.extended), ("-n", "2")], ids=["", "xdist"]
)
def test_everybody_sees_the_same_job(fifty: Bench, workers: tuple[str, ...]) -> None:
    with (
        job(fifty, *workers) as process,
        Terminal(fifty.path, 80, 24) as narrow,
        Terminal(fifty.path, 200, 50) as wide,
    ):
        began(fifty, process, 5)
        lines = written(fifty, "lines", "--interval", "0.5")
        documents = written(fifty, "documents", "-o", "json", "--interval", "0.5")
        for terminal in (narrow, wide):
            terminal.type(f"clear; {BENCHJOBS} watch; echo status $?")
            terminal.until(lambda text: f"0/{TRIALS} trials" in text and "Running" in text)
        # Both have said how things are before the first trial goes on.
        until(lambda: all("\n" in (fifty.path / name).read_text() for name in ("lines", "documents")))
        (fifty.path / "go").touch()
        for columns, rows in ((200, 50), (81, 11), (80, 24)):
            narrow.resize(columns, rows)
            text = narrow.until(lambda text, size=(columns, rows): is_whole(text, *size))  # type: ignore[misc]
            assert re.search(rf"^\d+/{TRIALS} trials", text, re.MULTILINE)
        (fifty.path / "rest").touch()
        for terminal in (narrow, wide):
            text = terminal.until(lambda text: "status 0\n$" in text)
            assert "Benchmark Job Results" in text
            assert re.search(rf"^Trials: +{TRIALS} of {TRIALS} ended", text, re.MULTILINE)
        assert (lines.wait(180), documents.wait(180)) == (0, 0)
    out, json_lines = ((fifty.path / name).read_text() for name in ("lines", "documents"))
    outcomes = fifty.outcomes()
    told = re.findall(rf"^(\d+)/{TRIALS} (passed|failed|error|cancelled) (\S+) (\S+) a1 ", out, re.MULTILINE)
    assert [int(number) for number, *_ in told] == list(range(1, TRIALS + 1))
    assert {
        f"fifty.bench.yaml::{scenario}[{agent}]": outcome for _, outcome, scenario, agent in told
    } == outcomes
    assert "Benchmark Job Results" in out
    found = [json.loads(line) for line in json_lines.splitlines()]
    for document in found:
        obeys(document, "watch")
        assert len(document["in_flight"]) <= 5
    done = [document["totals"]["done"] for document in found]
    assert (done, done[0], done[-1]) == (sorted(done), 0, TRIALS)
    assert found[-1]["status"] == "completed"
    assert found[-1]["totals"]["passed"] == list(outcomes.values()).count("passed")


def is_whole(text: str, columns: int, rows: int) -> bool:
    """Whether the picture is of this size, and nothing of another one is left."""
    lines = text.splitlines()
    running = [line for line in lines if re.match(r"s\d\d ", line)]
    return (
        len(lines[0]) == columns
        and re.fullmatch(r"\d{8}-\d{6}-\w{6} +running \w+", lines[0]) is not None
        and (len(lines) == rows if rows >= 20 else len(lines) <= rows)
        and len(lines[2]) == columns
        and sum("Running" in line for line in lines) == 1
        and sum("stop watching" in line for line in lines) == (rows >= 20)
        and 0 < len(running) <= 5
    )


def test_a_job_in_the_background_is_watched_from_its_beginning(fifty: Bench) -> None:
    order = ["run", "--detach", "--benchmark", "fifty.bench.yaml", "--agent", "oracle", "-o", "json"]
    detached = subprocess.run(
        [*COMMAND, *order, "--", "-p", "no:hypothesispytest"],
        cwd=fifty.path,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert detached.returncode == 0, detached.stderr
    job_id = json.loads(detached.stdout)["job"]
    watcher = piped(fifty, job_id)
    assert watcher.stdout is not None
    first = watcher.stdout.readline()
    let_go(fifty)
    out, err = watcher.communicate(timeout=180)
    assert first.startswith(("Waiting for the first trial", f"0/{SCENARIOS} trials"))
    ended = re.findall(rf"^\d+/{SCENARIOS} (?:passed|failed) s\d\d oracle a1 ", out, re.MULTILINE)
    assert len(ended) == SCENARIOS
    assert f"benchjobs summary -e {job_id}" in err


def test_a_killed_job_is_noticed_and_its_resumption_watched(fifty: Bench) -> None:
    process = fifty.start(
        "-p", "no:cacheprovider", "fifty.bench.yaml", "--bench-agent", "oracle", "--bench-concurrency", "2"
    )
    try:
        began(fifty, process, 2)
        watcher = piped(fifty)
        assert watcher.stdout is not None
        assert watcher.stdout.readline().startswith(f"0/{SCENARIOS} trials")
    finally:
        process.kill()
        process.communicate()
        let_go(fifty)  # what the process had started lives on, and ends now
    _, err = watcher.communicate(timeout=180)
    assert watcher.returncode == 1
    (bundle,) = (path.parent for path in (fifty.path / "reports" / "jobs").glob("*/job.json"))
    assert f"job {bundle.name} died: process {process.pid} of " in err
    assert f"`benchjobs resume {bundle.name}` runs the missing trials" in err

    again = fifty.start(
        "-p", "no:cacheprovider", "fifty.bench.yaml", "--bench-resume", bundle.name, "--bench-agent", "oracle"
    )
    try:
        until(
            lambda: (
                again.poll() is not None
                or json.loads((bundle / "job.json").read_text())["owner"]["pid"] == again.pid
            )
        )
        assert again.poll() is None
        out, _ = piped(fifty, "-o", "json", "--interval", "0.2").communicate(timeout=180)
    finally:
        again.kill()
        again.communicate()
    last = json.loads(out.splitlines()[-1])
    assert last["status"] == "completed"
    assert last["totals"]["done"] == SCENARIOS
    assert last["totals"]["reused"] == 0


def test_jobs_of_two_agents_are_in_the_order_of_the_job(fifty: Bench) -> None:
    let_go(fifty)
    with job(fifty, "--bench-scenario", "s01"):
        pass
    out, _ = piped(fifty, "-o", "json").communicate(timeout=180)
    (line,) = out.splitlines()
    assert [agent["agent"].partition(":")[0] for agent in json.loads(line)["agents"]] == ["oracle", "command"]
