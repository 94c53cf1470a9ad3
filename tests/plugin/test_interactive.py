"""Interactive tests: functions that are the agents of trials, as pytest runs and reports them."""

from __future__ import annotations

import sys
from typing import Any
from xml.etree import ElementTree

import pytest

from .conftest import TOY, Bench

HEAD = """
import asyncio
import pytest

def scenario(*names, **about):
    return pytest.mark.bench_scenario("toy.bench.yaml", *names, **about)

"""


class Interactive(Bench):
    """Tests that are the agents of trials."""

    def tests(self, text: str) -> None:
        self.toy()
        self.write("test_it.py", HEAD + text)

    def by_name(self) -> dict[str, dict[str, Any]]:
        return {result["node_id"].partition("::")[2]: result for result in self.results()}


@pytest.fixture
def bench(bench: Bench) -> Interactive:
    return Interactive(bench.pytester)


def test_what_a_function_does_decides_its_test_and_its_trial(bench: Interactive) -> None:
    bench.tests("""
@scenario("solved")
def test_silent_and_right(bench_trial):
    assert "Write 1" in bench_trial.problem_statement
    assert bench_trial.exec("echo 1 > out.txt").ok

@scenario("solved")
def test_silent_and_wrong(bench_trial):
    bench_trial.exec("echo 2 > out.txt")

@scenario("partial")
def test_own_threshold(bench_trial):
    bench_trial.exec("echo 3 > out.txt")
    score = bench_trial.score()
    assert (score.score, score.passed, score.final) == (0.25, False, True)
    assert bench_trial.score() is score
    assert bench_trial.exec("cat out.txt").output == "3\\n", "the sandbox is there until it is complete"
    with pytest.raises(Exception, match="not at work"):
        bench_trial.snapshot("late")
    assert bench_trial.complete().outcome == "failed"
    assert bench_trial.files.is_dir()

@scenario("solved")
def test_asserts_before_its_score(bench_trial):
    bench_trial.exec("echo 1 > out.txt")
    assert bench_trial.exec("false").ok

@scenario("solved")
def test_asserts_after_its_score(bench_trial):
    bench_trial.exec("echo 1 > out.txt")
    assert bench_trial.score().score == 0.5

@scenario("unscored")
def test_broken_scorer(bench_trial):
    bench_trial.exec("true")

@scenario("unscored")
def test_broken_scorer_that_it_asks(bench_trial):
    assert bench_trial.score().outcome == "error"

@scenario("solved")
def test_skips_itself(bench_trial):
    pytest.skip("not today")

@pytest.mark.skip(reason="never")
@scenario("solved")
def test_is_skipped(bench_trial):
    assert False

@pytest.fixture
def broken():
    raise OSError("no licence")

@scenario("solved")
def test_with_a_broken_fixture(broken, bench_trial):
    assert False

@scenario("solved")
def test_with_a_broken_fixture_after(bench_trial, broken):
    assert False

@scenario("solved")
def test_of_the_sandbox(bench_sandbox):
    bench_sandbox.write_file("out.txt", "1\\n")
    assert bench_sandbox.read_file("out.txt") == b"1\\n"
    with pytest.raises(FileNotFoundError):
        bench_sandbox.read_file("missing")
    with pytest.raises(ValueError):
        bench_sandbox.read_file("out.txt", limit=1)

@scenario("solved")
def test_in_a_loop(bench_trial):
    async def solve():
        done = await asyncio.gather(*(bench_trial.aio.exec(f"echo {n} > {n}.txt") for n in (1, 2)))
        assert all(one.ok for one in done)
        await bench_trial.aio.exec("cat 1.txt > out.txt")
        return (await bench_trial.aio.score()).score
    assert asyncio.run(solve()) == 1.0

@pytest.mark.xfail(reason="hard")
@scenario("solved")
def test_expected_to_fail(bench_trial):
    pass

def test_ordinary():
    pass
""")
    result = bench.run("-rA", "test_it.py")
    found = bench.by_name()
    assert {
        name: (one["outcome"], one["score"], (one["failure"] or {}).get("class"))
        for name, one in found.items()
    } == {
        "test_silent_and_right[solved]": ("passed", 1.0, None),
        "test_silent_and_wrong[solved]": ("failed", 0.0, "below_threshold"),
        "test_own_threshold[partial]": ("failed", 0.25, "below_threshold"),
        "test_asserts_before_its_score[solved]": ("failed", 1.0, "agent_crashed"),
        "test_asserts_after_its_score[solved]": ("passed", 1.0, None),
        "test_broken_scorer[unscored]": ("error", None, "score_missing"),
        "test_broken_scorer_that_it_asks[unscored]": ("error", None, "score_missing"),
        "test_skips_itself[solved]": ("skipped", None, "marked"),
        "test_is_skipped[solved]": ("skipped", None, "marked"),
        "test_with_a_broken_fixture[solved]": ("error", None, "fixture"),
        "test_with_a_broken_fixture_after[solved]": ("error", None, "fixture"),
        "test_of_the_sandbox[solved]": ("passed", 1.0, None),
        "test_in_a_loop[solved]": ("passed", 1.0, None),
        "test_expected_to_fail[solved]": ("failed", 0.0, "below_threshold"),
    }
    assert "AssertionError" in found["test_asserts_before_its_score[solved]"]["failure"]["message"]
    assert {one["agent"]["name"] for one in found.values()} >= {"test_silent_and_right", "test_in_a_loop"}
    assert bench.job()["job"]["status"] == "completed"
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    outcomes = result.parseoutcomes()
    assert {name: outcomes.get(name) for name in ("passed", "failed", "unsolved", "errors", "skipped", "xfailed")} == {
        "passed": 5, "failed": 2, "unsolved": 1, "errors": 4, "skipped": 2, "xfailed": 1,
    }  # fmt: skip
    trajectory = (
        bench.bundle() / found["test_of_the_sandbox[solved]"]["path"] / "trajectory.jsonl"
    ).read_text()
    assert "write_file" in trajectory
    shown = bench.benchjobs("show", "test_it.py::test_own_threshold[partial]")
    assert "0.25" in shown.stdout


def test_scenarios_attempts_and_variants_are_tests_of_their_own(bench: Interactive) -> None:
    bench.tests("""
@scenario("solved", "partial", agent="loop")
@pytest.mark.parametrize("number", [1, 2])
def test_loop(bench_trial, number):
    bench_trial.exec(f"echo {number} > out.txt")
    bench_trial.score()

@scenario()
def test_all(bench_trial):
    bench_trial.cancel()
""")
    bench.run("test_it.py", "-k", "test_loop", "--bench-attempts", "2")
    results = bench.results()
    assert {(one["scenario"], one["agent"]["params"]["number"], one["attempt"], one["score"]) for one in results} == {
        ("solved", 1, 1, 1.0), ("solved", 1, 2, 1.0), ("solved", 2, 1, 0.0), ("solved", 2, 2, 0.0),
        ("partial", 1, 1, 0.25), ("partial", 1, 2, 0.25), ("partial", 2, 1, 1.0), ("partial", 2, 2, 1.0),
    }  # fmt: skip
    assert bench.job()["job"]["partial"] is True
    collected = bench.run("test_it.py", "--co", "-q", "--bench-scenario", "part*")
    assert "test_all[partial]" in collected.stdout.str()
    assert "solved" not in collected.stdout.str()
    cancelled = bench.run("test_it.py", "-k", "test_all and solved")
    assert cancelled.ret == pytest.ExitCode.INTERRUPTED
    assert (bench.job()["job"]["status"], bench.results()) == ("cancelled", [])


def test_gates_baselines_last_failed_and_resume_know_interactive_tests(bench: Interactive) -> None:
    bench.tests("""
import pathlib
@scenario("solved", "partial", agent="loop")
def test_loop(bench_trial):
    bench_trial.exec(f"echo {pathlib.Path('number').read_text()} > out.txt")
""")
    bench.write("number", "1")
    first = bench.run("test_it.py", "--bench-min-score", "0.5")
    first.stdout.fnmatch_lines(["*gate*"])
    assert first.ret == 0, "the gate decides, and not the test that is unsolved"
    last = bench.run("test_it.py", "--lf", "-v")
    last.stdout.fnmatch_lines(["*test_loop?partial? UNSOLVED*"])
    assert "test_loop[solved]" not in last.stdout.str()
    bench.write("number", "5")
    worse = bench.run("test_it.py", "--bench-min-score", "0.5")
    assert worse.ret == 10
    stopped = bench.run("test_it.py", "-x")
    assert stopped.ret == pytest.ExitCode.TESTS_FAILED
    assert (bench.job()["job"]["status"], len(bench.results())) == ("cancelled", 1)
    bench.write("number", "2")
    resumed = bench.benchjobs("resume", bench.bundle().name)
    assert resumed.returncode == 1
    assert [(one["scenario"], one["score"]) for one in bench.results()] == [("partial", 1.0), ("solved", 0.0)]


@pytest.mark.parametrize(
    ("selection", "passed"),
    [
        (("-m", "easy"), 2),  # a tag of the scenario, for both
        (("-m", "not bench_scenario"), 1),
        (("-m", "not bench_scenario", "-n", "1"), 1),
        (("-k", "test_toy or oracle"), 1),
        (("toy.bench.yaml::solved[oracle]",), 1),
    ],
)
def test_a_gate_does_not_miss_an_interactive_test_that_is_not_selected(
    bench: Interactive, selection: tuple[str, ...], passed: int
) -> None:
    bench.tests("""
@scenario("solved", agent="loop")
def test_loop(bench_trial):
    bench_trial.exec("echo 1 > out.txt")
""")
    bench.run(".", "--bench-agent", "oracle", "--bench-scenario", "solved")
    baseline = f"job:{bench.bundle().name}"
    ids = [] if "::" in selection[0] else ["."]
    gated = bench.run(
        *ids,
        *selection,
        "--bench-agent",
        "oracle",
        "--bench-scenario",
        "solved",
        "--bench-baseline",
        baseline,
    )
    assert (gated.ret, gated.parseoutcomes()["passed"]) == (0, passed)


def test_workers_of_xdist_share_the_job_with_other_trials(bench: Interactive) -> None:
    bench.tests("""
import os
@scenario("solved", "partial", agent="loop")
@pytest.mark.parametrize("number", [1, 2])
def test_loop(bench_trial, number):
    bench_trial.exec(f"echo {number} > out.txt")

@scenario("solved")
def test_that_kills_its_worker(bench_trial):
    os._exit(3)
""")
    result = bench.run("-n", "2", ".", "--bench-agent", "oracle")
    assert len(bench.results()) == 8
    found = bench.by_name()
    assert found.get("test_loop[solved-1]", found.get("test_loop[1-solved]", {}))["outcome"] == "passed"
    killed = next(one for one in bench.results() if one["agent"]["name"] == "test_that_kills_its_worker")
    assert (killed["outcome"], killed["failure"]["class"]) == ("error", "worker_lost")
    assert bench.job()["job"]["status"] == "completed"
    assert result.ret == pytest.ExitCode.TESTS_FAILED


@pytest.mark.parametrize("workers", ["0", "1"])
def test_a_fixture_that_fails_after_a_test_costs_and_repeats_no_result(
    bench: Interactive, workers: str
) -> None:
    bench.conftest("""
import pytest

@pytest.fixture(autouse=True)
def licence():
    yield
    raise OSError("gone already")
""")
    bench.tests("""
@scenario("solved")
def test_asserts(bench_trial):
    assert bench_trial.exec("false").ok

@scenario("solved")
def test_wrong(bench_trial):
    bench_trial.exec("true")

@scenario("solved")
def test_right(bench_trial):
    bench_trial.exec("echo 1 > out.txt")
""")
    result = bench.run("-n", workers, "--junit-xml=theirs.xml")
    result.assert_outcomes(failed=1, passed=2, errors=7)
    result.stdout.fnmatch_lines(["*ERROR test_it.py::test_asserts[[]solved]*gone already"])
    cases = [
        (case.get("name"), [one.tag for one in case if one.tag != "properties"], outcome)
        for case in ElementTree.parse(bench.path / "theirs.xml").iter("testcase")
        for outcome in [[one.get("value") for one in case.iterfind(".//*[@name='bench_outcome']")]]
    ]
    assert sorted(cases) == [
        ("partial[oracle]", ["error"], []),
        ("partial[oracle]", ["failure"], ["failed"]),
        ("solved[oracle]", ["error"], ["passed"]),
        ("test_asserts[solved]", ["error"], ["failed"]),
        ("test_asserts[solved]", ["failure"], []),
        ("test_right[solved]", ["error"], ["passed"]),
        ("test_wrong[solved]", ["error"], []),
        ("test_wrong[solved]", ["failure"], ["failed"]),
        ("unscored[oracle]", ["error", "error"], ["error"]),
    ]


def test_a_debugger_meets_the_live_sandbox(bench: Interactive) -> None:
    bench.tests("""
@scenario("solved")
def test_fails(bench_trial):
    bench_trial.exec("echo 1 > out.txt")
    assert 0
""")
    typed = "bench_trial.exec('cat out.txt && echo al''ive')\nbench_trial.result\nq\n"
    pytest_ = (sys.executable, "-m", "pytest", "-p", "no:hypothesispytest")
    done = bench.process(*pytest_, "--pdb", "test_it.py", stdin=typed)
    assert "the sandbox of this trial is alive" in done.stdout
    assert "Executed(exit_status=0, output='1\\nalive\\n')" in done.stdout
    (one,) = bench.results()
    assert (one["outcome"], one["score"], one["failure"]["class"]) == ("failed", 1.0, "agent_crashed")


def test_hidden_tests_are_not_there_before_the_score(bench: Interactive) -> None:
    tests = [{"name": "right", "type": "tests", "path": "tests"}]
    bench.manifest({"secret": {"workdir": "/app", "reference": None, "scorers": tests}}, "hidden.bench.yaml")
    bench.write("tests/answer", "forty-two\n")
    bench.write("tests/test.sh", '#!/bin/sh\ncmp -s "$(dirname "$0")/answer" out.txt\n')
    bench.write(
        "test_it.py",
        """
        import pytest

        @pytest.mark.bench_scenario("hidden.bench.yaml", "secret")
        def test_spies(bench_trial):
            assert not bench_trial.exec("cat /tests/answer").ok
            bench_trial.exec("(sleep 3; cat /tests/answer > out.txt) >/dev/null 2>&1 &")
            assert bench_trial.score().score == 0.0
            bench_trial.exec("cp /tests/answer out.txt")
            assert bench_trial.score().score == 0.0
            assert bench_trial.complete().score == 0.0
        """,
    )
    assert bench.run("test_it.py").ret == 0
    assert [one["score"] for one in bench.results()] == [0.0]


REFUSED = {
    "@scenario('nope')\ndef test_it(bench_trial): pass": "has no scenario nope",
    "@scenario('solved')\ndef test_it(): pass": "uses neither bench_trial nor bench_sandbox",
    "def test_it(bench_trial): pass": "bench_trial needs a scenario",
    "@scenario('solved', angent='x')\ndef test_it(bench_trial): pass": "write @pytest.mark.bench_scenario",
    "@pytest.mark.bench_scenario('nowhere')\ndef test_it(bench_trial): pass": "there is no benchmark 'nowhere'",
}


def test_mistakes_are_told(bench: Interactive) -> None:
    bench.toy()
    for number, text in enumerate(REFUSED):
        bench.write(f"test_{number}.py", HEAD + text)
    files = [f"test_{number}.py" for number in range(len(REFUSED))]
    result = bench.run(*files, "--continue-on-collection-errors")
    said = result.stdout.str()
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert [message for message in REFUSED.values() if message not in said] == []
    assert "INTERNALERROR" not in said
    assert not (bench.path / "reports").exists() or bench.results() == []
    once = "@scenario('solved', agent='{}')\ndef test_{}(bench_trial): pass\n"
    for text, message in (
        (once.format("oracle", "it"), "there is an agent 'oracle' already"),
        (once.format("x", "it") + once.format("x", "too"), "are the same trial of agent x"),
    ):
        bench.write("test_0.py", HEAD + text)
        result = bench.run("test_0.py")
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        assert message in result.stderr.str()


def test_fixtures_give_interactive_trials_variables_and_files(bench: Interactive) -> None:
    bench.conftest(
        """
        import pytest

        @pytest.fixture
        def bench_env(request):
            return {"PLACE": request.node.name, "PASSWORD": "hush-hush-hush"}

        @pytest.fixture(scope="session")
        def bench_files(tmp_path_factory):
            path = tmp_path_factory.mktemp("given") / "given.txt"
            path.write_text("1\\n")
            return {"given.txt": path, "said.txt": "more"}
        """
    )
    bench.tests("""
@scenario("solved")
def test_given(bench_trial):
    said = bench_trial.exec("echo $PLACE $PASSWORD; cat said.txt; cp given.txt out.txt")
    assert said.output == "test_given[solved] hush-hush-hush\\nmore", said.output

@scenario("solved")
def test_others(bench_trial):
    assert bench_trial.exec("cp given.txt out.txt").ok
""")
    result = bench.run("test_it.py", "toy.bench.yaml", "--bench-scenario", "solved")
    result.assert_outcomes(passed=3)
    assert "hush-hush" not in "".join(
        path.read_text("utf-8", "replace") for path in bench.bundle().rglob("*") if path.is_file()
    )


def test_a_fixture_that_fails_is_an_error_of_the_trial(bench: Interactive) -> None:
    bench.conftest("import pytest\n@pytest.fixture\ndef bench_env():\n    raise OSError('no database')\n")
    bench.tests("@scenario('solved')\ndef test_it(bench_trial): raise AssertionError")
    bench.run("test_it.py").assert_outcomes(errors=1)
    (one,) = bench.results()
    assert (one["outcome"], one["failure"]["class"]) == ("error", "fixture")
    assert "no database" in one["failure"]["message"]


def test_plans_list_interactive_tests(bench: Interactive) -> None:
    bench.tests("""
@scenario("solved", "partial")
def test_it(bench_trial): pass

@pytest.mark.skip(reason="not today")
@scenario("solved")
def test_skipped(bench_trial): pass
""")
    shown = bench.run(".", "--bench-agent", "nop", "--bench-plan").stdout.str()
    assert "runs: test_it.py::test_it[solved]: a test drives it" in shown
    assert "skipped: test_it.py::test_skipped[solved]: not today" in shown
    assert "5 trials would run, 0 would be reused, 1 would be skipped" in shown
    plan = bench.benchjobs("plan", "--", ".")
    assert "test_it" in plan.stdout, plan.stderr
    assert not (bench.path / "reports").exists()


def test_a_kept_interactive_trial_is_graded_again(bench: Interactive) -> None:
    bench.tests("""
@scenario("solved")
def test_it(bench_trial):
    bench_trial.exec("echo 2 > out.txt")
    bench_trial.score()
""")
    bench.run("test_it.py", "--bench-keep", "always").assert_outcomes(passed=1)
    assert [one["score"] for one in bench.results()] == [0.0]
    bench.write("toy.bench.yaml", TOY.replace("grep -q 1 out.txt", "grep -q 2 out.txt"))
    again = bench.benchjobs("rescore", "last")
    assert again.returncode == 0, again.stdout + again.stderr
    (one,) = bench.results()
    assert (one["score"], one["outcome"], one["agent"]["name"]) == (1.0, "passed", "test_it")
    assert one["rescored"] is not None
