"""Directories whose names would be lines of their own, or commands to a CI system, in what pytest prints."""

from __future__ import annotations

import json
import re

import pytest

from .conftest import TOY, Bench

OWNED = re.compile(r"(?m)^\s*(?:\x1b\[[\d;]*m)*::(?:error|warning)::owned|##(?:vso)?\[owned")
NAMES = (
    "b\n::error::owned",
    "::error::owned",
    "c##[owned]",
    "d\r::warning::owned",
    "e##vso[owned]",
    "f\x1b[31m",
)
TASK = "[verifier]\ntimeout_sec = 60\n[agent]\ntimeout_sec = 60\n"


@pytest.fixture
def odd(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """A manifest and a task below each of the names."""
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    for name in NAMES:
        (bench.path / name).mkdir()
        bench.write(
            f"{name}/toy.bench.yaml", TOY.replace("benchmark: toy", f"benchmark: toy{NAMES.index(name)}")
        )
        task = bench.path / name / f"tasks{NAMES.index(name)}" / name
        (task / "tests").mkdir(parents=True)
        (task / "environment").mkdir()
        (task / "task.toml").write_text(TASK)
        (task / "instruction.md").write_text("Try.")
        (task / "tests/test.sh").write_text("echo 1 > /logs/verifier/reward.txt\n")
        (task / "environment/Dockerfile").write_text("FROM none\n")
    return bench


def said(result: pytest.RunResult) -> str:
    return f"{result.stdout}\n{result.stderr}"


@pytest.mark.parametrize(
    "options",
    [("-v",), ("-q", "-rA"), ("--co",), ("-v", "-n1"), ("--bench-job-timeout", "0.001", "-v")],
    ids=" ".join,
)
def test_no_name_of_a_directory_is_a_line_of_its_own(odd: Bench, options: tuple[str, ...]) -> None:
    text = said(odd.run(*options))
    # A job whose time is up may end before its first trial does.
    assert text.count("solved[oracle]") >= len(NAMES) or "--bench-job-timeout" in options
    assert OWNED.findall(text) == []
    assert "\x1b[31m/" not in text


def test_nor_that_of_a_broken_file_or_of_the_rootdir(odd: Bench) -> None:
    for name in NAMES:
        odd.write(f"{name}/toy.bench.yaml", "benchmark: [\n")
        odd.write(f"{name}/second.bench.yaml", "benchmark: toy\nscenarios: [{id: a, nonsense: 1}]\n")
        (odd.path / name / f"tasks{NAMES.index(name)}" / name / "task.toml").write_text("[verifier\n")
    for options in ((), ("-v", "-n1"), *(("--rootdir", odd.path / name) for name in NAMES)):
        result = odd.run(*options)
        assert result.ret != 0
        assert "second.bench.yaml:2" in said(result)
        assert OWNED.findall(said(result)) == []


def test_ids_of_odd_names_are_remembered_and_are_in_reports(odd: Bench) -> None:
    listed = [line for line in odd.run("--co", "-q").outlines if line.endswith("[oracle]")]
    assert len(listed) == 4 * len(NAMES)
    assert all(line.count("::") == 1 for line in listed)
    assert odd.run().ret == 1
    odd.run("--lf", "-q", "--co").stdout.fnmatch_lines(
        [f"*{3 * len(NAMES)}/{4 * len(NAMES)} tests collected*"]
    )
    (report,) = odd.path.glob("reports/jobs/*/report.json")
    ids = {each["node_id"] for each in json.loads(report.read_text())["results"]}
    assert ids == set(listed)
    assert OWNED.findall(report.with_name("summary.md").read_text()) == []
    assert OWNED.findall(report.with_name("junit.xml").read_text()) == []


def test_ordinary_tests_in_odd_directories_still_run(bench: Bench) -> None:
    (bench.path / NAMES[0]).mkdir()
    bench.write(f"{NAMES[0]}/test_it.py", "def test_it(): pass\n")
    bench.run("-q").stdout.fnmatch_lines(["*1 passed*"])
