"""Benchmarks in Python, as pytest collects and runs them."""

from __future__ import annotations

import sys

import pytest

from .conftest import Bench

WORDS = """
import pytest
from pytest_benchjobs import Benchmark, Scenario, scorer

@scorer("share")
def share(context):
    return 0.5 if context.run("cat out.txt")[1].strip() == "2" else 0.0

@pytest.mark.parametrize("number", [1, 2])
def write(number):
    return Scenario(
        problem_statement=f"Write {number}.",
        tags=["easy"],
        reference=f"echo {number} > out.txt",
        scorers=[{"type": "command", "command": f"grep -qx {number} out.txt"}],
    )

words = Benchmark(
    "words",
    version="3",
    defaults={"image": "none", "workdir": "/app"},
    scenarios=[
        write,
        Scenario("half", problem_statement="Write.", threshold=0.5, reference="echo 2 > out.txt", scorers=[share]),
    ],
)
again = words
_hidden = Benchmark("hidden", scenarios=[])
"""
IDS = ["words::write.1[oracle]", "words::write.2[oracle]", "words::half[oracle]"]


def ids(result: pytest.RunResult) -> list[str]:
    return [line for line in result.outlines if "::" in line]


def test_a_test_module_has_trials_beside_its_tests(bench: Bench) -> None:
    bench.write("test_words.py", WORDS + "\ndef test_ordinary():\n    assert words.benchmark == 'words'\n")
    found = ids(bench.run("--collect-only", "-q"))
    assert found == ["test_words.py::test_ordinary", *(f"test_words.py::{one}" for one in IDS)]
    result = bench.run()
    result.assert_outcomes(passed=4)
    assert {(one["benchmark"], one["benchmark_version"], one["score"]) for one in bench.results()} == {
        ("words", "3", 1.0),
        ("words", "3", 0.5),
    }
    assert bench.run("test_words.py::words").parseoutcomes() == {"passed": 3}
    easy = ids(bench.run("--collect-only", "-q", "-m", "easy"))
    assert easy == [f"test_words.py::{one}" for one in IDS[:2]]
    assert bench.run("test_words.py", "-k", "half").parseoutcomes() == {"passed": 1, "deselected": 3}


def test_a_printed_id_runs_that_trial_with_its_agent(bench: Bench) -> None:
    bench.write("test_words.py", WORDS)
    agent = "command:echo 2 > out.txt"
    assert bench.run("--bench-agent", f"two={agent}", "--bench-attempts", "2").ret == 1
    (failed, *_) = [node for node, outcome in bench.outcomes().items() if outcome == "failed"]
    assert failed == "test_words.py::words::write.1[two-1]"
    again = bench.run(failed, "--bench-force")
    assert again.parseoutcomes() == {"unsolved": 1}, again.stdout.str()
    assert bench.outcomes() == {failed: "failed"}
    assert bench.benchjobs("rerun", failed).returncode == 1
    assert bench.outcomes() == {failed: "failed"}
    assert "Write 1" not in bench.benchjobs("show", failed).stderr


def test_a_conftest_is_collected_where_it_lies_and_known_by_name(bench: Bench) -> None:
    bench.conftest(WORDS)
    bench.write("tests/test_other.py", "def test_other(): pass")
    here = [f"conftest.py::{one}" for one in IDS]
    assert ids(bench.run("--collect-only", "-q")) == ["tests/test_other.py::test_other", *here]
    assert ids(bench.run("conftest.py", "--collect-only", "-q")) == here
    assert ids(bench.run("--bench", "conftest.py", "--collect-only", "-q")) == here
    assert ids(bench.run("tests", "--collect-only", "-q")) == ["tests/test_other.py::test_other"]
    assert ids(bench.run("--bench", "words", "--collect-only", "-q")) == here
    assert ids(bench.run("--bench", "words@3", "--collect-only", "-q")) == here
    bench.run("--bench", "words", "-n2").assert_outcomes(passed=3)
    assert bench.run("words::half[oracle]", "--bench-force").parseoutcomes() == {"passed": 1}


def test_a_file_is_named_like_a_manifest(bench: Bench) -> None:
    bench.write("elsewhere/words.py", WORDS)
    found = ids(bench.run("--bench", "elsewhere/words.py", "--collect-only", "-q"))
    assert found == [f"elsewhere/words.py::{one}" for one in IDS]
    assert bench.benchjobs("check", "elsewhere/words.py").returncode == 0
    bench.write("elsewhere/none.py", "x = 1")
    said = "*--bench: elsewhere/none.py: has no Benchmark in a variable of the module*"
    bench.run("--bench", "elsewhere/none.py").stderr.fnmatch_lines([said])
    bench.write("elsewhere/broken.py", "x = 1\nimport no_such_module\n")
    broken = bench.run("--bench", "elsewhere/broken.py")
    said = "*--bench: elsewhere/broken.py:2: cannot be imported: ModuleNotFoundError: *"
    broken.stderr.fnmatch_lines([said])
    assert "Traceback" not in broken.stderr.str()


def test_a_directory_stands_for_its_python_files(bench: Bench) -> None:
    bench.write("py/test_words.py", WORDS)
    result = bench.run("--bench", "py", "--bench-agent", "oracle")
    assert result.parseoutcomes() == {"passed": 3}, result.stdout.str()
    found = bench.benchjobs("check", "py/test_words.py::half", "--attempts", "1", "-o", "json")
    assert '"scenario":"half"' in found.stdout.replace(" ", ""), (found.stdout, found.stderr)
    assert "write.1" not in found.stdout


def test_one_that_is_imported_runs_once_and_names_are_those_of_their_benchmark(bench: Bench) -> None:
    other = "\nother = Benchmark('others', defaults={'image': 'none'}, scenarios=[write])\n"
    bench.write("test_a.py", WORDS + other)
    bench.write("test_b.py", "from test_a import other, words")
    bench.run("--bench-force").assert_outcomes(passed=5)
    found = ids(bench.run("test_b.py", "--collect-only", "-q", "-k", "words"))
    assert found == [f"test_b.py::{one}" for one in IDS]


def test_mistakes_are_errors_of_collection_with_file_and_line(bench: Bench) -> None:
    bench.conftest(
        "\nfrom pytest_benchjobs import scorer\n\n@scorer('share')\ndef other(context): return 1.0\n"
    )
    bench.write("test_key.py", WORDS.replace("threshold=0.5", "treshold=0.5").replace('"share"', '"key"'))
    bench.write(
        "test_twice.py",
        WORDS.replace('"share"', '"twice"') + "\nother = Benchmark('words', scenarios=[write])\n",
    )
    bench.write("test_scorer.py", WORDS)
    result = bench.run()
    assert result.ret == pytest.ExitCode.INTERRUPTED
    for lines in (
        ["test_key.py:24: scenarios[[]2[]].treshold: unknown key; did you mean 'threshold'?"],
        ["*test_twice.py:*: other and words (line *) are benchmarks with one name, 'words'*"],
        ["test_scorer.py:*@scorer('share')*there is another scorer of this name*"],
    ):
        result.stdout.fnmatch_lines(lines)
    result.assert_outcomes(errors=3)
    assert "Traceback" not in result.stdout.str()


def test_an_interactive_test_takes_the_object_the_name_or_the_file(bench: Bench) -> None:
    bench.conftest(WORDS)
    bench.write(
        "tests/test_it.py",
        """
        import pytest

        @pytest.mark.parametrize("number", ["1", "2"])
        @pytest.mark.bench_scenario("words", "write.1", agent="mine")
        def test_by_name(bench_trial, number):
            bench_trial.write_file("out.txt", number)
            assert bench_trial.score().score == (number == "1")

        @pytest.mark.bench_scenario("conftest.py", "half")
        def test_by_file(bench_trial):
            bench_trial.write_file("out.txt", "2")
        """,
    )
    result = bench.run("tests")
    assert result.parseoutcomes() == {"passed": 3}, result.stdout.str()
    bench.conftest("")
    bench.write(
        "test_own.py",
        WORDS
        + """
@pytest.mark.bench_scenario(words, "half")
def test_by_object(bench_trial):
    bench_trial.write_file("out.txt", "2")
""",
    )
    result = bench.run("test_own.py")
    assert result.parseoutcomes() == {"passed": 4}, result.stdout.str()


def test_a_script_drives_the_object_and_the_file(bench: Bench) -> None:
    bench.write("words.py", WORDS)
    bench.write(
        "loop.py",
        """
        import pytest_benchjobs as benchjobs
        from pytest_benchjobs.testing import FakeProvider
        from words import words

        for benchmark, scenario in ((words, "half"), ("words.py", "write.2")):
            with benchjobs.start(benchmark, scenario, agent="mine", sandbox=FakeProvider) as trial:
                trial.write_file("out.txt", "2")
                print(trial.problem_statement, trial.score().score)
        """,
    )
    done = bench.pytester.run(sys.executable, "loop.py")
    assert done.outlines == ["Write. 0.5", "Write 2. 1.0"], done.stderr.str()
