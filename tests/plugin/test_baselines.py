"""What `--bench-baseline` finds, from the job that is set to the job that is judged."""

from __future__ import annotations

import json
import shutil
import subprocess
from typing import Any

import pytest

from .conftest import Bench

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


@pytest.fixture
def source(two: Bench) -> Bench:
    """With a job whose results are the baseline `main`."""
    assert two.run("one.bench.yaml", SOLVES, "--bench-job-name=source").ret == 0
    assert two.benchjobs("baseline", "set", "source", "--name", "main").returncode == 0
    return two


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
    first = two.run("one.bench.yaml", SOLVES, default, "--bench-first-run")
    assert first.ret == 0
    first.stdout.fnmatch_lines(["no baseline: *there is no baseline 'default': no baseline is set yet*"])
    assert two.benchjobs("baseline", "set", "last").returncode == 0
    assert two.run("one.bench.yaml", FAILS, default).ret == 10
    accepted = two.benchjobs("baseline", "accept", "last", "--reason", "nobody writes 1 any more")
    note = "note: no gate can turn red, even if every attempt fails: the mean score is 0\n"
    assert (accepted.returncode, accepted.stderr) == (0, note)
    again = two.run("one.bench.yaml", FAILS, default)
    assert again.ret == 0
    again.stdout.fnmatch_lines(["note: baseline default was set * by *: nobody writes 1 any more"])
    # It is the baseline of any later job, and never of itself.
    assert two.benchjobs("baseline", "set", "last").returncode == 0
    alone = two.benchjobs("gate", "last")
    assert alone.returncode == 2
    assert "it is the judged job" in alone.stderr


def test_a_file_is_all_that_ci_needs(two: Bench) -> None:
    assert two.run("one.bench.yaml", SOLVES, "--bench-job-name=good").ret == 0
    (two.path / "base").mkdir()
    assert two.benchjobs("baseline", "export", "job:good", "--to", "base/baseline.json").returncode == 0
    judged = ("one.bench.yaml", "--bench-baseline=file:base/baseline.json", "--bench-dir=elsewhere")
    assert two.run(*judged, SOLVES).ret == 0
    assert two.run(*judged, FAILS).ret == 10
    path = two.path / "base" / "baseline.json"
    path.write_text(path.read_text().replace('"scores": [1.0]', '"scores": [7]', 1))
    jobs = list((two.path / "elsewhere" / "jobs").glob("*/job.json"))
    refused = two.run(*judged, SOLVES)
    assert refused.ret == 4
    refused.stderr.fnmatch_lines(["*--bench-baseline: *baseline.json:16: scenarios[[]0].scores[[]0]: *"])
    assert list((two.path / "elsewhere" / "jobs").glob("*/job.json")) == jobs


def test_a_branch_is_judged_by_what_it_left(two: Bench) -> None:
    def git(*calls: str) -> None:
        for call in calls:
            command = ["git", "-c", "user.name=Ann", "-c", "user.email=a@b", *call.split()]
            subprocess.run(command, cwd=two.path, check=True, capture_output=True)

    (two.path / ".gitignore").write_text("*\n")
    git("init -q -b main", "commit -q --allow-empty -m 1")
    assert two.run("one.bench.yaml", SOLVES).ret == 0
    main = two.bundle().name
    assert json.loads((two.bundle() / "job.json").read_text())["reproducibility"]["git"]["branch"] == "main"
    git("checkout -q -b topic", "commit -q --allow-empty -m 2")
    git("checkout -q main", "commit -q --allow-empty -m 3")
    assert two.run("one.bench.yaml", SOLVES).ret == 0
    git("checkout -q topic")
    assert two.run("one.bench.yaml", SOLVES, "--bench-baseline=branch:main").ret == 0
    assert gate(two)["baseline_jobs"] == [main]


def jobs_of(bench: Bench, directory: str = "reports") -> list[str]:
    return sorted(path.parent.name for path in (bench.path / directory).glob("jobs/*/job.json"))


def test_a_baseline_that_is_not_there_ends_the_run_before_it_begins(source: Bench) -> None:
    two, message = source, "there is no baseline 'mian'. Did you mean 'main'?"
    jobs = jobs_of(two)
    for more in ((), ("-n2",)):
        refused = two.run("one.bench.yaml", FAILS, "--bench-baseline=mian", *more)
        assert refused.ret == 4, refused.stdout.str()
        refused.stderr.fnmatch_lines([f"*--bench-baseline: {message}*"])
    run = two.benchjobs("run", "--benchmark", "one.bench.yaml", "--baseline", "mian")
    assert run.returncode == 2
    assert message in run.stderr
    assert not ("Did you mean" in run.stderr and "first-run" in run.stderr)
    assert jobs_of(two) == jobs
    for command in (("gate", "last", "--baseline", "mian"), ("compare", "mian", "source")):
        said = two.benchjobs(*command)
        assert said.returncode not in (0, 10), said.stdout
        assert "there is no baseline 'mian'" in said.stderr, said.stderr
    # The right one is there.
    assert two.run("one.bench.yaml", FAILS, "--bench-baseline=main").ret == 10


def test_who_names_a_baseline_that_is_not_there_is_told_where(two: Bench) -> None:
    two.write("ci.yaml", "attempts: 1\nbaseline: mian\n")
    two.write("job.toml", 'benchmarks = ["one.bench.yaml"]\nbaseline = "file:nope.json"\n')
    ini = (two.path / "pytest.ini").read_text()
    for arguments, message in (
        (("one.bench.yaml", "--bench-profile=./ci.yaml"), "ci.yaml:2: baseline: there is no baseline 'mian'"),
        (("--bench-job-file=job.toml", "-n2"), "job.toml:2: baseline: there is no file *nope.json"),
    ):
        refused = two.run(SOLVES, *arguments)
        assert refused.ret == 4, refused.stdout.str()
        refused.stderr.fnmatch_lines([f"*ERROR: {message}*"])
    two.write("pytest.ini", f"{ini}bench_baseline = mian\n")
    refused = two.run("one.bench.yaml", SOLVES)
    assert refused.ret == 4
    refused.stderr.fnmatch_lines(["*ERROR: *bench_baseline: there is no baseline 'mian'*"])
    assert not jobs_of(two)


def test_there_is_no_last_job_at_first(two: Bench) -> None:
    refused = two.run("one.bench.yaml", SOLVES, "--bench-baseline=last")
    assert refused.ret == 4
    refused.stderr.fnmatch_lines(
        ["*there is no completed job of the same benchmarks and agents before this one*"]
    )
    first = two.run("one.bench.yaml", SOLVES, "--bench-baseline=last", "--bench-first-run")
    assert (first.ret, gate(two)["verdict"]) == (0, "no baseline")
    # One that fails is no better for being the first; and what is there is compared with all the same.
    assert two.run("two.bench.yaml", FAILS, "--bench-baseline=last", "--bench-first-run").ret == 0
    assert gate(two)["verdict"] == "no baseline"
    assert two.run("one.bench.yaml", FAILS, "--bench-baseline=last", "--bench-first-run").ret == 10


@pytest.mark.parametrize(("lost", "spec"), [("trials", "job:source"), ("one trial", "main")])
def test_a_baseline_that_lost_its_results_is_refused_even_of_a_first_run(
    source: Bench, lost: str, spec: str
) -> None:
    trials = source.bundle() / "trials"
    shutil.rmtree(trials if lost == "trials" else min(trials.glob("*/*/*/result.json")).parent)
    for path in (source.path / "reports").glob("history.sqlite*"):
        path.unlink()
    source.benchjobs("db", "rebuild")
    for more in ((), ("--bench-first-run",)):
        refused = source.run("one.bench.yaml", FAILS, f"--bench-baseline={spec}", *more)
        assert refused.ret == 4, refused.stdout.str()
    if lost == "one trial":
        refused.stderr.fnmatch_lines(["*1 of its 8 results are gone; set a new baseline*"])


def test_a_baseline_that_vanishes_while_the_job_runs_is_no_good_job(source: Bench) -> None:
    place = source.path / "reports"
    gone = f"{place}/history.sqlite* {place}/baselines.json {place}/jobs/{source.bundle().name}"
    vanishing = f"--bench-agent=command:rm -rf {gone}; true"
    done = source.run("one.bench.yaml", vanishing, "--bench-baseline=main")
    assert done.ret in (10, 12), done.stdout.str()
    assert source.benchjobs("gate", "last").returncode not in (0, 1)
