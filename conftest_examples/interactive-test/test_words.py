"""Test functions that are agents: each starts a trial, works in its sandbox, and is scored."""

import pytest

pytestmark = pytest.mark.bench_scenario("words.bench.yaml")


@pytest.mark.bench_scenario("words.bench.yaml", "count")
def test_by_hand(bench_trial):
    """Says nothing about a score, so the scorers decide."""
    assert "number of words" in bench_trial.problem_statement
    counted = bench_trial.exec("wc -w < text.txt")
    bench_trial.write_file("count.txt", counted.output)


@pytest.mark.parametrize("separator", [" ", "o"], ids=["space", "letter"])
@pytest.mark.bench_scenario("words.bench.yaml", "sort", agent="splitter")
def test_partial_credit(bench_trial, separator):
    """Asks for the score, so it decides by itself what it accepts."""
    bench_trial.exec(f"tr '{separator}' '\\n' < text.txt | sort > sorted.txt")
    assert bench_trial.score().score >= 0.25


def test_of_every_scenario(bench_sandbox):
    """Runs once for each scenario of the benchmark. It leaves nothing, and is unsolved."""
    assert bench_sandbox.read_file("text.txt").endswith(b"dog\n")
