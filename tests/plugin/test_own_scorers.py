"""Scorers of one's own, by decorator and entry point."""

from __future__ import annotations

import pytest

from .conftest import Bench

MANIFEST = """
benchmark: own
defaults: {image: none, workdir: /app}
scenarios:
  - id: lines
    problem_statement: Write three lines.
    reference: seq 3 > out.txt
    scorers: [{type: line-count, params: {lines: 3}}]
"""
COUNT = """
def count(context):
    assert context.spec.name == "line-count"
    return float(context.run("wc -l < out.txt")[1].strip() == str(context.spec.params["lines"]))
"""
MARKED = f"""
import pytest_benchjobs
{COUNT.replace("def count", '@pytest_benchjobs.scorer("line-count")' + chr(10) + "def count")}
"""


def _install(bench: Bench, monkeypatch: pytest.MonkeyPatch, module: str, value: str) -> None:
    bench.write("own_scorers.py", module)
    bench.write("own-1.dist-info/METADATA", "Metadata-Version: 2.1\nName: own\nVersion: 1\n")
    bench.write("own-1.dist-info/entry_points.txt", f"[benchjobs.scorers]\nline-count = {value}\n")
    monkeypatch.setenv("PYTHONPATH", str(bench.path))


def test_a_decorated_function_of_a_conftest_is_a_scorer(bench: Bench) -> None:
    bench.conftest(MARKED)
    bench.write("own.bench.yaml", MANIFEST)
    bench.run("own.bench.yaml").assert_outcomes(passed=1)
    bench.run("own.bench.yaml", "-n", "1").assert_outcomes(passed=1)


def test_an_entry_point_is_a_scorer_and_a_decorator_overrides_it(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.write("own.bench.yaml", MANIFEST)
    _install(bench, monkeypatch, COUNT, "own_scorers:count")
    bench.run("own.bench.yaml").assert_outcomes(passed=1)
    bench.conftest(
        "import pytest_benchjobs\n@pytest_benchjobs.scorer('line-count')\ndef zero(context): return 0\n"
    )
    bench.run("own.bench.yaml")
    assert [result["score"] for result in bench.results()] == [0.0]


def test_a_broken_entry_point_is_one_clear_error(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.write("own.bench.yaml", MANIFEST)
    _install(bench, monkeypatch, COUNT, "nowhere:count")
    run = bench.run("own.bench.yaml")
    assert run.ret == pytest.ExitCode.USAGE_ERROR
    said = run.stdout.str() + run.stderr.str()
    assert "entry point line-count = nowhere:count of benchjobs.scorers cannot be loaded: Module" in said
    assert "Traceback" not in said
