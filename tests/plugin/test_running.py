from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from tests.support import RESULTS, paths, until

from .conftest import Bench

pytestmark = pytest.mark.daily

SLOW = "command:sleep 60"


def test_a_result_is_passed_unsolved_or_an_error_and_v_shows_the_score(bench: Bench) -> None:
    bench.toy()
    result = bench.run("-v", "--bench-agent", "oracle", "--bench-agent", "nop")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines_random(
        [
            "bench: 6 trials (3 scenarios x 2 agents), 10 at a time, job *",
            "toy.bench.yaml::solved[[]oracle] PASSED score=1.0 *",
            "toy.bench.yaml::partial[[]oracle] UNSOLVED score=0.25 *",
            "toy.bench.yaml::unscored[[]oracle] ERROR score_missing *",
            "toy.bench.yaml::partial[[]nop] UNSOLVED score=0.0 *",
            "agent   passed  failed  errors  total   mean  time (sum)",
            "oracle       1       1       1      3  0.625  *",
            "nop          0       2       1      3  0.000  *",
            "3 unsolved:",
            "  toy.bench.yaml::partial[[]oracle]: score 0.25 < 1.0 (below_threshold) oracle a1 *",
            "2 errors without a score: 2 score_missing",
            "results: *",
            "*1 passed, 2 errors, 3 unsolved in *",
        ]
    )
    assert "FAILURES" not in result.stdout.str()
    assert "Traceback" not in result.stdout.str()
    assert bench.outcomes() == {
        "toy.bench.yaml::solved[oracle]": "passed",
        "toy.bench.yaml::solved[nop]": "failed",
        "toy.bench.yaml::partial[oracle]": "failed",
        "toy.bench.yaml::partial[nop]": "failed",
        "toy.bench.yaml::unscored[oracle]": "error",
        "toy.bench.yaml::unscored[nop]": "error",
    }


def test_a_name_has_no_blanks_around_it(bench: Bench) -> None:
    bench.manifest({"one": "echo 1"})
    bench.write("job.yaml", "name: ' lead'\n")
    bench.run("--bench-job-file", "job.yaml")
    assert bench.job()["job"]["name"] == "lead"


def test_history_and_junit_hold_every_trial_with_score_and_properties(bench: Bench) -> None:
    bench.toy()
    bench.run("--junit-xml=junit.xml", "--bench-job-name", "nightly", "--bench-meta", "branch=main")
    job = bench.job()["job"]
    assert (job["name"], job["status"], job["planned"]) == ("nightly", "completed", 3)
    assert job["config"]["metadata"] == {"branch": "main"}
    with sqlite3.connect(bench.path / "reports" / "history.sqlite") as history:
        rows = history.execute("SELECT scenario, outcome, score FROM trials ORDER BY scenario").fetchall()
    history.close()
    assert rows == [("partial", "failed", 0.25), ("solved", "passed", 1.0), ("unscored", "error", None)]
    cases = {case.get("name"): case for case in ET.parse(bench.path / "junit.xml").iter("testcase")}
    kinds = {name: [child.tag for child in case if child.tag != "properties"] for name, case in cases.items()}
    assert kinds == {"solved[oracle]": [], "partial[oracle]": ["failure"], "unscored[oracle]": ["error"]}
    partial = cases["partial[oracle]"]
    failure = partial.find("failure")
    assert failure is not None
    assert str(failure.get("message")).startswith("score 0.25 < 1.0 (below_threshold) oracle a1")
    given = [(each.get("name"), each.get("value")) for each in partial.iter("property")]
    properties = dict(given)
    assert len(given) == len(properties)
    assert properties["bench_score"] == "0.25"
    assert properties["bench_threshold"] == "1.0"
    assert properties["bench_agent"] == "oracle"
    assert properties["bench_outcome"] == "failed"


def test_durations_are_those_of_trials(bench: Bench) -> None:
    bench.manifest({"slow": "sleep 1.2; echo 1"})
    result = bench.run("--durations=1", "-vv", "--durations-min=1")
    result.stdout.re_match_lines([r"\d+\.\d+s call     many\.bench\.yaml::slow\[oracle\]"])


def test_lf_and_ff_run_again_what_fell_short(bench: Bench) -> None:
    bench.toy()
    bench.run("--bench-agent", "nop")
    again = bench.run("--lf", "--bench-agent", "nop", "-k", "not unscored")
    assert again.parseoutcomes() == {"unsolved": 2, "deselected": 1}
    bench.run("--bench-agent", "oracle")
    again = bench.run("--lf", "--bench-agent", "oracle")
    assert again.parseoutcomes() == {"unsolved": 1, "errors": 1}
    order = bench.run("--ff", "--collect-only", "-q")
    assert [line for line in order.outlines if "::" in line] == [
        "toy.bench.yaml::partial[oracle]",
        "toy.bench.yaml::unscored[oracle]",
        "toy.bench.yaml::solved[oracle]",
    ]


def test_x_and_maxfail_are_exact(bench: Bench) -> None:
    bench.manifest({f"s{number:02}": "echo 0" for number in range(20)})
    for options, count in (("-x", 1), ("--maxfail=3", 3)):
        result = bench.run(options, "--bench-concurrency", "4")
        assert result.ret in (pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.INTERRUPTED)
        assert result.parseoutcomes() == {"unsolved": count}
        result.stdout.fnmatch_lines(["* not run; *"])
        assert bench.job()["job"]["status"] == "cancelled"


def test_ordinary_tests_of_the_same_session_run_first_and_keep_their_fixtures(bench: Bench) -> None:
    bench.toy()
    bench.write(
        "test_ordinary.py",
        """
        import pytest

        made = []

        @pytest.fixture(scope="module")
        def once():
            made.append(1)

        @pytest.mark.parametrize("number", range(3))
        def test_ordinary(once, number):
            assert made == [1]

        def test_fails():
            assert 0
        """,
    )
    result = bench.run()
    assert result.parseoutcomes() == {"passed": 4, "failed": 1, "unsolved": 1, "errors": 1}
    report = json.loads((bench.path / ".pytest_cache/v/cache/lastfailed").read_text())
    assert sorted(report) == [
        "test_ordinary.py::test_fails",
        "toy.bench.yaml::partial[oracle]",
        "toy.bench.yaml::unscored[oracle]",
    ]


def test_what_other_trials_log_is_not_in_a_trial_s_report(bench: Bench) -> None:
    bench.conftest(
        """
        import logging, time

        def noisy(context):
            for _ in range(20):
                logging.getLogger("noisy").error("from %s", context.scenario.id)
                time.sleep(0.01)  # so that all log beside each other
            return 0.0

        def pytest_benchjobs_scorers(config):
            return {"noisy": noisy}
        """
    )
    bench.manifest({f"s{n}": {"type": "noisy"} for n in range(6)})
    result = bench.run("--junit-xml=junit.xml", "-o", "junit_logging=all")
    assert result.parseoutcomes() == {"unsolved": 6}
    assert "noisy:conftest" not in (bench.path / "junit.xml").read_text()


def test_no_engine_is_one_line_and_an_error_of_every_trial(bench: Bench) -> None:
    bench.conftest(
        """
        from pytest_benchjobs.model.errors import EngineUnavailable
        FakeProvider.problem = EngineUnavailable("no engine answers at /run/x.sock; start one")
        """
    )
    bench.toy()
    for workers in ("0", "2"):
        result = bench.run("-n", workers)
        assert result.ret == pytest.ExitCode.TESTS_FAILED
        assert result.stdout.str().count("no engine answers at /run/x.sock") == 1
        result.stdout.fnmatch_lines(["*3 no engine in *"])
        assert set(bench.outcomes().values()) == {"error"}
        assert {trial["failure"]["class"] for trial in bench.results()} == {"engine_unavailable"}
        assert bench.job()["job"]["decisions"]["engine_problem"]["class"] == "engine_unavailable"


def test_a_gateway_that_cannot_be_started_is_an_error_of_every_trial(bench: Bench) -> None:
    bench.conftest(
        """
        from unittest import mock

        def pytest_configure(config):
            full = OSError(28, "No space left on device")
            patch = mock.patch("pytest_benchjobs.gateway.client.directory_for_sockets", side_effect=full)
            patch.start()
            config.add_cleanup(patch.stop)
        """
    )
    bench.toy()
    for workers in ("0", "2"):
        result = bench.run("-n", workers, "--bench-secret=OPENAI_API_KEY=PATH")
        assert result.ret == pytest.ExitCode.TESTS_FAILED
        result.stdout.fnmatch_lines(
            [
                "3 errors without a score: 3 gateway",
                "  the gateway to the models could not be started: *No space left on device",
                "results: *",
            ],
            consecutive=True,
        )
        assert {trial["failure"]["class"] for trial in bench.results()} == {"gateway"}
        assert bench.job()["job"]["decisions"]["engine_problem"]["class"] == "gateway"


def test_a_scenario_that_vanished_since_collection_is_an_error_of_that_trial(bench: Bench) -> None:
    bench.toy()
    bench.conftest(
        """
        def pytest_collection_finish(session):
            path = session.config.rootpath / "toy.bench.yaml"
            path.write_text(path.read_text().replace("id: solved", "id: renamed"))
        """
    )
    result = bench.run()
    assert result.parseoutcomes() == {"unsolved": 1, "errors": 2}
    result.stdout.fnmatch_lines(["*solved[[]oracle]: input: *"])


def test_agent_output_cannot_break_a_report(bench: Bench) -> None:
    bench.conftest(
        r"""
        import pathlib
        from pytest_benchjobs import Graded

        def hostile(context):
            return Graded(0.5, "\ud800 \x1b[2J \x00 \u202e", {"path": pathlib.Path("/x"), "bad": "\udfff"})

        def pytest_benchjobs_scorers(config):
            return {"hostile": hostile}

        def pytest_runtest_setup(item):
            item.user_properties.append(("mine", pathlib.Path("/x")))
            item.user_properties.append(("bad", "\ud800"))
        """
    )
    bench.write(
        "h.bench.yaml",
        "benchmark: h\nscenarios:\n  - {id: a, image: x, problem_statement: x, reference: 'printf \"\\\\033[2J\\\\377\"',"
        " scorers: [{name: h, type: hostile}]}\n",
    )
    for workers in ("0", "2"):
        result = bench.run("-n", workers, "--junit-xml=junit.xml", "-v")
        assert result.parseoutcomes() == {"unsolved": 1}
        assert "INTERNALERROR" not in result.stdout.str()
        ET.parse(bench.path / "junit.xml")


def sleepers(bench: Bench) -> list[int]:
    """Processes of trials of this test: their working directory says whose they are."""
    found = []
    marker = (bench.path / "alive").resolve()
    for entry in marker.glob("*") if marker.is_dir() else []:
        pid = int(entry.name)
        if Path(f"/proc/{pid}").exists():
            found.append(pid)
    return found


@pytest.mark.parametrize(
    ("number", "workers"),
    [
        (signal.SIGINT, "2"),
        (signal.SIGTERM, "0"),
        pytest.param(signal.SIGINT, "0", marks=pytest.mark.extended),
        pytest.param(signal.SIGTERM, "2", marks=pytest.mark.extended),
    ],
)
def test_a_signal_stops_everything_and_keeps_what_had_ended(
    bench: Bench, number: signal.Signals, workers: str
) -> None:
    alive = bench.path / "alive"
    alive.mkdir()
    bench.manifest({"quick": "echo 1", **{f"s{n}": f"touch {alive}/$$; sleep 600; echo 1" for n in range(5)}})
    process = bench.start("-v", "--bench-concurrency", "6", "-n", workers)
    try:
        until(lambda: len(sleepers(bench)) >= 2 and paths(bench.path, RESULTS))
        process.send_signal(number)
        try:
            output, _ = process.communicate(timeout=90)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGABRT)
            raise AssertionError(f"it hangs:\n{process.communicate()[0]}") from None
    finally:
        process.kill()
    assert process.returncode == pytest.ExitCode.INTERRUPTED, output
    until(lambda: not sleepers(bench))
    assert bench.outcomes() == {"many.bench.yaml::quick[oracle]": "passed"}
    assert "5 trials not run" in output
    assert not (bench.bundle() / ".heartbeat").exists()
    assert json.loads((bench.bundle() / "job.json").read_text())["message"] == "interrupted"
    assert bench.job()["job"]["status"] == "cancelled"


MARKS = """
import pytest

def pytest_collection_modifyitems(items):
    marks = {
        "skipped": pytest.mark.skip(reason="not now"),
        "hopeless": pytest.mark.xfail(reason="known", run=False),
        "known": pytest.mark.xfail(reason="known"),
        "lucky": pytest.mark.xfail(reason="known"),
        "surprise": pytest.mark.xfail(reason="known", strict=True),
        "wrong": pytest.mark.skipif("nonsense"),
    }
    for item in items:
        item.add_marker(marks[item.ref.id])
"""


@pytest.mark.parametrize("workers", [(), ("-n", "1")], ids=["one process", "xdist"])
def test_marks_of_pytest(bench: Bench, workers: tuple[str, ...]) -> None:
    bench.conftest(MARKS)
    ran = bench.path / "ran.txt"
    scores = {"skipped": 1, "hopeless": 1, "known": 0, "lucky": 1, "surprise": 1, "wrong": 1}
    bench.manifest({name: f"echo {name} >> {ran}; echo score={score}" for name, score in scores.items()})
    done = bench.run("many.bench.yaml", "-v", *workers)
    # What is not to be run costs nothing.
    assert sorted(ran.read_text().split()) == ["known", "lucky", "surprise"]
    done.assert_outcomes(skipped=1, xfailed=2, xpassed=1, failed=1, errors=1)
    assert "UNSOLVED" not in done.stdout.str()
    done.stdout.fnmatch_lines(["*XPASS(strict)*"])
    assert {name.partition("::")[2]: outcome for name, outcome in bench.outcomes().items()} == {
        "skipped[oracle]": "skipped",
        "hopeless[oracle]": "skipped",
        "known[oracle]": "failed",
        "lucky[oracle]": "passed",
        "surprise[oracle]": "passed",
        "wrong[oracle]": "skipped",
    }
    assert bench.job()["job"]["status"] == "completed"


def test_what_is_not_to_be_run_runs_all_the_same_if_asked(bench: Bench) -> None:
    bench.conftest(MARKS)
    ran = bench.path / "ran.txt"
    bench.manifest({"hopeless": f"echo hopeless >> {ran}; echo score=1"})
    bench.run("many.bench.yaml", "--runxfail").assert_outcomes(passed=1)
    assert ran.read_text().split() == ["hopeless"]


@pytest.mark.parametrize("attempts", [1, 2])
def test_a_plugin_that_runs_failures_again_gets_new_trials(bench: Bench, attempts: int) -> None:
    bench.conftest(
        """
        import pytest
        from _pytest.runner import runtestprotocol

        @pytest.hookimpl(tryfirst=True)
        def pytest_runtest_protocol(item, nextitem):
            if any(report.failed for report in runtestprotocol(item, nextitem=nextitem, log=False)):
                runtestprotocol(item, nextitem=nextitem, log=True)
            return True
        """
    )
    ran = bench.path / "ran.txt"
    script = f"echo a >> {ran}; [ $(wc -l < {ran}) -gt {attempts} ] && echo score=1 || echo score=0"
    bench.manifest({"a": script})
    policy = ("--bench-attempts", str(attempts), "--bench-attempt-policy", "all")
    done = bench.run("many.bench.yaml", "--bench-concurrency", "1", *policy)
    done.assert_outcomes(passed=1)
    assert len(ran.read_text().split()) == 2 * attempts
    assert set(bench.outcomes().values()) == {"passed"}


def test_a_results_directory_that_a_job_makes_is_left_alone_by_git(bench: Bench) -> None:
    bench.toy()
    (bench.path / "kept").mkdir()
    for directory in ("reports", "kept"):
        bench.run("--bench-dir", directory)
    assert (bench.path / "reports" / ".gitignore").read_text().splitlines()[-1] == "*"
    assert not (bench.path / "kept" / ".gitignore").exists()
