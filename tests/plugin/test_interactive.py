"""Interactive tests: functions that are the agents of trials, as pytest runs and reports them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from .conftest import Bench

SOLVED = '''
import pytest

@pytest.mark.bench_scenario("toy.bench.yaml", "solved")
def test_fix(bench_trial):
    {body}
'''
GOOD = 'bench_trial.exec("echo 1 > out.txt")'


def function(bench: Bench, body: str, *, more: str = "") -> None:
    """A test of one scenario with this body."""
    bench.toy()
    bench.write("test_it.py", more + SOLVED.format(body=body.replace("\n", "\n    ")))


def trial(bench: Bench) -> dict[str, Any]:
    (one,) = bench.results()
    return one


def test_a_function_that_solves_the_scenario_passes_without_a_word_about_scores(bench: Bench) -> None:
    function(bench, f'assert "Write 1" in bench_trial.problem_statement\n{GOOD}')
    result = bench.run("-v", "test_it.py")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["*test_it.py::test_fix?solved? PASSED score=1*", "bench: 1 trial (1 scenario x 1 agent)*"][:1])
    one = trial(bench)
    assert (one["outcome"], one["score"], one["agent"]["name"]) == ("passed", 1.0, "test_fix")
    assert one["node_id"] == "test_it.py::test_fix[solved]"
    job = bench.job()
    assert job["job"]["status"] == "completed"


def test_a_function_that_solves_nothing_is_unsolved(bench: Bench) -> None:
    function(bench, 'bench_trial.exec("echo 2 > out.txt")')
    result = bench.run("test_it.py")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["*1 unsolved*"])
    assert (trial(bench)["outcome"], trial(bench)["failure"]["class"]) == ("failed", "below_threshold")
