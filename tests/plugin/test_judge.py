"""A judge in whole jobs: the gateway is there for it alone, in one process and in several."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from .completions import Completions, serving
from .conftest import Bench

MANIFEST = """
benchmark: letters
defaults:
  image: none
  workdir: /app
  scorers:
    - name: polite
      type: judge
      params: {model: openai/judge-1, criteria: It is polite., files: [letter.txt]}
scenarios:
  - {id: polite, problem_statement: Write a letter., reference: echo please > letter.txt}
  - {id: rude, problem_statement: Write a letter., reference: echo now > letter.txt}
"""
KEY = "sk-judge-0123456789"


class _Judge(Completions):
    keys: list[str | None]

    def asked(self, body: dict[str, Any]) -> None:
        self.keys.append(self.headers["Authorization"])
        score = 1 if "please" in body["messages"][1]["content"] else 0.25
        self.answer(body["model"], json.dumps({"reason": "seen", "score": score}))


@pytest.fixture
def keys(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str | None]]:
    """Keys that the judge's endpoint was given, in a directory with the benchmark."""
    bench.write("letters.bench.yaml", MANIFEST)
    monkeypatch.setenv("JUDGE_OPENAI_API_KEY", KEY)
    _Judge.keys = []
    with serving(_Judge) as url:
        monkeypatch.setenv("OPENAI_BASE_URL", url)
        yield _Judge.keys


@pytest.mark.parametrize("workers", [(), ("-n", "2")])
def test_agents_without_a_model_are_judged_by_one(
    bench: Bench, keys: list[str | None], workers: tuple[str, ...]
) -> None:
    bench.run("letters.bench.yaml", *workers)
    results = {result["scenario"]: result for result in bench.results()}
    assert {name: result["score"] for name, result in results.items()} == {"polite": 1.0, "rude": 0.25}
    assert [result["scorers"][0]["usage"]["input_tokens"] for result in results.values()] == [7, 7]
    assert keys == [f"Bearer {KEY}"] * 2
    assert not [
        path for path in bench.bundle().rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()
    ]


INTERACTIVE = """
import pytest

@pytest.mark.bench_scenario("letters.bench.yaml", "rude")
def test_letter(bench_trial):
    bench_trial.exec("echo please > letter.txt")
    assert bench_trial.score().score == 1.0
"""
SCRIPT = """
import pytest_benchjobs
from pytest_benchjobs.testing import FakeProvider

with pytest_benchjobs.start("letters.bench.yaml", "rude", agent="mine", sandbox=FakeProvider) as trial:
    trial.write_file("letter.txt", "now")
    print(trial.score().score)
"""


@pytest.mark.parametrize("workers", [(), ("-n", "1")])
def test_an_interactive_test_is_judged(
    bench: Bench, keys: list[str | None], monkeypatch: pytest.MonkeyPatch, workers: tuple[str, ...]
) -> None:
    monkeypatch.delenv("JUDGE_OPENAI_API_KEY")
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    bench.write("test_letter.py", INTERACTIVE)
    bench.run("test_letter.py", *workers).assert_outcomes(passed=1)
    assert keys == [f"Bearer {KEY}"]


def test_a_script_is_judged(bench: Bench, keys: list[str | None]) -> None:
    bench.write("script.py", SCRIPT)
    done = bench.pytester.run(sys.executable, "script.py")
    assert done.outlines[-1:] == ["0.25"], done.stderr.str()
    assert keys == [f"Bearer {KEY}"]
