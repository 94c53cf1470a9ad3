"""What `--bench-baseline` finds, from the job that is set to the job that is judged."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest

from .conftest import Bench
from .test_run import benchjobs

GOOD = "grep -q 1 out.txt 2>/dev/null && echo 1 || echo 0"
SOLVES = "--bench-agent=command:echo 1 > out.txt"
FAILS = "--bench-agent=command:true"


@pytest.fixture
def two(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """Two benchmarks, of eight and one scenarios."""
    for variable in ("GITHUB_REF_NAME", "CI_COMMIT_BRANCH", "BRANCH_NAME", "GIT_BRANCH"):
        monkeypatch.delenv(variable, raising=False)
    bench.manifest({f"s{number}": GOOD for number in range(8)}, "one.bench.yaml")
    bench.manifest({"only": GOOD}, "two.bench.yaml")
    return bench


def gate(bench: Bench) -> dict[str, Any]:
    (found,) = bench.job()["gates"]
    return found  # type: ignore[no-any-return]


def test_last_is_of_the_same_benchmark_in_one_process_and_in_several(two: Bench) -> None:
    assert two.run("one.bench.yaml", SOLVES).ret == 0
    first = two.bundle().name
    assert two.run("one.bench.yaml", SOLVES, "-k", "s1").ret == 0
    assert two.run("two.bench.yaml", SOLVES).ret == 0
    assert two.run("one.bench.yaml", SOLVES, "--bench-baseline=last").ret == 0
    assert gate(two)["baseline_jobs"] == [first]
    second = two.bundle().name
    assert two.run("two.bench.yaml", SOLVES).ret == 0
    assert two.run("one.bench.yaml", SOLVES, "--bench-baseline=last", "-n2").ret == 0
    assert gate(two)["baseline_jobs"] == [second]


def test_what_the_gate_called_regressed_is_accepted(two: Bench) -> None:
    default = "--bench-baseline=default"
    first = two.run("one.bench.yaml", SOLVES, default)
    assert first.ret == 0
    first.stdout.fnmatch_lines(["note: *there is no baseline 'default': none was set yet*"])
    assert benchjobs(two, "baseline", "set", "last").returncode == 0
    assert two.run("one.bench.yaml", FAILS, default).ret == 10
    accepted = benchjobs(two, "baseline", "accept", "last", "--reason", "nobody writes 1 any more")
    assert (accepted.returncode, accepted.stderr) == (0, "")
    again = two.run("one.bench.yaml", FAILS, default)
    assert again.ret == 0
    again.stdout.fnmatch_lines(["note: baseline default was set * by *: nobody writes 1 any more"])
    # It is the baseline of any later job, and never of itself.
    assert benchjobs(two, "baseline", "set", "last").returncode == 0
    alone = benchjobs(two, "gate", "last")
    assert alone.returncode == 0
    assert "it is the one that is judged" in alone.stdout


def test_a_file_is_all_that_ci_needs(two: Bench) -> None:
    assert two.run("one.bench.yaml", SOLVES, "--bench-job-name=good").ret == 0
    (two.path / "base").mkdir()
    assert benchjobs(two, "baseline", "export", "job:good", "--to", "base/baseline.json").returncode == 0
    judged = ("one.bench.yaml", "--bench-baseline=file:base/baseline.json", "--bench-dir=elsewhere")
    assert two.run(*judged, SOLVES).ret == 0
    assert two.run(*judged, FAILS).ret == 10
    path = two.path / "base" / "baseline.json"
    path.write_text(path.read_text().replace('"scores": [1.0]', '"scores": [7]', 1))
    jobs = list((two.path / "elsewhere" / "jobs").glob("*/job.json"))
    refused = two.run(*judged, SOLVES)
    assert refused.ret == 4
    refused.stderr.fnmatch_lines(["*--bench-baseline: *baseline.json:9: scenarios[[]0].scores[[]0]: *"])
    assert list((two.path / "elsewhere" / "jobs").glob("*/job.json")) == jobs


def test_a_branch_is_judged_by_what_it_left(two: Bench) -> None:
    def git(*arguments: str) -> None:
        who = ("-c", "user.name=Ann", "-c", "user.email=a@b")
        subprocess.run(["git", *who, *arguments], cwd=two.path, check=True, capture_output=True)

    (two.path / ".gitignore").write_text("*\n")
    git("init", "-q", "-b", "main")
    git("commit", "-q", "--allow-empty", "-m", "1")
    assert two.run("one.bench.yaml", SOLVES).ret == 0
    main = two.bundle().name
    assert json.loads((two.bundle() / "job.json").read_text())["reproducibility"]["git"]["branch"] == "main"
    git("checkout", "-q", "-b", "topic")
    git("commit", "-q", "--allow-empty", "-m", "2")
    git("checkout", "-q", "main")
    git("commit", "-q", "--allow-empty", "-m", "3")
    assert two.run("one.bench.yaml", SOLVES).ret == 0
    git("checkout", "-q", "topic")
    assert two.run("one.bench.yaml", SOLVES, "--bench-baseline=branch:main").ret == 0
    assert gate(two)["baseline_jobs"] == [main]
