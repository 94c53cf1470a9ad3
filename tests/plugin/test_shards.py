"""Shards: several machines run a job in parts, which `benchjobs merge` makes one again."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
import yaml

from ..console import COMMAND
from .conftest import Bench

EXAMPLES = Path(__file__).parents[2] / "conftest_examples" / "ci"
RULES = ("--bench-fail-on-regression=mean:5pp", "--bench-fail-on-regression=scenario:any")


def record(directory: Path) -> dict[str, Any]:
    (path,) = directory.glob("jobs/*/job.json")
    return json.loads(path.read_text("utf-8"))  # type: ignore[no-any-return]


def outcomes(directory: Path) -> dict[str, tuple[str, float]]:
    results = (
        json.loads(path.read_text("utf-8")) for path in directory.glob("jobs/*/trials/*/*/*/result.json")
    )
    return {result["node_id"]: (result["outcome"], result["score"]) for result in results}


def cases(junit: Path) -> list[tuple[Any, ...]]:
    """Each case with how it ended, and the counts of the suites."""
    suites = ET.parse(junit).getroot().findall("testsuite")
    counts = [tuple(suite.get(name) for name in ("name", "tests", "failures", "errors")) for suite in suites]
    found = [
        (
            case.get("classname"),
            case.get("name"),
            *(one.tag for one in case if one.tag in ("failure", "error")),
        )
        for suite in suites
        for case in suite.findall("testcase")
    ]
    return counts + sorted(found)


@pytest.fixture
def letters(bench: Bench) -> Bench:
    work = {"reference": "echo 1 > out.txt", "script": "test -f out.txt && echo score=1 || echo score=0"}
    scenarios = {f"s{number}": "echo score=1" if number % 2 else work for number in range(5)}
    bench.manifest(scenarios, "benchmarks/letters.bench.yaml")
    for name, call in (
        ("pytest", [sys.executable, "-m", "pytest", "-p", "no:hypothesispytest"]),
        ("benchjobs", COMMAND),
    ):
        bench.write(f"bin/{name}", f'#!/bin/sh\nexec {shlex.join(call)} "$@"\n').chmod(0o755)
    return bench


def script(bench: Bench, text: str, at: str, *arguments: str, **env: str) -> int:
    """Exit status of a step of a pipeline, in a directory of its own machine."""
    path = f"{bench.path / 'bin'}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-e", "-c", text, "script", *arguments], cwd=bench.path / at, check=False, text=True,
        capture_output=True, env={**os.environ, "PATH": path, **env},
    )  # fmt: skip
    assert "Traceback" not in done.stdout + done.stderr
    return done.returncode


def checkout(bench: Bench, at: str) -> None:
    for name in ("benchmarks", "conftest.py", "pytest.ini", "baseline.json"):
        path = bench.path / name
        (shutil.copytree if path.is_dir() else shutil.copy)(path, bench.path / at / name)


def github(bench: Bench, agent: str) -> int:
    """Run the workflow of the example: each shard on a machine of its own, then what judges them. Status of the gate."""
    jobs = yaml.safe_load((EXAMPLES / "github-actions.yml").read_text("utf-8"))["jobs"]

    def steps(job: str, program: str) -> list[str]:
        runs = (step["run"] for step in jobs[job]["steps"] if "run" in step)
        return [text for text in runs if text.startswith(program)]

    for part in jobs["run"]["strategy"]["matrix"]["part"]:
        (bench.path / f"machine-{part}").mkdir()
        checkout(bench, f"machine-{part}")
        (text,) = steps("run", "pytest")
        assert (
            script(bench, re.sub(r"\$\{\{ matrix.part \}\}", str(part), text), f"machine-{part}", AGENT=agent)
            == 0
        )
        shutil.copytree(bench.path / f"machine-{part}/reports", bench.path / f"gate/shards/shard-{part}")
    checkout(bench, "gate")
    merge, gate = steps("gate", "benchjobs")[:2]
    assert script(bench, merge, "gate", GITHUB_RUN_ID="7") == 0
    return script(bench, gate, "gate")


def slurm(bench: Bench, agent: str) -> int:
    """The same of the array job, whose nodes share a directory."""
    (bench.path / "gate").mkdir()
    checkout(bench, "gate")
    array = (EXAMPLES / "slurm-array.sh").read_text("utf-8")
    (count,) = re.findall(r"^#SBATCH --array=1-(\d+)$", array, re.MULTILINE)
    for task in range(1, int(count) + 1):
        told = {"SLURM_ARRAY_JOB_ID": "7", "SLURM_ARRAY_TASK_ID": str(task), "SLURM_ARRAY_TASK_COUNT": count}
        assert script(bench, array, "gate", AGENT=agent, **told) == 0
    return script(bench, (EXAMPLES / "slurm-merge.sh").read_text("utf-8"), "gate", "7")


@pytest.mark.parametrize("pipeline", [github, slurm])
def test_shards_of_a_pipeline_are_the_same_as_one_job(letters: Bench, pipeline: Any) -> None:
    assert letters.run("benchmarks", "--bench-attempts=5").ret == 0
    assert letters.benchjobs("baseline", "export", "last", "--to", "baseline.json").returncode == 0
    whole = letters.run(
        "benchmarks", "--bench-attempts=5", "--bench-agent=nop", "--bench-baseline=file:baseline.json",
        "--bench-exit=gate", "--bench-dir=whole", *RULES,
    )  # fmt: skip
    assert pipeline(letters, "nop") == whole.ret == 10
    gate = letters.path / "gate"
    merged = record(gate / "reports")
    assert outcomes(gate / "reports") == outcomes(letters.path / "whole")
    (one,) = (letters.path / "whole").glob("jobs/*/junit.xml")
    assert cases(gate / "junit.xml") == cases(one)
    assert (merged["partial"], merged["split"], merged["status"]) == (False, None, "completed")


def test_a_gate_of_shards_is_judged_when_they_are_merged(letters: Bench) -> None:
    for part in ("1/2", "2/2"):
        options = (
            f"--bench-shard={part}",
            f"--bench-dir={part[0]}",
            "--bench-min-score=0.9",
            "--bench-agent=nop",
        )
        done = letters.run("benchmarks", *options)
        assert done.ret == 0
        done.stdout.fnmatch_lines(["*= gate =*", f"not judged: this is shard {part}; *", "exit status 0"])
    merged = letters.benchjobs("merge", "1", "2", "--as-job", "nightly")
    assert (merged.returncode, "regressed" in merged.stdout) == (10, True)
    assert "note: only shard 1/2 is judged" in letters.benchjobs("gate", "last", "--dir", "1").stdout


def test_what_failed_on_a_machine_runs_there_again(letters: Bench) -> None:
    letters.manifest(
        {"a": "echo score=0", "b": "echo score=0", "c": "echo score=1"}, "benchmarks/more.bench.yaml"
    )
    names: list[set[str]] = []
    for part in (1, 2):
        own = (f"--bench-shard={part}/2", f"--bench-dir={part}", "-o", f"cache_dir=cache-{part}")
        for again in ((), ("--lf",)):
            assert letters.run("benchmarks", "--bench-agent=oracle", *own, *again).ret == 1
        last = max(letters.path.glob(f"{part}/jobs/*"), key=lambda path: path.stat().st_mtime)
        names.append({path.parents[1].name for path in last.glob("trials/*/*/*/result.json")})
    assert sorted(name for part in names for name in part) == ["a", "b"]


def test_a_shard_that_is_resumed_stays_that_shard(letters: Bench) -> None:
    stopped = "--bench-agent=command:true", "--bench-concurrency=1", "-x", "--bench-shard=1/2"
    assert letters.run("benchmarks", *stopped).ret == 1
    agent = stopped[0]
    assert "is shard 1/2; leave the option out" in letters.run(
        "benchmarks", agent, "--bench-resume=last", "--bench-shard=2/2"
    ).stderr.str()  # fmt: skip
    resumed = letters.run("benchmarks", agent, "--bench-resume=last", "--bench-min-score=0.9", "-n1")
    assert resumed.ret == 0
    resumed.stdout.fnmatch_lines(["not judged: this is shard 1/2; *"])
    job = letters.job()["job"]
    assert (job["config"]["shard"], job["status"], job["totals"]["trials"]) == ("1/2", "completed", 3)
    changed = letters.run("benchmarks", agent, "--bench-resume=last", "-k", "not s0")
    changed.stderr.fnmatch_lines(["ERROR: --bench-resume: job * is a shard of other trials: *"])


@pytest.mark.parametrize("workers", [(), ("-n1",)])
def test_a_shard_with_nothing_to_run_is_no_mistake(letters: Bench, workers: tuple[str, ...]) -> None:
    done = letters.run("benchmarks", "-k", "s1", "--bench-shard=2/2", *workers)
    assert done.ret == 0
    if not workers:
        done.stdout.fnmatch_lines(["shard 2/2: 0 of 1 scenario, 0 of 1 trial"])
    assert not (letters.path / "reports").exists()
    assert (
        letters.run("benchmarks", "-k", "nothing", "--bench-shard=2/2").ret
        == pytest.ExitCode.NO_TESTS_COLLECTED
    )


@pytest.mark.parametrize("workers", [(), ("-n1",)])
def test_a_shard_from_which_nothing_is_chosen_is_no_mistake(letters: Bench, workers: tuple[str, ...]) -> None:
    letters.manifest({"a": "echo score=0", "b": "echo score=1"}, "benchmarks/letters.bench.yaml")
    assert letters.run("benchmarks", "--bench-agent=oracle").ret == 1
    job = letters.job()["job"]["id"]
    for choice in (f"--bench-from={job}:failed", "--lf"):
        ended = [
            letters.run("benchmarks", "--bench-agent=oracle", choice, f"--bench-shard={part}/2", *workers).ret
            for part in (1, 2)
        ]
        assert sorted(ended) == [0, 1], choice


def test_shards_are_balanced_by_durations(letters: Bench) -> None:
    scenario = {"benchmark": "letters", "agent": "oracle", "scores": [1.0], "passed": 1}
    times = {"s0": 100.0, "s1": 30.0, "s2": 30.0, "s3": 30.0}
    listed = [{**scenario, "scenario": name, "seconds": seconds} for name, seconds in times.items()]
    file = letters.write("times.json", json.dumps({"name": "main", "scenarios": listed}))
    options = (
        "--benchmark",
        "benchmarks/letters.bench.yaml",
        "--shard",
        "1/2",
        "--shard-durations",
        "times.json",
    )
    plan = json.loads(letters.benchjobs("plan", *options, "-o", "json").stdout)
    assert [trial["scenario"] for trial in plan["selected"]] == ["s0", "s3"]
    # An unknown scenario takes as long as others.
    assert [(shard["scenarios"], shard["seconds"]) for shard in plan["shards"]] == [(2, 130.0), (3, 107.5)]
    text = letters.benchjobs("plan", *options).stdout
    assert re.search(r"1/2 \(this\) +2 +2 +2m10s\n +2/2 +3 +3 +1m48s", text)
    file.write_text('{"name": 1}')
    refused = letters.refused("benchmarks", "--bench-shard=1/2", "--bench-shard-durations=times.json")
    assert refused.startswith("--bench-shard-durations: ")
