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


@pytest.fixture(params=NAMES, ids=["newline", "start", "azure", "return", "vso", "escape"])
def odd(request: pytest.FixtureRequest, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    name = str(request.param)
    (bench.path / name).mkdir()
    bench.write(f"{name}/toy.bench.yaml", TOY)
    task = bench.path / name / "task" / name
    (task / "tests").mkdir(parents=True)
    (task / "environment").mkdir()
    (task / "task.toml").write_text(TASK)
    (task / "instruction.md").write_text("Try.")
    (task / "tests/test.sh").write_text("echo 1 > /logs/verifier/reward.txt\n")
    (task / "environment/Dockerfile").write_text("FROM none\n")
    return name


def said(result: pytest.RunResult) -> str:
    return f"{result.stdout}\n{result.stderr}"


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("-v",),
        ("-q", "-rA"),
        ("--co",),
        ("--co", "-q"),
        ("-v", "-n1"),
        ("--bench-job-timeout", "0.001", "-v"),
    ],
    ids=" ".join,
)
def test_no_name_of_a_directory_is_a_line_of_its_own(
    bench: Bench, odd: str, options: tuple[str, ...]
) -> None:
    result = bench.run(*options)
    # A job whose time is up may end before its first trial does.
    listed = {"-v", "-rA", "--co"} & set(options) and "--bench-job-timeout" not in options
    assert "solved[oracle]" in said(result) or not listed
    assert OWNED.findall(said(result)) == []
    assert "\x1b[31m/" not in said(result)


def test_nor_that_of_a_broken_file_or_of_the_rootdir(bench: Bench, odd: str) -> None:
    bench.write(f"{odd}/toy.bench.yaml", "benchmark: [\n")
    bench.write(f"{odd}/second.bench.yaml", "benchmark: toy\nscenarios: [{id: a, nonsense: 1}]\n")
    (bench.path / odd / "task" / odd / "task.toml").write_text("[verifier\n")
    for options in ((), ("-v", "-n1"), ("--rootdir", bench.path / odd)):
        result = bench.run(*options)
        assert result.ret != 0
        assert "second.bench.yaml:2" in said(result)
        assert OWNED.findall(said(result)) == []


def test_ids_of_odd_names_are_remembered_and_are_in_reports(bench: Bench, odd: str) -> None:
    result = bench.run("--co", "-q")
    listed = [line for line in result.outlines if line.endswith("[oracle]")]
    assert len(listed) == 4
    assert all(line.count("::") == 1 for line in listed)
    assert bench.run().ret == 1
    bench.run("--lf", "-q", "--co").stdout.fnmatch_lines(["*3/4 tests collected*"])
    (report,) = bench.path.glob("reports/jobs/*/report.json")
    ids = {each["node_id"] for each in json.loads(report.read_text())["results"]}
    assert ids == set(listed)
    assert OWNED.findall(report.with_name("summary.md").read_text()) == []
    assert OWNED.findall(report.with_name("junit.xml").read_text()) == []


def test_ordinary_tests_in_odd_directories_still_run(bench: Bench) -> None:
    (bench.path / NAMES[0]).mkdir()
    bench.write(f"{NAMES[0]}/test_it.py", "def test_it(): pass\n")
    bench.run("-q").stdout.fnmatch_lines(["*1 passed*"])
