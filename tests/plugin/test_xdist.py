from __future__ import annotations

import os
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from ..support import until
from .conftest import Bench

# What each trial sees of how many run beside it.
CROWD = """
import contextlib, fcntl, os, time

def pytest_benchjobs_scorers(config):
    root = config.rootpath

    def crowd(context):
        here = root / "here"
        here.mkdir(exist_ok=True)
        mine = here / context.scenario.id
        mine.touch()
        time.sleep(0.05)  # so that others come meanwhile
        most = len(list(here.iterdir()))
        (root / "most").open("a").write(f"{most} {os.getpid()}\\n")
        mine.unlink()
        return float(int(context.scenario.id[1:]) % 2)

    return {"crowd": crowd}
"""


def crowd(bench: Bench, count: int) -> None:
    bench.conftest(CROWD)
    bench.manifest({f"s{n:02}": {"type": "crowd"} for n in range(count)}, "crowd.bench.yaml")


def most_at_once(bench: Bench) -> int:
    return max(int(line.split()[0]) for line in (bench.path / "most").read_text().splitlines())


EVERY = [(workers, concurrency) for workers in (0, 2, 4) for concurrency in (1, 4, 16)]
CORNERS = ((0, 1), (0, 16), (2, 4), (4, 16))


@pytest.mark.parametrize(
    ("workers", "concurrency"),
    [pytest.param(*pair, marks=[] if pair in CORNERS else pytest.mark.extended) for pair in EVERY],
)
def test_the_same_job_whatever_the_workers_and_the_concurrency(
    bench: Bench, workers: int, concurrency: int
) -> None:
    crowd(bench, 40)
    result = bench.run("-n", str(workers), "--bench-concurrency", str(concurrency), "--junit-xml=junit.xml")
    assert result.parseoutcomes() == {"passed": 20, "unsolved": 20}
    expected = {f"s{n:02}[oracle]": [] if n % 2 else ["failure"] for n in range(40)}
    cases = [
        (str(case.get("name")), [child.tag for child in case if child.tag != "properties"])
        for case in ET.parse(bench.path / "junit.xml").iter("testcase")
    ]
    assert len(cases) == 40
    assert dict(cases) == expected
    assert bench.outcomes() == {
        f"crowd.bench.yaml::{name}": "failed" if kinds else "passed" for name, kinds in expected.items()
    }
    assert most_at_once(bench) <= concurrency
    assert concurrency == 1 or most_at_once(bench) > 1
    assert bench.job()["job"]["planned"] == 40


ALSO = [pytest.param(mode, marks=pytest.mark.extended) for mode in ("worksteal", "loadfile")]


def test_with_dist_each_every_trial_runs_once_and_ordinary_tests_are_refused(bench: Bench) -> None:
    crowd(bench, 6)
    result = bench.run("-n", "2", "--dist", "each")
    assert result.parseoutcomes() == {"passed": 3, "unsolved": 3}
    assert len((bench.path / "most").read_text().splitlines()) == 6
    bench.write("test_ordinary.py", ORDINARY)
    result = bench.run("-n", "2", "--dist", "each")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: --dist each runs every test in every worker*"])


ORDINARY = """
import os
import pytest

@pytest.fixture(scope="module")
def once():
    with open("made", "a") as file:
        file.write("once\\n")

@pytest.mark.parametrize("number", range(4))
def test_ordinary(once, number):
    pass
"""


@pytest.mark.parametrize("mode", ["no", "load", "loadscope", "loadgroup", *ALSO])
def test_ordinary_tests_run_beside_trials_and_stay_together_where_the_mode_says_so(
    bench: Bench, mode: str
) -> None:
    crowd(bench, 6)
    bench.write("test_ordinary.py", ORDINARY)
    result = bench.run("--dist", mode, *(("-n", "2") if mode != "no" else ()))
    assert result.parseoutcomes() == {"passed": 7, "unsolved": 3}
    assert len((bench.path / "most").read_text().splitlines()) == 6, "each trial runs once"
    made = len((bench.path / "made").read_text().splitlines())
    assert made == 1 if mode in ("no", "loadscope", "loadfile") else made <= 4


def test_ordinary_tests_alone_are_none_of_our_business(bench: Bench) -> None:
    bench.write("test_ordinary.py", ORDINARY)
    result = bench.run("-n", "2", "-v")
    result.assert_outcomes(passed=4)
    result.stdout.fnmatch_lines(["scheduling tests via LoadScheduling"])


def test_a_usage_error_that_only_workers_can_see_ends_the_run_as_one(bench: Bench) -> None:
    bench.toy()
    result = bench.run("-n", "2", "--bench-scenario", "solvd")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        ["ERROR: --bench-scenario: no scenario is called 'solvd'; did you mean 'solved'?"]
    )
    assert "INTERNALERROR" not in result.stdout.str()


def test_a_worker_that_dies_loses_what_it_had_in_flight_and_nothing_else(bench: Bench) -> None:
    bench.conftest(
        """
        import os, signal, time

        def killer(context):
            number = int(context.scenario.id[1:])
            (root / f"began-{number}").touch()
            if number == 5:
                others = [root / f"began-{beside}" for beside in (3, 4, 6)]
                ended = "reports/jobs/*/trials/*/*/*/result.json"
                while not all(path.exists() for path in others) or len(list(root.glob(ended))) < 3:
                    time.sleep(0.05)  # between two looks
                os.kill(os.getpid(), signal.SIGKILL)
            if number in (3, 4, 6):
                time.sleep(300)  # it is killed
            return 1.0

        def pytest_benchjobs_scorers(config):
            global root
            root = config.rootpath
            return {"killer": killer}
        """
    )
    bench.manifest({f"s{n:02}": {"type": "killer"} for n in range(12)}, "killer.bench.yaml")
    # One worker, so that the four are its own; xdist replaces it.
    result = bench.run("-n", "1", "--bench-concurrency", "4", "--junit-xml=junit.xml")
    assert result.parseoutcomes() == {"passed": 8, "errors": 4}
    outcomes = bench.outcomes()
    assert len(outcomes) == 12
    assert {name for name, outcome in outcomes.items() if outcome == "error"} == {
        f"killer.bench.yaml::s{n:02}[oracle]" for n in (3, 4, 5, 6)
    }
    errors = {each["failure"]["class"] for each in bench.results() if each["outcome"] == "error"}
    assert errors == {"worker_lost"}
    cases = list(ET.parse(bench.path / "junit.xml").iter("testcase"))
    assert sorted(str(case.get("name")) for case in cases) == [f"s{n:02}[oracle]" for n in range(12)]
    # Each has a report of its own, which says what became of it.
    said = {str(case.get("name")): (case.findtext("error") or "").splitlines() for case in cases}
    assert {name: lines[2:3] for name, lines in said.items() if lines} == {
        f"s{n:02}[oracle]": ["worker gw0 died while it ran this trial, and 3 more"] for n in (3, 4, 5, 6)
    }
    assert all(lines[0].startswith("error (worker_lost) oracle a1 ") for lines in said.values() if lines)
    assert all(", logs: reports/jobs/" in lines[0] for lines in said.values() if lines)
    for n in (3, 4, 5, 6):
        result.stdout.re_match_lines([rf"_+ ERROR at setup of s{n:02}\[oracle\] _+"])
    assert bench.job()["job"]["totals"]["error"] == 4


def test_what_xdist_gives_up_on_is_counted_as_not_run(bench: Bench) -> None:
    bench.conftest(
        """
        import os, signal

        def pytest_benchjobs_scorers(config):
            return {"killer": lambda context: os.kill(os.getpid(), signal.SIGKILL)}
        """
    )
    bench.manifest({f"s{n:02}": {"type": "killer"} for n in range(8)}, "killer.bench.yaml")
    result = bench.run("-n", "1", "--bench-concurrency", "1", "--max-worker-restart", "1", "-q")
    assert result.ret != 0
    assert result.parseoutcomes()["errors"] == 2
    result.stdout.fnmatch_lines(["6 trials not run; `benchjobs resume 20* runs the rest"])


def test_x_stops_the_workers_and_their_trials(bench: Bench) -> None:
    bench.manifest({"bad": "echo 0", **{f"s{n}": "sleep 300; echo 1" for n in range(6)}})
    result = bench.run("-n", "2", "-x")
    assert result.ret in (pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.INTERRUPTED)
    assert result.duration < 150
    assert bench.outcomes() == {"many.bench.yaml::bad[oracle]": "failed"}
    result.stdout.fnmatch_lines(["6 trials not run; `benchjobs resume 20* runs the rest"])
    assert "INTERNALERROR" not in result.stdout.str()


def test_a_warning_of_a_task_reaches_the_controller(bench: Bench) -> None:
    bench.write(
        "tasks/one/task.toml", 'thresold = 0.5\n[environment]\ndocker_image = "debian:bookworm-slim"\n'
    )
    for name in ("instruction.md", "tests/test.sh", "solution/solve.sh", "environment/Dockerfile"):
        bench.write(f"tasks/one/{name}", "x\n")
    result = bench.run("-n", "2", "tasks")
    assert result.parseoutcomes()["warnings"] == 2
    result.stdout.fnmatch_lines(["*thresold: unknown key, ignored*"])


def test_the_temporary_directory_of_a_killed_controller_goes_at_the_next_start(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "tmp"
    place.mkdir()
    monkeypatch.setenv("TMPDIR", str(place))
    bench.manifest({"slow": f"touch {bench.path}/runs; sleep 600; echo 1", "quick": "echo 1"})

    def meetings() -> set[Path]:
        return set(place.glob(f"benchjobs-{os.getuid()}-xdist-*"))

    first = bench.start("-n", "1", "-k", "slow")
    try:
        until((bench.path / "runs").exists)
        (meeting,) = meetings()
        assert bench.run("-k", "quick").ret == 0
        assert meetings() == {meeting}, "its process lives"
    finally:
        first.kill()
        first.communicate()
    assert meetings() == {meeting}
    assert bench.run("-n", "1", "-k", "quick").ret == 0
    assert meetings() == set()


def test_what_workers_wait_for_is_told(bench: Bench) -> None:
    bench.manifest({"slow": "sleep 4; echo score=1"})
    result = bench.run("-n", "1", "--bench-agent", "nop")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["bench: 1 trial in flight: *; each: benchjobs watch *"])
