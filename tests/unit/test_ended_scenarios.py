"""Scenarios of trials that have ended."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_benchjobs.report.scenarios import _sources

TEXT = """benchmark: {}
scenarios:
  - {{id: a, problem_statement: x, image: busybox, scorers: [{{name: t, type: command, command: "true"}}]}}
"""


@pytest.mark.parametrize(
    ("file", "ini"),
    [
        ("benchmarks/tb.bench.yaml", ""),
        ("suites/tb.bench.yaml", "bench_paths = suites\n"),
        ("suites/tb.bench.yaml", "bench_benchmarks = terminal-bench-2 = suites/tb.bench.yaml\n"),
        ("other/deep/tb.bench.yaml", ""),
    ],
)
def test_a_benchmark_of_the_project_comes_before_one_of_the_catalogue(
    tmp_path: Path, file: str, ini: str
) -> None:
    (tmp_path / "pytest.ini").write_text(f"[pytest]\n{ini}")
    (tmp_path / file).parent.mkdir(parents=True)
    (tmp_path / file).write_text(TEXT.format("terminal-bench-2"))
    found = _sources(tmp_path, "terminal-bench-2", "terminal-bench-2")
    assert [source.path for source in found] == [tmp_path / file]


def test_a_broken_manifest_hides_no_other(tmp_path: Path) -> None:
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks/a.bench.yaml").write_text("benchmark: [\n")
    (tmp_path / "benchmarks/b.bench.yaml").write_text(TEXT.format("mine"))
    assert [source.benchmark for source in _sources(tmp_path, "mine", "mine")] == ["mine"]
