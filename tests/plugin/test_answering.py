"""Benchmarks of questions: no engine is asked, whoever answers, in one process and in several."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from .completions import Completions, serving
from .conftest import Bench

CONFTEST = """
from pathlib import Path
from pytest_benchjobs.model.errors import EngineUnavailable
from pytest_benchjobs.model.scenario import Answer, Environment, Scenario, ScorerSpec
from pytest_benchjobs.sources.protocol import ScenarioRef

class NoEngine(FakeProvider):
    problem = EngineUnavailable("no engine answers")

def pytest_benchjobs_sandboxes(config):
    return {"fake": FakeProvider, "none": NoEngine}

class Sums:
    path, benchmark, version, warnings = Path("sums"), "sums", "1", ()
    def refs(self, wanted=None):
        return [ScenarioRef(f"sum-{n}", scorers=("answer",)) for n in range(6)]
    def load(self, scenario):
        n = int(scenario.removeprefix("sum-"))
        match = {"match": "integer", "expected": 2 * n}
        return Scenario(id=scenario, benchmark="sums", problem_statement=f"How much is {n} + {n}?",
            environment=Environment(image="none"), source=self.path, answer=Answer(reference=str(2 * n)),
            scorers=(ScorerSpec(name="answer", type="answer", params=match),))

def pytest_benchjobs_benchmarks(config):
    return {"sums": Sums()}
"""


@pytest.fixture
def sums(bench: Bench) -> Bench:
    bench.conftest(CONFTEST)
    bench.write("pytest.ini", "[pytest]\nbench_sandbox = none\n")
    return bench


class _Model(Completions):
    """Adds; but it says that 4 and 4 are 9, and does not come to an end with 5 and 5."""

    def asked(self, body: dict[str, Any]) -> None:
        (message,) = body["messages"]
        found = re.fullmatch(r"How much is (\d+) \+ (\d+)\?", message["content"])
        assert found is not None
        assert "tools" not in body
        total = sum(map(int, found.groups()))
        said = {8: "ANSWER: 9", 10: "Let me think"}.get(total, f"<think>1</think>ANSWER: {total}")
        self.answer(body["model"], said, "length" if total == 10 else "stop")


@pytest.fixture
def model() -> Iterator[str]:
    with serving(_Model) as url:
        yield f"model:m@{url}"


def scores(bench: Bench) -> list[float | None]:
    return [result["score"] for result in bench.results()]


@pytest.mark.parametrize("workers", [(), ("-n", "2")])
def test_oracle_and_nop_need_no_engine(sums: Bench, workers: tuple[str, ...]) -> None:
    sums.run("--bench", "sums", "--bench-agent=oracle", "--bench-agent=nop", *workers)
    assert {(result["agent"]["name"], result["score"]) for result in sums.results()} == {
        ("oracle", 1.0),
        ("nop", 0.0),
    }
    assert len(sums.results()) == 12


def test_a_bare_model_answers_through_the_gateway(sums: Bench, model: str) -> None:
    sums.run("--bench", "sums", "--bench-agent", model, "-n", "2")
    results = {result["scenario"]: result for result in sums.results()}
    assert [results[f"sum-{n}"]["score"] for n in range(6)] == [1, 1, 1, 1, 0, 0]
    assert all(result["usage"]["input_tokens"] == 7 for result in results.values())
    cut: dict[str, Any] = results["sum-5"]
    assert (cut["outcome"], cut["agent_end"]["ending"]) == ("failed", "gave_up")
    assert "an answer was cut off at its limit of tokens" in cut["notes"]
    assert (sums.bundle() / cut["path"] / "answer.txt").read_text() == "Let me think"


def test_an_agent_in_a_container_fails_beside_answers_that_do_not(sums: Bench) -> None:
    run = sums.run("--bench", "sums", "--bench-agent", "oracle", "--bench-agent", "command:true")
    outcomes = sums.outcomes()
    assert {outcome for node, outcome in outcomes.items() if "oracle" in node} == {"passed"}
    assert {outcome for node, outcome in outcomes.items() if "command" in node} == {"error"}
    assert "no engine answers" in run.stdout.str()


def test_answers_are_reused_resumed_and_graded_anew(sums: Bench) -> None:
    sums.run("--bench", "sums", "-k", "sum-1 or sum-2").assert_outcomes(passed=2)
    first = sums.bundle().name
    sums.run("--bench", "sums", "--bench-reuse").assert_outcomes(passed=6)
    reused = [result["reused"] and result["reused"]["job"] for result in sums.results()]
    assert sorted(map(str, reused)) == sorted([first, first, *["None"] * 4])
    second = sums.bundle().name
    plan = sums.run("--bench", "sums", "--bench-reuse", "--bench-plan").stdout.str()
    assert "0 trials would run, 6 would be reused" in plan
    sums.conftest(CONFTEST.replace("2 * n}\n", "2 * n + n // 5}\n"))
    again = sums.benchjobs("rescore", second)
    assert again.returncode == 1, again.stdout + again.stderr
    assert sorted(scores(sums), key=float) == [0.0, *[1.0] * 5]  # type: ignore[arg-type]
    assert {result["rescored"]["job"] for result in sums.results()} == {second}


def test_a_manifest_of_questions_needs_no_engine_unless_one_has_files(sums: Bench) -> None:
    manifest = """\
benchmark: capitals
defaults: {image: x, problem_statement: The capital of France?, answer: {reference: Paris}}
scenarios:
  - {id: exact, scorers: [{name: a, type: answer, params: {match: exact, expected: Paris}}]}
  - {id: pattern, scorers: [{name: a, type: answer, params: {match: regex, pattern: (?i)^paris$}}]}
  - id: json
    answer: {reference: '{"city": "Paris"}'}
    scorers: [{name: a, type: answer, params: {match: json, expected: {city: Paris}}}]
"""
    sums.write("capitals.bench.yaml", manifest)
    sums.run("capitals.bench.yaml").assert_outcomes(passed=3)
    sums.write("given.txt", "x")
    sums.write("capitals.bench.yaml", manifest + "    files: {given.txt: given.txt}\n")
    result = sums.run("capitals.bench.yaml")
    assert "no engine answers" in result.stdout.str()
    assert result.ret != 0
